package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func emit(t *testing.T, st *store.Store, e store.Event) uuid.UUID {
	t.Helper()
	var id string
	require.NoError(t, st.InTenant(t.Context(), e.TenantID, func(tx *store.Tx) error {
		var err error
		id, err = tx.Emit(t.Context(), e)
		return err
	}))
	parsed, err := store.ParseEventID(id)
	require.NoError(t, err)
	require.Equal(t, id, store.EventID(parsed))
	require.Equal(t, uuid.Version(7), parsed.Version())
	return parsed
}

func TestEmitMatchesSubscriptions(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID, other := storetest.Tenant(t, st), storetest.Tenant(t, st)
	campaign, elsewhere := storetest.NewID(t), storetest.NewID(t)
	subscriptions := map[string]uuid.UUID{
		"exact":          storetest.Subscription(t, st, tenantID, nil, "call.started"),
		"several":        storetest.Subscription(t, st, tenantID, nil, "call.ended", "ai_session.started", "call.started"),
		"wildcard":       storetest.Subscription(t, st, tenantID, nil, "ai_session.*"),
		"call wildcard":  storetest.Subscription(t, st, tenantID, nil, "call.*"),
		"campaign":       storetest.Subscription(t, st, tenantID, &campaign, "call.*", "ai_session.*"),
		"other campaign": storetest.Subscription(t, st, tenantID, &elsewhere, "call.*"),
		"prefix only":    storetest.Subscription(t, st, tenantID, nil, "cal.*", "call", "call.start"),
		"inactive":       storetest.Subscription(t, st, tenantID, nil, "call.*"),
		"other tenant":   storetest.Subscription(t, st, other, nil, "call.*", "ai_session.*"),
	}
	storetest.Exec(t, st, tenantID, "UPDATE webhook_subscriptions SET is_active = false WHERE id = $1", subscriptions["inactive"])
	for _, c := range []struct {
		eventType store.EventType
		campaign  *uuid.UUID
		want      []string
	}{
		{store.EventCallStarted, &campaign, []string{"exact", "several", "call wildcard", "campaign"}},
		{store.EventCallStarted, nil, []string{"exact", "several", "call wildcard"}},
		{store.EventCallEnded, nil, []string{"several", "call wildcard"}},
		{store.EventAISessionStarted, &campaign, []string{"several", "wildcard", "campaign"}},
		{store.EventAISessionEnded, nil, []string{"wildcard"}},
		{store.EventLeadCompleted, &campaign, nil},
	} {
		event := emit(t, st, store.Event{TenantID: tenantID, Type: c.eventType, CampaignID: c.campaign, Data: map[string]any{}})
		var want []uuid.UUID
		for _, name := range c.want {
			want = append(want, subscriptions[name])
		}
		require.ElementsMatch(t, want, deliveriesOf(t, st, tenantID, event), "%s", c.eventType)
	}
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM webhook_deliveries WHERE tenant_id = $1", other))
}

func deliveriesOf(t *testing.T, st *store.Store, tenantID, event uuid.UUID) []uuid.UUID {
	t.Helper()
	var found []uuid.UUID
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), `SELECT array_agg(subscription_id) FROM webhook_deliveries
			WHERE event_id = $1 AND status = 'pending' AND attempts = '[]' AND next_attempt_at IS NOT NULL`, event).Scan(&found)
	}))
	return found
}

func TestEmitWritesEventAndQueuesDeliveries(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	sub := storetest.Subscription(t, st, tenantID, nil, "call.answered")
	call, at := storetest.NewID(t), time.Date(2026, 11, 21, 10, 11, 12, 345678000, time.UTC)
	id := emit(t, st, store.Event{
		TenantID: tenantID, Type: store.EventCallAnswered, At: at, CallID: &call, Data: map[string]any{"answered_by_amd": "human"},
	})
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		event, err := tx.Q.GetEvent(t.Context(), tenantID, id)
		require.NoError(t, err)
		require.Equal(t, "call.answered", event.Type)
		require.True(t, at.Equal(event.CreatedAt))
		require.Equal(t, &call, event.CallID)
		require.Nil(t, event.CampaignID)
		require.JSONEq(t, `{"answered_by_amd":"human"}`, string(event.Data))
		var queued, waiting, subscription uuid.UUID
		require.NoError(t, tx.Pgx().QueryRow(t.Context(), "SELECT id FROM webhook_deliveries").Scan(&waiting))
		row := tx.Pgx().QueryRow(t.Context(), "SELECT delivery_id, subscription_id FROM webhook_queue WHERE call_id = $1 AND due_at IS NULL", call)
		require.NoError(t, row.Scan(&queued, &subscription))
		require.Equal(t, waiting, queued)
		require.Equal(t, sub, subscription)
		return nil
	}))
}

func TestEventsCommitWithTheirTransaction(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	storetest.Subscription(t, st, tenantID, nil, "call.*")
	changedMind := errors.New("changed my mind")
	err := st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		if _, err := tx.Emit(t.Context(), store.Event{TenantID: tenantID, Type: store.EventCallStarted, Data: struct{}{}}); err != nil {
			return err
		}
		return changedMind
	})
	require.ErrorIs(t, err, changedMind)
	for _, table := range []string{"events", "webhook_deliveries", "webhook_queue"} {
		require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM "+table), table)
	}
}

func TestEventsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID, call := storetest.Tenant(t, st), storetest.NewID(t)
	const n = 50
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		for i := range n {
			e := store.Event{TenantID: tenantID, Type: store.EventType(fmt.Sprintf("test.event_%d", i)), CallID: &call, Data: struct{}{}}
			if _, err := tx.Emit(t.Context(), e); err != nil {
				return err
			}
		}
		return nil
	}))
	var events []db.ListEventsOfCallRow
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		var err error
		events, err = tx.Q.ListEventsOfCall(t.Context(), tenantID, call)
		return err
	}))
	require.Len(t, events, n)
	for i, event := range events {
		require.Equal(t, fmt.Sprintf("test.event_%d", i), event.Type)
	}
}

// Deliveries are listed and replayed by their ids.
func TestDeliveriesKeepTheOrderOfTheirEvents(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	for range 2 {
		storetest.Subscription(t, st, tenant, nil, "call.*")
	}
	const n = 50
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		for range n {
			if _, err := tx.Emit(t.Context(), store.Event{TenantID: tenant, Type: store.EventCallStarted, Data: struct{}{}}); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, 2*n, storetest.Count(t, st, "SELECT count(*) FROM webhook_deliveries"))
	require.Zero(t, storetest.Count(t, st, `SELECT count(*) FROM (
		SELECT event_id, lag(event_id) OVER (ORDER BY id) AS before FROM webhook_deliveries) d WHERE event_id < before`))
}

func TestEmitRefusesDataThatIsNoObject(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	for _, data := range []any{nil, "text", make(chan int)} {
		err := st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
			_, err := tx.Emit(t.Context(), store.Event{TenantID: tenantID, Type: store.EventCallStarted, Data: data})
			return err
		})
		require.ErrorContains(t, err, "emit call.started")
	}
}

func TestParseEventIDRefuses(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "evt_", "evt_00", "0193a6c0a0b07000800000000000000a", "evt_0193a6c0a0b07000800000000000000g", "evt_0193a6c0a0b07000800000000000000a00"} {
		_, err := store.ParseEventID(id)
		require.ErrorIs(t, err, store.ErrEventID, id)
	}
}

// Events of a call whose answer waits for a verdict are nobody's until it is decided; then they follow in their order, with
// the times that they were given and ids behind that of the answer, by which they are listed and replayed.
func TestEventsWaitForTheAnswer(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	subscription := storetest.Subscription(t, st, tenantID, nil, "*", "call.*", "ai_session.*")
	call, other := insertCall(t, st, tenantID), insertCall(t, st, tenantID)
	emitOf := func(call uuid.UUID, typ store.EventType, at time.Time) uuid.UUID {
		return emit(t, st, store.Event{TenantID: tenantID, Type: typ, At: at, CallID: &call, Data: map[string]any{"n": 1}})
	}
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	emitOf(call, store.EventCallStarted, at)
	storetest.Exec(t, st, tenantID, "UPDATE calls SET status = 'answered', answer_time = now(), amd = true WHERE id = $1", call)
	emitOf(call, store.EventAISessionStarted, at.Add(time.Second))
	emitOf(call, store.EventAISessionEnded, at.Add(2*time.Second))
	emitOf(other, store.EventCallStarted, at)
	list := func() []db.ListEventsOfCallRow {
		var events []db.ListEventsOfCallRow
		require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
			var err error
			events, err = tx.Q.ListEventsOfCall(t.Context(), tenantID, call)
			return err
		}))
		return events
	}
	require.Len(t, list(), 1)
	require.Equal(t, 2, storetest.Count(t, st, "SELECT count(*) FROM webhook_deliveries"), "of what is no secret")

	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		row, err := tx.Q.CallDecideAnswer(t.Context(), "machine", tenantID, call)
		require.NoError(t, err)
		if _, err := tx.Emit(t.Context(), store.Event{TenantID: tenantID, Type: store.EventCallAnswered, At: *row.AnswerTime, CallID: &call, Data: struct{}{}}); err != nil {
			return err
		}
		held, err := tx.Q.TakeHeldEvents(t.Context(), tenantID, call)
		if err != nil {
			return err
		}
		return tx.ReleaseEvents(t.Context(), tenantID, held)
	}))
	events := list()
	require.Len(t, events, 4)
	require.Equal(t, "call.answered", events[1].Type)
	require.Equal(t, "ai_session.started", events[2].Type)
	require.True(t, at.Add(time.Second).Equal(events[2].CreatedAt))
	require.JSONEq(t, `{"n":1}`, string(events[2].Data))
	require.Equal(t, "ai_session.ended", events[3].Type)
	require.True(t, slices.IsSortedFunc(events, func(a, b db.ListEventsOfCallRow) int { return bytes.Compare(a.ID[:], b.ID[:]) }))
	require.Equal(t, []uuid.UUID{subscription}, deliveriesOf(t, st, tenantID, events[2].ID))
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM held_events"))
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		_, err := tx.Q.CallDecideAnswer(t.Context(), "human", tenantID, call)
		require.ErrorIs(t, err, store.ErrNotFound, "it is decided once")
		return nil
	}))
	emitOf(call, store.EventCallEnded, at)
	require.Len(t, list(), 5)
}

// An event that is emitted while the answer is being decided elsewhere waits for that, and is not left behind.
func TestEventsOfOthersDuringTheDecision(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenantID := storetest.Tenant(t, st)
	call := insertCall(t, st, tenantID)
	storetest.Exec(t, st, tenantID, "UPDATE calls SET status = 'answered', answer_time = now(), amd = true WHERE id = $1", call)
	other := make(chan error, 1)
	require.NoError(t, st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
		if _, err := tx.Q.CallDecideAnswer(t.Context(), "human", tenantID, call); err != nil {
			return err
		}
		if _, err := tx.Emit(t.Context(), store.Event{TenantID: tenantID, Type: store.EventCallAnswered, CallID: &call, Data: struct{}{}}); err != nil {
			return err
		}
		go func() {
			other <- st.InTenant(t.Context(), tenantID, func(tx *store.Tx) error {
				_, err := tx.Emit(t.Context(), store.Event{
					TenantID: tenantID, Type: store.EventCallDispositionSet, CallID: &call, Data: struct{}{},
				})
				return err
			})
		}()
		var xid string
		if err := tx.Pgx().QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&xid); err != nil {
			return err
		}
		require.Eventually(t, func() bool {
			return storetest.Count(t, st, "SELECT count(*) FROM pg_locks WHERE NOT granted AND transactionid::text = $1", xid) == 1
		}, 30*time.Second, 5*time.Millisecond, "the other waits")
		held, err := tx.Q.TakeHeldEvents(t.Context(), tenantID, call)
		if err != nil {
			return err
		}
		return tx.ReleaseEvents(t.Context(), tenantID, held)
	}))
	require.NoError(t, <-other)
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM held_events"))
	require.Equal(t, 1, storetest.Count(t, st, `SELECT count(*) FROM events d JOIN events a ON a.call_id = d.call_id AND a.seq < d.seq
		WHERE d.type = 'call.disposition_set' AND a.type = 'call.answered'`))
}
