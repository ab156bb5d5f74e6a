package agentbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/integration/rest"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// Options are the size of a run.
type Options struct {
	// Agents is how many people are logged in, PerSecond how many calls the trunk lets begin each second, Campaigns from how many
	// campaigns they come: each dials one after the other.
	Agents, PerSecond, Campaigns int
	// Duration is how long calls are begun and audited.
	Duration time.Duration
	// Talk is the mean length of a conversation.
	Talk time.Duration
	// Faults is the mean time between two faults of a softphone, over all of them; 0 for none.
	Faults time.Duration
	// Seed makes what happens, though not when, the same.
	Seed uint64
	// Grace is how long a wrong state is borne.
	Grace time.Duration
	// Logger takes what goes on.
	Logger *slog.Logger
	// Progress, unless nil, is told of each audit.
	Progress func(Snapshot)
}

// Limits of the parts of a run.
const (
	prepareLimit = 3 * time.Minute
	drainLimit   = 60 * time.Second
	auditEvery   = time.Second
	drivePause   = 250 * time.Millisecond
	requestLimit = 20 * time.Second
)

// bench is one run.
type bench struct {
	o       Options
	stack   *stack.Stack
	store   *store.Store
	http    *http.Client
	carrier *simcarrier.Client
	tenant  stack.Tenant
	rng     *rand.Rand // of the driving goroutine

	campaigns []uuid.UUID
	agents    []*person
}

// Run loads a stack that is up, and gives what came of it. The error is of the run itself; wrong states are in the result.
func Run(ctx context.Context, s *stack.Stack, o Options) (*Result, error) {
	b, end, err := open(ctx, s, o)
	if err != nil {
		return nil, err
	}
	defer end()
	preparing, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	if err := errors.Join(b.hire(preparing), b.prepareCampaigns(preparing)); err != nil {
		return nil, err
	}
	return b.load(ctx)
}

// open reaches a stack; end lets go of it.
func open(ctx context.Context, s *stack.Stack, o Options) (b *bench, end func(), err error) {
	return openAs(ctx, s, o, "ringmaster")
}

// openAs has the database know its connections by a name.
func openAs(ctx context.Context, s *stack.Stack, o Options, application string) (b *bench, end func(), err error) {
	database, err := named(s.Bootstrap.DatabaseURL, application)
	if err != nil {
		return nil, nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	st, err := store.Open(ctx, store.Config{URL: database, MasterKey: s.MasterKey, MaxConns: 4, Logger: o.Logger})
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	b = &bench{
		o: o, stack: s, store: st, http: &http.Client{Transport: transport, Timeout: requestLimit}, tenant: s.Bootstrap.Tenants[0],
		rng: rand.New(rand.NewPCG(o.Seed, 7)),
	}
	b.carrier = &simcarrier.Client{BaseURL: strings.TrimSuffix(s.Bootstrap.PlaceInboundCallURL, "/inbound"), HTTP: b.http}
	return b, func() {
		transport.CloseIdleConnections()
		st.Close()
	}, nil
}

// prepareCampaigns gives the campaigns more leads than can be dialed.
func (b *bench) prepareCampaigns(ctx context.Context) error {
	if err := b.store.InTenant(ctx, b.tenant.ID, func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(ctx, "UPDATE trunks SET cps = $2, max_channels = $3 WHERE tenant_id = $1", b.tenant.ID, b.o.PerSecond, 4*b.o.Agents+100)
		return err
	}); err != nil {
		return fmt.Errorf("set the trunk's rate: %w", err)
	}
	wanted := b.o.PerSecond*int(b.o.Duration.Seconds()) + 200
	for i := range b.o.Campaigns {
		if err := b.prepareCampaign(ctx, i*wanted/b.o.Campaigns, (i+1)*wanted/b.o.Campaigns); err != nil {
			return err
		}
	}
	return nil
}

// prepareCampaign makes a campaign that dials the numbers of a range.
func (b *bench) prepareCampaign(ctx context.Context, first, end int) error {
	var created struct {
		ID uuid.UUID `json:"id"`
	}
	if err := b.post(ctx, b.tenant.LiveKey, "/api/v1/campaigns", map[string]any{
		"name": fmt.Sprintf("agents' load from %d", first), "dial_mode": "progressive", "post_answer_action": "connect_agent", "max_attempts": 1,
		"ring_timeout_s": 15, "max_concurrent": nil,
	}, &created); err != nil {
		return err
	}
	b.campaigns = append(b.campaigns, created.ID)
	return b.push(ctx, created.ID, end-first, func(i int) string { return b.number(first + i) })
}

// push gives a campaign so many leads.
func (b *bench) push(ctx context.Context, campaign uuid.UUID, n int, number func(int) string) error {
	const batch = 500
	for from := 0; from < n; from += batch {
		leads := make([]map[string]any, 0, batch)
		for i := from; i < min(from+batch, n); i++ {
			leads = append(leads, map[string]any{"phone": number(i)})
		}
		if err := b.post(ctx, b.tenant.LiveKey, "/api/v1/campaigns/"+campaign.String()+"/leads:bulk",
			map[string]any{"leads": leads}, nil); err != nil {
			return err
		}
	}
	return nil
}

// number gives the i-th callee: most talk until they are hung up, some hang up after three seconds, others are busy, decline,
// don't exist, have no line, or don't answer.
func (b *bench) number(i int) string {
	ending := b.rng.IntN(60)
	switch n := b.rng.IntN(100); {
	case n < 55:
	case n < 80:
		ending = 71
	case n < 87:
		ending = 60
	case n < 90:
		ending = 62
	case n < 93:
		ending = 63
	case n < 96:
		ending = 70
	default:
		ending = 61
	}
	return fmt.Sprintf("98%06d%02d", i, ending)
}

// load starts the campaign, drives the agents and audits until the time is over, and then until all is at rest.
func (b *bench) load(ctx context.Context) (*Result, error) {
	a, err := newAudit(ctx, b)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if err := b.all(ctx, "start"); err != nil {
		return nil, err
	}
	before, err := b.usage()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	driving, stop := context.WithCancel(ctx)
	driven := make(chan struct{})
	go func() {
		defer close(driven)
		b.drive(driving, began.Add(b.o.Duration))
	}()
	err = a.run(ctx, began.Add(b.o.Duration))
	var after usage
	if err == nil {
		after, err = b.usage()
	}
	took := time.Since(began)
	if err == nil {
		err = b.all(ctx, "stop")
	}
	if err == nil {
		err = a.rest(ctx, time.Now().Add(drainLimit))
	}
	stop()
	<-driven
	if err != nil {
		return nil, err
	}
	return b.result(ctx, a, took, after.since(before, took))
}

// all starts, pauses or stops every campaign; one whose calls fail too often has paused by itself.
func (b *bench) all(ctx context.Context, verb string) error {
	for _, id := range b.campaigns {
		err := b.post(ctx, b.tenant.LiveKey, "/api/v1/campaigns/"+id.String()+"/"+verb, nil, nil)
		if verb == "pause" {
			err = bear(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// post makes one request with a bearer token, and decodes the answer into `into` unless that is nil.
func (b *bench) post(ctx context.Context, token, path string, body, into any) error {
	return rest.Client{HTTP: b.http, Token: token}.Do(ctx, http.MethodPost, b.stack.Bootstrap.BaseURL+path, body, into)
}

// bear takes a conflict, which a person may well be told in the midst of things: the state has changed since it was read.
func bear(err error) error {
	if refused, ok := errors.AsType[*rest.StatusError](err); ok && refused.Status == http.StatusConflict {
		return nil
	}
	return err
}
