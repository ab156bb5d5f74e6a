package store

import (
	"encoding/json"
	"time"
)

// An event that each call has is written short once no controller of the version before reads it: as the values of its data's members alone, and without
// those that its row tells. {"": [values]} is what stands in events.data then, and event_data (migration 0101) gives the data itself.

// shortMember is a member of an event's data: its value is left out where it is otherwise.
type shortMember struct{ name, otherwise string }

// What a member is that isn't a constant: of the event's row, or of another member.
const (
	ofCall      = "call_id"
	ofCampaign  = "campaign_id"
	ofTime      = "created_at"
	ofRecording = "recording"
)

// shortMembers gives the members of the data of events of a type, in the order of their values, of which a new one is the last; nil for those that are
// never short.
func shortMembers(t EventType) []shortMember {
	const null = "null"
	//nolint:exhaustive // those of each call
	switch t {
	case EventCallStarted:
		return []shortMember{
			{"to", null},
			{"from", null},
			{"direction", `"outbound"`},
			{"voice_agent_id", null},
			{"lead_metadata", null},
			{"metadata", null},
			{"call_id", ofCall},
			{"campaign_id", ofCampaign},
			{"started_at", ofTime},
		}
	case EventCallAnswered:
		return []shortMember{
			{"answered_by_amd", `"human"`}, {"lead_metadata", null}, {"metadata", null}, {"call_id", ofCall}, {"answer_time", ofTime},
		}
	case EventCallEnded:
		return []shortMember{
			{"total_duration_s", null},
			{"hangup_cause", null},
			{"status", `"failed"`},
			{"talk_duration_s", null},
			{"disposition", null},
			{"crm_lead_id", null},
			{"lead_metadata", null},
			{"metadata", null},
			{"recording", `{"available":false}`},
			{"call_id", ofCall},
			{"end_time", ofTime},
		}
	case EventLeadCompleted:
		return []shortMember{
			{"lead_id", null},
			{"status", `"exhausted"`},
			{"attempts", "1"},
			{"disposition", null},
			{"crm_lead_id", null},
			{"metadata", null},
			{"campaign_id", ofCampaign},
			{"last_call_id", ofCall},
			{"completed_at", ofTime},
		}
	case EventCallRecordingReady:
		return []shortMember{
			{"signed_url", null},
			{"recording_url", null},
			{"duration_s", null},
			{"stereo", "false"},
			{"format", `"audio/wav"`},
			{"recording", ofRecording},
			{"call_id", ofCall},
		}
	case EventAISessionStarted:
		return []shortMember{{"voice_agent_id", null}, {"ws_url", null}, {"external_agent_id", null}, {"call_id", ofCall}, {"started_at", ofTime}}
	case EventAISessionEnded:
		return []shortMember{{"voice_agent_id", null}, {"outcome", null}, {"metadata", `{"logs":[],"final":null}`}, {"call_id", ofCall}, {"ended_at", ofTime}}
	case EventCallDispositionSet:
		return []shortMember{{"disposition", null}, {"source", `"agent"`}, {"notes", null}, {"call_id", ofCall}, {"set_at", ofTime}}
	default:
		return nil
	}
}

// ShortEvents says whether events may be written short: no controller of the version before may read them.
func (s *Store) ShortEvents(may bool) { s.shortEvents.Store(may) }

// shorten gives the short form of an event's data, or data itself where that has other members than those of its type, or one that is null though it is
// something else when it is left out.
func (e Event) shorten(data json.RawMessage) json.RawMessage {
	members := shortMembers(e.Type)
	var values map[string]json.RawMessage
	if members == nil || json.Unmarshal(data, &values) != nil || len(values) != len(members) {
		return data
	}
	short := make([]json.RawMessage, 0, len(members))
	kept := 0
	for _, m := range members {
		value, there := values[m.name]
		if !there {
			return data
		}
		otherwise := e.otherwise(m, values)
		switch {
		case string(value) == otherwise:
			value = nil
		case string(value) == "null":
			return data
		default:
			kept = len(short) + 1
		}
		short = append(short, value)
	}
	out, err := json.Marshal(map[string][]json.RawMessage{"": short[:kept]})
	if err != nil {
		return data
	}
	return out
}

// otherwise is what a member is when it is left out, as JSON.
func (e Event) otherwise(m shortMember, values map[string]json.RawMessage) string {
	switch m.otherwise {
	case ofCall:
		if e.CallID == nil {
			return "null"
		}
		return `"` + e.CallID.String() + `"`
	case ofCampaign:
		if e.CampaignID == nil {
			return "null"
		}
		return `"` + e.CampaignID.String() + `"`
	case ofTime:
		if e.At.IsZero() {
			return ""
		}
		return `"` + e.At.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano) + `"`
	case ofRecording:
		return `{"available":true,"url":` + string(values["recording_url"]) + `}`
	default:
		return m.otherwise
	}
}
