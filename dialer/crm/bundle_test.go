package crm

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// bundle is a Service on a database of its own, with a clock that stands still, ahead of the database's, and a tenant.
type bundle struct {
	*Service
	st     *store.Store
	clock  *storetest.Clock
	tenant uuid.UUID
}

func setup(t *testing.T) *bundle {
	t.Helper()
	return setupOn(t, storetest.New(t), storetest.NewClock(time.Now().UTC().Add(time.Minute).Truncate(time.Millisecond)))
}

func setupOn(t *testing.T, st *store.Store, clock *storetest.Clock) *bundle {
	t.Helper()
	b := &bundle{st: st, clock: clock}
	b.Service = New(Config{
		Store: st, Guard: netguard.Policy{AllowLoopback: true}, Now: clock.Now, Logger: slog.New(slog.DiscardHandler),
		Links: func(_, call uuid.UUID, p store.ReportPurpose) string {
			return "https://calls.test/recordings/" + call.String() + "?to=" + string(p)
		},
		NewSecret: func() string { return "whsec_" + uuid.NewString() },
		Sign: func(secret, id, kind string, _ time.Time, _ []byte) http.Header {
			return http.Header{"X-Signed": {secret + " " + id + " " + kind}}
		},
	})
	t.Cleanup(b.Close)
	b.tenant = storetest.Tenant(t, st)
	return b
}

// configure puts the settings, given as the API gets them.
func (b *bundle) configure(t *testing.T, settings any) Settings {
	t.Helper()
	out, err := b.put(t, settings)
	require.NoError(t, err)
	return out
}

func (b *bundle) put(t *testing.T, settings any) (Settings, error) {
	t.Helper()
	raw, err := json.Marshal(settings)
	require.NoError(t, err)
	var in SettingsInput
	require.NoError(t, json.Unmarshal(raw, &in))
	return b.PutSettings(t.Context(), b.tenant, in)
}

type object = map[string]any

func rest(url string, more object) object {
	r := object{"url": url + "/calls", "update_url": url + "/calls/{{external_id}}"}
	maps.Copy(r, more)
	return object{"kind": "rest", "rest": r}
}

// at follows names into objects, and numbers into lists; nil where there is nothing.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			o, _ := v.(object)
			v = o[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

// end writes a call of the tenant that has been answered, and ends it as the ledger does. lead may be nil.
func (b *bundle) end(t *testing.T, lead *uuid.UUID) uuid.UUID {
	t.Helper()
	id := storetest.OpenCall(t, b.st, b.tenant, nil, lead, nil)
	b.close(t, id)
	return id
}

func (b *bundle) close(t *testing.T, id uuid.UUID) {
	t.Helper()
	require.NoError(t, b.st.Persist(t.Context(), b.tenant, func(tx *store.Tx) error { return endCall(t, tx, b.tenant, id) }))
}

func endCall(t *testing.T, tx *store.Tx, tenant, id uuid.UUID) error {
	t.Helper()
	if _, err := tx.Pgx().Exec(t.Context(), `UPDATE calls SET status = 'completed', answer_time = dial_time + interval '5 s',
		answered_by_amd = 'human', end_time = dial_time + interval '65 s', hangup_cause = 'NORMAL_CLEARING' WHERE id = $1`, id); err != nil {
		return err
	}
	row, err := tx.Q.CallReportFacts(t.Context(), tenant, id)
	if err != nil {
		return err
	}
	return tx.CallEnds(t.Context(), row.Call)
}

// dispose says what an agent says in wrap-up.
func (b *bundle) dispose(t *testing.T, call uuid.UUID, disposition string) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		if _, err := tx.Pgx().Exec(t.Context(), "UPDATE calls SET disposition = $1 WHERE id = $2", disposition, call); err != nil {
			return err
		}
		return tx.CallChanged(t.Context(), b.tenant, call)
	}))
}

// try makes the attempt that is due, and gives in how long the next one is; nil for never.
func (b *bundle) try(t *testing.T, purpose store.ReportPurpose, call uuid.UUID) *time.Duration {
	t.Helper()
	id := store.ReportID{TenantID: b.tenant, CallID: call, Purpose: purpose}
	if row := b.row(t, call, purpose); row.Status == StatusPending && !row.NextAttemptAt.After(b.clock.Now()) {
		_, _, err := b.attempt(t.Context(), id, b.leased(t, id))
		require.NoError(t, err)
	}
	row := b.row(t, call, purpose)
	if row.Status != StatusPending {
		return nil
	}
	return new(row.NextAttemptAt.Sub(b.clock.Now()))
}

// leased leases one report, as a look does those that are due.
func (b *bundle) leased(t *testing.T, id store.ReportID) time.Time {
	t.Helper()
	lease := b.clock.Now().Add(claimTime)
	storetest.Exec(t, b.st, b.tenant, "UPDATE call_reports SET busy_until = $1, next_attempt_at = $1 WHERE call_id = $2 AND purpose = $3",
		lease, id.CallID, id.Purpose)
	return lease
}

// claims leases what is due of the tenant, up to a number, and tells how much that was.
func (b *bundle) claims(t *testing.T, purpose store.ReportPurpose, most int) int {
	t.Helper()
	rows, _, err := b.queues[purpose].lease(t.Context(), []grant{{b.tenant, most}})
	require.NoError(t, err)
	return len(rows)
}

func (b *bundle) report(t *testing.T, call uuid.UUID) Report {
	t.Helper()
	out, err := b.Report(t.Context(), b.tenant, call)
	require.NoError(t, err)
	return out
}

func (b *bundle) row(t *testing.T, call uuid.UUID, purpose store.ReportPurpose) db.CallReport {
	t.Helper()
	row, err := b.st.Read(b.tenant).CallReportGet(t.Context(), b.tenant, call, string(purpose))
	require.NoError(t, err)
	return row
}

// got is a request that a stand-in got.
type got struct {
	method, path, query, key string
	header                   http.Header
	text                     string
	body                     object
}

// standIn is a system at the other end.
type standIn struct {
	*httptest.Server
	mu     sync.Mutex
	all    []got
	answer func(w http.ResponseWriter, r got)
}

func newStandIn(t *testing.T, answer func(w http.ResponseWriter, r got)) *standIn {
	t.Helper()
	s := &standIn{answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r := got{
		method: req.Method, path: req.URL.EscapedPath(), query: req.URL.RawQuery, key: req.Header.Get(idempotencyKey), header: req.Header.Clone(),
		text: string(raw),
	}
	_ = json.Unmarshal(raw, &r.body)
	s.mu.Lock()
	s.all = append(s.all, r)
	answer := s.answer
	s.mu.Unlock()
	answer(w, r)
}

// requests gives what came so far.
func (s *standIn) requests() []got {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]got(nil), s.all...)
}

// say has it answer otherwise from now on.
func (s *standIn) say(answer func(w http.ResponseWriter, r got)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func status(code int) func(http.ResponseWriter, got) {
	return func(w http.ResponseWriter, _ got) { w.WriteHeader(code) }
}

func says(code int, text string) func(http.ResponseWriter, got) {
	return func(w http.ResponseWriter, _ got) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}
