package crm

import (
	"net/http"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// TestNeighbourLatency measures what a tenant whose CRM hangs costs others, and what an idle system costs.
func TestNeighbourLatency(t *testing.T) {
	if os.Getenv("RINGMASTER_BENCH") == "" {
		t.Skip("it measures for a minute; TestAHangingCRMHoldsUpNobodyElse and TestALookIsAStepForEachTenant have the core of it")
	}
	const hanging, healthy, idle = 20_000, 100, 20 * time.Second
	b := setup(t)
	b.now, b.client.now = time.Now, time.Now
	hold := make(chan struct{})
	slow := newStandIn(t, func(http.ResponseWriter, got) { <-hold })
	t.Cleanup(func() { close(hold) })
	quick := newStandIn(t, status(http.StatusOK))
	hangs, neighbour := b.tenant, storetest.Tenant(t, b.st)
	b.configure(t, rest(slow.URL, nil))
	b.tenant = neighbour
	b.configure(t, rest(quick.URL, nil))
	b.work(t)
	statements := func() int {
		return storetest.Count(t, b.st, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
	}
	cpu := func() time.Duration {
		var use syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
		return time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	measure := func(what string, last time.Duration) {
		n, used := statements(), cpu()
		<-time.After(last)
		t.Logf("%s: %.1f transactions and %.2f ms of this process' CPU a second", what, float64(statements()-n)/last.Seconds(),
			(cpu()-used).Seconds()*1000/last.Seconds())
	}
	latency := func() (p50, p99 time.Duration) {
		var took []time.Duration
		for range healthy {
			n := len(quick.requests())
			began := time.Now()
			b.end(t, nil)
			require.Eventually(t, func() bool { return len(quick.requests()) == n+1 }, 2*time.Minute, time.Millisecond)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took[healthy/2], took[healthy*99/100]
	}
	measure("idle", idle)
	alone, aloneWorst := latency()
	storetest.Exec(t, b.st, hangs, `WITH c AS (
		INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number, status, dial_time, end_time, hangup_cause)
		SELECT $1, audit_id(now()), 'n', n, 'outbound', '+918000000001', '+919876543210', 'failed', now(), now(), 'NO_ANSWER' FROM generate_series(1, $2::int) n
		RETURNING tenant_id, id
	) INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at)
	SELECT tenant_id, id, 'crm', tenant_id, now() + interval '1 day' FROM c`, hangs, hanging)
	require.Eventually(t, func() bool { return len(slow.requests()) > 0 }, 20*time.Second, 10*time.Millisecond)
	beside, besideWorst := latency()
	t.Logf("a report is written %v after its call's end at the median, %v at the 99th percentile; beside %d of a CRM that hangs %v and %v (%.2f and %.2f times)",
		alone, aloneWorst, hanging, beside, besideWorst, float64(beside)/float64(alone), float64(besideWorst)/float64(aloneWorst))
	require.LessOrEqual(t, besideWorst, 3*aloneWorst+500*time.Millisecond)
	measure("beside them", idle)
}
