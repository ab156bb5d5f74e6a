package store_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestReadIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	tenant := storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "wss://ai.example/")
	reads := func() {
		row, err := st.Read(tenant).VoiceAgentGet(t.Context(), tenant, agent)
		require.NoError(t, err)
		require.Equal(t, agent, row.ID)
	}
	lists := func() {
		rows, err := st.Read(tenant).VoiceAgentList(t.Context(), tenant, nil)
		require.NoError(t, err)
		require.Len(t, rows, 1)
	}
	writes := func() {
		require.NoError(t, st.Write(tenant).LeadSetDisposition(t.Context(), nil, tenant, agent))
	}
	together := func() {
		var row db.VoiceAgent
		var rows []db.VoiceAgent
		require.NoError(t, st.ReadListByValues(t.Context(), tenant, func(q *db.Queries) (err error) {
			row, err = q.VoiceAgentGet(t.Context(), tenant, agent)
			return err
		}, func(q *db.Queries) (err error) {
			rows, err = q.VoiceAgentList(t.Context(), tenant, nil)
			return err
		}, func(*db.Queries) error { return nil }))
		require.Equal(t, []db.VoiceAgent{row}, rows)
	}
	for name, do := range map[string]func(){"one": reads, "many": lists, "exec": writes, "together": together} {
		do() // has the statement prepared
		require.Equal(t, 1, proxy.RoundTrips(do), name)
	}
	transaction := func() {
		require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			_, err := tx.Q.VoiceAgentGet(t.Context(), tenant, agent)
			return err
		}))
	}
	transaction()
	require.Equal(t, 2, proxy.RoundTrips(transaction), "a whole transaction")
}

// A connection that reads keeps its scope for the next who has the same, and nobody else reads in it: not even by a query that forgets its
// tenant, and not after a statement that failed. The connections of transactions keep none.
func TestSingleStatementsHaveTheirScopeAlone(t *testing.T) {
	t.Parallel()
	st := openWithConns(t, storetest.NewURL(t), 2) // and one for reads
	tenant, other := storetest.Tenant(t, st), storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "wss://ai.example/")
	for _, q := range []*db.Queries{st.Read(other), st.Write(other)} {
		_, err := q.VoiceAgentGet(t.Context(), tenant, agent)
		require.ErrorIs(t, err, store.ErrNotFound, "another tenant's scope")
	}
	id, err := st.ReadSystem().GetTenant(t.Context(), other)
	require.NoError(t, err)
	require.Equal(t, other, id.ID)
	seen := func(q store.Singles) (ids []uuid.UUID) {
		rows, err := q.Query(t.Context(), "SELECT id FROM tenants ORDER BY id")
		require.NoError(t, err)
		ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		require.NoError(t, err)
		return ids
	}
	fails := func(q store.Singles) {
		_, err := q.Exec(t.Context(), "SELECT 1/0 FROM tenants")
		require.ErrorIs(t, err, store.ErrValue)
	}
	for range 2 {
		for _, of := range []uuid.UUID{tenant, other} {
			q := st.SinglesOf(of)
			require.Equal(t, []uuid.UUID{of}, seen(q))
			fails(q)
			require.Equal(t, []uuid.UUID{of}, seen(q))
			fails(st.SinglesOf(uuid.Nil))
			require.Equal(t, []uuid.UUID{of}, seen(q))
			require.Equal(t, []uuid.UUID{tenant, other}, seen(st.SinglesOf(uuid.Nil)))
			require.Error(t, st.ReadListByValues(t.Context(), of, func(q *db.Queries) error {
				_, err := q.VoiceAgentLock(t.Context(), tenant, agent)
				return err
			}))
		}
	}
	inOrder := func(q store.Singles) (setting string) {
		require.NoError(t, q.QueryRow(t.Context(), "SELECT current_setting('enable_seqscan')").Scan(&setting))
		return setting
	}
	for range 2 {
		require.Equal(t, "off", inOrder(st.SinglesByIndex()))
		require.Equal(t, "on", inOrder(st.SinglesOf(uuid.Nil)))
	}
	var settings [4]*string
	require.NoError(t, st.Pool().QueryRow(t.Context(), `SELECT nullif(current_setting('app.tenant_id', true), ''),
		nullif(current_setting('app.system', true), ''), nullif(current_setting('transaction_read_only'), 'off'),
		nullif(current_setting('plan_cache_mode'), 'force_generic_plan')`).Scan(&settings[0], &settings[1], &settings[2], &settings[3]))
	require.Equal(t, [4]*string{}, settings)
}

// Of reads that go together, the first that fails ends them all, and the connection serves the next.
func TestReadsTogetherFailTogether(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, other := storetest.Tenant(t, st), storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "wss://ai.example/")
	get := func(q *db.Queries) error {
		_, err := q.VoiceAgentGet(t.Context(), tenant, agent)
		return err
	}
	late := func(q *db.Queries) error {
		require.ErrorContains(t, get(q), "before this one failed")
		return nil
	}
	for range 3 {
		require.ErrorIs(t, st.ReadListByValues(t.Context(), other, get, late), store.ErrNotFound, "another tenant's scope")
		require.ErrorContains(t, st.ReadListByValues(t.Context(), tenant, func(q *db.Queries) error {
			_, err := q.VoiceAgentLock(t.Context(), tenant, agent)
			return err
		}, late), "read-only transaction")
		require.ErrorContains(t, st.ReadListByValues(t.Context(), tenant, func(q *db.Queries) error {
			return errors.Join(get(q), get(q))
		}), "second query")
		require.NoError(t, st.ReadListByValues(t.Context(), tenant, get, get))
	}
}

// A read takes so long at most, and lists leave connections to other reads.
func TestLongReadsAreBounded(t *testing.T) {
	t.Parallel()
	st, err := store.Open(t.Context(), store.Config{
		URL: storetest.NewURL(t), MasterKey: storetest.MasterKey(), MaxConns: 4, ReadTimeout: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	tenant := storetest.Tenant(t, st)
	q := st.SinglesOf(tenant)
	var none any
	require.ErrorIs(t, q.QueryRow(t.Context(), "SELECT pg_sleep(60)::text").Scan(&none), store.ErrTooLong)
	rows, err := q.Query(t.Context(), "SELECT pg_sleep(60)")
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	require.ErrorIs(t, err, store.ErrTooLong)

	// Of the two connections one is for lists.
	list := func(q *db.Queries) error {
		_, err := q.VoiceAgentList(t.Context(), tenant, nil)
		return err
	}
	require.NoError(t, st.ReadListByValues(t.Context(), tenant, func(*db.Queries) error {
		require.ErrorIs(t, st.ReadListByValues(t.Context(), tenant, list), store.ErrListsBusy)
		return list(st.Read(tenant))
	}))
	require.NoError(t, st.ReadListByValues(t.Context(), tenant, list))
}

func TestReadWritesNothing(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "wss://ai.example/")
	_, err := st.Read(tenant).VoiceAgentArchive(t.Context(), tenant, agent)
	require.ErrorContains(t, err, "read-only transaction")
	_, err = st.Read(tenant).VoiceAgentLock(t.Context(), tenant, agent)
	require.ErrorContains(t, err, "read-only transaction")
}

func TestSingleWriteTranslatesErrors(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, other := storetest.Tenant(t, st), storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "wss://ai.example/")
	row, err := st.Write(tenant).VoiceAgentArchive(t.Context(), tenant, agent)
	require.NoError(t, err)
	require.Equal(t, "archived", row.Status)
	_, err = st.Write(tenant).VoiceAgentArchive(t.Context(), tenant, uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
	claim := db.ClaimIdempotencyKeyParams{TenantID: other, Environment: "live", Scope: "POST /", Key: "k"}
	_, err = st.Write(tenant).ClaimIdempotencyKey(t.Context(), claim)
	var refused *store.ConstraintError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, store.KindScope, refused.Kind)
}

// Each pooled connection to a server that was restarted fails once: a read goes on, a write says that it may be done.
func TestSingleStatementsSurviveALostConnection(t *testing.T) {
	t.Parallel()
	proxy := storetest.NewProxy(t, storetest.NewURL(t))
	proxy.Listen(t)
	st := storetest.Open(t, proxy.URL)
	tenant := storetest.Tenant(t, st)
	agent := storetest.VoiceAgent(t, st, tenant, "wss://ai.example/")
	proxy.CutAtNextWrite()
	_, err := st.Read(tenant).VoiceAgentGet(t.Context(), tenant, agent)
	require.NoError(t, err)
	proxy.CutAtNextWrite()
	rows, err := st.Read(tenant).VoiceAgentList(t.Context(), tenant, nil)
	require.NoError(t, err)
	require.Len(t, rows, 1)
	proxy.CutAtNextWrite()
	require.NoError(t, st.ReadListByValues(t.Context(), tenant, func(q *db.Queries) (err error) {
		rows, err = q.VoiceAgentList(t.Context(), tenant, nil)
		return err
	}))
	require.Len(t, rows, 1)
	proxy.CutAtNextWrite()
	_, err = st.Write(tenant).VoiceAgentArchive(t.Context(), tenant, agent)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, err, store.ErrCommitUnknown)
	proxy.Stop()
	_, err = st.Read(tenant).VoiceAgentGet(t.Context(), tenant, agent)
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// A call is read in its month's partition alone, and found whatever its id is.
func TestACallIsReadInItsMonth(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	now := time.Now()
	random := uuid.MustParse("ffffffff-ffff-4fff-8fff-fffffffffff0")
	const add = `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, from_number, to_number) VALUES ($1, $2, 'n', 'f', 'inbound', 'anonymous', '+91')`
	storetest.Exec(t, st, tenant, add, tenant, random)
	ids := []uuid.UUID{random}
	for _, at := range []time.Time{now, now.AddDate(0, -1, 0), now.AddDate(0, 1, 0), now.AddDate(-3, 0, 0), now.AddDate(1, 0, 0), time.UnixMilli(0)} {
		ids = append(ids, insertCallAt(t, st, tenant, at))
	}
	for _, id := range ids {
		row, err := st.Read(tenant).GetCallView(t.Context(), tenant, id)
		require.NoError(t, err)
		require.Equal(t, id, row.Call.ID)
	}
	_, err := st.Read(tenant).GetCallView(t.Context(), tenant, storetest.NewID(t))
	require.ErrorIs(t, err, store.ErrNotFound)

	id := ids[1]
	var plan []string
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		prepare := "PREPARE one (uuid, uuid) AS " + store.InMonths("SELECT c.notes FROM calls c WHERE c.tenant_id = $1 AND c.id = $2 /* month of c.id */", tenant, id)
		_, err := tx.Pgx().Exec(t.Context(), prepare)
		require.NoError(t, err)
		rows, err := tx.Pgx().Query(t.Context(), fmt.Sprintf("EXPLAIN (COSTS OFF) EXECUTE one ('%s', '%s')", tenant, id))
		require.NoError(t, err)
		plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}))
	named := strings.Join(plan, "\n")
	require.Contains(t, named, "calls_"+now.UTC().Format("2006_01"))
	require.NotContains(t, named, "Append", "the plan for whatever id of the month has no other partition")
	require.Empty(t, store.MonthOf(random), "no text for each id that somebody makes up")
}

func openWithConns(t *testing.T, url string, conns int32) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{
		URL: url, MasterKey: storetest.MasterKey(), MaxConns: conns, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	return st
}

// UUIDs go to the database and come back as their bytes: single ones, those that may be null, and arrays.
func TestUUIDsBothWays(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	id := uuid.New()
	var one uuid.UUID
	var there, none *uuid.UUID
	var many []uuid.UUID
	require.NoError(t, st.Pool().QueryRow(t.Context(), "SELECT $1::uuid, $2::uuid, $3::uuid, $4::uuid[]", id, &id, (*uuid.UUID)(nil), []uuid.UUID{id, uuid.Nil}).
		Scan(&one, &there, &none, &many))
	require.Equal(t, id, one)
	require.Equal(t, &id, there)
	require.Nil(t, none)
	require.Equal(t, []uuid.UUID{id, uuid.Nil}, many)
	var text string
	require.NoError(t, st.Pool().QueryRow(t.Context(), "SELECT $1::uuid::text", id).Scan(&text))
	require.Equal(t, id.String(), text)
	require.NoError(t, st.Pool().QueryRow(t.Context(), "SELECT $1::uuid", id.String()).Scan(&text))
	require.Equal(t, id.String(), text)
	require.NoError(t, st.Pool().QueryRow(t.Context(), "SELECT NULL::uuid").Scan(&one), "as uuid.UUID takes it")
	require.Equal(t, id, one)
}
