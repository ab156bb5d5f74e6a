package dialer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/media/prompt"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
)

// idleness is why a campaign dials nothing, and when that passes, if that is known; the zero value is none.
type idleness struct {
	on    gate.Reason
	until time.Time
}

// waitOf is what a campaign waits for whose call was refused; not ok where the refusal says nothing of the campaign.
func waitOf(r *gate.RefusalError) (w idleness, ok bool) {
	w.on, w.until = r.Waits()
	return w, w.on != ""
}

// failedFor notes what an error says of why nothing is dialed.
func (p *pacer) failedFor(err error) {
	var refusal *gate.RefusalError
	var missing *fault.Error
	switch {
	case errors.As(err, &refusal):
		if w, ok := waitOf(refusal); ok {
			p.idle = w
		}
	case errors.As(err, &missing) && missing.Code == voiceagents.CodeNoVoiceAgentConfigured:
		p.idle = idleness{on: gate.ReasonVoiceAgent}
	case errors.As(err, &missing) && missing.Code == flows.CodeNoFlowConfigured:
		p.idle = idleness{on: gate.ReasonFlow}
	case errors.Is(err, switchctl.ErrLinkDown):
		p.idle = idleness{on: gate.ReasonSwitch}
	default:
		p.idle = p.idleBefore()
	}
}

// idleFor is what a campaign waits for that may not dial anything now: audio, leads, or the time of day.
func (p *pacer) idleFor(seen *sight, now time.Time) idleness {
	switch {
	case seen.lacks != "":
		return idleness{on: gate.Reason(seen.lacks)}
	case !seen.heard:
		return p.idleBefore() // it is being fetched
	case seen.hasLeads:
		return idleness{gate.ReasonWindow, seen.opensAt}
	case seen.unscrubbed:
		return idleness{on: gate.ReasonUnscrubbed}
	}
	if before := p.idleBefore(); (before.on == gate.ReasonUnscrubbed || before.on == gate.ReasonNumber) && now.Before(before.until) {
		return before // all were put back for it
	}
	return idleness{on: gate.ReasonLeads}
}

// idleForPeople is what a campaign whose callees talk to people waits for when its plan dials nothing.
func (p *pacer) idleForPeople(planned pacing.Plan, state pacing.State, members []acd.Member, room idleness) idleness {
	switch {
	case planned.Dial > 0 || len(state.Ringing)+state.Waiting > 0:
		return idleness{}
	case planned.HeldBack:
		return idleness{on: gate.ReasonOtherCallers}
	case state.Ready > 0 && state.Room <= 0:
		return room
	case p.planned.Predictive && planned.Verdict == pacing.Fallback && len(members) > 0:
		return idleness{on: gate.ReasonAbandonRate}
	default:
		return idleness{on: gate.ReasonAgents}
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
	params := db.PaceWaitsParams{TenantID: p.Tenant, CampaignID: p.Campaign, Node: p.s.cfg.NodeID, At: p.s.now()}
	if now.on != "" {
		code := string(now.on)
		params.WaitsFor = &code
	}
	if !now.until.IsZero() {
		params.WaitsUntil = &now.until
	}
	err := p.s.st.InTenant(ctx, p.Tenant, func(tx *store.Tx) error { return tx.Q.PaceWaits(ctx, params) })
	if err != nil {
		p.log.WarnContext(ctx, "writing what the campaign waits for failed", "waits_for", now.on, "error", err)
		return
	}
	p.idleTold, p.idleToldAt = &now, time.Now()
	p.countIdle(before.on, now.on)
	switch {
	case now.on == before.on:
	case now.on == gate.ReasonAnnouncementURL || now.on == gate.ReasonVoicemailURL:
		p.log.WarnContext(ctx, "campaign dials nothing: its audio can't be fetched",
			"member", now.on, "url", prompt.Shown(p.hearing.names(string(now.on))))
	case now.on != "":
		attrs := []any{"waits_for", now.on}
		if !now.until.IsZero() {
			attrs = append(attrs, "until", now.until)
		}
		p.log.Log(ctx, now.on.Level(), "campaign dials nothing", attrs...)
	}
	if before.on.Level() == slog.LevelWarn && now.on.Level() != slog.LevelWarn {
		p.log.InfoContext(ctx, "campaign no longer blocked", "waited_for", before.on)
	}
}

// restIdle ends what was made known, with the pacer.
func (p *pacer) restIdle() { p.countIdle(p.idleBefore().on, "") }

// countIdle counts the campaigns that wait, by what they wait for.
func (p *pacer) countIdle(before, now gate.Reason) {
	if before == now {
		return
	}
	audio := func(w gate.Reason) bool { return w == gate.ReasonAnnouncementURL || w == gate.ReasonVoicemailURL }
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
