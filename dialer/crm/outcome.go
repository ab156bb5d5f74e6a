package crm

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Outcome is what came of a call, as a CRM is told. Templates name its members as JSON does.
type Outcome struct {
	CallID        uuid.UUID  `json:"call_id"`
	CampaignID    *uuid.UUID `json:"campaign_id"`
	LeadID        *uuid.UUID `json:"lead_id"`
	CRMLeadID     *string    `json:"crm_lead_id"`
	Direction     string     `json:"direction"`
	From          string     `json:"from"`
	To            string     `json:"to"`
	Status        string     `json:"status"`
	HangupCause   *string    `json:"hangup_cause"`
	AnsweredBy    *string    `json:"answered_by"`
	DialTime      *time.Time `json:"dial_time"`
	AnswerTime    *time.Time `json:"answer_time"`
	EndTime       *time.Time `json:"end_time"`
	TalkDurationS *int       `json:"talk_duration_s"`
	Disposition   *string    `json:"disposition"`
	Notes         *string    `json:"notes"`
	AgentID       *uuid.UUID `json:"agent_id"`
	VoiceAgentID  *uuid.UUID `json:"voice_agent_id"`
	AISummary     *string    `json:"ai_summary"`
	AISentiment   *string    `json:"ai_sentiment"`
	AINextAction  *string    `json:"ai_next_action"`
	// RecordingURL is null until the recording has been processed.
	RecordingURL *string `json:"recording_url"`
}

// Links signs the URL of a call's recording, good for some days.
type Links func(tenant, call uuid.UUID, purpose store.ReportPurpose) string

// recordingReady is the status of a recording that can be fetched.
const recordingReady = "ready"

// facts is what is known of a call.
type facts struct {
	row    db.CallReportFactsRow
	strict bool
	// recording is the URL of its recording; nil while there is none.
	recording *string
}

// numbers are the two ends of the call. Of a strict tenant's customer the mask alone is told.
func (f facts) numbers() (from, to string) {
	c := f.row.Call
	from, to = c.FromNumber.Reveal(), c.ToNumber.Reveal()
	switch {
	case !f.strict:
	case c.Direction == ledger.DirectionInbound:
		from = c.FromNumber.Mask()
	default:
		to = c.ToNumber.Mask()
	}
	return from, to
}

func (f facts) outcome() Outcome {
	c := f.row.Call
	o := Outcome{
		CallID: c.ID, CampaignID: c.CampaignID, LeadID: c.LeadID, CRMLeadID: f.row.CrmLeadID, Direction: c.Direction, Status: c.Status,
		HangupCause: c.HangupCause, AnsweredBy: c.AnsweredByAmd, DialTime: utc(c.DialTime), AnswerTime: utc(c.AnswerTime), EndTime: utc(c.EndTime),
		TalkDurationS: ledger.DurationSeconds(c.AnswerTime, c.EndTime), Disposition: c.Disposition, Notes: c.Notes, AgentID: c.AgentID,
		VoiceAgentID: c.VoiceAgentID, AISummary: c.AiSummary, AISentiment: c.AiSentiment, AINextAction: c.AiNextAction, RecordingURL: f.recording,
	}
	o.From, o.To = f.numbers()
	return o
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(t.UTC())
}

// frozen is an outcome as it stands in its report's row while it is written: without numbers and the lead's id at the CRM, which are read anew.
type frozen struct {
	Revision int     `json:"revision"`
	Outcome  Outcome `json:"outcome"`
}

// frozenFor is how long after the last attempt the next one says the same.
const frozenFor = 2 * store.ReportTime

// freeze gives what is written of a report: what an attempt of the same write has said before, or what is known now. A recording that was ready
// before the first write is told by the update, where the CRM takes one: it gets the same requests however soon it is asked.
func (f facts) freeze(r db.CallReport, updates bool, at time.Time) (frozen, json.RawMessage, error) {
	var out frozen
	now := f.outcome()
	if len(r.Outcome) > 0 {
		if err := json.Unmarshal(r.Outcome, &out); err != nil {
			return out, nil, fmt.Errorf("read the outcome of a report: %w", err)
		}
	}
	// A first write says the same until it is written, but for one that has waited for days, since its recording's URL ends. An update says what there
	// is to say by then: its key has the revision.
	waited := r.AttemptedAt != nil && at.Sub(*r.AttemptedAt) > frozenFor
	if out.Revision == 0 || waited || r.Written > 0 && out.Revision < int(r.Revision) {
		out = frozen{Revision: int(r.Revision), Outcome: now}
		if r.Written == 0 && r.Revision > 1 && updates {
			out.Revision, out.Outcome.RecordingURL = 1, nil
		}
	}
	kept := out
	kept.Outcome.From, kept.Outcome.To, kept.Outcome.CRMLeadID = "", "", nil
	text, err := json.Marshal(kept)
	if err != nil {
		return out, nil, fmt.Errorf("keep the outcome of a report: %w", err)
	}
	out.Outcome.From, out.Outcome.To, out.Outcome.CRMLeadID = now.From, now.To, now.CRMLeadID
	return out, text, nil
}

// values are the members of an outcome as JSON, by name, for templates.
type values map[string]json.RawMessage

// externalID is what a template may name besides the outcome's members: the id that the CRM gave the record.
const externalID = "external_id"

func (o Outcome) values(external *string) (values, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode an outcome: %w", err)
	}
	var v values
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("encode an outcome: %w", err)
	}
	if v[externalID], err = json.Marshal(external); err != nil {
		return nil, fmt.Errorf("encode an outcome: %w", err)
	}
	return v, nil
}

// text is a member as it stands in plain text; empty for null.
func (v values) text(name string) string {
	var s string
	switch raw := v[name]; {
	case len(raw) == 0 || string(raw) == "null":
		return ""
	case json.Unmarshal(raw, &s) == nil:
		return s
	default:
		return string(raw)
	}
}

// members are the names that templates may use, besides external_id.
func members() []string {
	v, err := Outcome{}.values(nil)
	if err != nil {
		return nil // never: its members all encode
	}
	delete(v, externalID)
	return slices.Sorted(maps.Keys(v))
}

// Sample is a made-up outcome, of a call that never was.
func Sample(call uuid.UUID, now time.Time) Outcome {
	end := now.UTC().Truncate(time.Second)
	return Outcome{
		CallID: call, LeadID: new(uuid.Max), CRMLeadID: new("test-lead"), Direction: ledger.DirectionOutbound, From: "+918000000000", To: "+919800000000",
		Status: ledger.StatusCompleted, HangupCause: new(ledger.CauseNormalClearing), AnsweredBy: new(ledger.AnsweredByHuman),
		DialTime: new(end.Add(-75 * time.Second)), AnswerTime: new(end.Add(-65 * time.Second)), EndTime: &end, TalkDurationS: new(65),
		Disposition: new("test"), Notes: new("This is a test of your CRM integration: there was no such call."), VoiceAgentID: new(uuid.Max),
		AISummary: new("A made-up conversation."), AISentiment: new("neutral"), AINextAction: new("Nothing is to be done."),
	}
}
