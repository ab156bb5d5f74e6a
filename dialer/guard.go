package dialer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/pacing"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// pauseForAbandons pauses a campaign of which too many callees find nobody. One that no longer runs is left alone.
func (p *pacers) pauseForAbandons(ctx context.Context, tenant, id uuid.UUID, t figures.Tallies) error {
	err := p.campaigns.PauseForAbandons(ctx, tenant, id)
	if runsNoMore(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pause the campaign for its abandoned calls: %w", err)
	}
	p.metrics.autoPaused.Inc()
	p.log.WarnContext(ctx, "campaign paused: too many callees found no agent", "tenant_id", tenant, "campaign_id", id,
		"answered_24h", t.Day.Answered, "abandoned_24h", t.Day.Abandoned, "source", campaigns.SourceAbandonRate)
	return nil
}

// runsNoMore tells a campaign that can't be paused since it is stopped or gone from a pause that failed.
func runsNoMore(err error) bool {
	_, conflict := fault.As(err, fault.Conflict)
	return conflict || errors.Is(err, store.ErrNotFound)
}

// historyCalls and historyAge bound what a planner that begins learns from.
const (
	historyCalls = 500
	historyAge   = 24 * time.Hour
)

// paceHistory is what a campaign's last calls teach the planner that begins.
func paceHistory(ctx context.Context, tx *store.Tx, tenant, campaign uuid.UUID, now time.Time) (pacing.History, error) {
	if err := tx.Q.PlanByValues(ctx); err != nil {
		return pacing.History{}, err
	}
	rows, err := tx.Q.PaceHistory(ctx, db.PaceHistoryParams{
		TenantID: tenant, CampaignID: campaign, FromID: store.IDFloor(now.Add(-historyAge)), Batch: historyCalls,
	})
	var h pacing.History
	for _, r := range slices.Backward(rows) { // the oldest first
		if r.DialTime == nil || r.EndTime == nil {
			continue
		}
		if r.AnswerTime == nil {
			h.Rings = append(h.Rings, pacing.Ring{After: r.EndTime.Sub(*r.DialTime)})
			continue
		}
		wanted := r.AgentConnectTime != nil || r.AnsweredByAmd == nil || *r.AnsweredByAmd != answeredByMachine
		h.Rings = append(h.Rings, pacing.Ring{After: r.AnswerTime.Sub(*r.DialTime), Answered: wanted})
		if r.AgentID != nil && r.AgentConnectTime != nil {
			h.Talks = append(h.Talks, r.EndTime.Sub(*r.AgentConnectTime))
		}
		if r.WrapUpS >= 0 {
			h.WrapUps = append(h.WrapUps, time.Duration(r.WrapUpS*float64(time.Second)))
		}
	}
	return h, err
}
