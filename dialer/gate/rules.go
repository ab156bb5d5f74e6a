package gate

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Codes of faults.
const (
	CodeNoAnnouncement = "no_announcement"
	CodeMaxConcurrent  = "max_concurrent"
)

// rule is a rule of the gate, or what else a campaign can wait for, and all that follows from it. A new one is a row in ruleTable with its
// check, and a test; its codes stand in ../README.md and, in httpapi/openapi, in errors.yaml, in 31_place_call.yaml where one call alone can be refused
// (one about leads is listed in rules_test.go, elsewhere), and in 23_leads_calls_stats.yaml where a campaign waits for it: tests compare them with the
// table. What it asks about is read by GateFacts (store/queries/gate.sql), the lead's metadata among it.
type rule struct {
	// reason names it: in the log, in the metrics, and in the API where answer gives no other code.
	reason Reason
	// of are the legs that check is asked about. A rule without a check is applied where its facts are found out.
	of    legs
	check check
	// answer is what a refusal is to whoever asked for the call, with its HTTP status; nil where nobody asks.
	answer answer
	// lead is the state in which the refusal ends a lead; empty where it doesn't.
	lead leads.Status
	// claim is what the pacer does with the lead that it has claimed for the call.
	claim Fate
	// waits tells that the campaign waits for this, and how; the zero value says nothing of the campaign.
	waits wait
	// ceiling is the bound that is reached, as set_by of a campaign's statistics and a busy caller's refusal name it.
	ceiling CeilingSource
}

// check returns why a leg may not be dialed, nil if it may.
type check func(ctx context.Context, tx *store.Tx, c *candidate) (*denial, error)

// legs is a set of kinds of legs, as the rules tell them apart.
type legs uint8

const (
	toNumber  legs = 1 << iota // a first dialing of a number
	toURI                      // a transfer to a SIP URI
	numberURI                  // a transfer to a SIP URI whose user is a number
	nextRoute                  // a leg that was admitted, over another route

	toAnything = toNumber | toURI
	anyNumber  = toNumber | numberURI | nextRoute
)

// Fate is what becomes of a claimed lead whose call was refused.
type Fate int

// The fates of claimed leads.
const (
	FateStops     Fate = iota // it goes back with all that follow, which would meet the same, until the next round
	FateBacksOff              // likewise, and the campaign dials nothing for a while: somebody must see to it
	FateReleased              // it goes back, and the next one is dialed: the gate has settled it, or somebody else has it
	FatePostponed             // it is claimed again once the refusal passes, and the next one is dialed
)

// ruleTable has every rule of dialing, in the order in which they are asked: what can never be dialed first. Then what else a campaign waits for.
func ruleTable() []rule {
	return []rule{
		{reason: ReasonCall, of: toAnything, check: parentUp, answer: as(ledger.ErrCallEnded)},
		{reason: ReasonCampaign, of: anyNumber, check: plain(campaignRuns), answer: conflict},
		{
			reason: ReasonTestEnvironment, of: anyNumber, check: plain(campaignIsLive), answer: as(switchctl.ErrTestEnvironment),
			waits: campaignWaits(ReasonTestEnvironment, slog.LevelInfo),
		},
		{reason: ReasonLead, of: anyNumber, check: plain(leadWaits), answer: conflict, claim: FateReleased},
		{
			reason: ReasonNumber, of: anyNumber, check: plain(numberIsLeads), answer: conflict, claim: FatePostponed,
			waits: campaignWaits(ReasonNumber, slog.LevelWarn),
		},
		{reason: ReasonSuppressed, of: anyNumber, check: plain(notSuppressed), answer: conflict, claim: FateReleased, lead: leads.StatusOptedOut},
		{reason: ReasonDNC, of: anyNumber, check: plain(notListed), answer: conflict, claim: FateReleased, lead: leads.StatusDNC},
		{
			reason: ReasonUnscrubbed, of: anyNumber, check: plain(clearedByRegistry), answer: conflict, claim: FatePostponed,
			waits: campaignWaits(ReasonUnscrubbed, slog.LevelWarn).untilThen(),
		},
		{reason: ReasonAttempts, of: anyNumber, check: plain(attemptsLeft), answer: conflict, claim: FateReleased, lead: leads.StatusExhausted},
		{
			reason: ReasonWindow, of: anyNumber, check: plain(inWindow), answer: conflict, claim: FatePostponed,
			waits: campaignWaits(ReasonWindow, slog.LevelInfo).untilThen(),
		},
		{
			reason: ReasonVoiceAgent, of: anyNumber, check: plain(voiceAgentTakesCalls), answer: missing(voiceagents.CodeNoVoiceAgentConfigured),
			claim: FateBacksOff, waits: campaignWaits(ReasonVoiceAgent, slog.LevelWarn),
		},
		{reason: ReasonDailyCap, of: toNumber | nextRoute, check: plain(underDailyCap), answer: conflict, claim: FatePostponed},
		{
			reason: ReasonMode, of: toNumber, check: plain(modeIsScrubbed), answer: conflictAs(campaigns.CodeModeNotScrubbed),
			claim: FateBacksOff, waits: campaignWaits(ReasonMode, slog.LevelWarn),
		},
		{reason: ReasonCategory, of: toNumber, check: plain(categoryDeclared), answer: conflictAs(campaigns.CodeCategoryRequired), claim: FateBacksOff},
		{
			reason: ReasonAnnouncement, of: toNumber, check: plain(announcementAtHand), answer: missing(CodeNoAnnouncement),
			waits: campaignWaits(ReasonAnnouncementURL, slog.LevelWarn),
		},
		{
			reason: ReasonAgentCeiling, of: toAnything, check: plain(voiceAgentHasSlot), answer: limitAs(CodeMaxConcurrent),
			waits: campaignWaits(ReasonAgentCeiling, slog.LevelDebug), ceiling: CeilingVoiceAgent,
		},
		{
			reason: ReasonCampaignCeiling, of: toAnything, check: plain(underCampaignCeiling), answer: limit,
			waits: campaignWaits(ReasonCampaignCeiling, slog.LevelDebug), ceiling: CeilingCampaign,
		},
		{
			reason: ReasonChannels, of: toAnything, check: plain(channelFree), answer: limit,
			waits: campaignWaits(ReasonChannels, slog.LevelDebug), ceiling: CeilingChannels,
		},
		{
			reason: ReasonFallback, of: toAnything, check: plain(underFallback), answer: limit,
			waits: campaignWaits(ReasonFallback, slog.LevelDebug), ceiling: CeilingFallback,
		},
		{
			reason: ReasonAgents, of: toNumber, check: plain(agentFree), answer: limit,
			waits: campaignWaits(ReasonAgents, slog.LevelDebug), ceiling: CeilingAgents,
		},
		{
			reason: ReasonRoute, of: toNumber, check: routed(ReasonRoute), answer: missing("no_trunk_configured"),
			claim: FateBacksOff, waits: campaignWaits(ReasonRoute, slog.LevelWarn),
		},
		{
			reason: ReasonTrunkChannels, of: toNumber, check: routed(ReasonTrunkChannels), answer: limit,
			waits: campaignWaits(ReasonTrunkChannels, slog.LevelDebug), ceiling: CeilingTrunk,
		},
		{
			reason: ReasonTrunkRate, of: toNumber, check: routed(ReasonTrunkRate), answer: limit,
			waits: campaignWaits(ReasonTrunkRate, slog.LevelDebug),
		},
		{
			reason: ReasonTrunkFailures, of: toNumber, check: routed(ReasonTrunkFailures), answer: missingUntil("trunk_out_of_order"),
			waits: campaignWaits(ReasonTrunkFailures, slog.LevelWarn).untilThen(),
		},
		{
			reason: ReasonCallerID, of: toAnything, check: callerIDOwned, answer: missing(campaigns.CodeNoCallerID),
			claim: FateBacksOff, waits: campaignWaits(ReasonCallerID, slog.LevelWarn),
		},
		{reason: ReasonSIPHost, answer: func(e *RefusalError, _ time.Time) error { return &carrier.URIError{Detail: e.Detail} }},

		{reason: ReasonVoicemailURL, waits: campaignWaits(ReasonVoicemailURL, slog.LevelWarn)},
		{reason: ReasonLeads, waits: campaignWaits(ReasonLeads, slog.LevelDebug)},
		{reason: ReasonFlow, waits: campaignWaits(ReasonFlow, slog.LevelWarn)},
		{reason: ReasonLogin, waits: campaignWaits(ReasonLogin, slog.LevelInfo)},
		{reason: ReasonOtherCallers, waits: campaignWaits(ReasonOtherCallers, slog.LevelInfo)},
		{reason: ReasonAbandonRate, waits: campaignWaits(ReasonAbandonRate, slog.LevelDebug)},
		{reason: ReasonSwitch, waits: campaignWaits(ReasonSwitch, slog.LevelWarn)},
	}
}

// ruleOf gives a reason's row.
func ruleOf(reason Reason) rule {
	table := ruleTable()
	if i := slices.IndexFunc(table, func(r rule) bool { return r.reason == reason }); i >= 0 {
		return table[i]
	}
	return rule{reason: reason}
}

// wait is how a campaign waits.
type wait struct {
	// on names it in waits_for.
	on Reason
	// level is how loud the log tells of it: warnings of what somebody must see to, debug of what comes and goes with the calls.
	level slog.Level
	// timed: the refusal says when it passes.
	timed bool
}

func campaignWaits(on Reason, level slog.Level) wait { return wait{on: on, level: level} }

func (w wait) untilThen() wait {
	w.timed = true
	return w
}

// Waits lists what a campaign can wait for.
func Waits() []Reason {
	var all []Reason
	for _, r := range ruleTable() {
		if r.waits.on != "" {
			all = append(all, r.waits.on)
		}
	}
	return all
}

// Level is how loud the log tells that a campaign waits for this.
func (r Reason) Level() slog.Level {
	for _, row := range ruleTable() {
		if row.waits.on != "" && row.waits.on == r {
			return row.waits.level
		}
	}
	return slog.LevelDebug
}

// Ceiling is the bound that is reached; empty for a rule of another kind.
func (r Reason) Ceiling() CeilingSource { return ruleOf(r).ceiling }

// ReasonOf is the rule that sets a ceiling; the voice agent's for one that no rule sets.
func ReasonOf(ceiling CeilingSource) Reason {
	for _, r := range ruleTable() {
		if r.ceiling == ceiling {
			return r.reason
		}
	}
	return ReasonAgentCeiling
}

// answer makes of a refusal what it is to whoever asked for the call.
type answer func(e *RefusalError, now time.Time) error

// ceilingRetry is when a full ceiling is worth another look, for those whom no signal wakes.
const ceilingRetry = time.Second

// as answers with an error of switchctl's.
func as(err error) answer { return func(*RefusalError, time.Time) error { return err } }

// conflict is a 409 with the reason's code.
func conflict(e *RefusalError, now time.Time) error {
	return &fault.Error{Kind: fault.Conflict, Code: string(e.Reason), Detail: e.Detail, RetryAfter: e.after(now)}
}

// conflictAs is a 409 that time alone doesn't end.
func conflictAs(code string) answer {
	return func(e *RefusalError, _ time.Time) error {
		return &fault.Error{Kind: fault.Conflict, Code: code, Detail: e.Detail}
	}
}

// missing is a 424: the call needs what is not there.
func missing(code string) answer {
	return func(e *RefusalError, _ time.Time) error {
		return &fault.Error{Kind: fault.Dependency, Code: code, Detail: e.Detail}
	}
}

// missingUntil is a 424 that passes.
func missingUntil(code string) answer {
	return func(e *RefusalError, now time.Time) error {
		return &fault.Error{Kind: fault.Dependency, Code: code, Detail: e.Detail, RetryAfter: e.after(now)}
	}
}

// limit is a 429 with the reason's code.
func limit(e *RefusalError, now time.Time) error { return limitAs(string(e.Reason))(e, now) }

func limitAs(code string) answer {
	return func(e *RefusalError, now time.Time) error {
		if e.RetryAt.IsZero() {
			e.RetryAt = now.Add(ceilingRetry)
		}
		return &fault.Error{Kind: fault.Limit, Code: code, Detail: e.Detail, RetryAfter: e.after(now)}
	}
}

// after is when the refusal passes, 0 for never.
func (e *RefusalError) after(now time.Time) time.Duration {
	if e.RetryAt.IsZero() {
		return 0
	}
	return e.RetryAt.Sub(now)
}

// CeilingSource says what bounds a campaign's calls.
type CeilingSource string

// The sources of a ceiling.
const (
	CeilingCampaign   CeilingSource = "campaign"
	CeilingVoiceAgent CeilingSource = "voice_agent"
	CeilingChannels   CeilingSource = "channels"
	CeilingTrunk      CeilingSource = "trunk"
	CeilingFallback   CeilingSource = "fallback"
	CeilingAgents     CeilingSource = "agents"
)
