package e2e

import (
	"maps"
	"testing"
	"time"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/store"
)

type (
	members = map[string]holds
	value   = map[string]any
)

// rows are the events of interface 6.2 with the members that it names, those of CONTRACT 3 among them.
func (h *happenings) rows(t *testing.T) []eventRow {
	t.Helper()
	all := append(h.callRows(t), h.sessionRows()...)
	all = append(all, h.conferenceRows()...)
	return append(all,
		eventRow{store.EventCampaignPaused, value{"source": "manual"}, members{
			"campaign_id": is(h.campaign), "source": is("manual"), "abandon_rate": is(0), "paused_at": fact,
		}},
		eventRow{store.EventLeadCompleted, nil, members{
			"lead_id": is(h.lead), "campaign_id": is(h.campaign), "crm_lead_id": is("crm-1"), "status": is("completed"), "disposition": is("call_back"), "attempts": is(1),
			"last_call_id": is(h.call), "completed_at": fact, "metadata": is(value{"plan": "gold"}),
		}},
		eventRow{store.EventWebhookDisabled, nil, members{
			"subscription_id": is(h.failing), "url": begins("http://127.0.0.1:"), "reason": is("all deliveries failed for three days"),
			"failing_since": within(h.began.Add(-74*time.Hour), time.Now().Add(-72*time.Hour)), "disabled_at": fact,
		}},
		eventRow{webhook.EventTest, nil, members{"subscription_id": is(h.hook), "message": begins("This is a test")}},
	)
}

func (h *happenings) callRows(t *testing.T) []eventRow {
	t.Helper()
	gold, order := is(value{"plan": "gold"}), is(value{"order": "A7"})
	campaign := value{"call_id": h.call}
	single, inbound, busy := value{"call_id": h.single}, value{"call_id": h.inbound}, value{"call_id": h.busy}
	audio := h.Bootstrap.BaseURL + "/api/v1/calls/" + h.call + "/recording/audio"
	own := is("+91" + h.tenant.Numbers[0])
	ended := func(special members) members {
		all := members{
			"call_id": anID, "end_time": fact, "hangup_cause": is("NORMAL_CLEARING"), "total_duration_s": seconds(1, 300), "talk_duration_s": seconds(1, 300),
			"disposition": is(nil), "crm_lead_id": is(nil), "status": is("completed"), "recording": is(value{"available": false}),
			"lead_metadata": is(nil), "metadata": is(nil),
		}
		maps.Copy(all, special)
		return all
	}
	return []eventRow{
		{store.EventCallStarted, campaign, members{
			"call_id": is(h.call), "direction": is("outbound"), "from": own, "to": is("+91" + evCallee), "campaign_id": is(h.campaign),
			"voice_agent_id": is(h.agent), "started_at": fact, "lead_metadata": gold, "metadata": is(nil),
		}},
		{store.EventCallStarted, single, members{
			"call_id": is(h.single), "direction": is("outbound"), "from": own, "to": is("+91" + evSingle), "campaign_id": is(nil),
			"voice_agent_id": is(h.agent), "started_at": fact, "lead_metadata": is(nil), "metadata": order,
		}},
		{store.EventCallStarted, inbound, members{
			"call_id": is(h.inbound), "direction": is("inbound"), "from": is("+91" + evCaller), "to": own, "campaign_id": is(nil),
			"voice_agent_id": is(h.tenant.VoiceAgentID), "started_at": fact, "lead_metadata": is(nil), "metadata": is(nil),
		}},
		{store.EventCallAnswered, campaign, members{
			"call_id": is(h.call), "answer_time": fact, "answered_by_amd": is("human"), "lead_metadata": gold, "metadata": is(nil),
		}},
		{store.EventCallAnswered, single, members{
			"call_id": is(h.single), "answer_time": fact, "answered_by_amd": is("human"), "lead_metadata": is(nil), "metadata": order,
		}},
		{store.EventCallEnded, campaign, ended(members{
			"call_id": is(h.call), "disposition": is("call_back"), "crm_lead_id": is("crm-1"), "lead_metadata": gold,
		})},
		{store.EventCallEnded, single, ended(members{"metadata": order})},
		{store.EventCallEnded, inbound, ended(nil)},
		{store.EventCallEnded, busy, ended(members{
			"hangup_cause": is("USER_BUSY"), "total_duration_s": seconds(0, 60), "talk_duration_s": is(nil), "status": is("failed"),
		})},
		{store.EventCallDispositionSet, value{"call_id": h.call, "disposition": "interested"}, members{
			"call_id": is(h.call), "disposition": is("interested"), "source": is("ai"), "notes": is("rings back"), "set_at": fact,
		}},
		{store.EventCallDispositionSet, value{"call_id": h.call, "disposition": "call_back"}, members{
			"call_id": is(h.call), "disposition": is("call_back"), "previous_disposition": is("interested"), "source": is("ai"), "notes": is("rings back"), "set_at": fact,
		}},
		{store.EventCallRecordingReady, campaign, members{
			"call_id": is(h.call), "recording_url": is(audio), "signed_url": h.playable(t), "duration_s": seconds(1, 300), "stereo": is(true),
			"format": is("audio/wav"), "recording": is(value{"available": true, "url": audio}),
		}},
	}
}

func (h *happenings) sessionRows() []eventRow {
	socket := "ws" + h.ai[len("http"):] + "/tone?hz=1000"
	escalated := func(supervisor any, at holds) eventRow {
		return eventRow{store.EventAISessionEscalated, value{"supervisor_id": supervisor}, members{
			"escalation_id": is(h.escalation), "call_id": is(h.call), "voice_agent_id": is(h.agent), "reason": is("asks for a manager"), "urgency": is("high"),
			"supervisor_id": is(supervisor), "escalated_at": at,
		}}
	}
	said := func(final value, logs ...string) holds {
		return func(e event, v any) string {
			m, _ := v.(map[string]any)
			list, _ := m["logs"].([]any)
			var types []string
			for _, one := range list {
				entry, _ := one.(map[string]any)
				if kind, ok := entry["type"].(string); ok {
					types = append(types, kind)
				}
			}
			if wrong := is(logs)(e, types); wrong != "" {
				return "has logs: " + wrong
			}
			return is(final)(e, m["final"])
		}
	}
	return []eventRow{
		{store.EventAISessionStarted, value{"call_id": h.call}, members{
			"call_id": is(h.call), "voice_agent_id": is(h.agent), "external_agent_id": is("x-7"), "ws_url": is(socket), "started_at": fact,
		}},
		{store.EventAISessionEnded, value{"call_id": h.call}, members{
			"call_id": is(h.call), "voice_agent_id": is(h.agent), "ended_at": fact, "outcome": is("hangup"),
			"metadata": said(value{"action": "hangup", "metadata": value{"why": "done"}}, "log"),
		}},
		{store.EventAISessionEnded, value{"call_id": h.single}, members{
			"call_id": is(h.single), "voice_agent_id": is(h.agent), "ended_at": fact, "outcome": is("transferred_e164"),
			"metadata": said(value{"action": "transfer", "destination_type": "e164", "destination": "+91" + evTransferee, "metadata": value{"team": "sales"}}),
		}},
		{store.EventAISessionTransferred, value{"call_id": h.single}, members{
			"call_id": is(h.single), "voice_agent_id": is(h.agent), "destination_type": is("e164"), "destination": is("+91" + evTransferee),
			"transferred_at": fact, "metadata": is(value{"team": "sales"}),
		}},
		escalated(nil, fact),
		escalated(h.person, within(h.began, time.Now())),
	}
}

func (h *happenings) conferenceRows() []eventRow {
	changed := func(change, actor, call string, special members) eventRow {
		all := members{
			"call_id": is(call), "voice_agent_id": is(h.agent), "conference_id": is(nil), "change": is(change), "actor": is(actor), "changed_at": fact,
		}
		maps.Copy(all, special)
		return eventRow{store.EventAISessionConference, value{"call_id": call, "change": change, "actor": actor}, all}
	}
	caller, agent := [2]string{"caller"}, [2]string{"voice_agent"}
	with := people(caller, agent)
	supervised := people(caller, agent, [2]string{"supervisor", h.extension})
	conference := func(change string, who holds) eventRow {
		return changed(change, "tenant_api", h.call, members{"conference_id": begins(""), "participants": who})
	}
	monitored := func(change string, who holds) eventRow {
		return changed(change, "ai", h.single, members{"participants": who, "target_call_id": is(h.call), "mode": is("listen")})
	}
	return []eventRow{
		changed("monitor_started", "supervisor", h.call, members{"participants": supervised, "mode": is("listen")}),
		changed("whisper", "supervisor", h.call, members{"participants": supervised, "mode": is("whisper")}),
		changed("barge", "supervisor", h.call, members{"participants": supervised, "mode": is("barge")}),
		changed("monitor_stopped", "supervisor", h.call, members{"participants": with, "mode": is("barge")}),
		monitored("monitor_started", people(caller, agent, [2]string{"monitor", h.single})), monitored("monitor_stopped", with),
		conference("started", with), conference("removed", with), conference("left", with),
		conference("added", func(e event, v any) string {
			if first := people(caller, agent, [2]string{"destination", "+91" + evMember})(e, v); first == "" {
				return ""
			}
			return people(caller, agent, [2]string{"destination", "+91" + evLeaver})(e, v)
		}),
	}
}
