package agentbench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/integration/dbcost"
	"github.com/ringmaster/ringmaster/integration/rest"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/retry"
)

// Kinds of calls of a mix: the first two are not answered, the others leave three seconds after their answer.
const (
	KindBusy     = "busy"
	KindNoAnswer = "no_answer"
	KindAI       = "ai"
	KindAgent    = "agent"
	KindFlow     = "flow"
)

// Kinds lists them.
func Kinds() []string { return []string{KindBusy, KindNoAnswer, KindAI, KindAgent, KindFlow} }

// Calls is a load of set-ups with little audio: what a call costs beside its audio.
type Calls struct {
	// Rate is how many calls begin each second, Duration how long, and Warm how long before that, twice, which is not measured.
	Rate           int
	Duration, Warm time.Duration
	// Mix gives each kind its weight.
	Mix map[string]int
	// History is what the database has behind it.
	History dbcost.History
	// Wire is what the controller reaches its database through.
	Wire *dbcost.Wire
	// Profile is a file for the controller's CPU profile, Statements one for what each of the database's statements has cost; none when empty.
	Profile, Statements string
	// Progress, unless nil, is told of what goes on.
	Progress func(text string)
}

// ErrMix says that no call of a mix would be answered, or that a weight is wrong.
var ErrMix = errors.New("a mix needs weights of at least 0, and calls that are answered (ai, agent, flow)")

// Validate refuses a mix: ErrMix.
func (o Calls) Validate() error {
	for kind, weight := range o.Mix {
		if weight < 0 || !slices.Contains(Kinds(), kind) {
			return fmt.Errorf("%w: %s=%d", ErrMix, kind, weight)
		}
	}
	if o.answered() == 0 {
		return ErrMix
	}
	return nil
}

func (o Calls) answered() int { return o.Mix[KindAI] + o.Mix[KindAgent] + o.Mix[KindFlow] }

func (o Calls) total() int { return o.answered() + o.Mix[KindBusy] + o.Mix[KindNoAnswer] }

const (
	// callsCampaigns is from about how many campaigns calls come: they share the channels evenly, so that their numbers make the mix.
	callsCampaigns = 8
	// callsSpare is how many more leads there are than will be dialed: one in so many.
	callsSpare = 4
	// agentSeconds is for how long an agent's call takes the agent, ringing that nobody answers included, with room to spare.
	agentSeconds = 12
	// atRest is how long the parts are watched while nothing is dialed, settle until the database's counters have come.
	atRest = 5 * time.Second
	settle = dbcost.CountersLimit + time.Second
	// fillLimit bounds writing the history.
	fillLimit = 2 * time.Hour
)

// RunCalls loads a stack that is up.
func RunCalls(ctx context.Context, s *stack.Stack, o Calls, options Options) (*CallsResult, error) {
	options.Agents, options.Talk, options.Duration = 0, time.Hour, o.Duration
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Mix[KindAgent] > 0 {
		options.Agents = o.Rate*agentSeconds*o.Mix[KindAgent]/o.answered() + agentSeconds
	}
	b, end, err := openAs(ctx, s, options, dbcost.Application)
	if err != nil {
		return nil, err
	}
	defer end()
	run := &callsRun{bench: b, o: o}
	if err := run.fill(ctx); err != nil {
		return nil, err
	}
	preparing, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	if err := run.prepare(preparing); err != nil {
		return nil, err
	}
	return run.measure(ctx)
}

// callsRun is one run.
type callsRun struct {
	*bench
	o     Calls
	meter *dbcost.Meter
	began time.Time
}

func (r *callsRun) fill(ctx context.Context) error {
	if r.o.History.Calls == 0 && r.o.History.Leads == 0 {
		return nil
	}
	filling, cancel := context.WithTimeout(ctx, fillLimit)
	defer cancel()
	return dbcost.Fill(filling, r.stack.DatabaseAdminURL(), r.tenant.ID, r.o.History, func(what string, rows int64) {
		r.o.Progress(fmt.Sprintf("history: %s, %d rows", what, rows))
	})
}

// prepare makes agents and campaigns.
func (r *callsRun) prepare(ctx context.Context) error {
	if err := r.hire(ctx); err != nil {
		return err
	}
	if err := r.awaitPhones(ctx, len(r.agents)); err != nil {
		return err
	}
	if err := r.store.InTenant(ctx, r.tenant.ID, func(tx *store.Tx) error {
		channels := 30*r.o.Rate + 200
		if _, err := tx.Pgx().Exec(ctx, "UPDATE trunks SET cps = $2, max_channels = $3 WHERE tenant_id = $1", r.tenant.ID, r.o.Rate, channels); err != nil {
			return err
		}
		_, err := tx.Pgx().Exec(ctx, "UPDATE voice_agents SET max_concurrent = $2 WHERE tenant_id = $1", r.tenant.ID, channels)
		return err
	}); err != nil {
		return fmt.Errorf("widen the trunk and the voice agent: %w", err)
	}
	calls := r.o.Rate * int((r.o.Duration + 2*r.o.Warm).Seconds())
	number := 0
	for _, kind := range []string{KindAI, KindAgent, KindFlow} {
		weight := r.o.Mix[kind]
		if weight == 0 {
			continue
		}
		campaigns := max(1, (callsCampaigns*weight+r.o.answered()/2)/r.o.answered())
		leads := calls*weight/r.o.answered()/campaigns + calls/callsSpare + r.o.Rate
		for range campaigns {
			if err := r.prepareKind(ctx, kind, leads, &number); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepareKind makes a campaign whose answered calls are of a kind.
func (r *callsRun) prepareKind(ctx context.Context, kind string, leads int, number *int) error {
	body := map[string]any{
		"name": fmt.Sprintf("%s from %d", kind, *number), "dial_mode": "progressive", "max_attempts": 1, "ring_timeout_s": 15, "max_concurrent": nil,
		"post_answer_action": map[string]string{KindAI: "connect_voice_agent", KindAgent: "connect_agent", KindFlow: "run_flow"}[kind],
	}
	if kind == KindFlow {
		id, err := r.flow(ctx)
		if err != nil {
			return err
		}
		body["flow_id"] = id
	}
	var created struct {
		ID uuid.UUID `json:"id"`
	}
	if err := r.post(ctx, r.tenant.LiveKey, "/api/v1/campaigns", body, &created); err != nil {
		return err
	}
	r.campaigns = append(r.campaigns, created.ID)
	first := *number
	*number += leads
	return r.push(ctx, created.ID, leads, func(i int) string { return r.callee(first + i) })
}

// flow is the tenant's seeded one.
func (r *callsRun) flow(ctx context.Context) (id uuid.UUID, err error) {
	err = r.store.InTenant(ctx, r.tenant.ID, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(ctx, "SELECT id FROM flows WHERE tenant_id = $1 ORDER BY id LIMIT 1", r.tenant.ID).Scan(&id)
	})
	if err != nil {
		return id, fmt.Errorf("find the tenant's flow: %w", err)
	}
	return id, nil
}

// callee is the number of the i-th: by its last digits busy, unanswered, or one who leaves.
func (r *callsRun) callee(i int) string {
	const busy, noAnswer, leaves = 60, 61, 71
	ending := leaves
	switch n := r.rng.IntN(r.o.total()); {
	case n < r.o.Mix[KindBusy]:
		ending = busy
	case n < r.o.Mix[KindBusy]+r.o.Mix[KindNoAnswer]:
		ending = noAnswer
	}
	return fmt.Sprintf("98%06d%02d", i, ending)
}

// measure watches the parts at rest, dials, and waits until all is at rest again.
func (r *callsRun) measure(ctx context.Context) (*CallsResult, error) {
	meter, err := dbcost.NewMeter(ctx, r.stack.DatabaseAdminURL())
	if err != nil {
		return nil, err
	}
	defer func() { _ = meter.Close(context.WithoutCancel(ctx)) }()
	r.meter = meter
	defer r.serve(ctx)()
	if err := r.warm(ctx); err != nil {
		return nil, fmt.Errorf("dial without measuring: %w", err)
	}
	if err := retry.Pause(ctx, settle); err != nil {
		return nil, err
	}
	if r.o.Statements != "" { // what the extension writes is nothing that goes on at rest
		if err := meter.WatchStatements(ctx); err != nil {
			return nil, err
		}
	}
	idle, err := r.reading(ctx)
	if err != nil {
		return nil, err
	}
	if err := retry.Pause(ctx, atRest); err != nil {
		return nil, err
	}
	before, err := r.reading(ctx)
	if err != nil {
		return nil, err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- r.profile(ctx) }()
	if err := errors.Join(r.dial(ctx, r.o.Duration), <-profiled); err != nil {
		return nil, err
	}
	if err := retry.Pause(ctx, settle); err != nil {
		return nil, err
	}
	after, err := r.reading(ctx)
	if err != nil {
		return nil, err
	}
	if r.o.Statements != "" {
		if err := meter.WriteStatements(ctx, r.o.Statements); err != nil {
			return nil, err
		}
	}
	return r.callsResult(ctx, idle, before, after)
}

// profile takes the controller's profile while calls begin.
func (r *callsRun) profile(ctx context.Context) error {
	if r.o.Profile == "" {
		return nil
	}
	base := strings.TrimSuffix(r.stack.Bootstrap.MetricsURL, "/metrics")
	address := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", base, max(1, int(r.o.Duration.Seconds())))
	var raw []byte
	if err := (rest.Client{}).Do(ctx, http.MethodGet, address, nil, &raw); err != nil {
		return fmt.Errorf("take the controller's profile: %w", err)
	}
	return os.WriteFile(r.o.Profile, raw, 0o600)
}

// warm dials until the database has statistics of each table, and each connection its plans by these.
func (r *callsRun) warm(ctx context.Context) error {
	for range 2 {
		if err := r.meter.Tidy(ctx); err != nil {
			return err
		}
		if r.o.Warm > 0 {
			if err := r.dial(ctx, r.o.Warm); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve has the agents work until what it returns is called.
func (r *callsRun) serve(ctx context.Context) (stop func()) {
	driving, cancel := context.WithCancel(ctx)
	var driven sync.WaitGroup
	if len(r.agents) > 0 {
		driven.Go(func() { r.drive(driving, time.Now()) })
	}
	return func() {
		cancel()
		driven.Wait()
	}
}

// dial runs the campaigns so long and returns when nothing of their calls is left to do.
func (r *callsRun) dial(ctx context.Context, duration time.Duration) error {
	r.began = time.Now()
	if err := r.all(ctx, "start"); err != nil {
		return err
	}
	const each = 10 * time.Second
	for left := duration; left > 0; left -= each {
		if err := retry.Pause(ctx, min(left, each)); err != nil {
			return err
		}
		open, _, err := r.unfinished(ctx)
		if err != nil {
			return err
		}
		r.o.Progress(fmt.Sprintf("%4.0f s: %d calls open", time.Since(r.began).Seconds(), open))
	}
	if err := r.all(ctx, "pause"); err != nil {
		return err
	}
	for until := time.Now().Add(drainLimit); ; {
		open, jobs, err := r.unfinished(ctx)
		if err != nil {
			return err
		}
		if open == 0 && jobs == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w: %d open, %d jobs", errNotAtRest, open, jobs)
		}
		if err := retry.Pause(ctx, drivePause); err != nil {
			return err
		}
	}
}

// unfinished counts the calls that are open, and the jobs that are due.
func (r *callsRun) unfinished(ctx context.Context) (open, jobs int, err error) {
	err = r.store.InTenant(ctx, r.tenant.ID, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(ctx, `SELECT (SELECT count(*) FROM live_calls WHERE tenant_id = $1),
			(SELECT count(*) FROM river_job WHERE state IN ('available', 'running')) + (SELECT count(*) FROM recordings_due)`, r.tenant.ID).Scan(&open, &jobs)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count what is unfinished: %w", err)
	}
	return open, jobs, nil
}

// callsReading is everything at one moment.
type callsReading struct {
	at       time.Time
	parts    usage
	database dbcost.Used
	trips    int64
}

func (r *callsRun) reading(ctx context.Context) (out callsReading, err error) {
	if out.parts, err = r.usage(); err != nil {
		return out, err
	}
	if out.database, err = r.meter.Read(ctx); err != nil {
		return out, err
	}
	out.at, out.trips = time.Now(), r.o.Wire.RoundTrips()
	return out, nil
}

// reports are what the carrier's subscribers saw of the run's calls, by number.
func (r *callsRun) reports(ctx context.Context) (map[string]simcarrier.Report, error) {
	all, err := r.carrier.Calls(ctx, simcarrier.Filter{})
	if err != nil {
		return nil, err
	}
	out := make(map[string]simcarrier.Report, len(all))
	for _, report := range all {
		if report.Direction == simcarrier.Callee {
			out[lastTen(report.Number)] = report
		}
	}
	return out, nil
}

func lastTen(number string) string { return number[max(0, len(number)-10):] }

// named gives a database's URL an application_name.
func named(databaseURL, application string) (string, error) {
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		return "", fmt.Errorf("read the database's address: %w", err)
	}
	values := parsed.Query()
	values.Set("application_name", application)
	parsed.RawQuery = values.Encode()
	return parsed.String(), nil
}
