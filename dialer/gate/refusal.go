package gate

import (
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Reason says why the gate refused a call, and why a running campaign dials nothing. Its row in ruleTable says what follows from it.
type Reason string

// The reasons of the gate's rules, in the order in which they are asked.
const (
	ReasonCall            Reason = "call"             // the call to transfer is over
	ReasonCampaign        Reason = "campaign"         // not running, or gone
	ReasonTestEnvironment Reason = "test_environment" // a test key places no calls
	ReasonLead            Reason = "lead"             // in a call, finished, or gone
	ReasonNumber          Reason = "number"           // none, or not the lead's
	ReasonSuppressed      Reason = "suppressed"       // the callee has opted out
	ReasonDNC             Reason = "do_not_call"      // on the registry
	ReasonUnscrubbed      Reason = "unscrubbed"       // the registry can't answer, or hasn't been asked yet
	ReasonAttempts        Reason = "max_attempts"     // dialed often enough
	ReasonWindow          Reason = "calling_window"   // not at this time of day
	ReasonVoiceAgent      Reason = "voice_agent"      // none that takes calls
	ReasonDailyCap        Reason = "daily_cap"        // dialed often enough today
	ReasonMode            Reason = "call_mode"        // the registry isn't asked for calls of this kind
	ReasonCategory        Reason = "call_category"    // the call doesn't say what it is for
	ReasonAnnouncement    Reason = "announcement"     // can't be played, and comes before all else
	ReasonAgentCeiling    Reason = "voice_agent_ceiling"
	ReasonCampaignCeiling Reason = "campaign_ceiling"
	ReasonChannels        Reason = "channels"
	ReasonFallback        Reason = "fallback_ceiling" // where no trunk is declared
	ReasonAgents          Reason = "agents"           // none is free for the call
	ReasonRoute           Reason = "route"            // neither trunk nor host trunk
	ReasonTrunkChannels   Reason = "trunk_channels"
	ReasonTrunkRate       Reason = "trunk_rate"
	ReasonTrunkFailures   Reason = "trunk_failures" // trunks that are out of order rest
	ReasonCallerID        Reason = "caller_id"      // no number to call from
	ReasonSIPHost         Reason = carrier.CodeHostNotAllowed
)

// The reasons for which a campaign alone waits: no call is asked for.
const (
	ReasonAnnouncementURL Reason = campaigns.FieldAnnouncementURL // can't be fetched
	ReasonVoicemailURL    Reason = campaigns.FieldVoicemailURL    // can't be fetched
	ReasonLeads           Reason = "leads"                        // none is due
	ReasonFlow            Reason = "flow"                         // missing
	ReasonLogin           Reason = "agent_login"                  // nobody is at work whom the callees may ask for
	ReasonOtherCallers    Reason = "other_callers"                // ready agents are left to callers whom the campaign hasn't dialed
	ReasonAbandonRate     Reason = "abandon_rate"                 // nobody is dialed ahead of a free agent: too many were abandoned
	ReasonSwitch          Reason = "switch"                       // the link to it is down
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

// Fate is what becomes of a claimed lead whose call is refused so.
func (e *RefusalError) Fate() Fate { return ruleOf(e.Reason).claim }

// Waits tells what a campaign waits for whose call is refused so, and until when, where that is known; empty where the refusal says nothing
// of the campaign.
func (e *RefusalError) Waits() (on Reason, until time.Time) {
	w := ruleOf(e.Reason).waits
	if w.timed {
		until = e.RetryAt
	}
	return w.on, until
}

// Unwrap gives what the refusal means to someone who asked for a single call: a *fault.Error, a
// *carrier.URIError, or an error of switchctl or ledger.
func (e *RefusalError) Unwrap() error { return e.cause }

// Refuse makes the refusal that goes with a reason; at is when it may pass, zero for never.
func Refuse(reason Reason, now, at time.Time, format string, args ...any) *RefusalError {
	e := &RefusalError{Reason: reason, Detail: fmt.Sprintf(format, args...), RetryAt: at}
	if answer := ruleOf(reason).answer; answer != nil {
		e.cause = answer(e, now)
	}
	return e
}

// denial is what a rule's check says against a call; at is when that may pass, zero for never.
type denial struct {
	detail string
	at     time.Time
	// fetch is the announcement that was not at hand.
	fetch string
}

// deny says so for good.
func deny(format string, args ...any) *denial { return &denial{detail: fmt.Sprintf(format, args...)} }

// until says when it passes.
func (d *denial) until(at time.Time) *denial {
	d.at = at
	return d
}

// ErrNoAgents refuses a call of an agent where there are none.
var ErrNoAgents = &fault.Error{Kind: fault.Dependency, Code: "no_agent_available", Detail: "no agent is logged in"}
