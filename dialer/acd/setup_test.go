package acd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// fakeSwitch has phones that are up as soon as they are held, unless a test says otherwise.
type fakeSwitch struct {
	mu      sync.Mutex
	watcher phone.Watcher
	held    map[uuid.UUID]phone.Spec
	down    map[uuid.UUID]bool // extensions' agents whose phone doesn't come up
	hungUp  []uuid.UUID
	forgot  []string // extensions whose account the switch was told to look up anew, and whose phone to forget
	freed   int      // how often a phone was released
	// forgetting, if any, is called while the switch is told to forget a password.
	forgetting func()
	calls      map[uuid.UUID]uuid.UUID // that phones are in
}

func (f *fakeSwitch) HoldPhone(_ context.Context, p phone.Spec) error {
	f.mu.Lock()
	f.held[p.AgentID] = p
	up := !f.down[p.AgentID]
	f.mu.Unlock()
	if up {
		f.watcher.PhoneChanged(phone.State{TenantID: p.TenantID, AgentID: p.AgentID, Up: true})
	}
	return nil
}

func (f *fakeSwitch) ReleasePhone(_ context.Context, agent uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, agent)
	f.freed++
	return nil
}

func (f *fakeSwitch) ForgetAccount(_ context.Context, extension, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = append(f.forgot, extension)
	if f.forgetting != nil {
		f.mu.Unlock()
		defer f.mu.Lock()
		f.forgetting()
	}
	return nil
}

func (f *fakeSwitch) ForgetPhone(_ context.Context, extension, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = append(f.forgot, "phone of "+extension)
	return nil
}

func (f *fakeSwitch) RingPhone(context.Context, uuid.UUID, bool) error { return nil }

func (f *fakeSwitch) Phones() []phone.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]phone.State, 0, len(f.held))
	for id, p := range f.held {
		state := phone.State{TenantID: p.TenantID, AgentID: id, Up: !f.down[id]}
		if call, in := f.calls[id]; in {
			state.CallID = &call
		}
		out = append(out, state)
	}
	return out
}

// inCall has an agent's phone be in a call.
func (f *fakeSwitch) inCall(agent, call uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[uuid.UUID]uuid.UUID{}
	}
	f.calls[agent] = call
}

func (f *fakeSwitch) Hangup(_ context.Context, _, call uuid.UUID, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hungUp = append(f.hungUp, call)
	return nil
}

// setPhone makes an agent's phone come or go, and tells.
func (f *fakeSwitch) setPhone(tenant, agent uuid.UUID, up bool, reason string) {
	f.mu.Lock()
	f.down[agent] = !up
	f.mu.Unlock()
	f.watcher.PhoneChanged(phone.State{TenantID: tenant, AgentID: agent, Up: up, Reason: reason})
}

func (f *fakeSwitch) holds(agent uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.held[agent]
	return ok
}

func (f *fakeSwitch) releases() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.freed
}

func (f *fakeSwitch) hangups() []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]uuid.UUID(nil), f.hungUp...)
}

type bundle struct {
	st     *store.Store
	tenant uuid.UUID
	clock  *storetest.Clock
	svc    *Service
	sw     *fakeSwitch
	ready  chan uuid.UUID
}

// setup gives a service that is not running, on a database of its own.
func setup(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	st := storetest.New(t)
	b := &bundle{st: st, tenant: storetest.Tenant(t, st), clock: storetest.NewClock(time.Now()), ready: make(chan uuid.UUID, 1000)}
	b.svc, b.sw = b.node(t, "node-1", change...)
	return b
}

// node gives one more controller's service on the same database.
func (b *bundle) node(t *testing.T, name string, change ...func(*Config)) (*Service, *fakeSwitch) {
	t.Helper()
	cfg := Config{
		NodeID: name, Accounts: NewAccounts(b.st, []byte("key of tests"), "sip.test"), Now: b.clock.Now, Every: 20 * time.Millisecond,
		Changed: func(tenant uuid.UUID) {
			select {
			case b.ready <- tenant:
			default:
			}
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	svc, err := New(cfg, b.st)
	require.NoError(t, err)
	return svc, &fakeSwitch{watcher: svc, held: map[uuid.UUID]phone.Spec{}, down: map[uuid.UUID]bool{}}
}

// run runs a service until the test, or what run returns, ends it.
func run(t *testing.T, svc *Service, sw Switch) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx, sw) }()
	<-svc.loaded
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// agent adds a user who is an agent, with the next free extension.
func (b *bundle) agent(t *testing.T, tags ...string) uuid.UUID {
	t.Helper()
	if tags == nil {
		tags = []string{}
	}
	id := storetest.NewID(t)
	n := storetest.Count(t, b.st, "SELECT count(*) FROM users")
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension, tags)
		VALUES ($1, $2, $3, 'x', 'agent', ($4::int + 1000)::text, $5)`, b.tenant, id, randomName(t)+"@acd.test", n, tags)
	return id
}

// online adds an agent and logs them in.
func (b *bundle) online(t *testing.T, tags ...string) uuid.UUID {
	t.Helper()
	id := b.agent(t, tags...)
	_, err := b.svc.Login(t.Context(), b.tenant, id, LoginInput{})
	require.NoError(t, err)
	return id
}

func (b *bundle) status(t *testing.T, agent uuid.UUID) Status {
	t.Helper()
	a, err := b.svc.GetAgent(t.Context(), b.tenant, agent)
	require.NoError(t, err)
	return a.Status
}

// force puts an agent's row into a state as a test needs it.
func (b *bundle) force(t *testing.T, agent uuid.UUID, s Status, call *uuid.UUID) {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO agents (tenant_id, id, status, node, last_status_at, logged_in_at, idle_since,
		current_call_id, last_call_id, version) VALUES ($1, $2, $3, 'node-1', $4, CASE WHEN $3 <> 'offline' THEN $4::timestamptz END,
		$4, CASE WHEN $3 = 'on_call' THEN $5::uuid END, $5::uuid, 1)
		ON CONFLICT (tenant_id, id) DO UPDATE SET status = excluded.status, logged_in_at = excluded.logged_in_at,
		idle_since = excluded.idle_since, current_call_id = excluded.current_call_id, last_call_id = excluded.last_call_id,
		wrap_up_until = NULL, last_status_at = excluded.last_status_at, version = agents.version + 1`,
		b.tenant, agent, string(s), b.clock.Now(), call)
}

func randomName(t *testing.T) string {
	t.Helper()
	var raw [6]byte
	_, err := rand.Read(raw[:])
	require.NoError(t, err)
	return hex.EncodeToString(raw[:])
}
