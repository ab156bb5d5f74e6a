package campaigns

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/input"
)

// Environment is the kind of key that asked: live, or test, which never reaches the telephone network.
type Environment string

// The environments of a key, a campaign and a call.
const (
	EnvironmentLive Environment = account.EnvironmentLive
	EnvironmentTest Environment = account.EnvironmentTest
)

// DialMode says who sets a campaign's pace.
type DialMode string

// The dial modes of a campaign.
const (
	DialPreview     DialMode = "preview"
	DialProgressive DialMode = "progressive"
	DialPredictive  DialMode = "predictive"
)

// Status is the state of a campaign.
type Status string

// The states of a campaign; completed is terminal.
const (
	StatusDraft     Status = "draft"
	StatusRunning   Status = "running"
	StatusPaused    Status = "paused"
	StatusCompleted Status = "completed"
)

// PostAnswerAction says who takes an answered call.
type PostAnswerAction string

// The post-answer actions of a campaign.
const (
	ActionConnectAgent      PostAnswerAction = "connect_agent"
	ActionConnectVoiceAgent PostAnswerAction = "connect_voice_agent"
	ActionRunFlow           PostAnswerAction = "run_flow"
)

// Campaign is the response object of a campaign.
type Campaign struct {
	ID                      uuid.UUID        `json:"id"`
	Name                    string           `json:"name"`
	DialMode                DialMode         `json:"dial_mode"`
	Status                  Status           `json:"status"`
	Environment             Environment      `json:"environment"`
	VoiceAgentID            *uuid.UUID       `json:"voice_agent_id"`
	PostAnswerAction        PostAnswerAction `json:"post_answer_action"`
	PredictiveTargetAbandon float64          `json:"predictive_target_abandon"`
	PredictiveMaxWaitS      float64          `json:"predictive_max_wait_s"`
	// PredictivePaused says that a predictive campaign dials 1:1 until it is resumed.
	PredictivePaused    bool              `json:"predictive_paused"`
	MaxConcurrent       *int              `json:"max_concurrent"`
	CallerID            *string           `json:"caller_id"`
	FlowID              *uuid.UUID        `json:"flow_id"`
	Description         *string           `json:"description"`
	Script              *string           `json:"script"`
	Notes               *string           `json:"notes"`
	RingTimeoutS        int               `json:"ring_timeout_s"`
	AMD                 bool              `json:"amd"`
	VoicemailAction     string            `json:"voicemail_action"`
	VoicemailMessageURL *string           `json:"voicemail_message_url"`
	MaxAttempts         int               `json:"max_attempts"`
	Retry               leads.RetryPolicy `json:"retry"`
	CallingWindow       *CallingWindow    `json:"calling_window"`
	AnnouncementURL     *string           `json:"announcement_url"`
	// AgentWhisperURL is what an agent hears before the callee; null for a short tone. WrapUpS is the time limit of a wrap-up, 0
	// for none, null for the deployment's. OverflowAction is what becomes of a callee whom no agent takes in time.
	AgentWhisperURL *string `json:"agent_whisper_url"`
	WrapUpS         *int    `json:"wrap_up_s"`
	OverflowAction  string  `json:"overflow_action"`
	// OverflowGreetingURL is what such a callee hears before leaving a message; null for voicemail_message_url.
	OverflowGreetingURL *string `json:"overflow_greeting_url"`
	// CallCategory is promotional, service or transactional: its calls show numbers of that series alone. null: any.
	CallCategory *string    `json:"call_category"`
	StartedAt    *time.Time `json:"started_at"`
	CreatedAt    time.Time  `json:"created_at"`
	UpdatedAt    time.Time  `json:"updated_at"`
}

// CallingWindow is the time of day in which numbers may be called: From and To are "HH:MM" in Timezone; Days are
// mon to sun, all seven when empty.
type CallingWindow struct {
	Timezone string   `json:"timezone"`
	Days     []string `json:"days"`
	From     string   `json:"from"`
	To       string   `json:"to"`
}

// WindowInput is the calling_window member of a CampaignInput.
type WindowInput struct {
	Timezone, From, To input.Opt[string]
	Days               input.Opt[[]string]
	// none tells of an object without members, which takes the window away.
	none bool
}
