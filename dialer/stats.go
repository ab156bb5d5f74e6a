package dialer

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// CampaignStats are a campaign's figures. Times are in seconds, rates from 0 to 1, and both 0 where nothing is counted yet.
type CampaignStats struct {
	CampaignID uuid.UUID `json:"campaign_id"`
	// Leads holds total and the count of each lead status.
	Leads map[string]int64 `json:"leads"`
	Calls CallFigures      `json:"calls"`
	// AnswerRate is over the calls that have ended.
	AnswerRate float64         `json:"answer_rate"`
	Abandon    figures.Abandon `json:"abandon"`
	// Agents counts the tenant's agents by their status.
	Agents map[string]int64 `json:"agents"`
	// AvgTalkS is from answer to hang-up, AvgWaitS from the wish for an agent to the agent.
	AvgTalkS float64 `json:"avg_talk_s"`
	AvgWaitS float64 `json:"avg_wait_s"`
	Pacing   Pacing  `json:"pacing"`
	Ceiling  Ceiling `json:"ceiling"`
}

// CallFigures counts a campaign's calls.
type CallFigures struct {
	Total    int64            `json:"total"`
	Live     int64            `json:"live"`
	ByStatus map[string]int64 `json:"by_status"`
	ByCause  map[string]int64 `json:"by_cause"`
}

// Pacing says how a campaign dials: its mode is progressive while one that is predictive does not over-dial, and its lines per
// agent are the calls under way for each agent at work.
type Pacing struct {
	Mode          campaigns.DialMode `json:"mode"`
	LinesPerAgent float64            `json:"lines_per_agent"`
	// WaitsFor says why nobody is dialed though the campaign runs, nil for no reason; WaitsUntil when that passes, where it is known.
	WaitsFor   *gate.Reason `json:"waits_for"`
	WaitsUntil *time.Time   `json:"waits_until"`
}

// Ceiling is the tightest bound of a campaign's calls at once, and what sets it.
type Ceiling struct {
	Effective int64              `json:"effective"`
	SetBy     gate.CeilingSource `json:"set_by"`
}

// CampaignStats gives a campaign's figures. Errors: store.ErrNotFound.
func (t *statistics) CampaignStats(ctx context.Context, tenant, id uuid.UUID) (CampaignStats, error) {
	out := CampaignStats{CampaignID: id}
	err := t.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err := tx.Q.CampaignGet(ctx, tenant, id)
		if err != nil {
			return err
		}
		if out.Agents, err = agentFigures(ctx, tx, tenant); err != nil {
			return err
		}
		kept, err := figures.Read(ctx, tx, tenant, id, t.now())
		if err != nil {
			return err
		}
		out.Leads = leadFigures(kept)
		out.addCalls(kept)
		if out.Pacing, err = t.pacers.paceOf(ctx, tx, row); err != nil {
			return err
		}
		out.Ceiling, err = t.ceiling(ctx, tx, row, out.Agents)
		return err
	})
	if err != nil {
		return CampaignStats{}, fault.Wrap("count campaign", err)
	}
	return out, nil
}

func leadFigures(kept figures.Figures) map[string]int64 {
	out := map[string]int64{"total": 0}
	counts := kept.By(figures.Lead)
	for _, status := range leads.Statuses() {
		out[string(status)] = counts[string(status)]
		out["total"] += counts[string(status)]
	}
	return out
}

func agentFigures(ctx context.Context, tx *store.Tx, tenant uuid.UUID) (map[string]int64, error) {
	out := map[string]int64{}
	for _, status := range []acd.Status{acd.Available, acd.OnCall, acd.WrapUp, acd.Paused, acd.Offline} {
		out[string(status)] = 0
	}
	rows, err := tx.Q.AgentStatusCounts(ctx, tenant)
	for _, r := range rows {
		out[r.Status] = r.Agents
	}
	return out, err
}

func (out *CampaignStats) addCalls(kept figures.Figures) {
	out.Calls = CallFigures{ByStatus: map[string]int64{}, ByCause: kept.By(figures.Cause)}
	counts := kept.By(figures.Call)
	for _, status := range []string{
		ledger.StatusDialing, ledger.StatusRinging, ledger.StatusAnswered, ledger.StatusAgentConnected,
		ledger.StatusCompleted, ledger.StatusFailed,
	} {
		out.Calls.ByStatus[status] = counts[status]
		out.Calls.Total += counts[status]
	}
	// A call is completed if it was answered, else failed.
	completed := counts[ledger.StatusCompleted]
	ended := completed + counts[ledger.StatusFailed]
	out.Calls.Live = out.Calls.Total - ended
	out.AnswerRate = figures.Share(float64(completed), ended, 4)
	out.AvgTalkS = figures.Share(float64(kept.Total(figures.Talk))/1e6, completed, 1)
	out.AvgWaitS = figures.Share(float64(kept.Total(figures.Wait))/1e6, kept.Total(figures.Waited), 1)
	out.Abandon = kept.Abandon()
}

// ceiling finds the tightest bound; of equal ones the first named. An account's channels are those of its active trunks: a single
// trunk's are its own ceiling.
func (t *statistics) ceiling(ctx context.Context, tx *store.Tx, row db.Campaign, agents map[string]int64) (Ceiling, error) {
	out := Ceiling{Effective: math.MaxInt64}
	bound := func(n int64, by gate.CeilingSource) {
		if n < out.Effective {
			out = Ceiling{n, by}
		}
	}
	if row.MaxConcurrent != nil {
		bound(int64(*row.MaxConcurrent), gate.CeilingCampaign)
	}
	voiceAgent, people, err := t.takesCalls(ctx, tx, row)
	if err != nil {
		return out, err
	}
	if voiceAgent != nil {
		agent, err := tx.Q.VoiceAgentGet(ctx, row.TenantID, *voiceAgent)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return out, err
		}
		if err == nil {
			bound(int64(agent.MaxConcurrent), gate.CeilingVoiceAgent)
		}
	}
	if people {
		bound(agents[string(acd.Available)]+agents[string(acd.OnCall)], gate.CeilingAgents)
	}
	allocated, err := tx.Q.ChannelsAllocated(ctx, row.TenantID)
	switch {
	case err != nil:
		return out, err
	case allocated.Trunks == 1:
		bound(int64(allocated.Channels), gate.CeilingTrunk)
	case allocated.Trunks > 1:
		bound(int64(allocated.Channels), gate.CeilingChannels)
	case row.MaxConcurrent == nil:
		bound(gate.FallbackChannels, gate.CeilingFallback)
	}
	return out, nil
}

// takesCalls tells who takes a campaign's calls first, and leaves everything as it is: a voice agent that would be created by
// the first call is none yet.
func (t *statistics) takesCalls(
	ctx context.Context, tx *store.Tx, row db.Campaign,
) (voiceAgent *uuid.UUID, people bool, err error) {
	switch campaigns.PostAnswerAction(row.PostAnswerAction) {
	case campaigns.ActionConnectAgent:
		return nil, true, nil
	case campaigns.ActionConnectVoiceAgent:
		if row.VoiceAgentID != nil {
			return row.VoiceAgentID, false, nil
		}
		owner, err := tx.Q.GetTenant(ctx, row.TenantID)
		return owner.DefaultVoiceAgentID, false, err
	case campaigns.ActionRunFlow:
	}
	plan, err := t.campaigns.Flow(ctx, tx, row)
	if _, missing := fault.As(err, fault.Dependency); missing {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if first := plan.Graph.FirstVoiceAgent(t.now()); first != nil {
		return &first.VoiceAgentID, false, nil
	}
	return nil, len(plan.Graph.AsksAgent(t.now())) > 0, nil
}

// ChannelsUsage tells the tenant's channel allocation and use.
func (t *statistics) ChannelsUsage(ctx context.Context, tenant uuid.UUID) (ChannelsUsage, error) {
	var out ChannelsUsage
	err := t.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		allocated, err := tx.Q.ChannelsAllocated(ctx, tenant)
		if err != nil {
			return err
		}
		used, err := tx.Q.ChannelsInUse(ctx, tenant)
		out.ChannelsAllocated, out.ChannelsInUse = int(allocated.Channels), int(used)
		out.Ceilings.Channels.Enforced = allocated.Trunks > 0
		return err
	})
	if err != nil {
		return ChannelsUsage{}, fault.Wrap("read channel usage", err)
	}
	return out, nil
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
