package httpapi_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/relay"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Who knocks again is not looked for again for some seconds, a controller that is lost is a stranger, and refusals are one line a minute.
func TestDoorRemembersWhoKnocks(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	tenant := storetest.Tenant(t, st)
	var log bytes.Buffer
	now := time.Now()
	r, err := relay.New(relay.Config{
		Store: st, Node: "n1", Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil)), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	door := r.Door(t.Context())
	knock := func(raw []byte) error {
		return door.VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: raw}}})
	}
	own := door.Certificates[0].Certificate[0]
	register := func(lost string) {
		storetest.Exec(t, st, tenant, `INSERT INTO nodes (id, started_at, last_seen_at, peer_addr, peer_key) VALUES ('n1', now(), now(), 'x', $1)
			ON CONFLICT (id) DO UPDATE SET lost_at = `+lost, r.Key())
	}
	for range 3 {
		require.Error(t, knock([]byte("a stranger's")))
	}
	require.Zero(t, proxy.RoundTrips(func() { require.Error(t, knock([]byte("a stranger's"))) }))
	require.Error(t, knock(own), "no controller yet")
	register("NULL")
	now = now.Add(3 * time.Second)
	require.NoError(t, knock(own))
	require.Zero(t, proxy.RoundTrips(func() { require.NoError(t, knock(own)) }))
	register("now()")
	now = now.Add(6 * time.Second)
	require.Error(t, knock(own), "lost")
	register("NULL")
	now = now.Add(time.Minute)
	require.NoError(t, knock(own))
	require.Error(t, knock([]byte("another stranger's")))
	require.Equal(t, 2, strings.Count(log.String(), "refused="), log.String())
	require.Contains(t, log.String(), "refused=1\n")
	require.Contains(t, log.String(), "refused=6\n")
}

// Who carries a request out for another host gives up before that one does, which then knows what became of it.
func TestRelayedRequestEndsFirst(t *testing.T) {
	t.Parallel()
	h := twoHosts(t)
	call := h.liveCall(t, h.tenant)
	path := "/api/v1/calls/" + call.String() + "/hangup"
	h.api2.JSON(t, http.MethodPost, path, nil, http.StatusOK, nil)
	h.api.JSON(t, http.MethodPost, path, nil, http.StatusOK, nil)
	require.Len(t, h.calls.limits, 2)
	require.Greater(t, h.calls.limits[1]-h.calls.limits[0], 2*time.Second)
}
