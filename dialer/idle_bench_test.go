package dialer

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/retry"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// serverTime is the CPU time that the processes of the database's server have had. The server is on this machine.
func serverTime(b *testing.B, st *store.Store) time.Duration {
	b.Helper()
	var backend int
	require.NoError(b, st.Pool().QueryRow(b.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	// The name, in parentheses, may hold anything; what follows is counted from the state: the parent's id, and the times of the process and of
	// the children that it has waited for, in hundredths of a second.
	const parent, user, system, childUser, childSystem = 1, 11, 12, 13, 14
	fields := func(path string) []string {
		text, err := os.ReadFile(path)
		if err != nil { // it has ended
			return nil
		}
		return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	}
	server := fields("/proc/" + strconv.Itoa(backend) + "/stat")[parent]
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(b, err)
	ticks := 0
	add := func(process []string, columns ...int) {
		for _, column := range columns {
			n, err := strconv.Atoi(process[column])
			require.NoError(b, err)
			ticks += n
		}
	}
	for _, path := range all {
		process := fields(path)
		switch {
		case path == "/proc/"+server+"/stat":
			add(process, user, system, childUser, childSystem)
		case process != nil && process[parent] == server:
			add(process, user, system)
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// workedOff makes running campaigns of a voice agent and has so many leads done, in equal parts.
func workedOff(b *testing.B, w *claimWorld, agent uuid.UUID, campaigns, leads int) {
	b.Helper()
	remake := w.withoutIndexes(b)
	for n := range campaigns {
		id := storetest.Campaign(b, w.st, w.Tenant, &agent)
		storetest.Exec(b, w.st, w.Tenant, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, dnd_checked, dnd_clean, status)
			SELECT $1, (lpad(to_hex(n), 12, '0') || '70008000000000000000')::uuid, $2, lpad(n::text, 10, '9'), sha256(n::text::bytea),
			'0000', true, true, 'completed' FROM generate_series($3::int, $4::int) n`,
			w.Tenant, id, n*(leads/campaigns)+1, (n+1)*(leads/campaigns))
	}
	remake()
	_, err := w.st.Pool().Exec(b.Context(), "VACUUM ANALYZE leads")
	require.NoError(b, err)
}

// BenchmarkIdleCampaigns has a controller pace 100 running campaigns whose 5 million leads are done, and reports the CPU time that the database
// takes in a second for it, and without campaigns.
func BenchmarkIdleCampaigns(b *testing.B) {
	const campaigns, list, seconds = 100, 5_000_000, 20
	st := storetest.New(b)
	w := &claimWorld{st: st, Claimer: leads.Claimer{Tenant: storetest.Tenant(b, st)}}
	agent := storetest.VoiceAgent(b, st, w.Tenant, "ws://127.0.0.1:9/")
	storetest.Trunk(b, st, w.Tenant, "127.0.0.1", 5070, 200)
	storetest.InboundNumber(b, st, w.Tenant, "+918000123456")
	workedOff(b, w, agent, campaigns, list)
	for b.Loop() {
		quiet := w.paced(b, false, seconds*time.Second)
		busy := w.paced(b, true, seconds*time.Second)
		b.ReportMetric(quiet.Seconds()*1000/seconds, "ms-server/s-without")
		b.ReportMetric((busy-quiet).Seconds()*1000/seconds, "ms-server/s")
	}
}

// paced has a controller pace what runs, and tells what the database needed for it once all is quiet.
func (w *claimWorld) paced(b *testing.B, running bool, took time.Duration) time.Duration {
	b.Helper()
	status := map[bool]string{true: "running", false: "paused"}[running]
	storetest.Exec(b, w.st, w.Tenant, "UPDATE campaigns SET status = $1", status)
	svc, err := New(Config{NodeID: "bench", DNC: &fakeRegistry{listed: map[string]bool{}}, Legal: Hours{From: "00:00", To: "24:00"}}, w.st)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- svc.Pacers.Run(ctx, &fakeSwitch{}) }()
	require.NoError(b, retry.Pause(ctx, 15*time.Second)) // all is taken up, and what each waits for is written
	before := serverTime(b, w.st)
	require.NoError(b, retry.Pause(ctx, took))
	used := serverTime(b, w.st) - before
	cancel()
	require.NoError(b, <-done)
	return used
}
