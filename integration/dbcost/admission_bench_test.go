package dbcost_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/integration/dbcost"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// nobodyListed is a registry that clears every number.
type nobodyListed struct{}

func (nobodyListed) Listed(_ context.Context, phones []store.Phone) ([]bool, error) {
	return make([]bool, len(phones)), nil
}

// silentSwitch takes what was admitted. Its calls ring until they are ended.
type silentSwitch struct{ dialed atomic.Int64 }

func (*silentSwitch) CanOriginate() error { return nil }

func (s *silentSwitch) Originate(_ context.Context, granted *admission.Admission) (db.Call, error) {
	adm, err := granted.Use()
	s.dialed.Add(1)
	return adm.Call, err
}

// admissionWorld is a tenant with campaigns that have leads, on a database that is so far away.
type admissionWorld struct {
	svc        *dialer.Service
	st         *store.Store
	wire       *dbcost.Wire
	tenant     uuid.UUID
	voiceAgent uuid.UUID
	campaigns  []uuid.UUID
}

func newAdmissionWorld(b *testing.B, latency time.Duration, campaigns, leads int) *admissionWorld {
	b.Helper()
	database := storetest.OverTCP(b, storetest.NewURL(b))
	wire, err := dbcost.NewWire(b.Context(), database, latency)
	require.NoError(b, err)
	b.Cleanup(wire.Close)
	through, err := wire.Through(database)
	require.NoError(b, err)
	w := &admissionWorld{wire: wire, st: storetest.Open(b, through)}
	w.tenant = storetest.Tenant(b, w.st)
	storetest.Trunk(b, w.st, w.tenant, "127.0.0.1", 5070, 100_000)
	storetest.InboundNumber(b, w.st, w.tenant, "+918000000001")
	w.voiceAgent = storetest.VoiceAgent(b, w.st, w.tenant, "ws://127.0.0.1:9/ai")
	storetest.Exec(b, w.st, w.tenant, "UPDATE voice_agents SET max_concurrent = 10000")
	storetest.Exec(b, w.st, w.tenant, "UPDATE trunks SET cps = 10000")
	w.svc, err = dialer.New(dialer.Config{
		NodeID: "bench", Guard: netguard.Policy{AllowLoopback: true}, Legal: dialer.Hours{From: "00:00", To: "24:00"}, DNC: nobodyListed{},
		CarrierNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Poll: 100 * time.Millisecond,
	}, w.st)
	require.NoError(b, err)
	for c := range campaigns {
		id := storetest.Campaign(b, w.st, w.tenant, &w.voiceAgent)
		w.campaigns = append(w.campaigns, id)
		numbers, hashes, lasts := make([]string, leads), make([][]byte, leads), make([]string, leads)
		for i := range leads {
			phone, err := store.ParsePhone(fmt.Sprintf("98%03d%05d", c, i))
			require.NoError(b, err)
			numbers[i], hashes[i], lasts[i] = phone.National(), w.st.PhoneHash(w.tenant, phone), phone.National()[6:]
		}
		storetest.Exec(b, w.st, w.tenant, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, dnd_checked, dnd_clean, dnd_checked_at)
			SELECT $1, gen_random_uuid(), $2, p, h, l, true, true, now() FROM unnest($3::text[], $4::bytea[], $5::text[]) AS t(p, h, l)`,
			w.tenant, id, numbers, hashes, lasts)
	}
	storetest.Exec(b, w.st, w.tenant, "ANALYZE leads")
	return w
}

// end ends the tenant's calls some milliseconds after they began, many in a statement, until stop is called: what rings is what a campaign's
// ramp and the gate's counts see.
func (w *admissionWorld) end(b *testing.B) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var ending sync.WaitGroup
	ending.Go(func() {
		for ctx.Err() == nil {
			err := w.st.InTenant(ctx, w.tenant, func(tx *store.Tx) error {
				_, err := tx.Pgx().Exec(ctx, `WITH gone AS (DELETE FROM live_calls WHERE tenant_id = $1 RETURNING call_id)
					UPDATE calls c SET status = 'failed', end_time = clock_timestamp(), hangup_cause = 'NO_ANSWER'
					FROM gone WHERE c.tenant_id = $1 AND c.id = gone.call_id`, w.tenant)
				return err
			})
			if err != nil && ctx.Err() == nil {
				b.Error(err)
				return
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
			}
			for _, c := range w.campaigns {
				w.svc.Answers.Wake.Campaign(c)
			}
		}
	})
	return func() {
		cancel()
		ending.Wait()
	}
}

// BenchmarkAdmission tells how many calls one tenant's gate admits in a second, asked from 12 sides, and how many one campaign's pacer dials, with the
// database so far away.
func BenchmarkAdmission(b *testing.B) {
	const calls = 1500
	for _, latency := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond} {
		b.Run(fmt.Sprintf("tenant/latency=%s", latency), func(b *testing.B) {
			w := newAdmissionWorld(b, latency, 1, calls+100)
			leads := storetest.Query[uuid.UUID](b, w.st, w.tenant, "SELECT id FROM leads ORDER BY id")
			numbers := storetest.Query[string](b, w.st, w.tenant, "SELECT phone FROM leads ORDER BY id")
			admit := func(i int) {
				to, err := store.ParsePhone(numbers[i])
				if err == nil {
					_, err = w.svc.Gate.Admit(b.Context(), admission.Request{
						TenantID: w.tenant, CampaignID: &w.campaigns[0], LeadID: &leads[i], VoiceAgentID: &w.voiceAgent, To: to,
						Purpose: admission.PurposeLead, Environment: "live",
					})
				}
				if err != nil {
					b.Error(err)
				}
			}
			for i := range 100 {
				admit(i)
			}
			defer w.end(b)()
			for b.Loop() {
				var next atomic.Int64
				var all sync.WaitGroup
				began, trips := time.Now(), w.wire.RoundTrips()
				for range 12 {
					all.Go(func() {
						for i := next.Add(1); i <= calls; i = next.Add(1) {
							admit(int(i) + 99)
						}
					})
				}
				all.Wait()
				b.ReportMetric(calls/time.Since(began).Seconds(), "calls/s")
				b.ReportMetric(float64(w.wire.RoundTrips()-trips)/calls, "trips/call")
			}
		})
		b.Run(fmt.Sprintf("campaign/latency=%s", latency), func(b *testing.B) {
			w := newAdmissionWorld(b, latency, 1, calls+1000)
			defer w.end(b)()
			sw := &silentSwitch{}
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- w.svc.Pacers.Run(ctx, sw) }()
			reach := func(n int64) {
				for sw.dialed.Load() < n && !b.Failed() {
					time.Sleep(time.Millisecond) //nolint:forbidigo // a benchmark's
				}
			}
			reach(800) // its ramp is over
			for b.Loop() {
				began, trips := time.Now(), w.wire.RoundTrips()
				from := sw.dialed.Load()
				reach(from + calls)
				n := float64(sw.dialed.Load() - from)
				b.ReportMetric(n/time.Since(began).Seconds(), "calls/s")
				b.ReportMetric(float64(w.wire.RoundTrips()-trips)/n, "trips/call")
			}
			cancel()
			if err := <-done; ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
}
