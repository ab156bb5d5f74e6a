package e2e

import (
	"cmp"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// records are a CRM that heeds the Idempotency-Key: a key that it knows gets the record that there is.
type records struct {
	mu     sync.Mutex
	of     map[string]string // body by key
	faults map[string]int    // by key
	again  int
	other  []string // keys that came with another body
	rnd    *rand.Rand
}

// take makes a record, and says what becomes of the answer: 0 for one that is lost.
func (r *records) take(key, body string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	chance := r.rnd.IntN(10)
	if r.faults[key] == 2 {
		chance = 9 // that it comes to an end
	}
	if chance < 3 {
		r.faults[key]++
	}
	if chance == 0 {
		return http.StatusServiceUnavailable // before anything is done
	}
	if had, ok := r.of[key]; ok {
		r.again++
		if had != body {
			r.other = append(r.other, key)
		}
	}
	r.of[key] = cmp.Or(r.of[key], body)
	switch chance {
	case 1:
		return http.StatusBadGateway // after it is done
	case 2:
		return 0
	}
	return http.StatusCreated
}

// A thousand calls end while the controller is killed and PostgreSQL crashes, again and again, and the CRM fails three answers in ten, twice at most for a call:
// it has each outcome once, by its key.
func TestOutcomesAreWrittenOnce(t *testing.T) {
	if os.Getenv("RINGMASTER_BENCH") == "" {
		t.Skip("it takes minutes; TestCrashBetweenRequestAndNote has the core of it")
	}
	const calls, kills, restarts = 1000, 5, 2
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		c.commitForGood(t)
		kept := &records{of: map[string]string{}, faults: map[string]int{}, rnd: rand.New(rand.NewPCG(17, 4))} //nolint:gosec // reproducible
		crm := newCRM(t, func(w http.ResponseWriter, r crmRequest) {
			switch code := kept.take(r.key, string(r.raw)); code {
			case 0:
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(code)
				_, _ = io.WriteString(w, `{"id": "`+r.key+`"}`)
			}
		})
		c.signedIn(t, "admin").JSON(t, http.MethodPut, "/api/settings/crm",
			map[string]any{"kind": "rest", "rest": map[string]any{"url": crm.URL + "/calls"}}, http.StatusOK, nil)
		c.commitForGood(t)
		st := c.open(t)
		ids := make([]uuid.UUID, calls)
		breakAt := map[int]func(){}
		for i := range kills {
			breakAt[calls*(i+1)/(kills+1)+kept.rnd.IntN(50)] = func() {
				require.NoError(t, c.KillController())
				require.NoError(t, c.StartController(t.Context()))
			}
		}
		for i := range restarts {
			breakAt[calls*(2*i+1)/(2*restarts)+60+kept.rnd.IntN(40)] = func() { crashPostgres(t, st) }
		}
		began := time.Now()
		for i := range ids {
			ids[i] = uuid.Must(uuid.NewV7())
			require.NoError(t, st.Persist(t.Context(), c.tenant.ID, func(tx *store.Tx) error { return endedCall(t, tx, c.tenant.ID, ids[i]) }))
			if what := breakAt[i]; what != nil {
				what()
			}
		}
		t.Logf("%d calls ended within %s", calls, time.Since(began).Round(time.Second))
		eventually(t, 20*time.Minute, "all outcomes are written", func() bool {
			var n int
			err := st.InSystem(t.Context(), func(tx *store.Tx) error {
				return tx.Pgx().QueryRow(t.Context(), "SELECT count(*) FROM call_reports WHERE status = 'written'").Scan(&n)
			})
			return err == nil && n == calls
		})
		kept.mu.Lock()
		defer kept.mu.Unlock()
		require.Len(t, kept.of, calls)
		for _, id := range ids {
			require.Contains(t, kept.of, id.String())
		}
		require.Empty(t, kept.other, "a repetition says the same")
		t.Logf("%d outcomes are at the CRM, each once by its key, %s after the first call ended; %d requests, of which %d repeated what was there (%.1f%%)",
			calls, time.Since(began).Round(time.Second), len(crm.requests()), kept.again, 100*float64(kept.again)/calls)
	})
}

// endedCall writes a call that has ended, as the ledger does.
func endedCall(t *testing.T, tx *store.Tx, tenant, id uuid.UUID) error {
	t.Helper()
	end := time.Now()
	_, err := tx.Pgx().Exec(t.Context(), `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number, status, dial_time,
		answer_time, end_time, hangup_cause) VALUES ($1, $2, 'crm', $3, 'outbound', '+918000000001', '+919876147000', 'completed', $4, $4, $5, 'NORMAL_CLEARING')
		ON CONFLICT DO NOTHING`, tenant, id, id.String(), end.Add(-time.Minute), end)
	if err != nil {
		return err
	}
	answered := end.Add(-time.Minute)
	return tx.CallEnds(t.Context(), db.Call{TenantID: tenant, ID: id, EndTime: &end, AnswerTime: &answered, Environment: "live"})
}

// crashPostgres kills one of the server's processes, whereupon it ends all sessions and recovers.
func crashPostgres(t *testing.T, st *store.Store) {
	t.Helper()
	var pid int
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid)
	}))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}
