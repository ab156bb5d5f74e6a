package dialer

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

const (
	// maxTargetAbandon is the law's cap.
	maxTargetAbandon     = 0.03
	defaultMaxWaitS      = 2
	defaultRingTimeoutS  = 25
	defaultMaxAttempts   = 3
	maxCampaignChannels  = 100_000
	maxNameLength        = 200
	maxTextLength        = 20_000 // in characters; lists of calls and campaigns have it
	voicemailConnect     = "connect"
	voicemailHangup      = "hangup"
	voicemailMessage     = "message"
	fieldVoicemailURL    = "voicemail_message_url"
	fieldAnnouncementURL = "announcement_url"
	fieldWhisperURL      = "agent_whisper_url"
	fieldOverflowURL     = "overflow_greeting_url"
	maxWrapUpS           = 3600
	maxWindowDays        = 7
	overflowHangup       = "hangup"
	overflowFlow         = "flow"
	overflowVoicemail    = "voicemail"
)

var callerIDPattern = regexp.MustCompile(`^\+?[0-9]{3,15}$`)

// newCampaign is a campaign before its creator has said anything.
func newCampaign() db.Campaign {
	retry, _ := json.Marshal(leads.DefaultPolicy()) // six numbers always encode
	return db.Campaign{
		ID: store.NewID(), Status: string(CampaignDraft), Environment: string(EnvironmentLive),
		PostAnswerAction: string(ActionConnectAgent), PredictiveTargetAbandon: maxTargetAbandon,
		PredictiveMaxWaitS: defaultMaxWaitS, RingTimeoutS: defaultRingTimeoutS, VoicemailAction: voicemailConnect,
		MaxAttempts: defaultMaxAttempts, Retry: retry, OverflowAction: overflowHangup,
	}
}

// CampaignInput is the body of a campaign's creation or edit: members by name, of which campaignFields says what they may be.
type CampaignInput struct {
	members map[string]json.RawMessage
}

// UnmarshalJSON takes any JSON object.
func (in *CampaignInput) UnmarshalJSON(b []byte) error {
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
func (in CampaignInput) has(name string) bool {
	sent, ok := in.members[name]
	return ok && string(sent) != "null"
}

// apply puts a request's members into a campaign. A guard is asked for addresses; locked campaigns are as they stand, and were checked before.
func (in CampaignInput) apply(ctx context.Context, c *input.Form, guard input.Guard, to *db.Campaign) {
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
		to.Amd = to.PostAnswerAction == string(ActionConnectVoiceAgent) || to.VoicemailAction != voicemailConnect
	}
	if to.VoicemailAction == voicemailMessage && to.VoicemailMessageUrl == nil {
		c.Fail(fieldVoicemailURL, "is required for the voicemail action message")
	}
	if to.OverflowAction == overflowFlow && to.FlowID == nil {
		c.Fail("flow_id", "is required for the overflow action flow")
	}
}

// window checks a calling window.
func (in WindowInput) window(c *input.Form) (CallingWindow, bool) {
	before := c.Faults()
	w := CallingWindow{Timezone: calleeZone, Days: []string{}}
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
	if _, err := newWindow(w); err != nil {
		c.Fail("calling_window.to", "must differ from calling_window.from")
		return CallingWindow{}, false
	}
	return w, true
}
