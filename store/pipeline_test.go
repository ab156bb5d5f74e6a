package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// A transaction begins with its first statement, and what nobody in it waits for goes with the next one or with the commit.
func TestRoundTripsOfTransactions(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	tenant := storetest.Tenant(t, st)
	storetest.Subscription(t, st, tenant, nil, "call.started")
	key := func(q *db.Queries) error {
		_, err := q.GetTenantDataKey(t.Context(), tenant)
		return err
	}
	lock := func(q *db.Queries) error { return q.GateLock(t.Context(), tenant) }
	emit := func(tx *store.Tx) error {
		_, err := tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: store.EventCallStarted, Data: struct{}{}})
		return err
	}
	events := 0
	for name, c := range map[string]struct {
		trips int
		do    func(tx *store.Tx) error
	}{
		"nothing":           {0, func(*store.Tx) error { return nil }},
		"a statement":       {2, func(tx *store.Tx) error { return key(tx.Q) }},
		"two":               {3, func(tx *store.Tx) error { return errors.Join(lock(tx.Q), key(tx.Q)) }},
		"two together":      {2, func(tx *store.Tx) error { return tx.Together(t.Context(), lock, key) }},
		"one put off":       {1, func(tx *store.Tx) error { return tx.Later(t.Context(), lock) }},
		"put off, then one": {2, func(tx *store.Tx) error { return errors.Join(tx.Later(t.Context(), lock), key(tx.Q)) }},
		"one, then put off": {2, func(tx *store.Tx) error { return errors.Join(key(tx.Q), tx.Later(t.Context(), lock)) }},
		"two events":        {1, func(tx *store.Tx) error { return errors.Join(emit(tx), emit(tx)) }},
		"rows": {2, func(tx *store.Tx) error {
			rows, err := tx.Q.VoiceAgentList(t.Context(), tenant, nil)
			require.Empty(t, rows)
			return errors.Join(err, tx.Later(t.Context(), lock))
		}},
		"without arguments": {3, func(tx *store.Tx) error { return tx.Q.PlanByValues(t.Context()) }},
	} {
		times := 0
		do := func() {
			times++
			require.NoError(t, st.InTenant(t.Context(), tenant, c.do), name)
		}
		// The first has the statements prepared, and others are told of webhooks a moment after the commit, which counts too.
		for trips := -1; trips != c.trips; {
			proxy.Settle(t)
			trips = proxy.RoundTrips(do)
			require.GreaterOrEqual(t, trips, c.trips, name)
			require.Less(t, times, 50, name)
		}
		if name == "two events" {
			events = 2 * times
		}
	}
	require.Equal(t, events, storetest.Count(t, st, "SELECT count(*) FROM webhook_queue"))
	require.Equal(t, events, storetest.Count(t, st, `SELECT count(*) FROM webhook_deliveries d JOIN events e ON e.id = d.event_id
		WHERE substring(d.id::text FOR 15) = substring(e.id::text FOR 15)`), "a delivery's id has the event's time")
}

// What stands behind a lock sees what those had committed who held it before, though it was sent at the same time.
func TestTogetherSeesWhatTheLockWasWaitedFor(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	number := storetest.InboundNumber(t, st, tenant, "+918000000001")
	locked, waits := make(chan struct{}), make(chan uint32, 1)
	first := make(chan error, 1)
	go func() {
		first <- st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			if err := tx.Q.GateLock(t.Context(), tenant); err != nil {
				return err
			}
			close(locked)
			pid := <-waits
			for blocked := false; !blocked; {
				if err := tx.Pgx().QueryRow(t.Context(), "SELECT cardinality(pg_blocking_pids($1::int)) > 0", pid).Scan(&blocked); err != nil {
					return err
				}
			}
			_, err := tx.Pgx().Exec(t.Context(), "UPDATE numbers SET label = 'seen' WHERE tenant_id = $1 AND id = $2", tenant, number)
			return err
		})
	}()
	<-locked
	var seen db.Number
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		waits <- tx.Pgx().Conn().PgConn().PID()
		return tx.Together(t.Context(),
			func(q *db.Queries) error { return q.GateLock(t.Context(), tenant) },
			func(q *db.Queries) (err error) {
				seen, err = q.FindNumber(t.Context(), "+918000000001")
				return err
			})
	}))
	require.NoError(t, <-first)
	require.Equal(t, "seen", *seen.Label)
}

// What is put off by a function that has its results, which the commit may have brought, is not lost without a word.
func TestNothingIsPutOffTwice(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	for name, then := range map[string]func(tx *store.Tx) error{
		"at the commit": func(*store.Tx) error { return nil },
		"with a query":  func(tx *store.Tx) error { return tx.Q.GateLock(t.Context(), tenant) },
	} {
		runs := 0
		err := st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			runs++
			return errors.Join(tx.Later(t.Context(), func(q *db.Queries) error {
				err := q.GateLock(t.Context(), tenant)
				_, _ = tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: store.EventCallStarted, Data: struct{}{}})
				return err
			}), then(tx))
		})
		require.ErrorContains(t, err, "puts off another", name)
		require.Equal(t, 1, runs, name)
	}
}

// What was put off and is refused undoes the transaction, wherever it is sent, and its error is the transaction's.
func TestWhatWasPutOffFails(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	storetest.Exec(t, st, tenant, "INSERT INTO flows (tenant_id, id, name) VALUES ($1, $2, 'taken')", tenant, storetest.NewID(t))
	insert := func(name string) func(q *db.Queries) error {
		return func(q *db.Queries) error {
			_, err := q.CreateTenant(t.Context(), db.CreateTenantParams{ID: tenant, Name: name, PrivacyMode: "standard", DataKey: []byte{1}})
			return err
		}
	}
	for name, then := range map[string]func(tx *store.Tx) error{
		"at the commit":   func(*store.Tx) error { return nil },
		"with a query":    func(tx *store.Tx) error { return tx.Q.GateLock(t.Context(), tenant) },
		"unseen":          func(tx *store.Tx) error { _ = tx.Q.GateLock(t.Context(), tenant); return nil },
		"before another":  func(tx *store.Tx) error { return tx.Later(t.Context(), insert("another")) },
		"with several":    func(tx *store.Tx) error { return tx.Together(t.Context(), insert("another"), insert("a third")) },
		"in the function": func(*store.Tx) error { return errMine },
	} {
		runs := 0
		err := st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			runs++
			_, err := tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: store.EventCallStarted, Data: struct{}{}})
			require.NoError(t, err)
			require.NoError(t, tx.Later(t.Context(), insert("mine")))
			return then(tx)
		})
		if name == "in the function" {
			require.ErrorIs(t, err, errMine)
		} else {
			require.True(t, store.IsConstraint(err, "tenants_pkey"), "%s: %v", name, err)
		}
		require.Equal(t, 1, runs, name)
		require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM events"), name)
	}
	// A conflict repeats it all.
	storetest.Exec(t, st, tenant, "CREATE SEQUENCE tries")
	storetest.Exec(t, st, tenant, `CREATE FUNCTION conflict_once() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('tries') = 1 THEN RAISE EXCEPTION 'conflict' USING ERRCODE = 'serialization_failure'; END IF;
			RETURN NEW;
		END $$`)
	storetest.Exec(t, st, tenant, "CREATE TRIGGER conflict_once BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION conflict_once()")
	runs := 0
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		runs++
		_, err := tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: store.EventCallStarted, Data: struct{}{}})
		return err
	}))
	require.Equal(t, 2, runs)
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM events"))
}

var errMine = errors.New("the function's own")

// A transaction of one round trip whose answer never came may be done: it isn't repeated. On a connection that the server has ended it is.
func TestTransactionOfOneRoundTripIsLost(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	tenant := storetest.Tenant(t, st)
	runs := 0
	add := func(tx *store.Tx) error {
		runs++
		_, err := tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: store.EventCallStarted, Data: struct{}{}})
		return err
	}
	require.NoError(t, st.InTenant(t.Context(), tenant, add))
	lost := proxy.LoseAnswer("InsertEvent")
	err := st.InTenant(t.Context(), tenant, add)
	require.ErrorIs(t, err, store.ErrCommitUnknown)
	require.True(t, lost())
	require.Equal(t, 2, runs)
	require.Eventually(t, func() bool { return storetest.Count(t, st, "SELECT count(*) FROM events") == 2 }, time.Minute, time.Millisecond)

	var pid uint32
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		pid = tx.Pgx().Conn().PgConn().PID()
		return nil
	}))
	terminate(t, pid)
	require.NoError(t, st.InTenant(t.Context(), tenant, add))
	require.Equal(t, 3, storetest.Count(t, st, "SELECT count(*) FROM events"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = st.InTenant(ctx, tenant, add)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, store.ErrUnavailable)
}

// An event that is one with its call is not written for one that isn't there.
func TestEventOfACallThatIsNotThere(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	storetest.Subscription(t, st, tenant, nil, "call.started")
	for _, call := range []uuid.UUID{storetest.NewID(t), storetest.OpenCall(t, st, tenant, nil, nil, nil)} {
		emit(t, st, store.Event{TenantID: tenant, Type: store.EventCallStarted, Data: struct{}{}, CallID: &call, OfCall: true})
	}
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM events"))
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM webhook_queue"))
}

// A transaction whose COMMIT was answered is done, though its connection ends before the batch does: it isn't repeated, and no error is told.
func TestCommittedBeforeTheServerWasShutDown(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	tenant := storetest.Tenant(t, st)
	emit := func(tx *store.Tx) error {
		_, err := tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: store.EventCallStarted, Data: struct{}{}})
		return err
	}
	for name, do := range map[string]func(tx *store.Tx) error{
		"at the commit": emit,
		"on the way": func(tx *store.Tx) error {
			if err := tx.Q.GateLock(t.Context(), tenant); err != nil {
				return err
			}
			return emit(tx)
		},
		"by itself": func(tx *store.Tx) error {
			if err := emit(tx); err != nil {
				return err
			}
			return tx.Q.GateLock(t.Context(), tenant)
		},
	} {
		require.NoError(t, st.InTenant(t.Context(), tenant, do)) // which has the statements prepared
		before := storetest.Count(t, st, "SELECT count(*) FROM events")
		runs := 0
		happened := proxy.ShutDownAfterCommit()
		require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			runs++
			return do(tx)
		}), name)
		require.True(t, happened(), name)
		require.Equal(t, 1, runs, name)
		require.Equal(t, before+1, storetest.Count(t, st, "SELECT count(*) FROM events"), name)
	}
}
