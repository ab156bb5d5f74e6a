package apibench

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(envYardstick); url != "" {
		if err := serveYardstick(context.Background(), url); err != nil {
			fmt.Fprintln(os.Stderr, "yardstick:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	envBinary = "RINGMASTER_BINARY"
	// envProfiles is a folder that takes a CPU profile of Ringmaster under each load.
	envProfiles = "RINGMASTER_PROFILES"
	// clients of one tenant ask at a time, so that some of what they ask goes together; each has a key of its own, since a key's rate is limited.
	clients = 32
	lasts   = 4 * time.Second
	warmUp  = time.Second
	// rows are those that reads choose from.
	rows = 5000
)

// bench is Ringmaster and the yardstick on one database.
type bench struct {
	*testing.B
	postmaster            int
	ringmaster, yardstick server
	st                    *store.Store
	tenant                uuid.UUID
	calls, agents         []uuid.UUID
	lines                 []string
	metrics               string
}

// BenchmarkAPI prints how many requests a CPU-second pays for, as a share of what it pays for at the yardstick, and the latencies at half of the
// load that was reached.
func BenchmarkAPI(b *testing.B) {
	binary := os.Getenv(envBinary)
	if binary == "" {
		b.Skip("set " + envBinary + "=/path/to/ringmaster to measure it")
	}
	for range b.N {
		benchmark(b, binary)
	}
}

func benchmark(b *testing.B, binary string) {
	b.Helper()
	dir, err := os.MkdirTemp("", "apibench-") //nolint:usetesting // the database's server runs as another user
	require.NoError(b, err)
	require.NoError(b, os.Chmod(dir, 0o755)) //nolint:gosec // see above
	defer func() { require.NoError(b, os.RemoveAll(dir)) }()
	log, err := os.Create(dir + "/ringmaster.log")
	require.NoError(b, err)
	defer func() { require.NoError(b, log.Close()) }()
	s, err := stack.Start(b.Context(), stack.Config{
		Binary: binary, Dir: dir, InMemory: true, Stderr: log, Override: map[string]any{"dialing.poll": "10s"},
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close(context.Background())) }()
	m := &bench{B: b, postmaster: postmasterOf(b, s.Bootstrap.DatabaseURL)}
	m.st, err = store.Open(b.Context(), store.Config{URL: s.Bootstrap.DatabaseURL, MasterKey: s.MasterKey})
	require.NoError(b, err)
	defer m.st.Close()
	defer func() { _, _ = fmt.Fprintln(os.Stderr, "\n"+strings.Join(m.lines, "\n")) }()
	m.metrics = s.Bootstrap.MetricsURL
	m.ringmaster = server{addr: strings.TrimPrefix(s.Bootstrap.BaseURL, "http://"), pid: s.ControllerPID()}
	m.seed()
	stop := m.startYardstick(s.Bootstrap.DatabaseURL)
	defer stop()

	one := m.measure(m.yardstick, &work{name: "yardstick: one row", fill: get(func(n int) string { return "/" + m.calls[n%rows].String() })}).perSecond()
	m.compare(one, 0.6, &work{name: "GET /voice-agents/{id}", metric: "agent", fill: get(func(n int) string {
		return "/api/v1/voice-agents/" + m.agents[n%len(m.agents)].String()
	})})
	m.compare(one, 0.6, &work{name: "GET /calls/{id}", metric: "call", fill: get(func(n int) string { return "/api/v1/calls/" + m.calls[n%rows].String() })})
	m.pushes(one)
	m.alone()
	b.ReportMetric(0, "ns/op")
}

// pushes measures leads, one a request and many.
func (m *bench) pushes(one float64) {
	path := "/api/v1/campaigns/" + storetest.Campaign(m, m.st, m.tenant, nil).String() + "/leads"
	m.compare(one, 0.35, &work{name: "POST …/leads", metric: "lead", status: fasthttp.StatusCreated, fill: post(path, func(n int) []byte {
		return m.encode(leadOf(n))
	})})
	const statements, few = 10, 4
	rate := m.measure(m.yardstick, &work{
		name: "yardstick: 10 statements of 500 leads", clients: few, fill: post(fmt.Sprintf("/bulk/%d", statements), func(int) []byte { return nil }),
	}).perSecond() * statements
	path = "/api/v1/campaigns/" + storetest.Campaign(m, m.st, m.tenant, nil).String() + "/leads:bulk"
	m.compare(rate, 0.4, &work{name: "POST …/leads:bulk", metric: "bulk", clients: few, fill: post(path, func(n int) []byte {
		leads := make([]lead, bulkSize)
		for i := range leads {
			leads[i] = leadOf(n*bulkSize + i)
		}
		return m.encode(map[string]any{"leads": leads})
	})})
}

// alone measures what nothing else comes with, so that nothing goes together: these have no aim.
func (m *bench) alone() {
	one := m.measure(m.yardstick, &work{name: "yardstick: one row, one client", clients: 1, fill: get(func(n int) string {
		return "/" + m.calls[n%rows].String()
	})}).perSecond()
	m.compare(one, 0, &work{name: "GET /calls/{id}, one client", metric: "call-alone", clients: 1, fill: get(func(n int) string {
		return "/api/v1/calls/" + m.calls[n%rows].String()
	})})
	path := "/api/v1/campaigns/" + storetest.Campaign(m, m.st, m.tenant, nil).String() + "/leads"
	m.compare(one, 0, &work{name: "POST …/leads, one client", metric: "lead-alone", clients: 1, status: fasthttp.StatusCreated, fill: post(path, func(n int) []byte {
		return m.encode(leadOf(n))
	})})
}

func (m *bench) encode(v any) []byte {
	body, err := json.Marshal(v)
	require.NoError(m, err)
	return body
}

// work is what a server is loaded with. Its requests are numbered through: none is filled in twice.
type work struct {
	name, metric string
	clients      int // at a time; the usual number when 0
	status       int // of every answer; 200 when 0
	fill         prepare
	next         atomic.Int64
}

// measure has a server warmed up and loaded, and then loaded by half.
func (m *bench) measure(s server, w *work) cost {
	m.Helper()
	w.clients, w.status = cmp.Or(w.clients, clients), cmp.Or(w.status, fasthttp.StatusOK)
	s.run(m, m.postmaster, w, 0, warmUp)
	done := m.profile(w)
	full := s.run(m, m.postmaster, w, 0, lasts)
	done()
	slow := s.run(m, m.postmaster, w, float64(full.requests)/full.took.Seconds()/2, lasts)
	m.lines = append(m.lines, fmt.Sprintf("%-38s %s; at half of them p50 %.2f ms, p99 %.2f ms", w.name, full,
		milliseconds(slow.percentile(0.5)), milliseconds(slow.percentile(0.99))))
	return full
}

// profile has Ringmaster profiled while it is loaded, where that is asked for.
func (m *bench) profile(w *work) (done func()) {
	dir := os.Getenv(envProfiles)
	if dir == "" || w.metric == "" {
		return func() {}
	}
	var running sync.WaitGroup
	running.Go(func() {
		url := strings.TrimSuffix(m.metrics, "/metrics") + "/debug/pprof/profile?seconds=3"
		_, body, err := fasthttp.Get(nil, url)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, w.metric+".pprof"), body, 0o600)
		}
		if err != nil {
			m.Errorf("profile %s: %v", w.name, err)
		}
	})
	return running.Wait
}

// compare measures Ringmaster beside the yardstick's rate.
func (m *bench) compare(yardstick, aim float64, w *work) {
	m.Helper()
	share := m.measure(m.ringmaster, w).perSecond() / yardstick
	line := fmt.Sprintf("%-38s %6.3f of the yardstick", "", share)
	if aim > 0 {
		line += fmt.Sprintf(" (aim %g)", aim)
	}
	m.lines = append(m.lines, line)
	m.ReportMetric(share, w.metric+"-ratio")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// startYardstick runs the tests' executable as the yardstick.
func (m *bench) startYardstick(url string) (stop func()) {
	self, err := os.Executable()
	require.NoError(m, err)
	cmd := exec.CommandContext(m.Context(), self)
	cmd.Env = append(os.Environ(), envYardstick+"="+url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(m, err)
	out, err := cmd.StdoutPipe()
	require.NoError(m, err)
	require.NoError(m, cmd.Start())
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(m, err)
	m.yardstick = server{addr: strings.TrimSpace(addr), pid: cmd.Process.Pid}
	return func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil && !errors.Is(err, io.EOF) {
			m.Errorf("end the yardstick: %v", err)
		}
	}
}

// seed makes a tenant with voice agents, finished calls that have recordings, and keys.
func (m *bench) seed() {
	ctx := m.Context()
	m.tenant = storetest.Tenant(m, m.st)
	accounts := account.New(m.st)
	limit := 100_000
	for range clients {
		_, secret, err := accounts.CreateKey(ctx, m.tenant, account.KeyInput{Label: "bench", RatePerMin: limit})
		require.NoError(m, err)
		m.ringmaster.keys = append(m.ringmaster.keys, secret.Key)
	}
	for range 10 {
		m.agents = append(m.agents, storetest.VoiceAgent(m, m.st, m.tenant, "wss://ai.example.test/socket"))
	}
	campaign := storetest.Campaign(m, m.st, m.tenant, &m.agents[0])
	for range rows {
		m.calls = append(m.calls, storetest.NewID(m))
	}
	storetest.Exec(m, m.st, m.tenant, finishedCalls, m.tenant, m.calls, campaign, m.agents[0])
	storetest.Exec(m, m.st, m.tenant, finishedRecordings, m.tenant, m.calls)
	_, err := m.st.Pool().Exec(ctx, yardstickTables)
	require.NoError(m, err)
	_, err = m.st.Pool().Exec(ctx, `INSERT INTO yardstick SELECT id, 'Name of a row', 'A note of some length, as rows have them', 42, now()
		FROM unnest($1::uuid[]) AS id`, m.calls)
	require.NoError(m, err)
	_, err = m.st.Pool().Exec(ctx, "ANALYZE calls, recordings, voice_agents, yardstick")
	require.NoError(m, err)
}

const finishedCalls = `INSERT INTO calls (tenant_id, id, campaign_id, voice_agent_id, node, fs_uuid, direction, status, from_number, to_number, dial_time,
  ring_time, answer_time, agent_connect_time, end_time, hangup_cause, hangup_disposition, disposition, metadata)
SELECT $1, id, $3, $4, 'n1', id::text, 'outbound', 'completed', '+918000000001', '+919812345678', now() - interval '90 s', now() - interval '88 s',
  now() - interval '80 s', now() - interval '79 s', now(), 'NORMAL_CLEARING', 'recv_bye', 'interested', '{"order": 12}'
FROM unnest($2::uuid[]) AS id`

const finishedRecordings = `INSERT INTO recordings (tenant_id, id, call_id, status, storage_key, bytes, duration_ms, stereo, ready_at)
SELECT $1, id, id, 'ready', 'key/' || id, 100000, 80000, true, now() FROM unnest($2::uuid[]) AS id`
