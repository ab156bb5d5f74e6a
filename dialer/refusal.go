package dialer

import (
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/switchctl"
)

// Reason says why the gate refused a call.
type Reason string

// The reasons of a refusal.
const (
	ReasonNumber          Reason = "number"           // none, or not the lead's
	ReasonTestEnvironment Reason = "test_environment" // a test key places no calls
	ReasonCampaign        Reason = "campaign"         // not running, or gone
	ReasonLead            Reason = "lead"             // in a call, finished, or gone
	ReasonCall            Reason = "call"             // the call to transfer is over
	ReasonSuppressed      Reason = "suppressed"       // the callee has opted out
	ReasonDNC             Reason = "do_not_call"      // on the registry
	ReasonUnscrubbed      Reason = "unscrubbed"       // the registry can't answer
	ReasonMode            Reason = "call_mode"        // the registry isn't asked for calls of this kind
	ReasonCategory        Reason = "call_category"    // the call doesn't say what it is for
	ReasonAttempts        Reason = "max_attempts"     // dialed often enough
	ReasonWindow          Reason = "calling_window"   // not at this time of day
	ReasonDailyCap        Reason = "daily_cap"        // dialed often enough today
	ReasonVoiceAgent      Reason = "voice_agent"      // none that takes calls
	ReasonAnnouncement    Reason = "announcement"     // can't be played, and comes before all else
	ReasonAgents          Reason = "agents"           // ceilings, from here on: an agent for each call
	ReasonAgentCeiling    Reason = "voice_agent_ceiling"
	ReasonCampaignCeiling Reason = "campaign_ceiling"
	ReasonFallback        Reason = "fallback_ceiling"
	ReasonChannels        Reason = "channels"
	ReasonTrunkChannels   Reason = "trunk_channels"
	ReasonTrunkRate       Reason = "trunk_rate"
	ReasonTrunkFailures   Reason = "trunk_failures" // trunks that are out of order rest
	ReasonRoute           Reason = "route"          // neither trunk nor host trunk
	ReasonCallerID        Reason = "caller_id"      // no number to call from
	ReasonSIPHost         Reason = CodeSIPHostNotAllowed
)

// RefusalError is a call that the gate did not let through. RetryAt is when it may be asked again, zero for never.
type RefusalError struct {
	Reason  Reason
	Detail  string
	RetryAt time.Time
	cause   error
	// fetch is the announcement that was not at hand.
	fetch string
}

func (e *RefusalError) Error() string { return fmt.Sprintf("admit call: %s: %s", e.Reason, e.Detail) }

// Unwrap gives what the refusal means to someone who asked for a single call: a *LimitError, a *ConflictError, a
// *DependencyError or an error of switchctl.
func (e *RefusalError) Unwrap() error { return e.cause }

// Ceiling tells whether the refusal passes when another call ends.
func (e *RefusalError) Ceiling() bool {
	switch e.Reason {
	case ReasonAgents, ReasonAgentCeiling, ReasonCampaignCeiling, ReasonFallback, ReasonChannels, ReasonTrunkChannels,
		ReasonTrunkRate:
		return true
	case ReasonNumber, ReasonTestEnvironment, ReasonCampaign, ReasonLead, ReasonCall, ReasonSuppressed, ReasonDNC,
		ReasonUnscrubbed, ReasonMode, ReasonCategory, ReasonAttempts, ReasonWindow, ReasonDailyCap, ReasonVoiceAgent, ReasonAnnouncement,
		ReasonTrunkFailures, ReasonRoute, ReasonCallerID, ReasonSIPHost:
		return false
	default:
		return false
	}
}

// ceilingRetry is when a full ceiling is worth another look, for those whom no signal wakes.
const ceilingRetry = time.Second

// refuse makes the refusal that goes with a reason; at is when it may pass.
func refuse(reason Reason, now, at time.Time, format string, args ...any) *RefusalError {
	e := &RefusalError{Reason: reason, Detail: fmt.Sprintf(format, args...), RetryAt: at}
	switch reason {
	case ReasonAgents, ReasonAgentCeiling, ReasonCampaignCeiling, ReasonFallback, ReasonChannels, ReasonTrunkChannels,
		ReasonTrunkRate:
		code := string(reason)
		if reason == ReasonAgentCeiling {
			code = CodeMaxConcurrent
		}
		if e.RetryAt.IsZero() {
			e.RetryAt = now.Add(ceilingRetry)
		}
		e.cause = &LimitError{Code: code, Detail: e.Detail, RetryAfter: e.RetryAt.Sub(now)}
	case ReasonTestEnvironment:
		e.cause = switchctl.ErrTestEnvironment
	case ReasonCall:
		e.cause = switchctl.ErrCallEnded
	case ReasonVoiceAgent:
		e.cause = &DependencyError{Code: CodeNoVoiceAgentConfigured, Detail: e.Detail}
	case ReasonMode:
		e.cause = &ConflictError{Code: CodeModeNotScrubbed, Detail: e.Detail}
	case ReasonCategory:
		e.cause = &ConflictError{Code: CodeCategoryRequired, Detail: e.Detail}
	case ReasonAnnouncement:
		e.cause = &DependencyError{Code: CodeNoAnnouncement, Detail: e.Detail}
	case ReasonTrunkFailures:
		e.cause = &DependencyError{Code: "TrunkOutOfOrder", Detail: e.Detail, RetryAfter: e.RetryAt.Sub(now)}
	case ReasonRoute:
		e.cause = &DependencyError{Code: "NoTrunkConfigured", Detail: e.Detail}
	case ReasonSIPHost:
		e.cause = &SIPHostError{Detail: e.Detail}
	case ReasonCallerID:
		e.cause = &DependencyError{Code: CodeNoCallerID, Detail: e.Detail}
	case ReasonNumber, ReasonCampaign, ReasonLead, ReasonSuppressed, ReasonDNC, ReasonUnscrubbed, ReasonAttempts, ReasonWindow,
		ReasonDailyCap:
		conflict := &ConflictError{Code: string(reason), Detail: e.Detail}
		if !e.RetryAt.IsZero() {
			conflict.RetryAfter = e.RetryAt.Sub(now)
		}
		e.cause = conflict
	}
	return e
}
