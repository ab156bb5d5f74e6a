package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const secret = "whsec_b2YgdGhlIHRlc3QsIHRoaXJ0eS10d28gYnl0ZXMhIQ=="

// received is one request that the receiver took.
type received struct {
	at     time.Time
	header http.Header
	body   []byte
	event  envelope
}

type envelope struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	CreatedAt time.Time       `json:"created_at"`
	TenantID  string          `json:"tenant_id"`
	Data      json.RawMessage `json:"data"`
}

// call is the call that the event is about.
func (r received) call() string {
	var data struct {
		CallID string `json:"call_id"`
	}
	_ = json.Unmarshal(r.event.Data, &data)
	return data.CallID
}

// receiver is a customer's endpoint that answers as its script says, and with 200 when that is used up.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	script []int
	got    []received
	// before is called before each answer.
	before func(r *http.Request, n int)
	// after is the Retry-After of answers with 429.
	after string
}

func newReceiver(t *testing.T, script ...int) *receiver {
	t.Helper()
	r := &receiver{script: script}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	in := received{at: time.Now(), header: req.Header.Clone(), body: body}
	_ = json.Unmarshal(body, &in.event)
	r.mu.Lock()
	n := len(r.got)
	r.got = append(r.got, in)
	status := http.StatusOK
	if n < len(r.script) {
		status = r.script[n]
	}
	before := r.before
	r.mu.Unlock()
	if before != nil {
		before(req, n)
	}
	if status == http.StatusTooManyRequests && r.after != "" {
		w.Header().Set("Retry-After", r.after)
	}
	if status >= 300 && status < 400 {
		w.Header().Set("Location", r.URL+"/elsewhere")
	}
	w.WriteHeader(status)
}

func (r *receiver) requests() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received{}, r.got...)
}

// bundle is a worker that delivers, with short waits.
type bundle struct {
	st         *store.Store
	tenant     uuid.UUID
	metrics    *prometheus.Registry
	dispatcher *webhook.Dispatcher
	stop       func()
}

func setup(t *testing.T, adjust ...func(*webhook.Config)) *bundle {
	t.Helper()
	b := &bundle{st: storetest.New(t), metrics: prometheus.NewRegistry()}
	b.tenant = storetest.Tenant(t, b.st)
	cfg := webhook.Config{
		Store: b.st, Targets: netguard.Policy{AllowLoopback: true}, Registerer: b.metrics,
		Delays: [webhook.Attempts]time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond},
	}
	for _, f := range adjust {
		f(&cfg)
	}
	w, err := webhook.New(cfg)
	require.NoError(t, err)
	w.Start(t.Context())
	b.dispatcher = w
	b.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // requests at work are cut off
		require.NoError(t, w.Stop(ctx))
		w.Close()
	})
	t.Cleanup(b.stop)
	return b
}

// subscribe makes a subscription to all events of calls.
func (b *bundle) subscribe(t *testing.T, url string, types ...string) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	sealed, err := b.st.Seal(webhook.SecretContext(id), []byte(secret))
	require.NoError(t, err)
	if len(types) == 0 {
		types = []string{"call.*"}
	}
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, secret_sealed)
		VALUES ($1, $2, $3, $4, $5)`, b.tenant, id, url, types, sealed)
	return id
}

// emit commits events of one call in one transaction, and gives their ids.
func (b *bundle) emit(t *testing.T, call uuid.UUID, types ...store.EventType) []string {
	t.Helper()
	var ids []string
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		ids = nil
		for _, typ := range types {
			id, err := tx.Emit(t.Context(), store.Event{
				TenantID: b.tenant, Type: typ, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), CallID: &call,
				Data: map[string]any{"call_id": call},
			})
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	}))
	return ids
}

// delivery waits until the only delivery of the subscription has a status, and gives its attempts.
func (b *bundle) delivery(t *testing.T, subscription uuid.UUID, status string) []webhook.Attempt {
	t.Helper()
	var raw []byte
	require.Eventually(t, func() bool {
		var got string
		err := b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), "SELECT status, attempts FROM webhook_deliveries WHERE subscription_id = $1",
				subscription).Scan(&got, &raw)
		})
		return err == nil && got == status
	}, 30*time.Second, 10*time.Millisecond, "the delivery becomes %s", status)
	var attempts []webhook.Attempt
	require.NoError(t, json.Unmarshal(raw, &attempts))
	return attempts
}

// verify holds a delivery's signatures against what the documentation says.
func verify(t *testing.T, r received) {
	t.Helper()
	require.Equal(t, []bool{true}, accepted(t, r, secret))
}

// hexHMAC computes a signature as a customer would, from the documentation alone.
func hexHMAC(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(mac, text)
	return hex.EncodeToString(mac.Sum(nil))
}

// standardVerifies asks the library of Standard Webhooks.
func standardVerifies(t *testing.T, key string, r received) bool {
	t.Helper()
	require.Equal(t, r.header.Get("X-Service-Event-Id"), r.header.Get("webhook-id"))
	wh, err := standardwebhooks.NewWebhook(key)
	require.NoError(t, err)
	return wh.VerifyIgnoringTimestamp(r.body, r.header) == nil
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := newReceiver(t)
	sub := b.subscribe(t, r.URL+"/hook?x=1", "call.ended")
	call := storetest.NewID(t)
	ids := b.emit(t, call, store.EventCallStarted, store.EventCallEnded)
	attempts := b.delivery(t, sub, "delivered")
	require.Len(t, attempts, 1)
	require.Equal(t, 200, *attempts[0].StatusCode)
	require.Nil(t, attempts[0].Error)
	got := r.requests()
	require.Len(t, got, 1, "the other event is not subscribed")
	verify(t, got[0])
	require.Equal(t, "application/json", got[0].header.Get("Content-Type"))
	require.Equal(t, ids[1], got[0].header.Get("X-Service-Event-Id"))
	require.Equal(t, "call.ended", got[0].header.Get("X-Service-Event-Type"))
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(got[0].body, &members))
	require.Len(t, members, 5)
	require.Equal(t, ids[1], got[0].event.ID)
	require.True(t, strings.HasPrefix(ids[1], "evt_"))
	require.Equal(t, "call.ended", got[0].event.Type)
	require.Equal(t, b.tenant.String(), got[0].event.TenantID)
	require.Equal(t, `"2026-01-02T03:04:05Z"`, string(members["created_at"]))
	require.JSONEq(t, `{"call_id":"`+call.String()+`"}`, string(got[0].event.Data))
	stamp := strings.TrimPrefix(strings.Split(got[0].header.Get("X-Service-Signature"), ",")[0], "t=")
	require.Len(t, stamp, 10, "seconds")
	require.Eventually(t, func() bool {
		n, err := testutil.GatherAndCount(b.metrics, "ringmaster_webhook_deliveries_total")
		return err == nil && n == 1
	}, 30*time.Second, 10*time.Millisecond)
}

func TestRetries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tests := map[string]struct {
		script []int
		status string
		codes  []int
	}{
		"recovers":                   {[]int{500, 503}, "delivered", []int{500, 503, 200}},
		"succeeds at the last":       {[]int{500, 408, 429, 204}, "delivered", []int{500, 408, 429, 204}},
		"dead after four":            {[]int{500, 500, 500, 500, 200}, "dead_lettered", []int{500, 500, 500, 500}},
		"400 is not retried":         {[]int{400}, "dead_lettered", []int{400}},
		"404 is not retried":         {[]int{404}, "dead_lettered", []int{404}},
		"410 after a failure":        {[]int{502, 410}, "dead_lettered", []int{502, 410}},
		"redirects are not followed": {[]int{302, 301, 307, 308}, "dead_lettered", []int{302, 301, 307, 308}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, tt.script...)
			sub := b.subscribe(t, r.URL)
			b.emitTo(t, sub, storetest.NewID(t))
			attempts := b.delivery(t, sub, tt.status)
			var codes []int
			for i, a := range attempts {
				codes = append(codes, *a.StatusCode)
				require.Equal(t, *a.StatusCode < 300, a.Error == nil, "attempt %d", i)
			}
			require.Equal(t, tt.codes, codes)
			got := r.requests()
			require.Len(t, got, len(tt.codes))
			for _, request := range got {
				verify(t, request)
				require.Equal(t, got[0].event.ID, request.event.ID, "the id stays")
				require.NotContains(t, request.header.Get("Referer"), "elsewhere")
			}
		})
	}
}

// emitTo commits one event that this subscription alone wants.
func (b *bundle) emitTo(t *testing.T, subscription, call uuid.UUID) {
	t.Helper()
	deliveryID, eventID := storetest.NewID(t), storetest.NewID(t)
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		if _, err := tx.Pgx().Exec(t.Context(), `INSERT INTO events (tenant_id, id, type, call_id, data)
			VALUES ($1, $2, 'call.ended', $3, '{}')`, b.tenant, eventID, call); err != nil {
			return err
		}
		if _, err := tx.Pgx().Exec(t.Context(), `INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type)
			VALUES ($1, $2, $3, $4, 'call.ended')`, b.tenant, deliveryID, subscription, eventID); err != nil {
			return err
		}
		tx.WakeWebhooks()
		_, err := tx.Pgx().Exec(t.Context(), `INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id)
			VALUES ($1, $2, $3, $4, $5)`, b.tenant, subscription, deliveryID, eventID, call)
		return err
	}))
}

func TestTargetsThatCannotBeReached(t *testing.T) {
	t.Parallel()
	t.Run("internal addresses are not dialed", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(cfg *webhook.Config) { cfg.Targets = netguard.Policy{} })
		r := newReceiver(t)
		sub := b.subscribe(t, r.URL)
		b.emit(t, storetest.NewID(t), store.EventCallEnded)
		attempts := b.delivery(t, sub, "dead_lettered")
		require.Len(t, attempts, 1)
		require.Nil(t, attempts[0].StatusCode)
		require.Contains(t, *attempts[0].Error, "not allowed")
		require.Empty(t, r.requests())
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sub := b.subscribe(t, "http://127.0.0.1:9") // no port that another test may get
		b.emit(t, storetest.NewID(t), store.EventCallEnded)
		attempts := b.delivery(t, sub, "dead_lettered")
		require.Len(t, attempts, 4)
		require.NotContains(t, *attempts[0].Error, "http://")
	})
	t.Run("no answer in time", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(cfg *webhook.Config) { cfg.Timeout = 4 * time.Second }) // the second attempt is in time
		r := newReceiver(t)
		r.before = func(req *http.Request, n int) {
			if n == 0 {
				<-req.Context().Done()
			}
		}
		sub := b.subscribe(t, r.URL)
		b.emit(t, storetest.NewID(t), store.EventCallEnded)
		attempts := b.delivery(t, sub, "delivered")
		require.Len(t, attempts, 2)
		require.Nil(t, attempts[0].StatusCode)
		require.Equal(t, "no answer in time", *attempts[0].Error)
	})
}

func TestSubscriptionThatIsGone(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"removed":    "DELETE FROM webhook_subscriptions",
		"not active": "UPDATE webhook_subscriptions SET is_active = false",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			r := newReceiver(t)
			sub := b.subscribe(t, r.URL, "campaign.*")
			storetest.Exec(t, b.st, b.tenant, sql)
			b.emitTo(t, sub, storetest.NewID(t))
			attempts := b.delivery(t, sub, "dead_lettered")
			require.Len(t, attempts, 1)
			require.Contains(t, *attempts[0].Error, name)
			require.Empty(t, r.requests())
		})
	}
}

// The events of a call arrive in their order, also when one transaction emits several and the receiver is slow; the events of
// other calls do not wait for them.
func TestOrderWithinACall(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *webhook.Config) { cfg.Timeout = 5 * time.Minute }) // the slow one is slow for as long as the others take
	r := newReceiver(t)
	slow := storetest.NewID(t)
	gate := make(chan struct{})
	r.before = func(_ *http.Request, n int) {
		if n == 0 {
			<-gate
		}
	}
	sub := b.subscribe(t, r.URL, "call.*", "ai_session.*", "lead.completed")
	want := b.emit(t, slow, store.EventCallStarted, store.EventCallAnswered)
	require.Eventually(t, func() bool { return len(r.requests()) == 1 }, 30*time.Second, 5*time.Millisecond)
	want = append(want, b.emit(t, slow, store.EventAISessionEnded, store.EventCallEnded, store.EventLeadCompleted)...)
	others := map[uuid.UUID][]string{}
	for range 5 {
		call := storetest.NewID(t)
		others[call] = b.emit(t, call, store.EventCallStarted, store.EventCallAnswered, store.EventCallEnded)
	}
	require.Eventually(t, func() bool { return len(r.requests()) == 1+5*3 }, 30*time.Second, 5*time.Millisecond,
		"the others are not held up")
	close(gate)
	require.Eventually(t, func() bool { return len(r.requests()) == 5+5*3 }, 30*time.Second, 5*time.Millisecond)
	order := r.byCall()
	require.Equal(t, want, order[slow.String()])
	for call, ids := range others {
		require.Equal(t, ids, order[call.String()])
	}
	require.Eventually(t, func() bool {
		return storetest.Count(t, b.st, "SELECT count(*) FROM webhook_deliveries WHERE subscription_id = $1 AND status = 'delivered'", sub) == 20
	}, 30*time.Second, 10*time.Millisecond)
}

// A failing event holds the later ones of its call up for its first attempt only.
func TestFailureDoesNotBlockTheCall(t *testing.T) {
	t.Parallel()
	b := setup(t, func(cfg *webhook.Config) { cfg.Delays = [4]time.Duration{0, time.Hour, time.Hour, time.Hour} })
	r := newReceiver(t, 500)
	b.subscribe(t, r.URL)
	ids := b.emit(t, storetest.NewID(t), store.EventCallStarted, store.EventCallEnded)
	require.Eventually(t, func() bool { return len(r.requests()) == 2 }, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, ids[1], r.requests()[1].event.ID)
}

// A process that stops in the middle of a request does not count it, and the next one takes it up.
func TestStopInTheMiddle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := newReceiver(t)
	r.before = func(req *http.Request, n int) {
		if n == 0 {
			<-req.Context().Done()
		}
	}
	sub := b.subscribe(t, r.URL)
	b.emit(t, storetest.NewID(t), store.EventCallEnded)
	require.Eventually(t, func() bool { return len(r.requests()) == 1 }, 30*time.Second, 5*time.Millisecond)
	b.stop()
	require.Equal(t, 1, storetest.Count(t, b.st,
		"SELECT count(*) FROM webhook_deliveries WHERE subscription_id = $1 AND status = 'pending' AND attempts = '[]'", sub))
	w, err := webhook.New(webhook.Config{Store: b.st, Targets: netguard.Policy{AllowLoopback: true}})
	require.NoError(t, err)
	w.Start(t.Context())
	attempts := b.delivery(t, sub, "delivered")
	require.Len(t, attempts, 1)
	require.NoError(t, w.Stop(context.WithoutCancel(t.Context())))
	w.Close()
}
