package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
)

func TestMetricsListener(t *testing.T) {
	t.Parallel()
	b := setup(t)
	status, _ := get(t, "http://"+b.srv.MetricsAddr()+"/debug/pprof/")
	require.Equal(t, http.StatusOK, status)
	// Neither is served to customers.
	refused(t, b.api, http.MethodGet, "/metrics", nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodGet, "/debug/pprof/", nil, http.StatusNotFound, "not_found")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	b := setup(t, func(_ *httpapi.Config, deps *httpapi.Deps) {
		deps.Checks = []httpapi.Check{
			{Name: "switch", Ready: func(context.Context) error {
				if down.Load() {
					return errors.New("no link")
				}
				return nil
			}},
			{Name: "media", Ready: func(context.Context) error { return nil }},
		}
	})
	c := b.client("")
	var health struct {
		Status           string `json:"status"`
		InterfaceVersion string `json:"interface_version"`
	}
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, &health)
	require.Equal(t, "0.1.0", health.InterfaceVersion)
	c.JSON(t, http.MethodGet, "/health/live", nil, http.StatusOK, nil)
	var ready struct {
		Checks  map[string]string `json:"checks"`
		Failing []string          `json:"failing"`
	}
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusOK, &ready)
	require.Equal(t, map[string]string{"database": "ok", "switch": "ok", "media": "ok"}, ready.Checks)
	down.Store(true)
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusServiceUnavailable, &ready)
	require.Equal(t, []string{"switch"}, ready.Failing)
	b.st.Close()
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusServiceUnavailable, &ready)
	require.Equal(t, []string{"database", "switch"}, ready.Failing)
	c.JSON(t, http.MethodGet, "/health/live", nil, http.StatusOK, nil)
	status, _, _ := b.api.Do(t, http.MethodGet, voiceAgents, nil)
	require.GreaterOrEqual(t, status, 500)
}

// An old do-not-call registry is told, and takes nobody out of service.
func TestHealthOfTheRegistry(t *testing.T) {
	t.Parallel()
	var status atomic.Pointer[httpapi.RegistryStatus]
	status.Store(&httpapi.RegistryStatus{Unavailable: true})
	b := setup(t, func(_ *httpapi.Config, deps *httpapi.Deps) {
		deps.Registry = func() httpapi.RegistryStatus { return *status.Load() }
		deps.Checks = []httpapi.Check{{Name: "do_not_call", Ready: func(context.Context) error {
			switch s := status.Load(); {
			case s.Unavailable:
				return errors.New("none")
			case s.Degraded:
				return errors.Join(httpapi.ErrDegraded, errors.New("of last year"))
			}
			return nil
		}}}
	})
	c := b.client("")
	type registry struct {
		Status  string
		Version *string
		AsOf    *time.Time `json:"as_of"`
		AgeS    *int64     `json:"age_s"`
		Numbers *uint64
	}
	var health struct {
		Status    string
		DoNotCall registry `json:"do_not_call"`
	}
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, &health)
	require.Equal(t, registry{Status: "unavailable"}, health.DoNotCall)
	require.Equal(t, "unavailable", health.Status, "nothing is dialed")
	var ready struct {
		Status            string
		Checks            map[string]string
		Failing, Degraded []string
	}
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusServiceUnavailable, &ready)
	require.Equal(t, []string{"do_not_call"}, ready.Failing)
	require.Equal(t, "unavailable", ready.Status)

	asOf := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	status.Store(&httpapi.RegistryStatus{Version: "0123456789ab", AsOf: asOf, Age: 20 * 24 * time.Hour, Numbers: 7, Degraded: true})
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, &health)
	version, age, numbers := "0123456789ab", int64(20*24*3600), uint64(7)
	require.Equal(t, registry{Status: "degraded", Version: &version, AsOf: &asOf, AgeS: &age, Numbers: &numbers}, health.DoNotCall)
	require.Equal(t, "degraded", health.Status)
	c.JSON(t, http.MethodGet, "/health/ready", nil, http.StatusOK, &ready)
	require.Equal(t, map[string]string{"database": "ok", "do_not_call": "degraded"}, ready.Checks)
	require.Equal(t, []string{"do_not_call"}, ready.Degraded)
	require.Empty(t, ready.Failing)
	require.Equal(t, "degraded", ready.Status)
	status.Store(&httpapi.RegistryStatus{Version: "0123456789ab", AsOf: asOf, Numbers: 7})
	c.JSON(t, http.MethodGet, "/health", nil, http.StatusOK, &health)
	require.Equal(t, "ok", health.Status)
}
