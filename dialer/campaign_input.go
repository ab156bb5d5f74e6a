package dialer

import (
	"context"
	"encoding/json"
	"regexp"

	"github.com/ringmaster/ringmaster/dialer/week"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// maxTargetAbandon is the law's cap.
	maxTargetAbandon     = 0.03
	defaultMaxWaitS      = 2
	defaultRingTimeoutS  = 25
	defaultMaxAttempts   = 3
	maxCampaignChannels  = 100_000
	maxRetryMinutes      = 7 * 24 * 60
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
	retry, _ := json.Marshal(defaultRetry()) // six numbers always encode
	return db.Campaign{
		ID: newID(), Status: string(CampaignDraft), Environment: string(EnvironmentLive),
		PostAnswerAction: string(ActionConnectAgent), PredictiveTargetAbandon: maxTargetAbandon,
		PredictiveMaxWaitS: defaultMaxWaitS, RingTimeoutS: defaultRingTimeoutS, VoicemailAction: voicemailConnect,
		MaxAttempts: defaultMaxAttempts, Retry: retry, OverflowAction: overflowHangup,
	}
}

// checkState refuses an edit that would change what only operations change.
func (in CampaignInput) checkState(c *checker, of db.Campaign) {
	if v, ok := given(c, "status", in.Status); ok && v != of.Status {
		c.fail("status", "can't be changed by an edit; start, pause or stop the campaign")
	}
	if v, ok := given(c, "environment", in.Environment); ok && v != of.Environment {
		c.fail("environment", "can't be changed by an edit; it is that of the key that starts the campaign")
	}
	if v, ok := given(c, "predictive_paused", in.PredictivePaused); ok && v != of.PredictivePaused {
		c.fail("predictive_paused", "can't be changed by an edit; use the predictive operations")
	}
}

// apply puts a request's members into a campaign.
func (in CampaignInput) apply(ctx context.Context, c *checker, guard *netguard.Policy, to *db.Campaign) {
	if c.edit {
		for _, name := range in.nulls {
			c.fail(name, "can't be null")
		}
	}
	if v, ok := required(c, "name", in.Name); ok && c.text("name", v, 1, maxNameLength) {
		to.Name = v
	}
	if v, ok := required(c, "dial_mode", in.DialMode); ok &&
		c.oneOf("dial_mode", v, string(DialPreview), string(DialProgressive), string(DialPredictive)) {
		to.DialMode = v
	}
	action := to.PostAnswerAction
	if v, ok := given(c, "post_answer_action", in.PostAnswerAction); ok && c.oneOf("post_answer_action", v,
		string(ActionConnectAgent), string(ActionConnectVoiceAgent), string(ActionRunFlow)) {
		to.PostAnswerAction = v
	}
	voicemail := to.VoicemailAction
	in.applyVoicemail(ctx, c, guard, to)
	in.applyDetection(c, !c.edit || to.PostAnswerAction != action || to.VoicemailAction != voicemail, to)
	in.applyReferences(c, to)
	in.applyPace(c, to)
	in.applyTexts(c, to)
	in.applyPeople(ctx, c, guard, to)
	in.applyRetry(c, &to.Retry)
	if v, ok := given(c, "calling_window", in.CallingWindow); ok {
		if w, ok := v.window(c); ok {
			to.CallingWindow, _ = json.Marshal(w) // strings always encode
		}
	}
}

func (in CampaignInput) applyReferences(c *checker, to *db.Campaign) {
	if v, ok := clearable(c, "voice_agent_id", in.VoiceAgentID); ok {
		if to.VoiceAgentID = nil; v != nil {
			if id, ok := c.uuid("voice_agent_id", *v); ok {
				to.VoiceAgentID = &id
			}
		}
	}
	if v, ok := clearable(c, "flow_id", in.FlowID); ok {
		if to.FlowID = nil; v != nil {
			if id, ok := c.uuid("flow_id", *v); ok {
				to.FlowID = &id
			}
		}
	}
	if v, ok := clearable(c, "caller_id", in.CallerID); ok {
		if v != nil && !callerIDPattern.MatchString(*v) {
			c.fail("caller_id", "must be a number of 3 to 15 digits")
		}
		to.CallerID = v
	}
	if v, ok := given(c, "call_category", in.CallCategory); ok && (v == "" ||
		c.oneOf("call_category", v, string(CategoryPromotional), string(CategoryService), string(CategoryTransactional))) {
		to.CallCategory = emptyAsNil(v)
	}
}

func (in CampaignInput) applyPace(c *checker, to *db.Campaign) {
	if v, ok := given(c, "predictive_target_abandon", in.PredictiveTargetAbandon); ok {
		if v < 0 || v > maxTargetAbandon {
			c.fail("predictive_target_abandon", "must lie between 0 and 0.03")
		}
		to.PredictiveTargetAbandon = v
	}
	if v, ok := given(c, "predictive_max_wait_s", in.PredictiveMaxWaitS); ok {
		if v < 0 || v > 3600 {
			c.fail("predictive_max_wait_s", "must lie between 0 and 3600")
		}
		to.PredictiveMaxWaitS = v
	}
	if v, ok := clearable(c, "max_concurrent", in.MaxConcurrent); ok {
		if to.MaxConcurrent = nil; v != nil && c.between("max_concurrent", *v, 1, maxCampaignChannels) {
			n := int32(*v) //nolint:gosec // bounded by between
			to.MaxConcurrent = &n
		}
	}
	if v, ok := given(c, "ring_timeout_s", in.RingTimeoutS); ok && c.between("ring_timeout_s", v, 15, 60) {
		to.RingTimeoutS = int32(v) //nolint:gosec // bounded by between
	}
	if v, ok := given(c, "max_attempts", in.MaxAttempts); ok && c.between("max_attempts", v, 1, 100) {
		to.MaxAttempts = int32(v) //nolint:gosec // bounded by between
	}
}

func (in CampaignInput) applyTexts(c *checker, to *db.Campaign) {
	for _, m := range []struct {
		field string
		value Opt[string]
		to    **string
	}{{"description", in.Description, &to.Description}, {"script", in.Script, &to.Script}, {"notes", in.Notes, &to.Notes}} {
		if v, ok := clearable(c, m.field, m.value); ok {
			if v == nil || c.text(m.field, *v, 0, maxTextLength) {
				*m.to = v
			}
		}
	}
}

// applyDetection sets machine detection. One that is not named has the default of a new action: on for a voice agent, and for what
// is done with machines alone.
func (in CampaignInput) applyDetection(c *checker, newAction bool, to *db.Campaign) {
	if v, ok := given(c, "amd", in.AMD); ok {
		to.Amd = v
	} else if newAction {
		to.Amd = to.PostAnswerAction == string(ActionConnectVoiceAgent) || to.VoicemailAction != voicemailConnect
	}
}

func (in CampaignInput) applyVoicemail(ctx context.Context, c *checker, guard *netguard.Policy, to *db.Campaign) {
	if v, ok := given(c, "voicemail_action", in.VoicemailAction); ok &&
		c.oneOf("voicemail_action", v, voicemailConnect, voicemailHangup, voicemailMessage) {
		to.VoicemailAction = v
	}
	c.audio(ctx, guard, fieldVoicemailURL, in.VoicemailMessageURL, &to.VoicemailMessageUrl)
	if to.VoicemailAction == voicemailMessage && to.VoicemailMessageUrl == nil {
		c.fail(fieldVoicemailURL, "is required for the voicemail action message")
	}
	c.audio(ctx, guard, fieldAnnouncementURL, in.AnnouncementURL, &to.AnnouncementUrl)
}

// audio sets the address of what somebody is to hear; an empty one takes it away.
func (c *checker) audio(ctx context.Context, guard *netguard.Policy, field string, in Opt[string], to **string) {
	if v, ok := given(c, field, in); ok && (v == "" || c.address(ctx, guard, field, v, "http", "https")) {
		*to = emptyAsNil(v)
	}
}

// applyPeople sets what happens between callee and agent.
func (in CampaignInput) applyPeople(ctx context.Context, c *checker, guard *netguard.Policy, to *db.Campaign) {
	c.audio(ctx, guard, fieldWhisperURL, in.AgentWhisperURL, &to.AgentWhisperUrl)
	if v, ok := given(c, "wrap_up_s", in.WrapUpS); ok && c.between("wrap_up_s", v, 0, maxWrapUpS) {
		n := int32(v) //nolint:gosec // bounded by between
		to.WrapUpS = &n
	}
	if v, ok := given(c, "overflow_action", in.OverflowAction); ok &&
		c.oneOf("overflow_action", v, overflowHangup, overflowFlow, overflowVoicemail) {
		to.OverflowAction = v
	}
	c.audio(ctx, guard, fieldOverflowURL, in.OverflowGreetingURL, &to.OverflowGreetingUrl)
	if to.OverflowAction == overflowFlow && to.FlowID == nil {
		c.fail("flow_id", "is required for the overflow action flow")
	}
}

// window checks a calling window.
func (in WindowInput) window(c *checker) (CallingWindow, bool) {
	before := len(c.faults)
	w := CallingWindow{Timezone: calleeZone, Days: []string{}}
	if v, ok := given(c, "calling_window.timezone", in.Timezone); ok {
		if w.Timezone = v; len(v) > 100 {
			c.fail("calling_window.timezone", "must be the name of a time zone")
		} else if _, err := week.Zone(v); err != nil {
			c.fail("calling_window.timezone", "must be the name of a time zone")
		}
	}
	for _, m := range []struct {
		field string
		value Opt[string]
		to    *string
	}{{"calling_window.from", in.From, &w.From}, {"calling_window.to", in.To, &w.To}} {
		if !m.value.Set || m.value.Null {
			c.fail(m.field, "is required")
		} else if v, ok := given(c, m.field, m.value); ok {
			if _, valid := week.Clock(v); !valid {
				c.fail(m.field, "must be a time of day as HH:MM")
			}
			*m.to = v
		}
	}
	if v, ok := given(c, "calling_window.days", in.Days); ok {
		if len(v) > maxWindowDays {
			c.fail("calling_window.days", "must have at most %d elements", maxWindowDays)
			return CallingWindow{}, false
		}
		for _, day := range v {
			if !c.oneOf("calling_window.days", day, week.DayNames()...) {
				break
			}
		}
		w.Days = append(w.Days, v...)
	}
	if len(c.faults) > before {
		return CallingWindow{}, false
	}
	if _, err := newWindow(w); err != nil {
		c.fail("calling_window.to", "must differ from calling_window.from")
		return CallingWindow{}, false
	}
	return w, true
}
