package dialer

import (
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/input"
)

// Environment is the kind of key that asked: live, or test, which never reaches the telephone network.
type Environment string

// The environments of a key, a campaign and a call.
const (
	EnvironmentLive Environment = "live"
	EnvironmentTest Environment = "test"
)

// DialMode says who sets a campaign's pace.
type DialMode string

// The dial modes of a campaign.
const (
	DialPreview     DialMode = "preview"
	DialProgressive DialMode = "progressive"
	DialPredictive  DialMode = "predictive"
)

// CampaignStatus is the state of a campaign.
type CampaignStatus string

// The states of a campaign; completed is terminal.
const (
	CampaignDraft     CampaignStatus = "draft"
	CampaignRunning   CampaignStatus = "running"
	CampaignPaused    CampaignStatus = "paused"
	CampaignCompleted CampaignStatus = "completed"
)

// PostAnswerAction says who takes an answered call.
type PostAnswerAction string

// The post-answer actions of a campaign.
const (
	ActionConnectAgent      PostAnswerAction = "connect_agent"
	ActionConnectVoiceAgent PostAnswerAction = "connect_voice_agent"
	ActionRunFlow           PostAnswerAction = "run_flow"
)

// VoiceAgentStatus is the state of a voice agent; only an active one gets new calls.
type VoiceAgentStatus string

// The states of a voice agent; archived is final.
const (
	VoiceAgentActive   VoiceAgentStatus = "active"
	VoiceAgentPaused   VoiceAgentStatus = "paused"
	VoiceAgentArchived VoiceAgentStatus = "archived"
)

// Campaign is the response object of a campaign.
type Campaign struct {
	ID                      uuid.UUID        `json:"id"`
	Name                    string           `json:"name"`
	DialMode                DialMode         `json:"dial_mode"`
	Status                  CampaignStatus   `json:"status"`
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
}

// ScrubResult is the response to a scrub of a campaign's leads: Scrubbed counts the leads checked by now, Flagged
// those of them that are on the registry, Pending those that the registry could not answer for.
type ScrubResult struct {
	Total    int `json:"total"`
	Scrubbed int `json:"scrubbed"`
	Flagged  int `json:"flagged"`
	Pending  int `json:"pending"`
	// RegistryVersion and RegistryAgeS tell which registry answered, and how old its newest file is; null when none is known.
	RegistryVersion *string `json:"registry_version"`
	RegistryAgeS    *int64  `json:"registry_age_s"`
}

// AudioFormat is the audio of a voice agent's WebSocket.
type AudioFormat struct {
	Encoding     string `json:"encoding"`
	SampleRateHz int    `json:"sample_rate_hz"`
	Channels     int    `json:"channels"`
	FrameMS      int    `json:"frame_ms"`
}

// VoiceAgent is the response object of a voice agent.
type VoiceAgent struct {
	ID                  uuid.UUID        `json:"id"`
	TenantID            uuid.UUID        `json:"tenant_id"`
	Name                string           `json:"name"`
	WSURL               string           `json:"ws_url"`
	AuthToken           *string          `json:"auth_token"`
	AudioFormat         AudioFormat      `json:"audio_format"`
	ExternalAgentID     *string          `json:"external_agent_id"`
	TransferDestination *string          `json:"transfer_destination"`
	MaxConcurrent       int              `json:"max_concurrent"`
	Status              VoiceAgentStatus `json:"status"`
	TokenLifetime       string           `json:"token_lifetime"`
	Subprotocol         string           `json:"subprotocol"`
	WSDisconnectAction  string           `json:"ws_disconnect_action"`
	MonitorScope        string           `json:"monitor_scope"`
	CreatedAt           time.Time        `json:"created_at"`
	UpdatedAt           time.Time        `json:"updated_at"`
}

// VoiceAgentInput is the body of a voice agent's creation or edit. In an edit, null leaves a member as it is.
type VoiceAgentInput struct {
	Name                input.Opt[string]
	WSURL               input.Opt[string]
	AuthToken           input.Opt[string]
	AudioFormat         input.Opt[AudioFormatInput]
	ExternalAgentID     input.Opt[string]
	TransferDestination input.Opt[string]
	MaxConcurrent       input.Opt[int]
	Status              input.Opt[string]
	TokenLifetime       input.Opt[string]
	Subprotocol         input.Opt[string]
	WSDisconnectAction  input.Opt[string]
	MonitorScope        input.Opt[string]
}

// AudioFormatInput is the audio_format member of a VoiceAgentInput; sample_rate is taken for sample_rate_hz where
// that is absent.
type AudioFormatInput struct {
	Encoding     input.Opt[string]
	SampleRateHz input.Opt[int]
	Channels     input.Opt[int]
	FrameMS      input.Opt[int]
}

// DefaultVoiceAgent names the tenant's default voice agent, or none.
type DefaultVoiceAgent struct {
	VoiceAgentID *uuid.UUID `json:"voice_agent_id"`
}

// DefaultVoiceAgentInput is the body that sets the default voice agent; null clears it.
type DefaultVoiceAgentInput struct {
	VoiceAgentID input.Opt[string]
}

// ChannelsUsage is the tenant's channel allocation and whether it is enforced, which it is once an active trunk
// is declared.
type ChannelsUsage struct {
	ChannelsAllocated int             `json:"channels_allocated"`
	ChannelsInUse     int             `json:"channels_in_use"`
	Ceilings          ChannelCeilings `json:"ceilings"`
}

// ChannelCeilings groups the ceilings of ChannelsUsage.
type ChannelCeilings struct {
	Channels ChannelCeiling `json:"channels"`
}

// ChannelCeiling tells whether a ceiling is enforced.
type ChannelCeiling struct {
	Enforced bool `json:"enforced"`
}
