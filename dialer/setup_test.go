package dialer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// fakeRegistry lists the numbers that it is given, or can't answer.
type fakeRegistry struct {
	mu     sync.Mutex
	listed map[string]bool
	silent map[string]bool // numbers that it can't answer for
	down   bool
	asked  int
}

var errRegistryDown = errors.New("registry is down")

func (r *fakeRegistry) Listed(_ context.Context, phones []store.Phone) ([]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.down {
		return nil, errRegistryDown
	}
	out := make([]bool, len(phones))
	for i, p := range phones {
		if r.silent[p.National()] {
			return nil, errRegistryDown
		}
		out[i] = r.listed[p.National()]
	}
	return out, nil
}

func (r *fakeRegistry) add(numbers ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range numbers {
		r.listed[n] = true
	}
}

func (r *fakeRegistry) silentOn(number string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent == nil {
		r.silent = make(map[string]bool)
	}
	r.silent[number] = true
}

func (r *fakeRegistry) setDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

// fakePrompts has all audio at hand. From the first call of lose on it has what it was asked for and what was not lost.
type fakePrompts struct {
	mu      sync.Mutex
	missing map[string]bool
	got     map[string]bool
	asked   int
}

func (p *fakePrompts) Path(_ context.Context, _, url string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if p.missing[url] {
		return "", switchctl.ErrAudio
	}
	p.got[url] = true
	return "/" + url, nil
}

func (p *fakePrompts) Ready(url string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return "/" + url, p.got[url] || p.missing == nil
}

// lose has a URL give nothing from now on, or again.
func (p *fakePrompts) lose(url string, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.missing == nil {
		p.missing = make(map[string]bool)
	}
	p.missing[url] = lost
}

type bundle struct {
	svc      *Service
	calls    desk.Calls // the test's own, and the desk that has them
	desk     *desk.Desk
	st       *store.Store
	tenant   uuid.UUID
	registry *fakeRegistry
	clock    *storetest.Clock
	prompts  *fakePrompts
	fresh    atomic.Int64
}

// freshNumber is a subscriber's whom no other lead of the tenant has.
func (b *bundle) freshNumber() string { return fmt.Sprintf("98760%05d", b.fresh.Add(1)) }

// setup gives a dialer whose law allows calls around the clock, and a tenant with a trunk and a number.
func setup(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	return setupOn(t, storetest.New(t), change...)
}

func setupOn(tb testing.TB, st *store.Store, change ...func(*Config)) *bundle {
	tb.Helper()
	b := &bundle{
		st: st, registry: &fakeRegistry{listed: make(map[string]bool)}, clock: storetest.NewClock(time.Now()),
		tenant: storetest.Tenant(tb, st), prompts: &fakePrompts{got: make(map[string]bool)},
	}
	b.svc = b.another(tb, "node-1", change...)
	return b
}

// another gives a second dialer on the same database.
func (b *bundle) another(tb testing.TB, node string, change ...func(*Config)) *Service {
	tb.Helper()
	cfg := Config{
		NodeID: node, Guard: netguard.Policy{AllowLoopback: true}, Legal: Hours{From: "00:00", To: "24:00"}, DNC: b.registry,
		CarrierNetworks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, // tests' inbound calls
		Now:             b.clock.Now, Poll: 20 * time.Millisecond, Prompts: b.prompts,
	}
	for _, f := range change {
		f(&cfg)
	}
	svc, err := New(cfg, b.st)
	require.NoError(tb, err)
	return svc
}

func (b *bundle) attach(calls desk.Calls) { b.calls, b.desk = calls, b.svc.Desk(calls) }

func (b *bundle) trunkAndNumber(tb testing.TB) *bundle {
	tb.Helper()
	storetest.Trunk(tb, b.st, b.tenant, "127.0.0.1", 5070, 200)
	storetest.Exec(tb, b.st, b.tenant, "UPDATE trunks SET cps = 10000")
	storetest.InboundNumber(tb, b.st, b.tenant, "+918000"+randomDigits(6))
	return b
}

// began moves the moment at which all calls have begun, by the database's clock, by which trunks' calls per second are counted.
func (b *bundle) began(t *testing.T, by time.Duration) {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET created_at = now() + $1::interval", by)
}

func randomDigits(n int) string {
	id := uuid.New()
	out := make([]byte, n)
	for i := range out {
		out[i] = '0' + id[i]%10
	}
	return string(out)
}

func (b *bundle) strict(t *testing.T) *bundle {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", b.tenant)
	return b
}

func decode[T any](t *testing.T, body string) T {
	t.Helper()
	var in T
	require.NoError(t, json.Unmarshal([]byte(body), &in))
	return in
}

func (b *bundle) agent(t *testing.T) voiceagents.VoiceAgent {
	t.Helper()
	agent, err := b.svc.VoiceAgents.CreateVoiceAgent(t.Context(), b.tenant,
		decode[voiceagents.Input](t, `{"name":"agent","ws_url":"ws://127.0.0.1:9/echo","max_concurrent":100}`))
	require.NoError(t, err)
	return agent
}

// aiCampaign gives a draft that connects its own voice agent.
func (b *bundle) aiCampaign(t *testing.T) campaigns.Campaign {
	t.Helper()
	campaign, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t,
		`{"name":"c","dial_mode":"progressive","post_answer_action":"connect_voice_agent","voice_agent_id":"`+b.agent(t).ID.String()+`"}`))
	require.NoError(t, err)
	return campaign
}

func (b *bundle) running(t *testing.T) campaigns.Campaign {
	t.Helper()
	campaign, err := b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, b.aiCampaign(t).ID, campaigns.EnvironmentLive)
	require.NoError(t, err)
	return campaign
}

func (b *bundle) push(t *testing.T, campaign uuid.UUID, phone string) leads.Lead {
	t.Helper()
	lead, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign, leads.Input{Phone: input.Some(phone)})
	require.NoError(t, err)
	return lead
}

func (b *bundle) lead(t *testing.T, id uuid.UUID) db.Lead {
	t.Helper()
	var lead db.Lead
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		var err error
		lead, err = tx.Q.LeadGet(t.Context(), b.tenant, id)
		return err
	}))
	lead.Status = string(leads.StatusOf(lead)) // as it is shown
	return lead
}

// events gives the data of the tenant's events of one type, in their order.
func (b *bundle) events(t *testing.T, typ store.EventType) []map[string]any {
	t.Helper()
	return storetest.Query[map[string]any](t, b.st, b.tenant, "SELECT data FROM events WHERE tenant_id = $1 AND type = $2 ORDER BY seq", b.tenant, typ)
}

func (b *bundle) units(t *testing.T) int {
	t.Helper()
	return storetest.Count(t, b.st, "SELECT count(*) FROM live_calls")
}

func fields(t *testing.T, err error) []string {
	t.Helper()
	var invalid *fault.Error
	require.ErrorAs(t, err, &invalid)
	out := make([]string, len(invalid.Fields))
	for i, f := range invalid.Fields {
		out[i] = f.Field
	}
	return out
}

func conflictCode(t *testing.T, err error) string {
	t.Helper()
	var conflict *fault.Error
	require.ErrorAs(t, err, &conflict)
	return conflict.Code
}

func mustPhone(t *testing.T, s string) store.Phone {
	t.Helper()
	p, err := store.ParsePhone(s)
	require.NoError(t, err)
	return p
}

// sipHosts lists the hosts that the tenant's SIP URIs may lead to.
func (b *bundle) sipHosts(t *testing.T, hosts ...string) {
	t.Helper()
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET sip_hosts = $2 WHERE id = $1", b.tenant, hosts)
}

// passGate gives the terms of an admission.
func passGate(ctx context.Context, g *gate.Gate, req admission.Request) (admission.Terms, error) {
	adm, err := g.Admit(ctx, req)
	if err != nil {
		return admission.Terms{}, err
	}
	return adm.Terms(), nil
}
