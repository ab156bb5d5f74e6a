package dnc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/retry"
)

func phones(t *testing.T, numbers ...string) []store.Phone {
	t.Helper()
	out := make([]store.Phone, len(numbers))
	for i, n := range numbers {
		p, err := store.ParsePhone(n)
		require.NoError(t, err)
		out[i] = p
	}
	return out
}

// answering lists the numbers that end in 9.
func answering(q remoteQuestion) remoteAnswer {
	a := remoteAnswer{Version: "v7"}
	for _, p := range q.Phones {
		listed := strings.HasSuffix(p, "9")
		a.Results = append([]remoteVerdict{{Phone: p, Listed: &listed}}, a.Results...) // in another order
	}
	return a
}

func TestRemoteOverTheWire(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var batches []int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q remoteQuestion
		if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer sesame" || json.NewDecoder(r.Body).Decode(&q) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		batches = append(batches, len(q.Phones))
		mu.Unlock()
		_ = json.NewEncoder(w).Encode(answering(q))
	}))
	t.Cleanup(srv.Close)
	metrics := prometheus.NewPedanticRegistry()
	r := NewRemote(RemoteConfig{URL: srv.URL, Token: "sesame", Batch: 2, Registerer: metrics})
	t.Cleanup(r.Close)
	listed, err := r.Listed(t.Context(), phones(t, "9876543219", "9876543211", "+919876543229", "9876543212", "9876543239"))
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true, false, true}, listed)
	require.Equal(t, []int{2, 2, 1}, batches)
	version, at := r.Last()
	require.Equal(t, "v7", version)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	require.InDelta(t, 3, testutil.ToFloat64(r.metrics.requests.WithLabelValues(remoteAnswered)), 0)
	_, err = r.Listed(t.Context(), []store.Phone{{}})
	require.ErrorIs(t, err, ErrNoNumber)
	_, err = metrics.Gather()
	require.NoError(t, err)
}

// roundTrip is a provider without a wire.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func honest(r *http.Request) (*http.Response, error) {
	var q remoteQuestion
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, err
	}
	text, err := json.Marshal(answering(q))
	return response(http.StatusOK, string(text)), err
}

func remoteOf(cfg RemoteConfig, f roundTrip) *Remote {
	cfg.URL, cfg.Client = "https://dnc.example/check", &http.Client{Transport: f}
	return NewRemote(cfg)
}

type canned struct {
	status int
	body   string
}

func TestBadAnswersAreNoAnswers(t *testing.T) {
	t.Parallel()
	const good = `{"phone":"+919876543219","listed":true}`
	for name, answer := range map[string]canned{
		"no json":        {200, "yes"},
		"nothing":        {200, `{}`},
		"other number":   {200, `{"results":[{"phone":"+919876543218","listed":false}]}`},
		"no verdict":     {200, `{"results":[{"phone":"+919876543219"}]}`},
		"null":           {200, `{"results":[{"phone":"+919876543219","listed":null}]}`},
		"no number":      {200, `{"results":[` + good + `,{"phone":"x","listed":true}]}`},
		"contradiction":  {200, `{"results":[` + good + `,{"phone":"9876543219","listed":false}]}`},
		"wrong type":     {200, `{"results":[{"phone":"+919876543219","listed":"no"}]}`},
		"too long":       {200, `{"results":[` + good + `],"x":"` + strings.Repeat("x", 10_000) + `"}`},
		"redirect":       {302, ""},
		"no content":     {204, ""},
		"unauthorized":   {401, ""},
		"not found":      {404, `{"results":[` + good + `]}`},
		"too many":       {429, ""},
		"internal error": {500, `{"results":[` + good + `]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				r := remoteOf(RemoteConfig{}, func(*http.Request) (*http.Response, error) {
					asked++
					return response(answer.status, answer.body, "Location", "https://elsewhere.example", "Retry-After", "30"), nil
				})
				_, err := r.Listed(t.Context(), phones(t, "9876543219"))
				require.ErrorIs(t, err, ErrRemote)
				require.NotContains(t, err.Error(), "98765", "numbers are told to nobody")
				require.Equal(t, 1, asked, "nothing that would be worth it at once")
				require.Equal(t, answer.status == 429 || answer.status == 500, r.Open())
			})
		})
	}
}

func TestRemoteIsAskedAgainWhenThatMayHelp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		r := remoteOf(RemoteConfig{}, func(req *http.Request) (*http.Response, error) {
			at = append(at, time.Now())
			switch len(at) {
			case 1:
				return nil, errors.New("connection refused")
			case 2:
				return response(503, ""), nil
			default:
				return honest(req)
			}
		})
		listed, err := r.Listed(t.Context(), phones(t, "9876543219"))
		require.NoError(t, err)
		require.Equal(t, []bool{true}, listed)
		require.InDelta(t, 150, at[1].Sub(at[0]).Milliseconds(), 51)
		require.InDelta(t, 300, at[2].Sub(at[1]).Milliseconds(), 101)
	})
}

func TestRemoteTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := remoteOf(RemoteConfig{Timeout: 2 * time.Second}, func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		began := time.Now()
		_, err := r.Listed(t.Context(), phones(t, "9876543219"))
		require.ErrorIs(t, err, ErrRemote)
		require.ErrorContains(t, err, "no answer in 2s")
		require.Equal(t, 2*time.Second, time.Since(began))
		require.InDelta(t, 1, testutil.ToFloat64(r.metrics.requests.WithLabelValues(remoteTimeout)), 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = r.Listed(ctx, phones(t, "9876543219"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, r.circuit.failures, "a caller who has gone is no failure of the provider's")
	})
}

// A provider that fails is left alone: for a second, then longer and longer, and only one request tries again.
func TestRemoteIsNotHammered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		var asked atomic.Int64
		hold := make(chan struct{})
		r := remoteOf(RemoteConfig{}, func(req *http.Request) (*http.Response, error) {
			asked.Add(1)
			if up.Load() {
				<-hold
				return honest(req)
			}
			return response(500, ""), nil
		})
		for range 60 * 10 { // ten minutes, once a second
			_, err := r.Listed(t.Context(), phones(t, "9876543211"))
			require.ErrorIs(t, err, ErrRemote)
			require.NoError(t, retry.Pause(t.Context(), time.Second))
		}
		require.Less(t, asked.Load(), int64(40), "nearly 1800 without")
		require.Greater(t, asked.Load(), int64(10))
		for before := asked.Load(); asked.Load() == before; { // the pauses differ, and one may just be over
			require.NoError(t, retry.Pause(t.Context(), time.Second))
			_, err := r.Listed(t.Context(), phones(t, "9876543211"))
			require.ErrorIs(t, err, ErrRemote)
		}
		require.True(t, r.Open())
		require.NoError(t, retry.Pause(t.Context(), longPause))
		require.False(t, r.Open())
		up.Store(true)
		asked.Store(0)
		var all sync.WaitGroup
		var answered atomic.Int64
		for range 20 {
			all.Go(func() {
				if _, err := r.Listed(t.Context(), phones(t, "9876543211")); err == nil {
					answered.Add(1)
				}
			})
		}
		synctest.Wait()
		require.EqualValues(t, 1, asked.Load(), "one tries")
		close(hold)
		all.Wait()
		require.EqualValues(t, 1, answered.Load())
		_, err := r.Listed(t.Context(), phones(t, "9876543211"))
		require.NoError(t, err, "and opens the way for all")
	})
}

func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := remoteOf(RemoteConfig{}, func(req *http.Request) (*http.Response, error) {
			if asked++; asked == 1 {
				return response(503, "", "Retry-After", time.Now().Add(2*time.Minute).UTC().Format(http.TimeFormat)), nil
			}
			return honest(req)
		})
		for range 119 {
			_, err := r.Listed(t.Context(), phones(t, "9876543211"))
			require.ErrorIs(t, err, ErrRemote)
			require.NoError(t, retry.Pause(t.Context(), time.Second))
		}
		require.Equal(t, 1, asked)
		require.NoError(t, retry.Pause(t.Context(), 2*time.Second))
		_, err := r.Listed(t.Context(), phones(t, "9876543211"))
		require.NoError(t, err)
	})
	require.Equal(t, longestWait, retryDelay("86400", time.Now()))
	require.Zero(t, retryDelay("soon", time.Now()))
	require.Zero(t, retryDelay("-1", time.Now()))
}

func TestAnswersAreHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := remoteOf(RemoteConfig{Hold: 3 * time.Hour}, func(req *http.Request) (*http.Response, error) {
			asked++
			return honest(req)
		})
		listed, err := r.Listed(t.Context(), phones(t, "9876543219", "9876543211"))
		require.NoError(t, err)
		require.Equal(t, []bool{true, false}, listed)
		for range 3 {
			require.NoError(t, retry.Pause(t.Context(), 30*time.Minute))
			listed, err = r.Listed(t.Context(), phones(t, "9876543211", "9876543219"))
			require.NoError(t, err)
			require.Equal(t, []bool{false, true}, listed)
		}
		require.Equal(t, 1, asked)
		require.NoError(t, retry.Pause(t.Context(), 90*time.Minute+time.Second))
		_, err = r.Listed(t.Context(), phones(t, "9876543211"))
		require.NoError(t, err)
		require.Equal(t, 2, asked, "never longer than told")
	})
}

func TestHeldIsBounded(t *testing.T) {
	t.Parallel()
	h := newHeld(time.Hour)
	now := time.Now()
	for n := range uint64(3 * maxHeld) {
		h.put(n, true, now)
	}
	require.LessOrEqual(t, len(h.now)+len(h.before), 2*maxHeld)
	_, ok := h.get(3*maxHeld-1, now)
	require.True(t, ok)
	none := newHeld(0)
	none.put(1, true, now)
	_, ok = none.get(1, now)
	require.False(t, ok)
}

func FuzzReadVerdicts(f *testing.F) {
	f.Add(`{"version":"1","results":[{"phone":"+919876543210","listed":true},{"phone":"9123456789","listed":false}]}`)
	f.Add(`{"results":[{"phone":"+919876543210"}]}`)
	f.Add(`[]`)
	asked := make([]store.Phone, 0, 2)
	for _, n := range []string{"9876543210", "9123456789"} {
		p, err := store.ParsePhone(n)
		if err != nil {
			f.Fatal(err)
		}
		asked = append(asked, p)
	}
	f.Fuzz(func(t *testing.T, text string) {
		verdicts, version, err := readVerdicts([]byte(text), asked)
		if err != nil {
			require.ErrorIs(t, err, ErrRemote)
			return
		}
		require.Len(t, verdicts, 2)
		require.LessOrEqual(t, len(version), maxVersion)
		for i, p := range asked {
			require.Contains(t, text, p.National()[5:], "%d", i) // nothing is made up
			_ = strconv.FormatBool(verdicts[i])
		}
	})
}
