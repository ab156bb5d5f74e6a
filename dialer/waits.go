package dialer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/media/prompt"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// Wait says why a running campaign dials nothing. Where the gate refuses a call for the same reason it has the name of that Reason.
type Wait string

// What a campaign can wait for; the empty Wait is nothing.
const (
	WaitAnnouncement Wait = fieldAnnouncementURL // audio that can't be fetched
	WaitVoicemail    Wait = fieldVoicemailURL
	WaitTest         Wait = "test_environment" // started by a test key
	WaitLeads        Wait = "leads"            // none is due
	WaitUnscrubbed   Wait = "unscrubbed"       // the do-not-call registry can't answer, or hasn't been asked yet
	WaitMode         Wait = "call_mode"
	WaitWindow       Wait = "calling_window"
	WaitRoute        Wait = "route" // no trunk
	WaitCallerID     Wait = "caller_id"
	WaitVoiceAgent   Wait = "voice_agent"
	WaitFlow         Wait = "flow"
	WaitLogin        Wait = "agent_login"   // nobody is at work whom the callees may ask for
	WaitAgents       Wait = "agents"        // who is at work is busy
	WaitOthers       Wait = "other_callers" // agents who are ready are left to callers whom the campaign hasn't dialed
	WaitAbandonRate  Wait = "abandon_rate"  // nobody is dialed ahead of a free agent: too many were abandoned
	WaitSlots        Wait = "voice_agent_ceiling"
	WaitCeiling      Wait = "campaign_ceiling"
	WaitFallback     Wait = "fallback_ceiling"
	WaitChannels     Wait = "channels"
	WaitTrunks       Wait = "trunk_channels"
	WaitTrunkRate    Wait = "trunk_rate"
	WaitNumber       Wait = "number"         // the leads' numbers don't open, or aren't those that they were added with: the log has each
	WaitTrunkFails   Wait = "trunk_failures" // its trunks are out of order, and tried by one call now and then
	WaitSwitch       Wait = "switch"         // the link to it is down
)

// Waits lists what a campaign can wait for.
func Waits() []Wait {
	return []Wait{
		WaitAnnouncement, WaitVoicemail, WaitTest, WaitLeads, WaitUnscrubbed, WaitMode, WaitWindow, WaitRoute, WaitCallerID, WaitVoiceAgent,
		WaitFlow, WaitLogin, WaitAgents, WaitOthers, WaitAbandonRate, WaitSlots, WaitCeiling, WaitFallback, WaitChannels, WaitTrunks,
		WaitTrunkRate, WaitNumber, WaitTrunkFails, WaitSwitch,
	}
}

// level is how loud the log tells of a wait: loud of what somebody must see to, softly of what comes and goes with the calls.
func (w Wait) level() slog.Level {
	switch w {
	case WaitAnnouncement, WaitVoicemail, WaitUnscrubbed, WaitMode, WaitRoute, WaitCallerID, WaitVoiceAgent, WaitFlow, WaitNumber,
		WaitTrunkFails, WaitSwitch:
		return slog.LevelWarn
	case WaitWindow, WaitLogin, WaitOthers, WaitTest:
		return slog.LevelInfo
	case WaitLeads, WaitAgents, WaitAbandonRate, WaitSlots, WaitCeiling, WaitFallback, WaitChannels, WaitTrunks, WaitTrunkRate:
		return slog.LevelDebug
	default:
		return slog.LevelDebug
	}
}

// idleness is why a campaign dials nothing, and when that passes, if that is known; the zero value is none.
type idleness struct {
	on    Wait
	until time.Time
}

// waitOf is what a campaign waits for whose call was refused; not ok where the refusal says nothing of the campaign.
func waitOf(r *RefusalError) (w idleness, ok bool) {
	switch r.Reason {
	case ReasonAnnouncement:
		return idleness{on: WaitAnnouncement}, true
	case ReasonUnscrubbed, ReasonWindow, ReasonTrunkFailures:
		return idleness{Wait(r.Reason), r.RetryAt}, true
	case ReasonMode, ReasonVoiceAgent, ReasonAgents, ReasonAgentCeiling, ReasonCampaignCeiling, ReasonFallback, ReasonChannels,
		ReasonTrunkChannels, ReasonTrunkRate, ReasonRoute, ReasonCallerID, ReasonNumber:
		return idleness{on: Wait(r.Reason)}, true
	case ReasonTestEnvironment, ReasonCampaign, ReasonLead, ReasonCall, ReasonSuppressed, ReasonDNC, ReasonCategory,
		ReasonAttempts, ReasonDailyCap, ReasonSIPHost:
		return idleness{}, false
	default:
		return idleness{}, false
	}
}

// failedFor notes what an error says of why nothing is dialed.
func (p *pacer) failedFor(err error) {
	var refusal *RefusalError
	var missing *DependencyError
	switch {
	case errors.As(err, &refusal):
		if w, ok := waitOf(refusal); ok {
			p.idle = w
		}
	case errors.As(err, &missing) && missing.Code == CodeNoVoiceAgentConfigured:
		p.idle = idleness{on: WaitVoiceAgent}
	case errors.As(err, &missing) && missing.Code == CodeNoFlowConfigured:
		p.idle = idleness{on: WaitFlow}
	case errors.Is(err, switchctl.ErrLinkDown):
		p.idle = idleness{on: WaitSwitch}
	default:
		p.idle = p.idleBefore()
	}
}

// idleFor is what a campaign waits for that may not dial anything now: audio, leads, or the time of day.
func (p *pacer) idleFor(seen *sight, now time.Time) idleness {
	switch {
	case seen.lacks != "":
		return idleness{on: Wait(seen.lacks)}
	case !seen.heard:
		return p.idleBefore() // it is being fetched
	case seen.hasLeads:
		return idleness{WaitWindow, seen.opensAt}
	case seen.unscrubbed:
		return idleness{on: WaitUnscrubbed}
	}
	if before := p.idleBefore(); (before.on == WaitUnscrubbed || before.on == WaitNumber) && now.Before(before.until) {
		return before // all were put back for it
	}
	return idleness{on: WaitLeads}
}

// idleForPeople is what a campaign whose callees talk to people waits for when its plan dials nothing.
func (p *pacer) idleForPeople(planned pacing.Plan, state pacing.State, members []acd.Member, room idleness) idleness {
	switch {
	case planned.Dial > 0 || len(state.Ringing)+state.Waiting > 0:
		return idleness{}
	case planned.HeldBack:
		return idleness{on: WaitOthers}
	case state.Ready > 0 && state.Room <= 0:
		return room
	case p.planned.Predictive && planned.Verdict == pacing.Fallback && len(members) > 0:
		return idleness{on: WaitAbandonRate}
	default:
		return idleness{on: WaitAgents}
	}
}

// idleBefore is what was made known last.
func (p *pacer) idleBefore() idleness {
	if p.idleTold == nil {
		return idleness{}
	}
	return *p.idleTold
}

// tellIdle makes known, once it has changed, why the campaign dials nothing: to whoever asks for its figures, to the metrics and in the
// log. What could not be written is told by a later round.
func (p *pacer) tellIdle(ctx context.Context) {
	now, before := p.idle, p.idleBefore()
	if p.idleTold != nil && (now == before || time.Since(p.idleToldAt) < tellEvery) || p.exhausted || p.yielded || ctx.Err() != nil {
		return
	}
	params := db.PaceWaitsParams{TenantID: p.tenant, CampaignID: p.campaign, Node: p.s.cfg.NodeID, At: p.s.now()}
	if now.on != "" {
		code := string(now.on)
		params.WaitsFor = &code
	}
	if !now.until.IsZero() {
		params.WaitsUntil = &now.until
	}
	err := p.s.st.InTenant(ctx, p.tenant, func(tx *store.Tx) error { return tx.Q.PaceWaits(ctx, params) })
	if err != nil {
		p.log.WarnContext(ctx, "what the campaign waits for is not written down", "waits_for", now.on, "error", err)
		return
	}
	p.idleTold, p.idleToldAt = &now, time.Now()
	p.countIdle(before.on, now.on)
	switch {
	case now.on == before.on:
	case now.on == WaitAnnouncement || now.on == WaitVoicemail:
		p.log.WarnContext(ctx, "campaign dials nothing until what callees are to hear can be fetched",
			"member", now.on, "url", prompt.Shown(p.hearing.names(string(now.on))))
	case now.on != "":
		attrs := []any{"waits_for", now.on}
		if !now.until.IsZero() {
			attrs = append(attrs, "until", now.until)
		}
		p.log.Log(ctx, now.on.level(), "campaign dials nothing", attrs...)
	}
	if before.on.level() == slog.LevelWarn && now.on.level() != slog.LevelWarn {
		p.log.InfoContext(ctx, "campaign no longer held up", "waited_for", before.on)
	}
}

// restIdle ends what was made known, with the pacer.
func (p *pacer) restIdle() { p.countIdle(p.idleBefore().on, "") }

// countIdle counts the campaigns that wait, by what they wait for.
func (p *pacer) countIdle(before, now Wait) {
	if before == now {
		return
	}
	audio := func(w Wait) bool { return w == WaitAnnouncement || w == WaitVoicemail }
	if before != "" {
		p.s.metrics.waits.WithLabelValues(string(before)).Dec()
	}
	if now != "" {
		p.s.metrics.waits.WithLabelValues(string(now)).Inc()
	}
	switch {
	case audio(now) && !audio(before):
		p.s.metrics.waiting.Inc()
	case audio(before) && !audio(now):
		p.s.metrics.waiting.Dec()
	}
}
