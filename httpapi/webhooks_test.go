package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

const webhooks = "/api/v1/webhooks"

func TestWebhookSubscriptions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var list struct {
		Items []object
		Total int
	}
	b.api.JSON(t, http.MethodGet, webhooks, nil, http.StatusOK, &list)
	require.NotNil(t, list.Items)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	var sub object
	b.api.JSON(t, http.MethodPost, webhooks, object{
		"url": "HTTP://127.0.0.1:9/hook?a=1", "event_types": []string{"call.ended", "ai_session.*", "call.ended"},
		"campaign_id": campaign, "unknown": true,
	}, http.StatusCreated, &sub)
	require.Equal(t, "http://127.0.0.1:9/hook?a=1", sub["url"])
	require.Equal(t, []any{"ai_session.*", "call.ended"}, sub["event_types"])
	require.Equal(t, true, sub["is_active"])
	signing := sub.text(t, "signing_secret")
	path := webhooks + "/" + sub.text(t, "id")

	_, _, raw := b.api.Do(t, http.MethodGet, path, nil)
	require.NotContains(t, string(raw), signing, "the secret is shown once")
	_, _, raw = b.api.Do(t, http.MethodGet, webhooks, nil)
	require.NotContains(t, string(raw), signing)
	require.NotContains(t, b.logs.String(), signing)
	b.api.JSON(t, http.MethodGet, webhooks, nil, http.StatusOK, &list)
	require.Equal(t, 1, list.Total)
	b.foreign.JSON(t, http.MethodGet, webhooks, nil, http.StatusOK, &list)
	require.Zero(t, list.Total)

	b.api.JSON(t, http.MethodPatch, path, object{"is_active": false}, http.StatusOK, &sub)
	require.Equal(t, false, sub["is_active"])
	require.Equal(t, campaign.String(), sub["campaign_id"], "what is absent stays")
	b.api.JSON(t, http.MethodPatch, path, object{"campaign_id": nil, "event_types": []string{"lead.*"}, "url": "https://192.0.2.1.nip.invalid/"},
		http.StatusOK, &sub)
	require.Nil(t, sub["campaign_id"])
	require.Equal(t, []any{"lead.*"}, sub["event_types"])
	for _, member := range []string{"url", "event_types", "is_active"} {
		p := refused(t, b.api, http.MethodPatch, path, object{member: nil}, http.StatusUnprocessableEntity, "validation_error")
		require.Equal(t, member, p.Errors[0].Field)
	}
	refused(t, b.api, http.MethodPost, path+"/test", nil, http.StatusConflict, "subscription_inactive")

	for _, op := range []struct{ method, suffix string }{{"GET", ""}, {"PATCH", ""}, {"DELETE", ""}, {"POST", "/test"}} {
		refused(t, b.foreign, op.method, path+op.suffix, "{}", http.StatusNotFound, "not_found")
		refused(t, b.api, op.method, webhooks+"/"+storetest.NewID(t).String()+op.suffix, "{}", http.StatusNotFound, "not_found")
		refused(t, b.api, op.method, webhooks+"/nonsense"+op.suffix, "{}", http.StatusNotFound, "not_found")
	}
	status, _, _ := b.api.Do(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status)
	refused(t, b.api, http.MethodDelete, path, nil, http.StatusNotFound, "not_found")
}

func TestWebhookValidation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	valid := "http://127.0.0.1:9/"
	types := []string{"call.ended"}
	foreign := storetest.Campaign(t, b.st, b.other, nil)
	for name, tt := range map[string]struct {
		body  object
		field string
	}{
		"no url":                {object{"event_types": types}, "url"},
		"no types":              {object{"url": valid}, "event_types"},
		"url is a number":       {object{"url": 1, "event_types": types}, "url"},
		"ftp":                   {object{"url": "ftp://127.0.0.1/", "event_types": types}, "url"},
		"no host":               {object{"url": "http:///x", "event_types": types}, "url"},
		"relative":              {object{"url": "/x", "event_types": types}, "url"},
		"user and password":     {object{"url": "http://u:p@127.0.0.1/", "event_types": types}, "url"},
		"private address":       {object{"url": "http://10.0.0.1/", "event_types": types}, "url"},
		"link-local address":    {object{"url": "http://169.254.169.254/", "event_types": types}, "url"},
		"too long":              {object{"url": valid + strings.Repeat("x", 2048), "event_types": types}, "url"},
		"empty types":           {object{"url": valid, "event_types": []string{}}, "event_types"},
		"unknown type":          {object{"url": valid, "event_types": []string{"call.ended", "call.exploded"}}, "event_types[1]"},
		"unknown prefix":        {object{"url": valid, "event_types": []string{"moon.*"}}, "event_types[0]"},
		"everything":            {object{"url": valid, "event_types": []string{"*"}}, "event_types[0]"},
		"wildcard in the type":  {object{"url": valid, "event_types": []string{"call.*ed"}}, "event_types[0]"},
		"types are text":        {object{"url": valid, "event_types": "call.ended"}, "event_types"},
		"campaign is text":      {object{"url": valid, "event_types": types, "campaign_id": "x"}, "campaign_id"},
		"campaign of another":   {object{"url": valid, "event_types": types, "campaign_id": foreign}, "campaign_id"},
		"is_active is a number": {object{"url": valid, "event_types": types, "is_active": 1}, "is_active"},
	} {
		status, _, raw := b.api.Do(t, http.MethodPost, webhooks, tt.body)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%s: %s", name, raw)
		require.Contains(t, string(raw), `"field":"`+tt.field)
	}
	t.Run("loopback is for one's own machine", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) { cfg.WebhookTargets = netguard.Policy{} })
		refused(t, b.api, http.MethodPost, webhooks, object{"url": valid, "event_types": types},
			http.StatusUnprocessableEntity, "validation_error")
	})
}

// hook is a receiver whose answer can be changed.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	ids    []string
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{status: http.StatusOK}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ids = append(h.ids, r.Header.Get("X-Service-Event-Id"))
		w.WriteHeader(h.status)
		_, _ = io.WriteString(w, "what the receiver says")
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) answer(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

func (h *hook) events() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.ids...)
}

// deliverer runs the worker that delivers.
func deliverer(t *testing.T, b *bundle) {
	t.Helper()
	w, err := webhook.New(webhook.Config{
		Store: b.st, Targets: netguard.Policy{AllowLoopback: true},
		Delays: [webhook.Attempts]time.Duration{0, time.Millisecond, time.Millisecond, time.Millisecond},
	})
	require.NoError(t, err)
	w.Start(t.Context())
	t.Cleanup(func() {
		require.NoError(t, w.Stop(context.Background()))
		w.Close()
	})
}

type deliveryPage struct {
	Items []struct {
		ID             uuid.UUID         `json:"id"`
		SubscriptionID uuid.UUID         `json:"subscription_id"`
		EventID        string            `json:"event_id"`
		EventType      string            `json:"event_type"`
		Status         string            `json:"status"`
		Attempts       []webhook.Attempt `json:"attempts"`
		NextAttemptAt  *time.Time        `json:"next_attempt_at"`
	} `json:"items"`
	Total    int `json:"total"`
	Page     int `json:"page"`
	PageSize int `json:"page_size"`
}

func (b *bundle) deliveries(t *testing.T, query string) deliveryPage {
	t.Helper()
	var page deliveryPage
	b.api.JSON(t, http.MethodGet, webhooks+"/deliveries"+query, nil, http.StatusOK, &page)
	return page
}

func TestWebhookTestAndReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	deliverer(t, b)
	h := newHook(t)
	var sub, sent object
	b.api.JSON(t, http.MethodPost, webhooks, object{"url": h.URL, "event_types": []string{"lead.*"}}, http.StatusCreated, &sub)
	b.api.JSON(t, http.MethodPost, webhooks, object{"url": h.URL, "event_types": []string{"call.*"}}, http.StatusCreated, nil)
	h.answer(http.StatusInternalServerError)
	b.api.JSON(t, http.MethodPost, webhooks+"/"+sub.text(t, "id")+"/test", nil, http.StatusOK, &sent)
	require.Equal(t, "webhook.test", sent["event_type"])
	require.Equal(t, "pending", sent["status"])
	require.Len(t, sent["attempts"], 1, "the first attempt is made at once")
	require.NotNil(t, sent["next_attempt_at"])
	shown, answer := asObject(t, sent["request"]), asObject(t, sent["response"])
	require.Equal(t, h.URL, shown["url"])
	require.Contains(t, shown["body"], `"type":"webhook.test"`)
	require.Contains(t, shown["headers"], "X-Service-Signature")
	require.InDelta(t, 500, answer["status_code"], 0)
	require.Equal(t, "what the receiver says", answer["body"])
	settled := func(status string, attempts int) {
		t.Helper()
		require.Eventually(t, func() bool {
			page := b.deliveries(t, "?status="+status)
			return page.Total == 1 && len(page.Items[0].Attempts) == attempts
		}, 20*time.Second, 20*time.Millisecond)
	}
	settled("dead_lettered", 4)
	require.Len(t, h.events(), 4, "it goes to one subscription alone")

	replay := webhooks + "/deliveries/" + sent.text(t, "id") + "/replay"
	refused(t, b.foreign, http.MethodPost, replay, nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodPost, webhooks+"/deliveries/"+storetest.NewID(t).String()+"/replay", nil, http.StatusNotFound, "not_found")
	refused(t, b.api, http.MethodPost, webhooks+"/deliveries/nonsense/replay", nil, http.StatusNotFound, "not_found")

	// A replay has four attempts of its own, with the same event id.
	b.api.JSON(t, http.MethodPost, replay, nil, http.StatusOK, &sent)
	require.Equal(t, "pending", sent["status"])
	settled("dead_lettered", 8)
	h.answer(http.StatusOK)
	b.api.JSON(t, http.MethodPost, replay, nil, http.StatusOK, nil)
	settled("delivered", 9)
	events := h.events()
	require.Len(t, events, 9)
	for _, id := range events {
		require.Equal(t, sent["event_id"], id)
	}

	b.api.JSON(t, http.MethodPatch, webhooks+"/"+sub.text(t, "id"), object{"is_active": false}, http.StatusOK, nil)
	refused(t, b.api, http.MethodPost, replay, nil, http.StatusConflict, "subscription_inactive")
	_, _, _ = b.api.Do(t, http.MethodDelete, webhooks+"/"+sub.text(t, "id"), nil)
	refused(t, b.api, http.MethodPost, replay, nil, http.StatusConflict, "subscription_removed")
}

func TestWebhookDeliveryList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	page := b.deliveries(t, "")
	require.NotNil(t, page.Items)
	require.Equal(t, []int{0, 1, 25}, []int{page.Total, page.Page, page.PageSize})
	first := storetest.Subscription(t, b.st, b.tenant, nil, "call.*")
	second := storetest.Subscription(t, b.st, b.tenant, nil, "call.ended")
	call := storetest.NewID(t)
	for _, typ := range []store.EventType{store.EventCallStarted, store.EventCallAnswered, store.EventCallEnded} {
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			_, err := tx.Emit(t.Context(), store.Event{TenantID: b.tenant, Type: typ, CallID: &call, Data: object{}})
			return err
		}))
	}
	page = b.deliveries(t, "?page_size=3")
	require.Equal(t, 4, page.Total)
	require.Len(t, page.Items, 3)
	require.Equal(t, "call.ended", page.Items[0].EventType, "newest first")
	require.Equal(t, "pending", page.Items[0].Status)
	require.NotNil(t, page.Items[0].NextAttemptAt)
	require.Empty(t, page.Items[0].Attempts)
	last := b.deliveries(t, "?page_size=3&page=2")
	require.Len(t, last.Items, 1)
	require.Equal(t, "call.started", last.Items[0].EventType)
	require.Equal(t, 3, b.deliveries(t, "?subscription_id="+first.String()).Total)
	require.Equal(t, 1, b.deliveries(t, "?subscription_id="+second.String()).Total)
	require.Equal(t, 2, b.deliveries(t, "?event_type=call.ended&status=pending").Total)
	require.Zero(t, b.deliveries(t, "?status=delivered").Total)
	for _, bad := range []string{"?status=x", "?subscription_id=x", "?page=0", "?page_size=201"} {
		refused(t, b.api, http.MethodGet, webhooks+"/deliveries"+bad, nil, http.StatusUnprocessableEntity, "validation_error")
	}
	refused(t, b.api, http.MethodPost, webhooks+"/deliveries/"+last.Items[0].ID.String()+"/replay", nil,
		http.StatusConflict, "delivery_pending")
	var foreign deliveryPage
	b.foreign.JSON(t, http.MethodGet, webhooks+"/deliveries", nil, http.StatusOK, &foreign)
	require.Zero(t, foreign.Total)
}

// A secret is replaced with an answer that shows it once, and nowhere else.
func TestRotateWebhookSecret(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var sub, rotated object
	b.api.JSON(t, http.MethodPost, webhooks, object{"url": "http://127.0.0.1:9/", "event_types": []string{"lead.*"}}, http.StatusCreated, &sub)
	path := webhooks + "/" + sub.text(t, "id")
	b.api.JSON(t, http.MethodPost, path+"/rotate_secret", nil, http.StatusOK, &rotated)
	fresh := rotated.text(t, "signing_secret")
	require.NotEqual(t, sub.text(t, "signing_secret"), fresh)
	require.NotNil(t, rotated["previous_secret_until"])
	_, _, raw := b.api.Do(t, http.MethodGet, path, nil)
	require.NotContains(t, string(raw), fresh)
	require.NotContains(t, b.logs.String(), fresh)
	b.api.JSON(t, http.MethodPost, path+"/rotate_secret", object{"overlap_hours": 0}, http.StatusOK, &rotated)
	require.Nil(t, rotated["previous_secret_until"])
	for _, bad := range []any{-1, 169, "x", 1.5} {
		refused(t, b.api, http.MethodPost, path+"/rotate_secret", object{"overlap_hours": bad}, http.StatusUnprocessableEntity, "validation_error")
	}
	refused(t, b.foreign, http.MethodPost, path+"/rotate_secret", nil, http.StatusNotFound, "not_found")
	refused(t, b.scoped(t, "webhooks:read"), http.MethodPost, path+"/rotate_secret", nil, http.StatusForbidden, "insufficient_scope")
}

// Events of a span of time are delivered once more.
func TestReplayOfASpan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := newHook(t)
	var sub object
	b.api.JSON(t, http.MethodPost, webhooks, object{"url": h.URL, "event_types": []string{"lead.*"}, "is_active": false}, http.StatusCreated, &sub)
	path := webhooks + "/" + sub.text(t, "id")
	now := b.clock.Now()
	for i := range 3 {
		b.emitAt(t, store.EventLeadCompleted, nil, now.Add(-time.Duration(i+1)*time.Minute))
	}
	span := object{"from": now.Add(-150 * time.Second), "to": now}
	refused(t, b.api, http.MethodPost, path+"/replay", span, http.StatusConflict, "subscription_inactive")
	b.api.JSON(t, http.MethodPatch, path, object{"is_active": true}, http.StatusOK, nil)
	deliverer(t, b)
	var queued struct{ Queued int }
	b.api.JSON(t, http.MethodPost, path+"/replay", span, http.StatusAccepted, &queued)
	require.Equal(t, 2, queued.Queued)
	require.Eventually(t, func() bool { return len(h.events()) == 2 }, 20*time.Second, 20*time.Millisecond)
	for _, bad := range []object{{}, {"from": now}, {"from": now, "to": now.Add(-time.Hour)}, {"from": "x", "to": now}, {"from": now, "to": now, "event_types": []string{"x"}}} {
		status, _, raw := b.api.Do(t, http.MethodPost, path+"/replay", bad)
		require.Equal(t, http.StatusUnprocessableEntity, status, "%v: %s", bad, raw)
	}
	refused(t, b.foreign, http.MethodPost, path+"/replay", span, http.StatusNotFound, "not_found")
}

// emitAt commits an event.
func (b *bundle) emitAt(t *testing.T, typ store.EventType, call *uuid.UUID, at time.Time) (id string) {
	t.Helper()
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) (err error) {
		id, err = tx.Emit(t.Context(), store.Event{TenantID: b.tenant, Type: typ, CallID: call, At: at, Data: object{"n": at.Unix()}})
		return err
	}))
	return id
}

// What happened is listed, newest first, whether anybody had subscribed it or not.
func TestEventList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const path = "/api/v1/events"
	type events struct {
		Items []struct {
			ID       string    `json:"id"`
			Type     string    `json:"type"`
			At       time.Time `json:"created_at"`
			TenantID uuid.UUID `json:"tenant_id"`
			Data     object    `json:"data"`
		}
		Total int
		Next  *string `json:"next_cursor"`
	}
	list := func(query string) (out events) {
		t.Helper()
		b.api.JSON(t, http.MethodGet, path+query, nil, http.StatusOK, &out)
		return out
	}
	require.NotNil(t, list("").Items)
	call, other := storetest.NewID(t), storetest.NewID(t)
	at := b.clock.Now().Add(-time.Hour).Truncate(time.Second)
	var ids []string
	for i, e := range []struct {
		typ  store.EventType
		call *uuid.UUID
	}{{store.EventCallStarted, &call}, {store.EventCallEnded, &call}, {store.EventLeadCompleted, nil}, {store.EventCallStarted, &other}, {store.EventCampaignPaused, nil}} {
		ids = append(ids, b.emitAt(t, e.typ, e.call, at.Add(time.Duration(i)*time.Minute)))
	}
	all := list("")
	require.Equal(t, 5, all.Total)
	require.Equal(t, ids[4], all.Items[0].ID)
	require.Equal(t, b.tenant, all.Items[0].TenantID)
	require.InDelta(t, at.Add(4*time.Minute).Unix(), all.Items[0].Data["n"], 0)
	require.Nil(t, all.Next)
	var paged []string
	for page := list("?page_size=2"); ; page = list("?page_size=2&cursor=" + *page.Next) {
		for _, e := range page.Items {
			paged = append(paged, e.ID)
		}
		if page.Next == nil {
			break
		}
	}
	slices.Reverse(paged)
	require.Equal(t, ids, paged)
	stamp := func(minutes int) string {
		return url.QueryEscape(at.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339))
	}
	for query, want := range map[string][]string{
		"?call_id=" + call.String():                      {ids[1], ids[0]},
		"?type=call.started":                             {ids[3], ids[0]},
		"?type=call.*":                                   {ids[3], ids[1], ids[0]},
		"?type=webhook.test":                             {},
		"?from=" + stamp(1) + "&to=" + stamp(3):          {ids[2], ids[1]},
		"?from=" + stamp(4):                              {ids[4]},
		"?to=" + stamp(1):                                {ids[0]},
		"?type=call.*&from=" + stamp(1):                  {ids[3], ids[1]},
		"?page=2&page_size=2":                            {ids[2], ids[1]},
		"?call_id=" + storetest.NewID(t).String():        {},
		"?call_id=" + call.String() + "&type=call.ended": {ids[1]},
	} {
		got := []string{}
		for _, e := range list(query).Items {
			got = append(got, e.ID)
		}
		require.Equal(t, want, got, query)
	}
	for _, bad := range []string{"?type=moon.*", "?type=", "?call_id=x", "?from=x", "?to=", "?cursor=x", "?page=2&cursor=" + call.String()} {
		refused(t, b.api, http.MethodGet, path+bad, nil, http.StatusUnprocessableEntity, "validation_error")
	}
	var foreign events
	b.foreign.JSON(t, http.MethodGet, path, nil, http.StatusOK, &foreign)
	require.Zero(t, foreign.Total)
	refused(t, b.scoped(t, "webhooks:write"), http.MethodGet, path, nil, http.StatusForbidden, "insufficient_scope")
}

// In production webhooks go over TLS, but within networks that the operator allows.
func TestWebhooksOverTLS(t *testing.T) {
	t.Parallel()
	own := netip.MustParsePrefix("10.1.0.0/16")
	b := setup(t, func(cfg *httpapi.Config, _ *httpapi.Deps) {
		cfg.WebhookTargets = netguard.Policy{Allow: []netip.Prefix{own}, Own: func() ([]netip.Addr, error) { return nil, nil }}
	})
	for target, want := range map[string]int{
		"http://8.8.8.8/": http.StatusUnprocessableEntity, "https://8.8.8.8/": http.StatusCreated,
		"http://10.1.2.3/": http.StatusCreated, "http://10.2.2.3/": http.StatusUnprocessableEntity, "https://10.2.2.3/": http.StatusUnprocessableEntity,
		"http://hooks.invalid/": http.StatusUnprocessableEntity, "https://hooks.invalid/": http.StatusCreated,
	} {
		status, _, raw := b.api.Do(t, http.MethodPost, webhooks, object{"url": target, "event_types": []string{"call.ended"}})
		require.Equal(t, want, status, "%s: %s", target, raw)
	}
}

func asObject(t *testing.T, v any) object {
	t.Helper()
	out, ok := v.(map[string]any)
	require.True(t, ok, "%v is an object", v)
	return out
}
