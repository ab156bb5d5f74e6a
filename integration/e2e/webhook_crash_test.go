package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	verifier "github.com/ringmaster/ringmaster/httpapi/webhook/receiver"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// told are the events of each call of the crash test, in their order.
func told() []store.EventType {
	return []store.EventType{store.EventCallStarted, store.EventCallAnswered, store.EventAISessionStarted, store.EventAISessionEnded, store.EventCallEnded}
}

// step commits the n-th state of a call with its event. Once that is done it does nothing: a commit whose answer was lost is tried again.
func step(t *testing.T, tx *store.Tx, tenant, call uuid.UUID, n int) error {
	t.Helper()
	sql, args := `UPDATE calls SET disposition = $3 WHERE id = $1 AND disposition = $2`, []any{call, fmt.Sprint("step_", n-1), fmt.Sprint("step_", n)}
	if n == 0 {
		sql, args = `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number, status, dial_time, end_time, hangup_cause, disposition)
			VALUES ($1, $2, 'webhooks', $3, 'outbound', '+918000000001', '+919876149000', 'failed', now(), now(), 'NORMAL_CLEARING', 'step_0') ON CONFLICT DO NOTHING`, []any{tenant, call, call.String()}
	}
	done, err := tx.Pgx().Exec(t.Context(), sql, args...)
	if err != nil || done.RowsAffected() == 0 {
		return err
	}
	_, err = tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: told()[n], CallID: &call, Data: map[string]any{"call_id": call, "n": n}})
	return err
}

// arrivals is a receiver that notes what comes and holds it against what is committed. It fails some requests: before or after it has what they bring, none more often than most.
type arrivals struct {
	*httptest.Server
	secret string
	st     *store.Store
	tenant uuid.UUID
	most   int

	mu       sync.Mutex
	rnd      *rand.Rand
	requests int
	order    map[string][]int  // of a call's events, by their first arrivals
	bodies   map[string]string // by event
	faults   map[string]int
	accepted map[string]bool
	again    int // had been accepted before
	wrong    []string
	reached  chan int // the number of requests
}

func newArrivals(t *testing.T, st *store.Store, tenant uuid.UUID, most int) *arrivals {
	t.Helper()
	a := &arrivals{
		st: st, tenant: tenant, most: most, rnd: rand.New(rand.NewPCG(17, 1)), order: map[string][]int{}, bodies: map[string]string{}, //nolint:gosec // reproducible
		faults: map[string]int{}, accepted: map[string]bool{}, reached: make(chan int, 1),
	}
	a.Server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.Close)
	return a
}

func (a *arrivals) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender was killed
	}
	var e struct {
		ID   string
		Data struct {
			CallID string `json:"call_id"`
			N      int
		}
	}
	fault := ""
	if !verifier.Verify(a.secret, r.Header.Get(webhook.HeaderSignature), body, time.Now()) {
		fault = "a wrong signature"
	} else if err := json.Unmarshal(body, &e); err != nil {
		fault = err.Error()
	} else if a.state(r.Context(), e.Data.CallID) < e.Data.N {
		fault = "before its state: " + string(body)
	}
	switch status := a.take(e.ID, e.Data.CallID, e.Data.N, string(body), fault); status {
	case 0:
		panic(http.ErrAbortHandler)
	default:
		w.WriteHeader(status)
	}
}

// state is how far a call has come, as it is committed: -1 for one that there isn't. While the database is away it waits.
func (a *arrivals) state(ctx context.Context, call string) (n int) {
	n = -1
	err := a.st.Persist(ctx, a.tenant, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(ctx, "SELECT coalesce(max(substr(disposition, 6)::int), -1) FROM calls WHERE id = $1", call).Scan(&n)
	})
	if err != nil && ctx.Err() != nil {
		return len(told()) // its sender was killed
	}
	return n
}

// take notes an arrival, and says what is answered: 0 for nothing.
func (a *arrivals) take(id, call string, n int, body, fault string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	select {
	case <-a.reached:
	default:
	}
	a.reached <- a.requests
	if fault != "" {
		a.wrong = append(a.wrong, fault)
	}
	if had, known := a.bodies[id]; !known {
		a.bodies[id] = body
		a.order[call] = append(a.order[call], n)
	} else if had != body {
		a.wrong = append(a.wrong, "another body: "+body+" before "+had)
	}
	if a.accepted[id] {
		a.again++
	}
	if chance := a.rnd.IntN(10); chance < 2 && a.faults[id] < a.most {
		a.faults[id]++
		return chance * http.StatusServiceUnavailable
	}
	a.accepted[id] = true
	return http.StatusOK
}

// TestEventsArriveThoughKilled: while events are committed the controller is killed and PostgreSQL crashes, at random, and the receiver fails two requests in ten. Every event
// arrives at least once, signed, not before its state was committed, and in the order of its call. Whoever listens on the command line meanwhile has each once.
func TestEventsArriveThoughKilled(t *testing.T) {
	besideOthers(t)
	calls, kills, restarts, most := 200, 2, 1, 2
	if os.Getenv("RINGMASTER_BENCH") != "" {
		calls, kills, restarts, most = 2000, 6, 2, 3
	}
	defer showLog(t)
	c := own(stack.Config{})(t, simulated)
	c.commitForGood(t)
	st, tenant := c.open(t), c.tenant.ID
	a := newArrivals(t, st, tenant, most)
	_, a.secret = c.subscribe(t, a.URL, "call.*", "ai_session.*")
	l := c.onTheCommandLine(t)
	began := time.Now()
	events := calls * len(told())
	var emitting sync.WaitGroup
	const workers = 4
	for w := range workers {
		emitting.Go(func() {
			for i := w; i < calls; i += workers {
				call := uuid.Must(uuid.NewV7())
				for n := range told() {
					if err := st.Persist(t.Context(), tenant, func(tx *store.Tx) error { return step(t, tx, tenant, call, n) }); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	var at []int
	for range kills + restarts {
		at = append(at, rand.New(rand.NewPCG(17, uint64(len(at)))).IntN(events*9/10)) //nolint:gosec // reproducible
	}
	slices.Sort(at)
	for i, point := range at {
		for n := 0; n < point; {
			select {
			case n = <-a.reached:
			case <-time.After(patience):
				require.FailNow(t, "events don't arrive", "%d of %d", n, point)
			}
		}
		if i%((kills+restarts)/restarts) == 1 {
			crashPostgres(t, st)
			continue
		}
		require.NoError(t, c.KillController())
		require.NoError(t, c.StartController(t.Context()))
	}
	emitting.Wait()
	var left, all int
	eventually(t, 2*time.Minute, "every delivery is delivered", func() bool {
		err := st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE status <> 'delivered'), count(*) FROM webhook_deliveries`).Scan(&left, &all)
		})
		return err == nil && left == 0
	})
	require.Equal(t, events, all)
	took := time.Since(began)
	l.complete(t, a.bodies)
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Empty(t, a.wrong)
	require.Len(t, a.accepted, events)
	require.Len(t, a.order, calls)
	for call, order := range a.order {
		require.Equal(t, []int{0, 1, 2, 3, 4}, order, call)
	}
	t.Logf("%d events arrived in %d requests within %s, the controller killed %d times and PostgreSQL crashed %d times: %d requests brought what had been accepted (%.2f%% of the events)",
		events, a.requests, took.Round(100*time.Millisecond), kills, restarts, a.again, 100*float64(a.again)/float64(events))
}

// commitForGood has what is committed outlive a crash, which tests' databases in memory don't promise.
func (c *customer) commitForGood(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.DatabaseAdminURL())
	require.NoError(t, err)
	defer conn.Close(t.Context()) //nolint:errcheck // it has done its work
	_, err = conn.Exec(t.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database()); END $$`)
	require.NoError(t, err)
	require.NoError(t, c.KillController())
	require.NoError(t, c.StartController(t.Context()))
}

// listener is `ringmaster webhooks listen`, and what it forwards to.
type listener struct {
	cmd       *exec.Cmd
	out, errs bytes.Buffer

	mu    sync.Mutex
	got   map[string][]string // bodies by event
	order map[string][]int    // by call
	wrong int
}

const listenerSecret = "whsec_b2YgdGhlIHRlc3QsIHRoaXJ0eS10d28gYnl0ZXMhIQ=="

// onTheCommandLine starts it, and waits until it listens.
func (c *customer) onTheCommandLine(t *testing.T) *listener {
	t.Helper()
	l := &listener{got: map[string][]string{}, order: map[string][]int{}}
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var e event
		_ = json.Unmarshal(body, &e)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got[e.ID] = append(l.got[e.ID], string(body))
		if call, ok := e.Data["call_id"].(string); ok {
			n, _ := e.Data["n"].(float64)
			l.order[call] = append(l.order[call], int(n))
		}
		if !verifier.Verify(listenerSecret, r.Header.Get(webhook.HeaderSignature), body, time.Now()) {
			l.wrong++
		}
	}))
	t.Cleanup(hook.Close)
	l.cmd = exec.CommandContext(t.Context(), theSuite.binary, "webhooks", "listen", "--json", "--forward-to", hook.URL, "--secret", listenerSecret)
	l.cmd.Env = append(os.Environ(), "RINGMASTER_API_URL="+c.Bootstrap.BaseURL, "RINGMASTER_API_KEY="+c.tenant.LiveKey, "HOME="+t.TempDir())
	l.cmd.Stdout = &l.out
	said, err := l.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, l.cmd.Start())
	line := make([]byte, len("listening"))
	_, err = io.ReadFull(said, line)
	require.NoError(t, err)
	require.Equal(t, "listening", string(line))
	go func() { _, _ = l.errs.ReadFrom(said) }() // until it ends
	return l
}

// complete waits until all have been forwarded, and ends it: each event once, as it was delivered, and in the order of its call.
func (l *listener) complete(t *testing.T, bodies map[string]string) {
	t.Helper()
	forwarded := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.got)
	}
	eventually(t, 2*time.Minute, "all is forwarded", func() bool { return forwarded() >= len(bodies) })
	require.NoError(t, l.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, l.cmd.Wait(), "Ctrl-C is no failure: %s", &l.errs)
	require.Zero(t, l.wrong)
	require.Len(t, l.got, len(bodies))
	for id, got := range l.got {
		require.Equal(t, []string{bodies[id]}, got)
	}
	for call, order := range l.order {
		require.Equal(t, []int{0, 1, 2, 3, 4}, order, call)
	}
	require.Len(t, regexp.MustCompile(`(?m)^\{"id":"evt_.*"forwarded":\{"status_code":200,"latency_ms":\d+,"error":null\}\}$`).FindAll(l.out.Bytes(), -1), len(bodies))
	require.NotContains(t, l.out.String(), "\x1b")
}
