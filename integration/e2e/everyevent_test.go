package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/store"
)

// happenings is what a tenant has done, for each event of the interface to be told at least once.
type happenings struct {
	*customer
	began time.Time
	// agent is the voice agent of the campaign's call; person is whoever claims its escalation.
	agent, person, campaign, lead string
	call, single, inbound, busy   string
	escalation, extension         string
	hook, failing                 string // subscriptions
}

// The numbers that are dialed.
const (
	evCallee, evMember, evLeaver = "9876148000", "9876148001", "9876148171"
	evSingle, evTransferee       = "9876148002", "9876148003"
	evCaller, evBusy             = "9876148271", "9876148060"
)

// TestEveryEventHasItsMembers has every event of the interface happen, and holds what is stored of each against the members that the interface names:
// all of them, none besides, each of its type and with the value of what happened; null only where that is said. What arrives is the same, signed, and a call's events in the
// order of the facts.
func TestEveryEventHasItsMembers(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		h := &happenings{customer: c, began: time.Now()}
		r := newReceiver(t, accept)
		var secret string
		h.hook, secret = c.subscribe(t, r.URL, "call.*", "campaign.paused", "lead.completed", "ai_session.*")
		h.happen(t)
		rows := h.rows(t)
		var stored []event
		eventually(t, 30*time.Second, "every event is stored", func() bool {
			stored = h.stored(t)
			return !slices.ContainsFunc(rows, func(r eventRow) bool { return len(r.of(stored)) == 0 })
		})
		held := map[string]map[string]bool{}
		for _, row := range rows {
			if held[string(row.typ)] == nil {
				held[string(row.typ)] = map[string]bool{}
			}
			for _, e := range row.of(stored) {
				for _, wrong := range row.check(e) {
					t.Errorf("%s: %s\n%v", row.name(), wrong, e.Data)
				}
			}
			for member := range row.data {
				held[string(row.typ)][member] = true
			}
		}
		requireAllHeld(t, held)
		for _, e := range stored {
			raw, err := json.Marshal(e)
			require.NoError(t, err)
			require.NoError(t, apitest.CheckEvent(raw))
			require.Equal(t, c.tenant.ID.String(), e.TenantID)
			require.NotContains(t, string(raw), "Asha", "no event names the lead")
			require.NotRegexp(t, `T[0-9:]+\.[0-9]{7,}Z"`, string(raw), "times are those of the API, to the microsecond")
		}
		h.arrived(t, r, secret, stored)
	})
}

// requireAllHeld: there is a row for every type of event, and among the rows of a type one for every member that the document has.
func requireAllHeld(t *testing.T, held map[string]map[string]bool) {
	t.Helper()
	doc, err := apitest.Document()
	require.NoError(t, err)
	catalogue := []store.EventType{ // of interface 6.2
		"call.started", "call.answered", "call.ended", "call.disposition_set", "call.recording_ready", "campaign.paused", "lead.completed", "ai_session.started", "ai_session.ended",
		"ai_session.transferred", "ai_session.escalated", "ai_session.conference_changed",
	}
	require.Subset(t, store.EventTypes(), catalogue)
	for _, typ := range append(store.EventTypes(), webhook.EventTest) {
		require.Contains(t, held, string(typ), "no row is of this type")
		schema := doc.Webhooks[string(typ)].Post.RequestBody.Value.Content.Get("application/json").Schema.Value
		for member := range schema.Properties["data"].Value.Properties {
			require.True(t, held[string(typ)][member], "%s: no row has %s", typ, member)
		}
	}
}

// happen has a call of a campaign, with its supervisor and its conference, one that monitors it and is transferred, one that comes in, one that finds
// the line busy, a pause of the campaign and a subscription that has failed for long.
func (h *happenings) happen(t *testing.T) {
	t.Helper()
	h.agent = h.voiceAgent(t, "/tone?hz=1000", map[string]any{"external_agent_id": "x-7"})
	h.campaign = h.customer.campaign(t, h.agent, nil)
	var made id
	h.do(t, http.StatusCreated, http.MethodPost, "/api/v1/campaigns/"+h.campaign+"/leads", map[string]any{
		"mobile": evCallee, "first_name": "Asha", "lead_id": "crm-1", "metadata": map[string]any{"plan": "gold"},
	}, &made)
	h.lead = made.ID
	h.start(t, h.campaign)
	h.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", map[string]any{
		"to": evSingle, "voice_agent_id": h.agent, "metadata": map[string]any{"order": "A7"},
	}, &made)
	h.single = made.ID
	h.do(t, http.StatusCreated, http.MethodPost, "/api/v1/calls", map[string]any{"to": evBusy, "voice_agent_id": h.agent}, &made)
	h.busy = made.ID
	require.True(t, h.dialIn(t, evCaller, h.tenant.Numbers[0]).Answered)
	came, ok := h.inboundCall(t, evCaller)
	require.True(t, ok)
	h.inbound = came.String()

	s := h.supervise(t)
	h.extension = s.extension
	eventually(t, 30*time.Second, "the campaign's call is up", func() bool {
		calls := h.calls(t, h.campaign)
		if len(calls) == 1 {
			h.call = calls[0].ID
		}
		return len(calls) == 1 && calls[0].Status == "agent_connected"
	})
	h.control(t, http.StatusOK, h.call, map[string]any{"event": "log", "metadata": map[string]any{"step": 1}})
	h.control(t, http.StatusOK, h.call, map[string]any{"event": "set_disposition", "disposition": "interested", "notes": "rings back"})
	h.control(t, http.StatusOK, h.call, map[string]any{"event": "set_disposition", "disposition": "call_back"})
	h.monitored(t)
	h.escalation = s.asked(t, h.call)
	listening := s.claim(t, h.escalation, h.call)
	s.mode(t, listening.ID, "whisper")
	s.mode(t, listening.ID, "barge")
	s.api.JSON(t, http.MethodDelete, "/api/supervisor/sessions/"+listening.ID, nil, http.StatusNoContent, nil)
	var list struct{ Items []supervisors.Escalation }
	s.api.JSON(t, http.MethodGet, "/api/supervisor/escalations", nil, http.StatusOK, &list)
	h.person = list.Items[0].ClaimedBy.String()

	member := h.confer(t, h.call, evMember)
	h.control(t, http.StatusOK, h.call, map[string]any{"event": "conference_remove", "member_id": member})
	leaver := h.addMember(t, h.call, map[string]any{"participant_type": "e164", "destination": evLeaver})
	h.toldOfMember(t, h.call, leaver, "left")
	h.control(t, http.StatusOK, h.call, map[string]any{"event": "hangup", "metadata": map[string]any{"why": "done"}})
	h.endedCall(t, h.call)
	h.paused(t)
	for _, callID := range []string{h.single, h.busy, h.inbound} {
		h.endedCall(t, callID)
	}
}

// monitored has the single call's voice agent listen to the campaign's call, by its own token, and be transferred.
func (h *happenings) monitored(t *testing.T) {
	t.Helper()
	eventually(t, 30*time.Second, "the single call is up", func() bool { return h.customer.call(t, h.single).Status == "agent_connected" })
	key := h.api
	h.api = key.As(token(t, h.sessions(t, h.single)[0]))
	h.monitor(t, http.StatusOK, h.single, "monitor_start", h.call)
	h.monitor(t, http.StatusOK, h.single, "monitor_stop", h.call)
	h.control(t, http.StatusOK, h.single, map[string]any{
		"event": "transfer", "destination_type": "e164", "destination": "+91" + evTransferee, "metadata": map[string]any{"team": "sales"},
	})
	h.api = key
	eventually(t, 20*time.Second, "the transfer succeeds", func() bool {
		return slices.ContainsFunc(h.stored(t), func(e event) bool { return e.Type == "ai_session.transferred" })
	})
	h.hangUp(t, "+91"+evTransferee)
}

// paused has the campaign paused, which a subscription is told of that has failed for more than three days.
func (h *happenings) paused(t *testing.T) {
	t.Helper()
	bad := newReceiver(t, func(event, int) int { return http.StatusGone })
	h.failing, _ = h.subscribe(t, bad.URL, "campaign.paused")
	require.NoError(t, h.open(t).InTenant(t.Context(), h.tenant.ID, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), "UPDATE webhook_subscriptions SET failing_since = now() - interval '73 hours' WHERE id = $1", h.failing)
		return err
	}))
	h.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+h.campaign+"/pause", nil, nil)
	h.do(t, http.StatusOK, http.MethodPost, "/api/v1/webhooks/"+h.hook+"/test", nil, nil)
}

// stored are the tenant's events, the oldest first.
func (h *happenings) stored(t *testing.T) (all []event) {
	t.Helper()
	for e, err := range h.typed(t).Webhooks.AllEvents(t.Context(), nil) {
		require.NoError(t, err)
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		var one event
		require.NoError(t, json.Unmarshal(raw, &one))
		all = append(all, one)
	}
	slices.Reverse(all)
	return all
}

// arrived: each stored event that was subscribed has arrived as it is stored, and those of the campaign's call in the order of the facts.
func (h *happenings) arrived(t *testing.T, r *receiver, secret string, stored []event) {
	t.Helper()
	got := map[string]event{}
	eventually(t, 20*time.Second, "every event arrives", func() bool {
		for _, d := range r.deliveries() {
			got[d.event.ID] = d.event
		}
		return len(got) >= len(stored)
	})
	for _, e := range stored {
		require.Equal(t, e, got[e.ID])
	}
	for _, d := range r.deliveries() {
		h.checkEnvelope(t, d, secret)
	}
	order := r.ofCall(h.call)
	want := []string{
		"call.started", "call.answered", "ai_session.started", "call.disposition_set", "ai_session.escalated", "ai_session.conference_changed", "ai_session.ended", "call.ended",
		"lead.completed", "call.recording_ready",
	}
	require.Equal(t, want, firsts(order))
	var listed []string
	for _, e := range stored {
		if e.Data["call_id"] == h.call || e.Data["last_call_id"] == h.call {
			listed = append(listed, e.Type)
		}
	}
	// An escalation is written beside the call's own events, by whoever asks for it or takes it: of two at the same moment either comes first.
	beside := func(one string) bool { return one == "ai_session.escalated" }
	require.Equal(t, slices.DeleteFunc(order, beside), slices.DeleteFunc(listed, beside), "events are listed in the order of their arrival")
}

// firsts has each once, where it came first.
func firsts(all []string) (out []string) {
	for _, one := range all {
		if !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// eventRow is an event as it must be told: of a type, with some members that say which is meant, and what all of its members must be.
type eventRow struct {
	typ   store.EventType
	where map[string]any
	data  map[string]holds
}

// holds says what is wrong with a member of an event; nothing when it is as it must be.
type holds func(e event, value any) (wrong string)

func (r eventRow) name() string { return fmt.Sprintf("%s %v", r.typ, r.where) }

// of are the events that the row is about.
func (r eventRow) of(all []event) (found []event) {
	for _, e := range all {
		meant := e.Type == string(r.typ)
		for member, want := range r.where {
			meant = meant && e.Data[member] == want
		}
		if meant {
			found = append(found, e)
		}
	}
	return found
}

func (r eventRow) check(e event) (wrong []string) {
	for member, value := range e.Data {
		if r.data[member] == nil {
			wrong = append(wrong, fmt.Sprintf("%s is no member of it: %v", member, value))
		}
	}
	for member, must := range r.data {
		value, there := e.Data[member]
		if !there {
			wrong = append(wrong, member+" is missing")
		} else if why := must(e, value); why != "" {
			wrong = append(wrong, member+" "+why)
		}
	}
	return wrong
}

// is is a member of one value, as JSON has it.
func is(want any) holds {
	return func(_ event, value any) string {
		raw, err := json.Marshal(want)
		if err != nil {
			return err.Error()
		}
		got, err := json.Marshal(value)
		if err != nil || string(got) != string(raw) {
			return fmt.Sprintf("is %s, not %s", got, raw)
		}
		return ""
	}
}

// fact is the time of the fact, which the envelope has, too.
func fact(e event, value any) string {
	if at, ok := moment(value); !ok || at.Sub(e.CreatedAt).Abs() > time.Millisecond {
		return fmt.Sprintf("is %v, not a time in UTC that is the envelope's %s", value, e.CreatedAt)
	}
	return ""
}

// within is a time that lies between two.
func within(from, to time.Time) holds {
	return func(_ event, value any) string {
		if at, ok := moment(value); !ok || at.Before(from) || at.After(to) {
			return fmt.Sprintf("is %v, not a time in UTC between %s and %s", value, from, to)
		}
		return ""
	}
}

func moment(value any) (time.Time, bool) {
	text, _ := value.(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil && strings.HasSuffix(text, "Z")
}

// seconds is a whole number of them.
func seconds(least, most float64) holds {
	return func(_ event, value any) string {
		if n, ok := value.(float64); !ok || n != math.Trunc(n) || n < least || n > most {
			return fmt.Sprintf("is %v, not a whole number from %v to %v", value, least, most)
		}
		return ""
	}
}

// begins is a text with a beginning, and something behind.
func begins(with string) holds {
	return func(_ event, value any) string {
		if text, ok := value.(string); !ok || !strings.HasPrefix(text, with) || text == with {
			return fmt.Sprintf("is %v, not a text that begins with %q", value, with)
		}
		return ""
	}
}

// anID is a UUID.
func anID(_ event, value any) string {
	text, _ := value.(string)
	if _, err := uuid.Parse(text); err != nil {
		return fmt.Sprintf("is %v, not an id", value)
	}
	return ""
}

// people are participants of these roles, with the destinations of those who were dialed.
func people(want ...[2]string) holds {
	return func(_ event, value any) string {
		list, _ := value.([]any)
		var got [][2]string
		for _, one := range list {
			m, _ := one.(map[string]any)
			id, _ := m["member_id"].(string)
			role, _ := m["role"].(string)
			destination, isText := m["destination"].(string)
			if _, there := m["destination"]; len(m) != 3 || id == "" || !there || m["destination"] != nil && !isText {
				return fmt.Sprintf("has a participant %v, without member_id, role and destination", one)
			}
			got = append(got, [2]string{role, destination})
		}
		if !slices.Equal(got, want) {
			return fmt.Sprintf("are %v, not %v", got, want)
		}
		return ""
	}
}

// playable is a URL that needs no credential.
func (h *happenings) playable(t *testing.T) holds {
	t.Helper()
	return func(_ event, value any) string {
		text, _ := value.(string)
		if status := h.get(t, text, nil); status != http.StatusOK {
			return fmt.Sprintf("%v answers %d", value, status)
		}
		return ""
	}
}
