package campaigns

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/week"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

// Bounds, defaults and names of members.
const (
	// maxTargetAbandon is the law's cap.
	maxTargetAbandon     = 0.03
	defaultMaxWaitS      = 2
	defaultRingTimeoutS  = 25
	defaultMaxAttempts   = 3
	MaxCampaignChannels  = 100_000
	maxNameLength        = 200
	MaxTextLength        = 20_000 // in characters; lists of calls and campaigns have it
	VoicemailConnect     = "connect"
	voicemailHangup      = "hangup"
	VoicemailMessage     = "message"
	FieldVoicemailURL    = "voicemail_message_url"
	FieldAnnouncementURL = "announcement_url"
	fieldWhisperURL      = "agent_whisper_url"
	fieldOverflowURL     = "overflow_greeting_url"
	maxWrapUpS           = 3600
	maxWindowDays        = 7
	overflowHangup       = "hangup"
	OverflowFlow         = "flow"
	OverflowVoicemail    = "voicemail"
)

var callerIDPattern = regexp.MustCompile(`^\+?[0-9]{3,15}$`)

// newCampaign is a campaign before its creator has said anything.
func newCampaign() db.Campaign {
	retry, _ := json.Marshal(leads.DefaultPolicy()) // six numbers always encode
	return db.Campaign{
		ID: store.NewID(), Status: string(StatusDraft), Environment: string(EnvironmentLive),
		PostAnswerAction: string(ActionConnectAgent), PredictiveTargetAbandon: maxTargetAbandon,
		PredictiveMaxWaitS: defaultMaxWaitS, RingTimeoutS: defaultRingTimeoutS, VoicemailAction: VoicemailConnect,
		MaxAttempts: defaultMaxAttempts, Retry: retry, OverflowAction: overflowHangup,
	}
}

// Input is the body of a campaign's creation or edit: members by name, of which campaignFields says what they may be.
type Input struct {
	members map[string]json.RawMessage
}

// UnmarshalJSON takes any JSON object.
func (in *Input) UnmarshalJSON(b []byte) error {
	in.members = make(map[string]json.RawMessage)
	var object input.Object
	if err := object.UnmarshalJSON(b); err != nil {
		return err
	}
	if err := json.Unmarshal(object, &in.members); err != nil {
		return fmt.Errorf("decode request: %w", err)
	}
	return nil
}

// has tells whether a member was sent, and not as null.
func (in Input) has(name string) bool {
	sent, ok := in.members[name]
	return ok && string(sent) != "null"
}

// apply puts a request's members into a campaign. A guard is asked for addresses; locked campaigns are as they stand, and were checked before.
func (in Input) apply(ctx context.Context, c *input.Form, guard input.Guard, to *db.Campaign) {
	e := &campaignEdit{Form: c, to: to, locked: c.Edit && guard == nil, reachable: func(field, url string) bool {
		return c.Address(ctx, guard, field, url, "http", "https")
	}}
	action, voicemail := to.PostAnswerAction, to.VoicemailAction
	known := make(map[string]bool)
	for _, field := range campaignFields() {
		known[field.name] = true
		field.take(e, in.members[field.name])
	}
	for name, sent := range in.members {
		if c.Edit && !known[name] && string(sent) == "null" {
			c.Fail(name, "can't be null")
		}
	}
	// Machine detection that is not named has the default of a new action: on for a voice agent, and for what is done with machines alone.
	if newAction := !c.Edit || to.PostAnswerAction != action || to.VoicemailAction != voicemail; newAction && !in.has("amd") {
		to.Amd = to.PostAnswerAction == string(ActionConnectVoiceAgent) || to.VoicemailAction != VoicemailConnect
	}
	if to.VoicemailAction == VoicemailMessage && to.VoicemailMessageUrl == nil {
		c.Fail(FieldVoicemailURL, "is required for the voicemail action message")
	}
	if to.OverflowAction == OverflowFlow && to.FlowID == nil {
		c.Fail("flow_id", "is required for the overflow action flow")
	}
}

// Window checks a calling window.
func (in WindowInput) Window(c *input.Form) (CallingWindow, bool) {
	before := c.Faults()
	w := CallingWindow{Timezone: CalleeZone, Days: []string{}}
	if v, ok := input.Given(c, "calling_window.timezone", in.Timezone); ok {
		if w.Timezone = v; len(v) > 100 {
			c.Fail("calling_window.timezone", "must be the name of a time zone")
		} else if _, err := week.Zone(v); err != nil {
			c.Fail("calling_window.timezone", "must be the name of a time zone")
		}
	}
	for _, m := range []struct {
		field string
		value input.Opt[string]
		to    *string
	}{{"calling_window.from", in.From, &w.From}, {"calling_window.to", in.To, &w.To}} {
		if !m.value.Set || m.value.Null {
			c.Fail(m.field, "is required")
		} else if v, ok := input.Given(c, m.field, m.value); ok {
			if _, valid := week.Clock(v); !valid {
				c.Fail(m.field, "must be a time of day as HH:MM")
			}
			*m.to = v
		}
	}
	if v, ok := input.Given(c, "calling_window.days", in.Days); ok {
		if len(v) > maxWindowDays {
			c.Fail("calling_window.days", "must have at most %d elements", maxWindowDays)
			return CallingWindow{}, false
		}
		for _, day := range v {
			if !c.OneOf("calling_window.days", day, week.DayNames()...) {
				break
			}
		}
		w.Days = append(w.Days, v...)
	}
	if c.Faults() > before {
		return CallingWindow{}, false
	}
	if _, err := NewWindow(w); err != nil {
		c.Fail("calling_window.to", "must differ from calling_window.from")
		return CallingWindow{}, false
	}
	return w, true
}
