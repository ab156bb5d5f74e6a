package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Calls that are asked for while others of the tenant's are read follow them in one statement, each to whom it was asked by: also one that isn't there,
// one that is asked for twice, and another tenant's.
func TestCallsThatWaitAreReadTogether(t *testing.T) {
	t.Parallel()
	proxy := storetest.NewProxy(t, storetest.NewURL(t))
	proxy.Listen(t)
	st, err := store.Open(t.Context(), store.Config{
		URL: proxy.URL, MasterKey: storetest.MasterKey(), ReadTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(st.Close)
	var looks atomic.Int64
	b := setupOn(t, st, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		now := cfg.Now
		cfg.Now = func() time.Time {
			looks.Add(1)
			return now()
		}
	})
	tx, err := st.Pool().Begin(t.Context())
	require.NoError(t, err)
	release := func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }
	const many = 60 // what the server does beside takes some round trips, too
	ids := make([]uuid.UUID, many)
	for i := range ids {
		ids[i] = b.call(t, b.tenant, nil, ", notes", "note "+strconv.Itoa(i))
	}
	strangers := b.call(t, b.other, nil, "")
	b.api.JSON(t, http.MethodGet, "/api/v1/calls/"+ids[0].String(), nil, http.StatusOK, nil)
	before := looks.Load()
	b.api.JSON(t, http.MethodGet, "/api/v1/calls/"+ids[0].String(), nil, http.StatusOK, nil)
	each := looks.Load() - before
	_, err = tx.Exec(t.Context(), "LOCK TABLE calls IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	var asking sync.WaitGroup
	get := func(id uuid.UUID, status int, note any) {
		asking.Go(func() {
			got, _, answer := b.api.Do(t, http.MethodGet, "/api/v1/calls/"+id.String(), nil)
			var call object
			err := json.Unmarshal(answer, &call)
			if err != nil || got != status || status == http.StatusOK && (call["notes"] != note || call["id"] != id.String()) {
				t.Errorf("call %s: %d, want %d: %s", id, got, status, answer)
			}
		})
	}
	looks.Store(0)
	for i, id := range ids {
		get(id, http.StatusOK, "note "+strconv.Itoa(i))
	}
	get(ids[0], http.StatusOK, "note 0")
	get(strangers, http.StatusNotFound, nil)
	get(storetest.NewID(t), http.StatusNotFound, nil)
	require.Eventually(t, func() bool { return looks.Load() >= (many+3)*each }, 20*time.Second, time.Millisecond)
	trips := proxy.RoundTrips(func() {
		release()
		asking.Wait()
	})
	require.Less(t, trips, many, "round trips: one for each would be more")
}
