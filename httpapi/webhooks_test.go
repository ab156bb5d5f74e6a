package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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
