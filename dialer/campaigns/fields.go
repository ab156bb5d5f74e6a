package campaigns

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

// campaignField is a member of a campaign that a request may set. A new one costs its row here, which decodes, checks and stores it, beside
// its column (a migration), its place in the two queries that write it (queries/campaigns.sql), in Campaign (shapes.go) and campaignOf (campaigns.go),
// and in 20_campaigns.yaml. What counts when a number is dialed is read again for each call, by GateFacts in queries/gate.sql.
type campaignField struct {
	name string
	take func(e *campaignEdit, sent json.RawMessage) // sent is nil for a member that was not
}

// campaignEdit is a campaign in the course of a request.
type campaignEdit struct {
	*input.Form
	to *db.Campaign
	// reachable checks the address of audio.
	reachable func(field, url string) bool
	// locked: to is the campaign as it stands, and not a trial.
	locked bool
}

// campaignFields are all members that a request may set.
func campaignFields() []campaignField {
	return []campaignField{
		{"name", func(e *campaignEdit, sent json.RawMessage) {
			if v, ok := input.Required(e.Form, "name", member[string](sent)); ok && e.Text("name", v, 1, maxNameLength) {
				e.to.Name = v
			}
		}},
		{"dial_mode", func(e *campaignEdit, sent json.RawMessage) {
			if v, ok := input.Required(e.Form, "dial_mode", member[string](sent)); ok &&
				e.OneOf("dial_mode", v, string(DialPreview), string(DialProgressive), string(DialPredictive)) {
				e.to.DialMode = v
			}
		}},
		choiceField("post_answer_action", func(to *db.Campaign) *string { return &to.PostAnswerAction },
			string(ActionConnectAgent), string(ActionConnectVoiceAgent), string(ActionRunFlow)),
		choiceField("voicemail_action", func(to *db.Campaign) *string { return &to.VoicemailAction },
			VoicemailConnect, voicemailHangup, VoicemailMessage),
		choiceField("overflow_action", func(to *db.Campaign) *string { return &to.OverflowAction },
			overflowHangup, OverflowFlow, OverflowVoicemail),
		audioField(FieldVoicemailURL, func(to *db.Campaign) **string { return &to.VoicemailMessageUrl }),
		audioField(FieldAnnouncementURL, func(to *db.Campaign) **string { return &to.AnnouncementUrl }),
		audioField(fieldWhisperURL, func(to *db.Campaign) **string { return &to.AgentWhisperUrl }),
		audioField(fieldOverflowURL, func(to *db.Campaign) **string { return &to.OverflowGreetingUrl }),
		idField("voice_agent_id", func(to *db.Campaign) **uuid.UUID { return &to.VoiceAgentID }),
		idField("flow_id", func(to *db.Campaign) **uuid.UUID { return &to.FlowID }),
		textField("description", func(to *db.Campaign) **string { return &to.Description }),
		textField("script", func(to *db.Campaign) **string { return &to.Script }),
		textField("notes", func(to *db.Campaign) **string { return &to.Notes }),
		clearableField("caller_id", func(e *campaignEdit, v *string) {
			if v != nil && !callerIDPattern.MatchString(*v) {
				e.Fail("caller_id", "must be a number of 3 to 15 digits")
			}
			e.to.CallerID = v
		}),
		givenField("call_category", func(e *campaignEdit, v string) {
			if v == "" || e.OneOf("call_category", v, string(CategoryPromotional), string(CategoryService), string(CategoryTransactional)) {
				e.to.CallCategory = input.OrNil(v)
			}
		}),
		givenField("predictive_target_abandon", func(e *campaignEdit, v float64) {
			if v < 0 || v > maxTargetAbandon {
				e.Fail("predictive_target_abandon", "must lie between 0 and 0.03")
			}
			e.to.PredictiveTargetAbandon = v
		}),
		givenField("predictive_max_wait_s", func(e *campaignEdit, v float64) {
			if v < 0 || v > 3600 {
				e.Fail("predictive_max_wait_s", "must lie between 0 and 3600")
			}
			e.to.PredictiveMaxWaitS = v
		}),
		clearableField("max_concurrent", func(e *campaignEdit, v *int) {
			if e.to.MaxConcurrent = nil; v != nil && e.Between("max_concurrent", *v, 1, MaxCampaignChannels) {
				e.to.MaxConcurrent = new(int32(*v)) //nolint:gosec // bounded by between
			}
		}),
		givenField("wrap_up_s", func(e *campaignEdit, v int) {
			if e.Between("wrap_up_s", v, 0, maxWrapUpS) {
				e.to.WrapUpS = new(int32(v)) //nolint:gosec // bounded by between
			}
		}),
		numberField("ring_timeout_s", 15, 60, func(to *db.Campaign) *int32 { return &to.RingTimeoutS }),
		numberField("max_attempts", 1, 100, func(to *db.Campaign) *int32 { return &to.MaxAttempts }),
		givenField("amd", func(e *campaignEdit, v bool) { e.to.Amd = v }),
		givenField("retry", func(e *campaignEdit, v leads.RetryInput) { v.Apply(e.Form, &e.to.Retry) }),
		givenField("calling_window", func(e *campaignEdit, v WindowInput) {
			if v.none {
				e.to.CallingWindow = nil
			} else if w, ok := v.Window(e.Form); ok {
				e.to.CallingWindow, _ = json.Marshal(w) // strings always encode
			}
		}),
		stateField("status", func(of *db.Campaign) string { return of.Status }, "start, pause or stop the campaign"),
		stateField("environment", func(of *db.Campaign) string { return of.Environment }, "it is that of the key that starts the campaign"),
		stateField("predictive_paused", func(of *db.Campaign) bool { return of.PredictivePaused }, "use the predictive operations"),
	}
}

// member decodes a member.
func member[T any](sent json.RawMessage) (o input.Opt[T]) {
	if sent != nil {
		_ = o.UnmarshalJSON(sent) // what is wrong with it is its fault
	}
	return o
}

// givenField is a member that null leaves alone at creation, and that no edit may clear.
func givenField[T any](name string, put func(e *campaignEdit, v T)) campaignField {
	return campaignField{name, func(e *campaignEdit, sent json.RawMessage) {
		if v, ok := input.Given(e.Form, name, member[T](sent)); ok {
			put(e, v)
		}
	}}
}

// clearableField is a member that null clears.
func clearableField[T any](name string, put func(e *campaignEdit, v *T)) campaignField {
	return campaignField{name, func(e *campaignEdit, sent json.RawMessage) {
		if v, ok := input.Clearable(e.Form, name, member[T](sent)); ok {
			put(e, v)
		}
	}}
}

func choiceField(name string, at func(*db.Campaign) *string, allowed ...string) campaignField {
	return givenField(name, func(e *campaignEdit, v string) {
		if e.OneOf(name, v, allowed...) {
			*at(e.to) = v
		}
	})
}

func numberField(name string, minimum, maximum int, at func(*db.Campaign) *int32) campaignField {
	return givenField(name, func(e *campaignEdit, v int) {
		if e.Between(name, v, minimum, maximum) {
			*at(e.to) = int32(v) //nolint:gosec // bounded by between
		}
	})
}

func textField(name string, at func(*db.Campaign) **string) campaignField {
	return clearableField(name, func(e *campaignEdit, v *string) {
		if v == nil || e.Text(name, *v, 0, MaxTextLength) {
			*at(e.to) = v
		}
	})
}

// audioField is the address of audio; an empty one clears it.
func audioField(name string, at func(*db.Campaign) **string) campaignField {
	return givenField(name, func(e *campaignEdit, v string) {
		if v == "" || e.reachable(name, v) {
			*at(e.to) = input.OrNil(v)
		}
	})
}

func idField(name string, at func(*db.Campaign) **uuid.UUID) campaignField {
	return clearableField(name, func(e *campaignEdit, v *string) {
		if *at(e.to) = nil; v == nil {
			return
		}
		if id, ok := e.UUID(name, *v); ok {
			*at(e.to) = &id
		}
	})
}

// stateField may be sent with an edit as what it is: operations change it.
func stateField[T comparable](name string, of func(*db.Campaign) T, instead string) campaignField {
	return campaignField{name, func(e *campaignEdit, sent json.RawMessage) {
		if !e.locked {
			return
		}
		if v, ok := input.Given(e.Form, name, member[T](sent)); ok && v != of(e.to) {
			e.Fail(name, "can't be changed by an edit; %s", instead)
		}
	}}
}
