package supervisors

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Floor is what goes on at a tenant's: the agents, the callers who wait for one, the calls that voice agents have, and the day's figures.
type Floor struct {
	Agents []Agent `json:"agents"`
	// Queue is that of all hosts, in the callers' turn; a host's agents take the callers that are there.
	Queue   []QueuedCall `json:"queue"`
	AICalls []AICall     `json:"ai_calls"`
	KPIs    KPIs         `json:"kpis"`
}

// Agent is one on the floor.
type Agent struct {
	acd.Agent

	LoggedInAt *time.Time `json:"logged_in_at"`
	// Call is the one that the agent is on; nil for none.
	Call *Call `json:"call"`
}

// Call is an agent's.
type Call struct {
	ID               uuid.UUID  `json:"id"`
	CampaignID       *uuid.UUID `json:"campaign_id"`
	LeadID           *uuid.UUID `json:"lead_id"`
	Direction        string     `json:"direction"`
	From             string     `json:"from"`
	To               string     `json:"to"`
	Status           string     `json:"status"`
	AnswerTime       *time.Time `json:"answer_time"`
	AgentConnectTime *time.Time `json:"agent_connect_time"`
	// DurationS is since the answer; 0 before.
	DurationS int `json:"duration_s"`
}

// QueuedCall is a caller who waits for an agent.
type QueuedCall struct {
	CallID     uuid.UUID  `json:"call_id"`
	CampaignID *uuid.UUID `json:"campaign_id"`
	Position   int        `json:"position"`
	QueuedAt   time.Time  `json:"queued_at"`
	WaitingS   int        `json:"waiting_s"`
}

// AICall is a call that a voice agent has.
type AICall struct {
	CallID       uuid.UUID `json:"call_id"`
	VoiceAgentID uuid.UUID `json:"voice_agent_id"`
	// StartedAt is when the voice agent's session began, from which DurationS counts.
	StartedAt time.Time `json:"started_at"`
	DurationS int       `json:"duration_s"`
	// Escalation is the newest request for a supervisor; nil for none.
	Escalation *Escalation `json:"escalation"`
}

// KPIs are figures of the floor. The day begins at midnight where the callees are; calls of test keys don't count.
type KPIs struct {
	CallsLive  int64 `json:"calls_live"`
	CallsToday int64 `json:"calls_today"`
	// AnswerRate is of the calls that have ended today, AbandonRate24h of those of campaigns that people have answered in the last 24 hours.
	AnswerRate     float64 `json:"answer_rate"`
	AbandonRate24h float64 `json:"abandon_rate_24h"`
	// AvgWaitS is how long callers waited today whom an agent took.
	AvgWaitS        float64 `json:"avg_wait_s"`
	AgentsAvailable int     `json:"agents_available"`
	AgentsOnCall    int     `json:"agents_on_call"`
}

// Floor reads what goes on.
func (s *Service) Floor(ctx context.Context, tenant uuid.UUID) (Floor, error) {
	agents, err := s.cfg.Queue.ListAgents(ctx, tenant)
	if err != nil {
		return Floor{}, fault.Wrap("read floor", err)
	}
	day, err := s.figures.figuresOf(ctx, tenant)
	if err != nil {
		return Floor{}, fault.Wrap("read floor", err)
	}
	now := s.now()
	var out Floor
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		out = Floor{Agents: make([]Agent, 0, len(agents)), KPIs: day}
		var err error
		if out.Queue, err = s.queue(ctx, tx, tenant, now); err != nil {
			return err
		}
		calls, err := agentCalls(ctx, tx, tenant, now)
		if err != nil {
			return err
		}
		for _, a := range agents {
			shown := Agent{Agent: a, LoggedInAt: a.LoggedInAt}
			if a.CurrentCallUUID != nil {
				shown.Call = calls[*a.CurrentCallUUID]
			}
			out.Agents = append(out.Agents, shown)
		}
		if out.AICalls, err = aiCalls(ctx, tx, tenant, now); err != nil {
			return err
		}
		out.KPIs.CallsLive, err = tx.Q.FloorLive(ctx, tenant)
		return err
	})
	for _, a := range out.Agents {
		switch a.Status {
		case acd.Available:
			out.KPIs.AgentsAvailable++
		case acd.OnCall:
			out.KPIs.AgentsOnCall++
		case acd.WrapUp, acd.Paused, acd.Offline:
		}
	}
	return out, fault.Wrap("read floor", err)
}

// queue lists who waits: here, as the queue's service has them, and at other hosts, as their rows say.
func (s *Service) queue(ctx context.Context, tx *store.Tx, tenant uuid.UUID, now time.Time) ([]QueuedCall, error) {
	waiting := s.cfg.Queue.Waiting(tenant)
	others, err := tx.Q.FloorQueue(ctx, tenant, s.cfg.NodeID)
	if err != nil {
		return nil, err
	}
	for _, o := range others {
		w := acd.Waiter{Call: o.CallID, Priority: int(o.WaitPriority), Since: o.WaitsSince}
		if o.CampaignID != nil {
			w.Campaign = *o.CampaignID
		}
		waiting = append(waiting, w)
	}
	if len(others) > 0 {
		slices.SortStableFunc(waiting, func(a, b acd.Waiter) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Since.Compare(b.Since))
		})
	}
	out := make([]QueuedCall, len(waiting))
	for i, w := range waiting {
		out[i] = QueuedCall{CallID: w.Call, Position: i + 1, QueuedAt: w.Since.UTC(), WaitingS: seconds(w.Since, now)}
		if w.Campaign != uuid.Nil {
			out[i].CampaignID = &waiting[i].Campaign
		}
	}
	return out, nil
}

func agentCalls(ctx context.Context, tx *store.Tx, tenant uuid.UUID, now time.Time) (map[uuid.UUID]*Call, error) {
	rows, err := tx.Q.FloorAgentCalls(ctx, tenant)
	out := make(map[uuid.UUID]*Call, len(rows))
	for _, c := range rows {
		shown := &Call{
			ID: c.ID, CampaignID: c.CampaignID, LeadID: c.LeadID, Direction: c.Direction, From: c.FromNumber.Reveal(), To: c.ToNumber.Reveal(),
			Status: c.Status, AnswerTime: utc(c.AnswerTime), AgentConnectTime: utc(c.AgentConnectTime),
		}
		if store.PrivacyMode(c.PrivacyMode) == store.PrivacyStrict {
			// The tenant's own number is no secret; the peer's may be from before the tenant was strict.
			if c.Direction == "inbound" {
				shown.From = c.FromNumber.Mask()
			} else {
				shown.To = c.ToNumber.Mask()
			}
		}
		if c.AnswerTime != nil {
			shown.DurationS = seconds(*c.AnswerTime, now)
		}
		out[c.ID] = shown
	}
	return out, err
}

func aiCalls(ctx context.Context, tx *store.Tx, tenant uuid.UUID, now time.Time) ([]AICall, error) {
	rows, err := tx.Q.FloorAICalls(ctx, tenant)
	if err != nil {
		return nil, err
	}
	asked, err := tx.Q.FloorEscalations(ctx, tenant)
	of := make(map[uuid.UUID]*Escalation, len(asked))
	for _, row := range asked {
		e := escalationOf(row)
		of[row.CallID] = &e
	}
	out := make([]AICall, len(rows))
	for i, r := range rows {
		out[i] = AICall{
			CallID: r.CallID, VoiceAgentID: r.VoiceAgentID, StartedAt: r.StartedAt.UTC(), DurationS: seconds(r.StartedAt, now), Escalation: of[r.CallID],
		}
	}
	return out, err
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := t.UTC()
	return &at
}

func seconds(since, now time.Time) int { return int(max(0, now.Sub(since)) / time.Second) }

const (
	// figuresFor is how long the day's figures of a tenant are shown, figuresShare the part of the time that counting them may take.
	figuresFor   = 5 * time.Second
	figuresShare = 20
	// figuresKept is how long they are kept that nobody asks for.
	figuresKept = 10 * time.Minute
	// figuresTimeout bounds a count.
	figuresTimeout = 4 * time.Second
)

// figureCache has the day's figures of tenants, which count all calls of a day.
type figureCache struct {
	s     *Service
	count func(ctx context.Context, tenant uuid.UUID, now time.Time) (db.FloorFiguresRow, error)

	mu       sync.Mutex
	byTenant map[uuid.UUID]*countedFigures
}

type countedFigures struct {
	kpis  KPIs
	at    time.Time // zero before the first count
	until time.Time
	// counting is closed at the end of the count that goes on; nil for none. err is why the last one failed.
	counting chan struct{}
	err      error
}

func newFigureCache(s *Service) *figureCache {
	c := &figureCache{s: s, byTenant: map[uuid.UUID]*countedFigures{}}
	c.count = c.counted
	return c
}

// figuresOf counts, or gives what was counted before: a moment ago, or while another counts, or when counting fails.
func (c *figureCache) figuresOf(ctx context.Context, tenant uuid.UUID) (KPIs, error) {
	now := c.s.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.byTenant[tenant]
	if f == nil {
		f = &countedFigures{}
		c.byTenant[tenant] = f
	}
	switch {
	case !f.at.IsZero() && (f.counting != nil || now.Before(f.until) && !now.Before(f.at)):
		return f.kpis, nil
	case f.counting != nil:
		counting := f.counting
		c.mu.Unlock()
		select {
		case <-counting:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if err := ctx.Err(); err != nil {
			return KPIs{}, err
		}
		return f.kpis, f.err
	}
	c.renew(ctx, tenant, f, now)
	return f.kpis, f.err
}

// renew counts, for all who ask meanwhile, and so whether or not the first of them stays. It takes the lock held and gives it back so.
func (c *figureCache) renew(ctx context.Context, tenant uuid.UUID, f *countedFigures, now time.Time) {
	f.counting = make(chan struct{})
	began := time.Now()
	row, err := db.FloorFiguresRow{}, errNotCounted
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		close(f.counting)
		f.counting = nil
		f.until = now.Add(max(figuresFor, figuresShare*time.Since(began)))
		switch {
		case err == nil:
			f.at, f.err, f.kpis = now, nil, KPIs{
				CallsToday: row.CallsToday, AnswerRate: figures.Share(float64(row.CompletedToday), row.EndedToday, 4),
				AbandonRate24h: figures.Share(float64(row.Abandoned), row.Persons, 4), AvgWaitS: figures.Share(row.WaitS, 1, 1),
			}
		case f.at.IsZero() || now.Sub(f.at) > figuresKept:
			f.at, f.err = time.Time{}, err
		}
		for id, old := range c.byTenant {
			if old.counting == nil && now.Sub(old.at) > figuresKept {
				delete(c.byTenant, id)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), figuresTimeout)
	defer cancel()
	row, err = c.count(ctx, tenant, now)
}

// errNotCounted is what others hear of a count that panicked.
var errNotCounted = errors.New("the day's figures were not counted")

func (c *figureCache) counted(ctx context.Context, tenant uuid.UUID, now time.Time) (row db.FloorFiguresRow, err error) {
	here := now.In(c.s.cfg.Zone)
	today := time.Date(here.Year(), here.Month(), here.Day(), 0, 0, 0, 0, c.s.cfg.Zone)
	day := now.Add(-24 * time.Hour) // before today began, but for a day of more than 24 hours
	from := day
	if today.Before(from) {
		from = today
	}
	err = c.s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if err := tx.Q.PlanByValues(ctx); err != nil {
			return err
		}
		row, err = tx.Q.FloorFigures(ctx, db.FloorFiguresParams{
			TenantID: tenant, Today: today, Day: day, FromID: store.IDFloor(from.Add(-auditSkew)),
		})
		return err
	})
	return row, err
}
