package dialer

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl"
)

// FieldError says what is wrong with one member of a request.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// ValidationError lists everything that is wrong with a request (422).
type ValidationError struct {
	Fields []FieldError
	// Code is the API's; "validation_error" when empty.
	Code string
}

func (e *ValidationError) Error() string {
	parts := make([]string, 0, len(e.Fields))
	for _, f := range e.Fields {
		parts = append(parts, f.Field+" "+f.Message)
	}
	return "validate request: " + strings.Join(parts, "; ")
}

// ConflictError is a request that the present state refuses (409). Members stand at the top level of the response.
type ConflictError struct {
	Code    string
	Detail  string
	Members map[string]any
	// RetryAfter says when the same would be taken; 0 when time alone doesn't mend it.
	RetryAfter time.Duration
}

func (e *ConflictError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Detail) }

// DependencyError is a call that cannot be made because what would take it is missing (424).
type DependencyError struct {
	Code   string
	Detail string
	// RetryAfter says when the same would be taken; 0 when time alone doesn't mend it.
	RetryAfter time.Duration
}

func (e *DependencyError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Detail) }

// LimitError is a ceiling that is reached (429); RetryAfter says when to ask again.
type LimitError struct {
	Code       string
	Detail     string
	RetryAfter time.Duration
}

func (e *LimitError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Detail) }

// Refusal implements [switchctl.Refuser].
func (e *ValidationError) Refusal() switchctl.Refusal {
	r := switchctl.Refusal{Status: http.StatusUnprocessableEntity, Code: cmp.Or(e.Code, "validation_error"), Detail: "The request is not valid."}
	for _, f := range e.Fields {
		r.Fields = append(r.Fields, switchctl.FieldFault(f))
	}
	return r
}

// Refusal implements [switchctl.Refuser].
func (e *ConflictError) Refusal() switchctl.Refusal {
	return switchctl.Refusal{Status: http.StatusConflict, Code: e.Code, Detail: e.Detail}
}

// Refusal implements [switchctl.Refuser].
func (e *DependencyError) Refusal() switchctl.Refusal {
	return switchctl.Refusal{Status: http.StatusFailedDependency, Code: e.Code, Detail: e.Detail}
}

// Refusal implements [switchctl.Refuser].
func (e *LimitError) Refusal() switchctl.Refusal {
	return switchctl.Refusal{
		Status: http.StatusTooManyRequests, Code: e.Code, Detail: e.Detail, RetryAfter: max(e.RetryAfter, time.Second),
	}
}

// The codes of ConflictError, DependencyError and LimitError.
const (
	CodeInvalidTransition      = "invalid_state_transition"
	CodeCampaignRunning        = "campaign_running"
	CodeCampaignHasCalls       = "campaign_has_live_calls"
	CodeLeadsNotScrubbed       = "leads_not_scrubbed"
	CodeDuplicateLead          = "duplicate_lead"
	CodeVoiceAgentInUse        = "VoiceAgentInUse"
	CodeVoiceAgentArchived     = "voice_agent_archived"
	CodeNoVoiceAgentConfigured = "NoVoiceAgentConfigured"
	CodeNoFlowConfigured       = "NoFlowConfigured"
	CodeNoCallerID             = "NoCallerID"
	CodeNoAnnouncement         = "NoAnnouncement"
	CodeSubprotocolMismatch    = "SubprotocolMismatch"
	CodeMaxConcurrent          = "max_concurrent"
	CodeOptedOut               = "opted_out"
	CodeUploads                = "too_many_uploads"
	CodeNotPredictive          = "not_predictive"
	CodeLeadInCall             = "lead_in_call"
	CodeFlows                  = "too_many_flows"
	CodeVoiceAgents            = "too_many_voice_agents"
)
