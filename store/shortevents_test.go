package store_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// What is written short is read as it was emitted, whatever its members are: those that are usual, null, others; one that is missing, one too many.
func TestShortEventsAreReadAsTheyWereEmitted(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	st.ShortEvents(true)
	tenant, call, campaign := storetest.Tenant(t, st), storetest.NewID(t), storetest.NewID(t)
	at := time.Date(2026, 11, 21, 10, 11, 12, 345600789, time.UTC)
	const dice = 7
	random := rand.New(rand.NewPCG(dice, dice))
	usual := map[string]any{
		"call_id": call, "last_call_id": call, "campaign_id": campaign, "direction": "outbound", "answered_by_amd": "human", "status": "failed",
		"recording": json.RawMessage(`{"available":false}`), "attempts": 1, "format": "audio/wav", "source": "agent", "stereo": true,
		"started_at": store.Moment(at), "answer_time": store.Moment(at), "end_time": store.Moment(at), "completed_at": store.Moment(at),
		"ended_at": store.Moment(at), "set_at": store.Moment(at), "duration_s": 4, "total_duration_s": 15,
	}
	var want []string
	short := 0
	for _, typ := range store.EventTypes() {
		for range 60 {
			e := store.Event{TenantID: tenant, Type: typ, At: at, CallID: &call, CampaignID: &campaign}
			switch random.IntN(10) {
			case 0:
				e.CampaignID = nil
			case 1:
				e.At = at.Truncate(time.Second)
			}
			data := map[string]any{}
			for _, name := range store.ShortMembers(typ) {
				switch value, there := usual[name]; {
				case random.IntN(40) == 0: // it is missing
				case there && random.IntN(30) > 0:
					data[name] = value
				case random.IntN(2) == 0:
					data[name] = nil
				default:
					data[name] = []any{"<x> & y", 1.5, false, map[string]any{"": nil}, "null"}[random.IntN(5)]
				}
			}
			if random.IntN(20) == 0 {
				data["more"] = true
			}
			e.Data = data
			id := emit(t, st, e)
			text, err := json.Marshal(data)
			require.NoError(t, err)
			want = append(want, string(text))
			var got db.GetEventRow
			var stored string
			require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) (err error) {
				if got, err = tx.Q.GetEvent(t.Context(), tenant, id); err != nil {
					return err
				}
				return tx.Pgx().QueryRow(t.Context(), "SELECT data::text FROM events WHERE id = $1", id).Scan(&stored)
			}))
			require.JSONEq(t, string(text), string(got.Data), "%s: %s", typ, stored)
			if stored != string(got.Data) {
				short++
				require.Less(t, len(stored), len(got.Data), typ)
			}
		}
	}
	require.Greater(t, short, len(want)/4, "as many are short")
	require.Equal(t, short, storetest.Count(t, st, "SELECT count(*) FROM events WHERE data ? ''"))

	var listed []db.ListEventsRow
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) (err error) {
		listed, err = tx.Q.ListEvents(t.Context(), db.ListEventsParams{TenantID: tenant, Before: uuid.Max, UntilID: uuid.Max, PageLimit: int32(len(want))})
		return err
	}))
	require.Len(t, listed, len(want))
	for i, row := range listed {
		require.JSONEq(t, want[len(want)-1-i], string(row.Data))
	}
}

// A short event is delivered, held and masked as one that isn't.
func TestShortEventsAreDeliveredAndMasked(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	st.ShortEvents(true)
	tenant, call := storetest.Tenant(t, st), storetest.NewID(t)
	sub := storetest.Subscription(t, st, tenant, nil, "call.started")
	at := store.Moment(time.Now())
	data := map[string]any{
		"to": "+919876543210", "from": "+912250001000", "direction": "outbound", "voice_agent_id": nil, "lead_metadata": nil, "metadata": nil,
		"call_id": call, "campaign_id": nil, "started_at": at,
	}
	id := emit(t, st, store.Event{TenantID: tenant, Type: store.EventCallStarted, At: at, CallID: &call, Data: data})
	delivered := func() map[string]any {
		var rows []db.TakeWebhookWorkRow
		require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) (err error) {
			rows, err = tx.Q.TakeWebhookWork(t.Context(), db.TakeWebhookWorkParams{
				Subscriptions: []uuid.UUID{sub}, Rooms: []int32{10}, Afters: []int64{0}, Since: []time.Time{time.Unix(0, 0)}, Due: time.Now(), Held: []int64{},
			})
			return err
		}))
		require.Len(t, rows, 1)
		var got map[string]any
		require.NoError(t, json.Unmarshal(rows[0].Data, &got))
		return got
	}
	got := delivered()
	require.Equal(t, call.String(), got["call_id"])
	require.Equal(t, at.Format(time.RFC3339Nano), got["started_at"])
	require.Equal(t, "+919876543210", got["to"])

	storetest.Exec(t, st, tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", tenant)
	require.Equal(t, "••••3210", delivered()["to"])
	large, err := st.ReadSystem().EventData(t.Context(), tenant, id)
	require.NoError(t, err)
	require.Contains(t, string(large), `"to": "••••3210"`)
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		masked, err := tx.Q.EventsMask(t.Context(), uuid.Nil, tenant, 10)
		require.NoError(t, err)
		require.EqualValues(t, 1, masked.Masked)
		masked, err = tx.Q.EventsMask(t.Context(), uuid.Nil, tenant, 10)
		require.NoError(t, err)
		require.Zero(t, masked.Masked)
		return nil
	}))
	require.Equal(t, []string{"••••3210"}, storetest.Query[string](t, st, tenant, "SELECT data ->> 'to' FROM events"))
}

// What CHANGELOG.md says for a way back to the version before gives every event its whole data.
func TestShortEventsAreWholeAgainForTheVersionBefore(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	st.ShortEvents(true)
	tenant, call := storetest.Tenant(t, st), storetest.NewID(t)
	at := store.Moment(time.Now())
	id := emit(t, st, store.Event{
		TenantID: tenant, Type: store.EventCallDispositionSet, At: at, CallID: &call,
		Data: map[string]any{"call_id": call, "disposition": "sold", "source": "agent", "notes": nil, "set_at": at},
	})
	require.Equal(t, []string{`{"": ["sold"]}`}, storetest.Query[string](t, st, tenant, "SELECT data::text FROM events"))
	conn, err := st.Pool().Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, table := range []string{"events", "held_events"} {
		for _, statement := range []string{
			"SELECT set_config('app.system', 'on', false)",
			"UPDATE " + table + " SET data = event_data(type, call_id, campaign_id, created_at, data) WHERE data ? '' AND id >= uuidv7_floor(now() - interval '7 days')",
			"SELECT set_config('app.system', '', false)",
		} {
			_, err := conn.Exec(t.Context(), statement)
			require.NoError(t, err)
		}
	}
	var data map[string]any
	require.NoError(t, json.Unmarshal([]byte(storetest.Query[string](t, st, tenant, "SELECT data::text FROM events WHERE id = $1", id)[0]), &data))
	require.Equal(t, map[string]any{
		"call_id": call.String(), "disposition": "sold", "source": "agent", "notes": nil, "set_at": at.Format(time.RFC3339Nano),
	}, data)
}

// One that is masked as it stands, by a controller of the version before of a tenant that becomes strict, is masked as its whole data would be.
func TestShortEventsAreMaskedAsTheyStand(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	for _, c := range []struct{ typ, short, path, want string }{
		{"call.started", `["+919876543210", "+912250001000"]`, "{to}", "••••3210"},
		{"call.started", `["+912250001000", "+919876543210", "inbound"]`, "{from}", "••••3210"},
		{"call.started", `["+912250001000", "+919876543210", "inbound"]`, "{to}", "+912250001000"},
		{"call.started", `[null, null, "inbound"]`, "{direction}", "inbound"},
		{"call.started", `[]`, "{direction}", "outbound"},
		{"ai_session.ended", `["x", "transferred", {"final": {"destination": "+919876543210"}}]`, "{metadata,final,destination}", "••••3210"},
		{"ai_session.ended", `["x", "ended", {"final": null}]`, "{outcome}", "ended"},
		{"ai_session.ended", `["x"]`, "{voice_agent_id}", "x"},
		{"call.answered", `["machine"]`, "{answered_by_amd}", "machine"},
	} {
		data := `{"": ` + c.short + `}`
		const whole = "event_data($1, NULL, NULL, '2026-11-27', "
		var got string
		var same bool
		require.NoError(t, st.Pool().QueryRow(t.Context(), "SELECT coalesce("+whole+"mask_event($1, $2)) #>> $3::text[], ''), coalesce("+
			whole+"mask_event($1, $2)) = mask_event($1, "+whole+"$2)), false)", c.typ, data, c.path).Scan(&got, &same))
		require.Equal(t, c.want, got, "%s %s", c.typ, c.short)
		require.True(t, same, "%s %s", c.typ, c.short)
	}
}
