package dialer

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/retry"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// BenchmarkAdmitBesideDeletion admits 50 calls a second of a campaign, first alone, then while one of 1 million leads is deleted, and reports how
// long an admission takes and the deletion lasts.
func BenchmarkAdmitBesideDeletion(b *testing.B) {
	const leads, pace = 1_000_000, 20 * time.Millisecond
	doomed := newClaimWorld(b, leads)
	tenant := doomed.Tenant
	s, err := New(Config{NodeID: "bench", DNC: &fakeRegistry{listed: map[string]bool{}}, Legal: Hours{From: "00:00", To: "24:00"}}, doomed.st)
	require.NoError(b, err)
	agent := storetest.VoiceAgent(b, doomed.st, tenant, "ws://127.0.0.1:9/")
	other := storetest.Campaign(b, doomed.st, tenant, &agent)
	storetest.Trunk(b, doomed.st, tenant, "127.0.0.1", 5070, 200)
	storetest.Exec(b, doomed.st, tenant, "UPDATE trunks SET cps = 10000")
	storetest.InboundNumber(b, doomed.st, tenant, "+918000123456")
	storetest.Exec(b, doomed.st, tenant, "UPDATE campaigns SET status = 'paused' WHERE id = $1", doomed.Campaign)
	n := 0
	admit := func() time.Duration {
		n++
		number := strconv.Itoa(9_800_000_000 + n)
		lead := storetest.Lead(b, doomed.st, tenant, other, number)
		to, err := store.ParsePhone(number)
		require.NoError(b, err)
		began := time.Now()
		_, err = passGate(b.Context(), s.Gate, admission.Request{
			TenantID: tenant, CampaignID: &other, LeadID: &lead, VoiceAgentID: &agent, To: to,
			Purpose: admission.PurposeLead, Environment: string(campaigns.EnvironmentLive),
		})
		took := time.Since(began)
		require.NoError(b, err)
		storetest.Exec(b, doomed.st, tenant, "DELETE FROM live_calls")
		require.NoError(b, retry.Pause(b.Context(), pace-time.Since(began)))
		return took
	}
	workers := river.NewWorkers()
	queues, err := s.AddWorkers(workers, nil)
	require.NoError(b, err)
	jobs, err := doomed.st.NewJobs(store.JobsConfig{Queues: queues, Workers: workers})
	require.NoError(b, err)
	require.NoError(b, jobs.Start(context.WithoutCancel(b.Context())))
	defer func() { require.NoError(b, jobs.Stop(context.WithoutCancel(b.Context()))) }()

	for b.Loop() {
		var alone, beside []time.Duration
		for range 1000 {
			alone = append(alone, admit())
		}
		began := time.Now()
		require.NoError(b, s.Campaigns.DeleteCampaign(b.Context(), tenant, doomed.Campaign))
		answered := time.Since(began)
		left := func() int {
			return storetest.Count(b, doomed.st, "SELECT count(*) FROM campaigns WHERE deleted_at IS NOT NULL")
		}
		for left() > 0 {
			for range 50 {
				beside = append(beside, admit())
			}
		}
		b.ReportMetric(float64(answered.Milliseconds()), "ms-delete-answered")
		b.ReportMetric(time.Since(began).Seconds(), "s-deletion")
		b.ReportMetric(milliseconds(p99(alone)), "ms-p99-alone")
		b.ReportMetric(milliseconds(p99(beside)), "ms-p99-beside")
		b.ReportMetric(float64(p99(beside))/float64(p99(alone)), "x-p99")
		b.ReportMetric(milliseconds(slices.Max(beside)), "ms-worst-beside")
	}
}

func p99(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)*99/100]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
