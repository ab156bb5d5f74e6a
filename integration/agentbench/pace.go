package agentbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// Pace is a campaign of people paced by the real pacer over a simulated carrier: who answers and when, and how long agents talk
// and wrap up, is drawn as in the simulation of pacing. The clock is real.
type Pace struct {
	// Mode is predictive or progressive.
	Mode   string
	Agents int
	// AnswerRate is the share of the callees who answer.
	AnswerRate float64
	// Ring, Talk and WrapUp draw how long an answered call rings, a conversation lasts and a wrap-up takes.
	Ring, Talk, WrapUp func(*rand.Rand) time.Duration
	// Handle is the mean of conversation and wrap-up: it says how many leads there must be.
	Handle      time.Duration
	RingTimeout time.Duration
	MaxWait     time.Duration
	Duration    time.Duration
	Seed        uint64
	Progress    func(Paced)
}

// Paced is what came of it.
type Paced struct {
	Mode   string        `json:"mode"`
	Agents int           `json:"agents"`
	Took   time.Duration `json:"took"`
	Dialed int           `json:"dialed"`
	// Answered counts the calls that a person answered, Abandoned those of them that found no agent in time.
	Answered  int `json:"answered"`
	Connected int `json:"connected"`
	Abandoned int `json:"abandoned"`
	// Utilisation is the share of the agents' time in conversation and wrap-up.
	Utilisation float64 `json:"utilisation"`
	AbandonRate float64 `json:"abandon_rate"`
	// Overdialed is the share of the looks, one a second, at which the campaign over-dialed; Lines the mean of the lines per
	// agent that it told.
	Overdialed float64 `json:"overdialed"`
	Lines      float64 `json:"lines_per_agent"`
	// Status is the campaign's in the end: paused where the guard has paused it.
	Status string             `json:"status"`
	CPU    map[string]float64 `json:"cpu"`
}

const (
	paceLook = 100 * time.Millisecond
	maxCPS   = 200
)

// RunPace runs it on a stack that is up.
func RunPace(ctx context.Context, s *stack.Stack, o Pace, options Options) (*Paced, error) {
	b, end, err := open(ctx, s, options)
	if err != nil {
		return nil, err
	}
	defer end()
	b.o.Agents = o.Agents
	preparing, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	if err := errors.Join(b.hire(preparing), b.preparePace(preparing, o)); err != nil {
		return nil, err
	}
	if err := b.awaitPhones(preparing, o.Agents); err != nil {
		return nil, err
	}
	return b.pace(ctx, o)
}

// preparePace draws the callees and gives the campaign its leads.
func (b *bench) preparePace(ctx context.Context, o Pace) error {
	rng := rand.New(rand.NewPCG(o.Seed, 11)) //nolint:gosec // seeded
	const sample = 4000
	ms := make([]int, sample)
	for i := range ms {
		ring := o.Ring(rng)
		for ring >= o.RingTimeout {
			ring = o.Ring(rng)
		}
		ms[i] = max(1, int(ring.Milliseconds()))
		if rng.Float64() >= o.AnswerRate {
			// A little before the switch's own time-out, which would come too late by the time that the carrier needs.
			ms[i] = -int(o.RingTimeout.Milliseconds())
		}
	}
	if err := b.carrier.SetRings(ctx, ms); err != nil {
		return err
	}
	if err := b.store.InTenant(ctx, b.tenant.ID, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(ctx, "UPDATE trunks SET cps = $2, max_channels = $3 WHERE tenant_id = $1", b.tenant.ID, maxCPS, 40*o.Agents+100)
		return err
	}); err != nil {
		return fmt.Errorf("set the trunk's rate: %w", err)
	}
	var created struct {
		ID uuid.UUID `json:"id"`
	}
	if err := b.post(ctx, b.tenant.LiveKey, "/api/v1/campaigns", map[string]any{
		"name": "pace", "dial_mode": o.Mode, "post_answer_action": "connect_agent", "max_attempts": 1,
		"ring_timeout_s": int(o.RingTimeout.Seconds()) + 2, "max_concurrent": nil, "predictive_max_wait_s": o.MaxWait.Seconds(), "wrap_up_s": 600,
	}, &created); err != nil {
		return err
	}
	b.campaigns = []uuid.UUID{created.ID}
	leads := int(1.5*float64(o.Agents)*o.Duration.Seconds()/o.Handle.Seconds()/o.AnswerRate) + 20*o.Agents + 200
	return b.push(ctx, created.ID, leads, func(i int) string { return fmt.Sprintf("98%06d%02d", i, i%60) })
}

// errNoPhones says that not every agent's leg came up.
var errNoPhones = errors.New("agents have no phone")

// awaitPhones waits until all agents are ready to be dialed for.
func (b *bench) awaitPhones(ctx context.Context, agents int) error {
	for {
		states, err := b.carrier.Agents(ctx)
		if err != nil {
			return err
		}
		up := 0
		for _, s := range states {
			if s.Call != nil && s.Call.Live && s.Call.AnsweredAt != nil {
				up++
			}
		}
		if up >= agents {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d are up", errNoPhones, up, agents)
		case <-time.After(paceLook):
		}
	}
}

// pace starts the campaign and plays the agents until the time is over.
func (b *bench) pace(ctx context.Context, o Pace) (*Paced, error) {
	before, err := b.usage()
	if err != nil {
		return nil, err
	}
	if err := b.all(ctx, "start"); err != nil {
		return nil, err
	}
	began := time.Now()
	looks, overdials, lines := 0, 0, 0.0
	tick := time.NewTicker(paceLook)
	defer tick.Stop()
	for nextLook := began; time.Since(began) < o.Duration; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		if err := b.playAgents(ctx, o); err != nil {
			return nil, err
		}
		if time.Now().Before(nextLook) {
			continue
		}
		nextLook = nextLook.Add(time.Second)
		mode, perAgent, err := b.paceTold(ctx)
		if err != nil {
			return nil, err
		}
		looks++
		lines += perAgent
		if mode == "predictive" {
			overdials++
		}
		if o.Progress != nil && looks%10 == 0 {
			now, err := b.paced(ctx, o, began, time.Now())
			if err != nil {
				return nil, err
			}
			now.Lines, now.Overdialed = lines/float64(looks), float64(overdials)/float64(looks)
			o.Progress(*now)
		}
	}
	ended := time.Now()
	out, err := b.paced(ctx, o, began, ended)
	if err != nil {
		return nil, err
	}
	after, err := b.usage()
	if err != nil {
		return nil, err
	}
	out.CPU = after.since(before, ended.Sub(began))
	out.Lines, out.Overdialed = lines/float64(max(1, looks)), float64(overdials)/float64(max(1, looks))
	if out.Status == "running" {
		err = b.all(ctx, "stop")
	}
	return out, err
}

// playAgents ends the conversations and wrap-ups that are due. A duration is drawn once for each and counts from when it began.
func (b *bench) playAgents(ctx context.Context, o Pace) error {
	rows, err := b.standings(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	var working sync.WaitGroup
	for _, p := range b.agents {
		row := rows[p.id]
		switch {
		case row.status == "on_call" && row.connected:
			if p.call != row.call {
				p.call, p.endAt = row.call, row.since.Add(o.Talk(p.rng))
				p.disposeAt = time.Time{}
			}
			if now.Before(p.endAt) {
				continue
			}
			p.endAt = now.Add(2 * time.Second)
			working.Go(func() { b.logged(ctx, bear(b.post(ctx, p.token, "/api/agent/hangup", map[string]any{}, nil))) })
		case row.status == "wrap_up":
			if p.disposeAt.IsZero() {
				p.disposeAt = row.since.Add(o.WrapUp(p.rng))
			}
			if now.Before(p.disposeAt) {
				continue
			}
			p.disposeAt = now.Add(2 * time.Second)
			working.Go(func() {
				b.logged(ctx, bear(b.post(ctx, p.token, "/api/agent/dispose", map[string]any{"call_id": row.last, "disposition": "sold"}, nil)))
			})
		case row.status == "paused":
			working.Go(func() {
				b.logged(ctx, bear(b.post(ctx, p.token, "/api/agent/status", map[string]any{"status": "available"}, nil)))
			})
		case row.status == "available":
			p.disposeAt = time.Time{}
		}
	}
	working.Wait()
	return nil
}

func (b *bench) logged(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		b.o.Logger.WarnContext(ctx, "an agent was refused", "error", err)
	}
}

// paceTold is what the pacer tells of itself; nothing before its first plan.
func (b *bench) paceTold(ctx context.Context) (mode string, lines float64, err error) {
	err = b.store.InTenant(ctx, b.tenant.ID, func(tx *store.Tx) error {
		told, err := tx.Q.PaceGet(ctx, b.tenant.ID, b.campaigns[0])
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		mode, lines = told.Mode, told.LinesPerAgent
		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("read the campaign's pace: %w", err)
	}
	return mode, lines, nil
}

// paced counts what happened between two moments.
func (b *bench) paced(ctx context.Context, o Pace, began, ended time.Time) (*Paced, error) {
	out := &Paced{Mode: o.Mode, Agents: o.Agents, Took: ended.Sub(began)}
	err := b.store.InTenant(ctx, b.tenant.ID, func(tx *store.Tx) error {
		if err := tx.Pgx().QueryRow(ctx, `SELECT count(*), count(answer_time), count(agent_connect_time), count(*) FILTER (WHERE abandoned)
			FROM calls WHERE tenant_id = $1 AND campaign_id = $2`, b.tenant.ID, b.campaigns[0]).
			Scan(&out.Dialed, &out.Answered, &out.Connected, &out.Abandoned); err != nil {
			return err
		}
		if err := tx.Pgx().QueryRow(ctx, "SELECT status FROM campaigns WHERE tenant_id = $1 AND id = $2", b.tenant.ID, b.campaigns[0]).
			Scan(&out.Status); err != nil {
			return err
		}
		var busy float64
		err := tx.Pgx().QueryRow(ctx, `SELECT coalesce(sum(extract(epoch FROM least(s.until, $3) - greatest(s.at, $2))), 0)::float8 FROM (
			SELECT l.status, l.at, coalesce(lead(l.at) OVER (PARTITION BY l.agent_id ORDER BY l.version), $3) AS until
			FROM agent_status_log l WHERE l.tenant_id = $1) s
			WHERE s.status IN ('on_call', 'wrap_up') AND s.until > $2 AND s.at < $3`, b.tenant.ID, began, ended).Scan(&busy)
		out.Utilisation = busy / (float64(o.Agents) * out.Took.Seconds())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count what the pacer did: %w", err)
	}
	out.AbandonRate = float64(out.Abandoned) / math.Max(1, float64(out.Answered))
	return out, nil
}

// Expected is what the simulation says of the same campaign: means over seeds, with the standard deviation of one run.
type Expected struct {
	Seeds              int     `json:"seeds"`
	Utilisation        float64 `json:"utilisation"`
	UtilisationSD      float64 `json:"utilisation_sd"`
	AbandonRate        float64 `json:"abandon_rate"`
	AbandonRateSD      float64 `json:"abandon_rate_sd"`
	AnsweredPerAgentHr float64 `json:"answered_per_agent_hour"`
}

// Compared is a run beside the simulation.
type Compared struct {
	Measured  Paced    `json:"measured"`
	Simulated Expected `json:"simulated"`
}

// Within tells whether utilisation and abandon rate lie within so many standard deviations of the simulation's.
func (c Compared) Within(deviations float64) bool {
	near := func(got, want, sd float64) bool { return math.Abs(got-want) <= deviations*math.Max(sd, 0.005) }
	return near(c.Measured.Utilisation, c.Simulated.Utilisation, c.Simulated.UtilisationSD) &&
		near(c.Measured.AbandonRate, c.Simulated.AbandonRate, c.Simulated.AbandonRateSD)
}

// Print writes the comparison for people.
func (c Compared) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) }
	m, s := c.Measured, c.Simulated
	perHour := float64(m.Answered) / float64(m.Agents) / m.Took.Hours()
	p("%s, %d agents, %s\tmeasured\tsimulated (%d seeds)", m.Mode, m.Agents, m.Took.Round(time.Second), s.Seeds)
	p("utilisation\t%.1f%%\t%.1f%% ± %.1f", 100*m.Utilisation, 100*s.Utilisation, 100*s.UtilisationSD)
	p("abandoned\t%.2f%%\t%.2f%% ± %.2f", 100*m.AbandonRate, 100*s.AbandonRate, 100*s.AbandonRateSD)
	p("answered per agent and hour\t%.1f\t%.1f", perHour, s.AnsweredPerAgentHr)
	p("calls\t%d dialed, %d answered, %d with an agent, %d abandoned\t", m.Dialed, m.Answered, m.Connected, m.Abandoned)
	p("over-dialing\t%.0f%% of the time, %.2f lines per agent\t", 100*m.Overdialed, m.Lines)
	for _, part := range []string{"controller", "switch"} {
		p("CPU: %s\t%.2f\t", part, m.CPU[part])
	}
	p("campaign\t%s\t", m.Status)
	return t.Flush()
}
