package httpapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/apitest"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// A verb on a call that is here waits for the database for its Idempotency-Key alone, twice, whatever its credential.
func TestRoundTripsOfAVerb(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st)
	call := b.call(t, b.tenant, nil, "")
	b.calls.here = []uuid.UUID{call}
	require.Eventually(t, func() bool {
		return gauge(t, b, "ringmaster_http_credentials_watched") == 1
	}, 20*time.Second, time.Millisecond, "keys are remembered")
	token := b.client(b.token(t, b.tenant, call, b.clock.Now().Add(time.Hour)))
	for _, c := range []struct {
		name   string
		client apitest.Client
		keyed  bool
		most   int
	}{
		{"by a key", b.scoped(t, "ai_sessions:control_admin"), false, 0},
		{"by a key, with an Idempotency-Key", b.scoped(t, "ai_sessions:control_admin"), true, 2},
		{"by a callback token", token, false, 0},
		{"by a callback token, with an Idempotency-Key", token, true, 2},
	} {
		fewest := 100
		for range 6 { // others may use the store meanwhile, and the first has statements prepared
			client := c.client
			if c.keyed {
				client = client.With("Idempotency-Key", uuid.NewString())
			}
			fewest = min(fewest, proxy.RoundTrips(func() {
				client.JSON(t, http.MethodPost, controlPath(call), `{"event":"mute"}`, http.StatusOK, nil)
			}))
		}
		require.Equal(t, c.most, fewest, c.name)
	}
}

// gauge reads a metric without labels.
func gauge(t *testing.T, b *bundle, name string) float64 {
	t.Helper()
	families, err := b.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}
