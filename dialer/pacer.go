package dialer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

const (
	claimBatch = 50
	// claimLease outlives what the claimed leads of one round can take; the gate ends a claim with the call's row.
	claimLease = 2 * time.Minute
	// afterWake is when a woken pacer looks again: the signal of a call's end comes before that end is committed.
	afterWake = 100 * time.Millisecond
	// registryRetry is how often leads that the registry could not answer for are scrubbed again.
	registryRetry = 10 * time.Second
	maxBackoff    = 30 * time.Second
	// rateTries bounds the waits for a trunk's calls per second that one lead gets.
	rateTries = 20
	// originateTimeout bounds the admission of one call.
	originateTimeout = 10 * time.Second
)

// pacer dials the leads of one running campaign. One goroutine owns it.
type pacer struct {
	s          *Service
	originator Originator
	tenant     uuid.UUID
	campaign   uuid.UUID
	claimant   string
	lease      time.Duration
	wake       <-chan struct{}
	log        *slog.Logger

	failures  int       // originates in a row that failed
	resumeAt  time.Time // nothing is dialed before
	scrubAt   time.Time // unscrubbed leads are not looked for before
	idleTold  bool      // the log has said that this campaign dials nothing
	exhausted bool      // ends run: the campaign is no longer running
}

func newPacer(s *Service, originator Originator, tenant, campaign uuid.UUID, wake <-chan struct{}) *pacer {
	return &pacer{
		s: s, originator: originator, tenant: tenant, campaign: campaign, wake: wake,
		claimant: "pacer:" + s.cfg.NodeID + ":" + newID().String(),
		lease:    claimLease,
		log:      s.log.With("tenant_id", tenant, "campaign_id", campaign),
	}
}

func (p *pacer) run(ctx context.Context) {
	p.log.InfoContext(ctx, "pacing campaign")
	defer p.log.InfoContext(ctx, "campaign no longer paced")
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil && !p.exhausted {
		wait := p.round(ctx)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.wake:
			// The round that follows may come too early for what woke us; one more comes soon after.
			p.round(ctx)
			timer.Reset(afterWake)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
	}
}

// plan is what one round may do.
type plan struct {
	agent *uuid.UUID
	free  int
	wait  time.Duration // with free = 0: when to look again
}

// round dials as many leads as there is room for, and returns how long to wait for the next one.
func (p *pacer) round(ctx context.Context) time.Duration {
	now := p.s.now()
	if now.Before(p.resumeAt) {
		return min(p.resumeAt.Sub(now), p.s.cfg.Poll)
	}
	p.scrubPending(ctx, now)
	next, err := p.plan(ctx, now)
	if err != nil {
		return p.backOff(ctx, "campaign can't be planned", err)
	}
	if next.free <= 0 || p.exhausted {
		return cmp.Or(next.wait, p.s.cfg.Poll)
	}
	leads, err := p.claim(ctx, min(next.free, claimBatch), now)
	if err != nil {
		return p.backOff(ctx, "leads can't be claimed", err)
	}
	if len(leads) == 0 {
		return p.s.cfg.Poll
	}
	p.dial(ctx, leads, next.agent)
	if len(leads) == claimBatch && ctx.Err() == nil {
		return 0
	}
	return p.s.cfg.Poll
}

// backOff logs a failure and keeps the campaign quiet for a while, longer with each failure in a row.
func (p *pacer) backOff(ctx context.Context, message string, err error) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	wait := min(maxBackoff, time.Second<<min(p.failures, 5))
	p.failures++
	p.resumeAt = p.s.now().Add(wait)
	p.log.WarnContext(ctx, "pacing delayed", "reason", message, "retry_in", wait, "error", err)
	return min(wait, p.s.cfg.Poll)
}

// plan reads the campaign and counts the room under its ceilings. The gate counts again for each call; this only
// keeps leads from being claimed in vain.
func (p *pacer) plan(ctx context.Context, now time.Time) (plan, error) {
	var out plan
	err := p.s.st.InTenant(ctx, p.tenant, func(tx *store.Tx) error {
		out = plan{}
		row, err := tx.Q.CampaignGet(ctx, p.tenant, p.campaign)
		if errors.Is(err, store.ErrNotFound) || err == nil && row.Status != string(CampaignRunning) {
			p.exhausted = true
			return nil
		}
		if err != nil {
			return err
		}
		taker, err := p.s.takerOf(ctx, tx, row)
		if err != nil {
			return err
		}
		ready := p.s.readyAgents(p.tenant)
		if row.DialMode == string(DialPreview) || taker.people && ready == 0 {
			p.tellIdle(ctx, row, ready)
			return nil
		}
		p.idleTold = false
		out.agent = taker.voiceAgent
		facts, err := tx.Q.GateFacts(ctx, db.GateFactsParams{
			TenantID: p.tenant, CampaignID: &p.campaign, VoiceAgentID: taker.voiceAgent, Node: p.s.cfg.NodeID,
		})
		if err != nil {
			return err
		}
		if open, at := p.s.mayCall(facts.TenantWindow, facts.CampaignWindow, facts.Holidays, now); !open {
			out.wait = min(at.Sub(now), p.s.cfg.Poll)
			return nil
		}
		trunks, err := gate{p.s}.trunks(ctx, tx, p.tenant, now)
		out.free = room(facts, trunks, taker.voiceAgent != nil)
		if taker.people {
			out.free = min(out.free, ready-int(facts.AwaitingHere))
		}
		return err
	})
	return out, err
}

func (p *pacer) tellIdle(ctx context.Context, row db.Campaign, ready int) {
	if p.idleTold {
		return
	}
	p.idleTold = true
	p.log.InfoContext(ctx, "campaign dials nothing: no agent is ready", "dial_mode", row.DialMode,
		"post_answer_action", row.PostAnswerAction, "agents_ready", ready)
}

// room is the number of calls that the tightest ceiling leaves, a voice agent's when one takes the calls.
func room(f db.GateFactsRow, trunks []db.GateTrunksRow, voiceAgent bool) int {
	free := int64(claimBatch)
	if voiceAgent {
		free = int64(f.AgentMax) - f.AgentUsed
	}
	if f.CampaignMax != nil {
		free = min(free, int64(*f.CampaignMax)-f.CampaignUsed)
	}
	if len(trunks) == 0 {
		if f.CampaignMax == nil {
			free = min(free, fallbackChannels-f.CampaignUsedHere)
		}
		return int(free)
	}
	var inTrunks int64
	for _, t := range trunks {
		inTrunks += max(0, int64(t.MaxChannels)-t.ChannelsUsed)
	}
	return int(min(free, channels(trunks)-f.ChannelsUsed, inTrunks))
}

// claimed is a lead that this pacer holds.
type claimed struct {
	id     uuid.UUID
	number store.Phone
}

// claim takes leads that are due, then fresh ones.
func (p *pacer) claim(ctx context.Context, n int, now time.Time) ([]claimed, error) {
	var out []claimed
	err := p.s.st.InTenant(ctx, p.tenant, func(tx *store.Tx) error {
		var err error
		out, _, err = p.claimIn(ctx, tx, n, now)
		return err
	})
	return out, err
}

// claimIn claims up to n leads and tells how many it took; those that have no number any more are ended.
func (p *pacer) claimIn(ctx context.Context, tx *store.Tx, n int, now time.Time) (out []claimed, taken int, err error) {
	until := now.Add(p.lease)
	due, err := tx.Q.LeadsClaimDue(ctx, db.LeadsClaimDueParams{
		TenantID: p.tenant, CampaignID: p.campaign, Now: now, Claimant: p.claimant, Until: until, Batch: int32(n), //nolint:gosec // at most claimBatch
	})
	if err != nil {
		return out, 0, err
	}
	slices.SortFunc(due, func(a, b db.LeadsClaimDueRow) int {
		return cmp.Or(a.NextAttemptAt.Compare(*b.NextAttemptAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, lead := range due {
		if out, err = p.hold(ctx, tx, out, lead); err != nil {
			return out, 0, err
		}
	}
	if len(due) >= n {
		return out, len(due), nil
	}
	fresh, err := tx.Q.LeadsClaimFresh(ctx, db.LeadsClaimFreshParams{
		TenantID: p.tenant, CampaignID: p.campaign, Now: now, Claimant: p.claimant, Until: until, Batch: int32(n - len(due)), //nolint:gosec // at most claimBatch
	})
	if err != nil {
		return out, 0, err
	}
	slices.SortFunc(fresh, func(a, b db.LeadsClaimFreshRow) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, lead := range fresh {
		if out, err = p.hold(ctx, tx, out, db.LeadsClaimDueRow(lead)); err != nil {
			return out, 0, err
		}
	}
	return out, len(due) + len(fresh), nil
}

func (p *pacer) hold(ctx context.Context, tx *store.Tx, out []claimed, lead db.LeadsClaimDueRow) ([]claimed, error) {
	number, err := leadPhone(ctx, tx, p.tenant, lead.Phone, lead.PhoneSealed)
	if err != nil {
		return out, err
	}
	if number.IsZero() {
		row, err := tx.Q.LeadLock(ctx, p.tenant, lead.ID)
		if err != nil {
			return out, err
		}
		return out, p.s.finishLead(ctx, tx, row, LeadInvalid, p.s.now())
	}
	return append(out, claimed{id: lead.ID, number: number}), nil
}

// dial originates the claimed leads in their order, until one meets a ceiling. What was not dialed goes back.
func (p *pacer) dial(ctx context.Context, leads []claimed, agent *uuid.UUID) {
	done := 0
	defer func() { p.release(ctx, leads[done:]) }()
	for _, lead := range leads {
		if !p.dialOne(ctx, lead, agent) {
			return
		}
		done++
	}
}

// dialOne tells whether the lead is settled and the next may follow.
func (p *pacer) dialOne(ctx context.Context, lead claimed, agent *uuid.UUID) bool {
	for try := 0; ctx.Err() == nil; try++ {
		err := p.originate(ctx, lead, agent)
		var refusal *RefusalError
		switch {
		case err == nil:
			p.failures = 0
			return true
		case !errors.As(err, &refusal):
			p.backOff(ctx, "call can't be originated", err)
			return false
		case refusal.Reason == ReasonTrunkRate && try < rateTries:
			if !p.pause(ctx, refusal.RetryAt.Sub(p.s.now())) {
				return false
			}
		default:
			return p.refused(ctx, lead, refusal)
		}
	}
	return false
}

// originate finishes what it began also when the pacer is being stopped: a commit that is cut off leaves it unknown
// whether the call was admitted, and its unit taken until the reconciliation finds it.
func (p *pacer) originate(ctx context.Context, lead claimed, agent *uuid.UUID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), originateTimeout)
	defer cancel()
	_, err := p.originator.Originate(ctx, switchctl.OriginateRequest{
		TenantID: p.tenant, CampaignID: &p.campaign, LeadID: &lead.id, VoiceAgentID: agent, To: lead.number,
		Purpose: switchctl.PurposeLead, Environment: string(EnvironmentLive),
	})
	return err
}

// refused decides over a lead that the gate sent back.
func (p *pacer) refused(ctx context.Context, lead claimed, refusal *RefusalError) bool {
	p.log.DebugContext(ctx, "lead not dialed", "lead_id", lead.id, "reason", refusal.Reason)
	switch refusal.Reason {
	case ReasonWindow, ReasonDailyCap, ReasonUnscrubbed, ReasonNumber:
		at := refusal.RetryAt
		if at.IsZero() {
			at = p.s.now().Add(time.Hour)
		}
		p.postpone(ctx, lead, at)
		return true
	case ReasonLead, ReasonSuppressed, ReasonDNC, ReasonAttempts:
		p.release(ctx, []claimed{lead}) // the gate has settled it
		return true
	case ReasonRoute, ReasonCallerID, ReasonVoiceAgent:
		p.backOff(ctx, "no call can be made", refusal)
		return false
	case ReasonTestEnvironment, ReasonCampaign, ReasonCall, ReasonAgents, ReasonAgentCeiling, ReasonCampaignCeiling, ReasonFallback,
		ReasonChannels, ReasonTrunkChannels, ReasonTrunkRate:
		return false
	default:
		return false
	}
}

func (p *pacer) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// release gives claimed leads back as they were, also when the pacer is being stopped.
func (p *pacer) release(ctx context.Context, leads []claimed) {
	if len(leads) == 0 {
		return
	}
	ids := make([]uuid.UUID, len(leads))
	for i, lead := range leads {
		ids[i] = lead.id
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockTimeout)
	defer cancel()
	err := p.s.st.InTenant(ctx, p.tenant, func(tx *store.Tx) error {
		return tx.Q.LeadsRelease(ctx, p.tenant, ids, p.claimant)
	})
	if err != nil {
		p.log.WarnContext(ctx, "claimed leads not given back, their claim runs out by itself", "leads", len(ids), "error", err)
	}
}

func (p *pacer) postpone(ctx context.Context, lead claimed, at time.Time) {
	err := p.s.st.InTenant(ctx, p.tenant, func(tx *store.Tx) error {
		return tx.Q.LeadPostpone(ctx, db.LeadPostponeParams{
			TenantID: p.tenant, ID: lead.id, NextAttemptAt: at, Claimant: p.claimant,
		})
	})
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "lead not postponed, its claim runs out by itself", "lead_id", lead.id, "error", err)
	}
}

// scrubPending scrubs leads that came in while the registry could not answer.
func (p *pacer) scrubPending(ctx context.Context, now time.Time) {
	if now.Before(p.scrubAt) {
		return
	}
	answered := true
	err := p.s.st.InTenant(ctx, p.tenant, func(tx *store.Tx) error {
		leads, err := tx.Q.LeadsUnscrubbed(ctx, p.tenant, p.campaign, scrubBatch)
		if err != nil || len(leads) == 0 {
			return err
		}
		answered, err = p.s.scrubLeads(ctx, tx, p.tenant, leads)
		return err
	})
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "unscrubbed leads can't be read", "error", err)
	}
	if err != nil || !answered {
		p.scrubAt = now.Add(registryRetry)
	}
}
