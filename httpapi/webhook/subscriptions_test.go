package webhook_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// subscriptions is the service with a clock that the test sets.
func (b *bundle) subscriptions(t *testing.T) (*webhook.Subscriptions, *storetest.Clock) {
	t.Helper()
	clock := storetest.NewClock(time.Now())
	return webhook.NewSubscriptions(b.st, netguard.Policy{AllowLoopback: true}, func(context.Context, uuid.UUID, uuid.UUID) error { return nil }, clock.Now), clock
}

// accepted tells which of the secrets verify a delivery, by the interface's signature and by that of Standard Webhooks.
func accepted(t *testing.T, r received, secrets ...string) []bool {
	t.Helper()
	stamp, rest, ok := strings.Cut(strings.TrimPrefix(r.header.Get("X-Service-Signature"), "t="), ",")
	require.True(t, ok)
	out := make([]bool, len(secrets))
	for i, s := range secrets {
		for part := range strings.SplitSeq(rest, ",") {
			out[i] = out[i] || part == "v0="+hexHMAC(s, stamp+"."+string(r.body))
		}
		require.Equal(t, out[i], standardVerifies(t, s, r), "both signatures are of the same secrets")
	}
	return out
}

// While a secret is being replaced both sign; then the new one alone.
func TestRotateSecret(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(time.Now())
	b := setup(t, func(cfg *webhook.Config) { cfg.Now = clock.Now })
	service, _ := b.subscriptions(t)
	r := newReceiver(t)
	sub := b.subscribe(t, r.URL)
	_, old, err := service.RotateSecret(t.Context(), b.tenant, sub, webhook.RotateInput{OverlapHours: new(0)})
	require.NoError(t, err)
	row, fresh, err := service.RotateSecret(t.Context(), b.tenant, sub, webhook.RotateInput{})
	require.NoError(t, err)
	require.NotEqual(t, old, fresh)
	require.WithinDuration(t, time.Now().Add(24*time.Hour), *row.PreviousSecretUntil, 30*time.Second)
	next := func() received {
		t.Helper()
		n := len(r.requests())
		b.emit(t, storetest.NewID(t), store.EventCallEnded)
		require.Eventually(t, func() bool { return len(r.requests()) == n+1 }, 30*time.Second, 5*time.Millisecond)
		return r.requests()[n]
	}
	got := next()
	require.Equal(t, []bool{true, true, false}, accepted(t, got, fresh, old, secret), "the one that ended at once doesn't sign")
	require.Equal(t, 2, strings.Count(got.header.Get("X-Service-Signature"), ",v0="))
	clock.Advance(24*time.Hour + time.Minute)
	got = next()
	require.Equal(t, []bool{true, false}, accepted(t, got, fresh, old))
	for _, bad := range []int{-1, 169} {
		_, _, err = service.RotateSecret(t.Context(), b.tenant, sub, webhook.RotateInput{OverlapHours: &bad})
		require.ErrorContains(t, err, "overlap_hours")
	}
	_, _, err = service.RotateSecret(t.Context(), b.tenant, storetest.NewID(t), webhook.RotateInput{})
	require.ErrorIs(t, err, store.ErrNotFound)
}

// What failed, or all, of a span of time is delivered once more, in the order of the events and without holding up new ones; what the subscription
// missed is delivered then.
func TestReplayMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	service, _ := b.subscriptions(t)
	begin := time.Now().Add(-time.Hour)
	r := newReceiver(t, 400, 200, 400)
	sub := b.subscribe(t, r.URL, "call.*", "lead.*")
	delivered := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			return len(r.requests()) == n && storetest.Count(t, b.st, "SELECT count(*) FROM webhook_queue")+
				storetest.Count(t, b.st, "SELECT count(*) FROM webhook_replays") == 0
		}, 30*time.Second, 10*time.Millisecond, "%d requests", n)
	}
	call := storetest.NewID(t)
	at := time.Now().Add(-10 * time.Minute)
	emit := func(typ store.EventType, at time.Time) (id string) {
		t.Helper()
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) (err error) {
			id, err = tx.Emit(t.Context(), store.Event{TenantID: b.tenant, Type: typ, At: at, CallID: &call, Data: map[string]any{"call_id": call}})
			return err
		}))
		return id
	}
	var ids []string
	for i, typ := range []store.EventType{store.EventCallStarted, store.EventCallAnswered, store.EventCallEnded} {
		ids = append(ids, emit(typ, at.Add(time.Duration(i)*time.Minute)))
		delivered(i + 1)
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE webhook_subscriptions SET is_active = false")
	missed := emit(store.EventLeadCompleted, at.Add(4*time.Minute))
	storetest.Exec(t, b.st, b.tenant, "UPDATE webhook_subscriptions SET is_active = true")
	replay := func(want int64, in webhook.ReplayInput) {
		t.Helper()
		n, err := service.ReplayMany(t.Context(), b.tenant, sub, in)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	now := time.Now().Add(time.Hour) // what comes isn't replayed
	replay(2, webhook.ReplayInput{From: input.Some(begin), To: input.Some(now), OnlyFailed: input.Some(true)})
	delivered(5)
	replay(0, webhook.ReplayInput{From: input.Some(begin), To: input.Some(now), OnlyFailed: input.Some(true)})
	replay(4, webhook.ReplayInput{From: input.Some(begin), To: input.Some(now)})
	delivered(9)
	answered := at.Add(time.Minute)
	ended := at.Add(2 * time.Minute)
	replay(1, webhook.ReplayInput{From: input.Some(answered), To: input.Some(ended)})
	delivered(10)
	replay(1, webhook.ReplayInput{From: input.Some(begin), To: input.Some(now), EventTypes: input.Some([]string{"lead.*", "campaign.paused"})})
	delivered(11)
	replay(0, webhook.ReplayInput{From: input.Some(begin), To: input.Some(begin)})
	var got []string
	for _, request := range r.requests() {
		got = append(got, request.event.ID)
	}
	require.Equal(t, []string{ids[0], ids[1], ids[2], ids[0], ids[2], ids[0], ids[1], ids[2], missed, ids[1], missed}, got)
	require.Equal(t, 4, storetest.Count(t, b.st, "SELECT count(*) FROM webhook_deliveries"), "one for each event")

	for name, in := range map[string]webhook.ReplayInput{
		"from":           {To: input.Some(now)},
		"to":             {From: input.Some(now)},
		"must not lie":   {From: input.Some(now), To: input.Some(begin)},
		"event_types[0]": {From: input.Some(begin), To: input.Some(now), EventTypes: input.Some([]string{"moon.*"})},
		"event_types":    {From: input.Some(begin), To: input.Some(now), EventTypes: input.Some([]string{})},
	} {
		_, err := service.ReplayMany(t.Context(), b.tenant, sub, in)
		require.ErrorContains(t, err, name)
	}
	_, err := service.ReplayMany(t.Context(), b.tenant, storetest.NewID(t), webhook.ReplayInput{From: input.Some(begin), To: input.Some(now)})
	require.ErrorIs(t, err, store.ErrNotFound)
	storetest.Exec(t, b.st, b.tenant, "UPDATE webhook_subscriptions SET is_active = false")
	_, err = service.ReplayMany(t.Context(), b.tenant, sub, webhook.ReplayInput{From: input.Some(begin), To: input.Some(now)})
	require.ErrorContains(t, err, "not active")
}

// Many are queued in batches, behind which new events needn't wait, each once though several controllers work.
func TestReplayOfMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := newDispatcher(t, b.st)
	other.Start(t.Context())
	service, clock := b.subscriptions(t)
	r := newCounter(t)
	sub := b.subscribe(t, r.URL)
	const n = 1000
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO events (tenant_id, id, type, data)
		SELECT $1, (substr(uuidv7_floor(now())::text, 1, 14) || '7' || substr(gen_random_uuid()::text, 16))::uuid, 'call.ended', '{}' FROM generate_series(1, $2::int)`, b.tenant, n)
	clock.Advance(time.Minute)
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	queued, err := service.ReplayMany(t.Context(), b.tenant, sub, webhook.ReplayInput{From: input.Some(from), To: input.Some(to)})
	require.NoError(t, err)
	require.EqualValues(t, n, queued)
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_deliveries WHERE status = 'delivered'") == n
	}, 60*time.Second, 20*time.Millisecond)
	require.EqualValues(t, n, r.n.Load())
	require.Equal(t, n, storetest.Count(t, b.st, "SELECT count(*) FROM webhook_deliveries WHERE jsonb_array_length(attempts) = 1"))
	require.Eventually(t, func() bool { // the last look finds that nothing is left
		return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_replays") == 0
	}, 60*time.Second, 20*time.Millisecond)
	require.NoError(t, other.Stop(t.Context()))
	other.Close()
}

// A recording that is told again has a signed URL of now, and one that is gone the URL that it had.
func TestReplayedRecordingIsSignedAnew(t *testing.T) {
	t.Parallel()
	gone := storetest.NewID(t)
	b := setup(t, func(cfg *webhook.Config) {
		cfg.SignRecording = func(_ context.Context, _, call, _ uuid.UUID) (string, error) {
			if call == gone {
				return "", store.ErrNotFound
			}
			return "https://signed.anew/" + call.String(), nil
		}
	})
	service, _ := b.subscriptions(t)
	r := newReceiver(t)
	b.subscribe(t, r.URL)
	for i, call := range []uuid.UUID{storetest.NewID(t), gone} {
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			_, err := tx.Emit(t.Context(), store.Event{
				TenantID: b.tenant, Type: store.EventCallRecordingReady, CallID: &call,
				Data: map[string]any{"call_id": call, "signed_url": "https://signed.first/", "duration_s": 3},
			})
			return err
		}))
		finished := func() (ids []uuid.UUID) {
			return storetest.Query[uuid.UUID](t, b.st, b.tenant, `SELECT d.id FROM webhook_deliveries d JOIN events e ON e.id = d.event_id
				WHERE d.status = 'delivered' AND e.call_id = $1`, call)
		}
		require.Eventually(t, func() bool { return len(finished()) == 1 }, 30*time.Second, 10*time.Millisecond)
		_, err := service.Replay(t.Context(), b.tenant, finished()[0])
		require.NoError(t, err)
		require.Eventually(t, func() bool { return len(r.requests()) == 2*(i+1) }, 30*time.Second, 10*time.Millisecond)
	}
	var urls []string
	for _, request := range r.requests() {
		var data struct {
			URL string `json:"signed_url"`
			S   int    `json:"duration_s"`
		}
		require.NoError(t, json.Unmarshal(request.event.Data, &data))
		require.Equal(t, 3, data.S)
		urls = append(urls, strings.TrimSuffix(data.URL, request.call()))
		require.Equal(t, []bool{true}, accepted(t, request, secret))
	}
	require.Equal(t, []string{"https://signed.first/", "https://signed.anew/", "https://signed.first/", "https://signed.first/"}, urls)
}

// A subscription whose deliveries have all failed for three days is disabled, and the tenant's others are told; one that was delivered to meanwhile isn't.
func TestDisabledAfterThreeDays(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock(time.Now())
	b := setup(t, func(cfg *webhook.Config) { cfg.Now = clock.Now })
	failing, good := newReceiver(t, 400, 400, 200, 400, 400, 400, 400), newReceiver(t)
	bad := b.subscribe(t, failing.URL, "call.ended")
	b.subscribe(t, good.URL, "lead.completed")
	state := func() (active bool, since *time.Time) {
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			sub, err := tx.Q.GetWebhook(t.Context(), b.tenant, bad)
			active, since = sub.IsActive, sub.FailingSince
			return err
		}))
		return active, since
	}
	deliver := func(answer int) {
		t.Helper()
		require.Equal(t, answer, append(failing.script, 200)[len(failing.requests())])
		n := len(failing.requests())
		b.emit(t, storetest.NewID(t), store.EventCallEnded)
		require.Eventually(t, func() bool {
			return len(failing.requests()) == n+1 && storetest.Count(t, b.st, "SELECT count(*) FROM webhook_queue WHERE subscription_id = $1", bad) == 0
		}, 30*time.Second, 5*time.Millisecond)
	}
	deliver(400)
	_, since := state()
	require.NotNil(t, since)
	clock.Advance(71 * time.Hour)
	deliver(400)
	deliver(200)
	active, since := state()
	require.True(t, active)
	require.Nil(t, since, "one that arrives begins it anew")
	deliver(400)
	clock.Advance(71 * time.Hour)
	deliver(400)
	active, _ = state()
	require.True(t, active)
	clock.Advance(2 * time.Hour)
	deliver(400)
	require.Eventually(t, func() bool { active, _ = state(); return !active }, 30*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return len(good.requests()) == 1 }, 30*time.Second, 10*time.Millisecond)
	told := good.requests()[0]
	require.Equal(t, "webhook.disabled", told.event.Type)
	var data struct {
		ID     uuid.UUID `json:"subscription_id"`
		Reason string    `json:"reason"`
		URL    string    `json:"url"`
	}
	require.NoError(t, json.Unmarshal(told.event.Data, &data))
	require.Equal(t, bad, data.ID)
	require.Equal(t, failing.URL, data.URL)
	require.Contains(t, data.Reason, "three days")

	// Made active again it begins anew.
	service, _ := b.subscriptions(t)
	var edit webhook.Edit
	edit.IsActive.Set, edit.IsActive.Value = true, true
	sub, err := service.Patch(t.Context(), b.tenant, bad, edit)
	require.NoError(t, err)
	require.True(t, sub.IsActive)
	require.Nil(t, sub.DisabledAt)
	require.Nil(t, sub.FailingSince)
	deliver(400)
	active, _ = state()
	require.True(t, active)
}

// What a network answers that the operator has allowed is not the tenant's to read, but for the status.
func TestTestInTheOperatorsNetwork(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Inside", "what stands there")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("what stands there"))
	}))
	t.Cleanup(there.Close)
	for _, internal := range []bool{false, true} {
		policy := netguard.Policy{AllowLoopback: true}
		if internal {
			policy.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}
		subs := webhook.NewSubscriptions(st, policy, func(context.Context, uuid.UUID, uuid.UUID) error { return nil }, time.Now)
		sub, _, err := subs.Create(t.Context(), tenant, webhook.Edit{URL: input.Some(there.URL), EventTypes: input.Some([]string{"call.ended"})})
		require.NoError(t, err)
		out, err := subs.Test(t.Context(), tenant, sub.ID)
		require.NoError(t, err)
		require.Equal(t, http.StatusTeapot, out.Response.StatusCode)
		require.Equal(t, !internal, out.Response.Body == "what stands there")
		require.Equal(t, !internal, out.Response.Headers["X-Inside"] != "")
		require.NotContains(t, string(out.Delivery.Attempts), "what stands there")
	}
}
