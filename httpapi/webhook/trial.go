package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// testLost is when a test's delivery is attempted by the dispatcher, should the process that makes the first attempt be lost.
const testLost = time.Minute

// testData is what a webhook.test event says.
type testData struct {
	SubscriptionID uuid.UUID `json:"subscription_id"`
	Message        string    `json:"message"`
}

// Trial is a test of a subscription: its delivery, and the first attempt as it went over the wire.
type Trial struct {
	Delivery db.WebhookDelivery
	Request  TrialRequest
	// Response is nil when none came; the delivery's attempt says why.
	Response *TrialResponse
}

// TrialRequest is what was sent.
type TrialRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// TrialResponse is what the receiver answered, its body cut after 4 KiB; the status alone where that is in a network of the operator's own.
type TrialResponse struct {
	StatusCode int               `json:"status_code"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
}

// Test sends an event to one subscription alone, whatever types it has subscribed, and shows what was sent and answered. When that fails, it is
// tried again as any other event.
func (s *Subscriptions) Test(ctx context.Context, tenant, id uuid.UUID) (out Trial, err error) {
	sub, err := s.Get(ctx, tenant, id)
	if err != nil {
		return out, err
	}
	if !sub.IsActive {
		return out, conflict(codePaused, "The subscription is not active.")
	}
	now := s.now().Truncate(time.Microsecond) // as it is stored: what is tried again is the same
	secrets, err := secretsOf(s.st, id, sub.SecretSealed, sub.PreviousSecretSealed, sub.PreviousSecretUntil, now)
	if err != nil {
		return out, err
	}
	data, err := json.Marshal(testData{SubscriptionID: id, Message: "This is a test of your webhook subscription."})
	if err != nil {
		return out, fmt.Errorf("test webhook: %w", err)
	}
	ids := [2]uuid.UUID{}
	for i := range ids {
		if ids[i], err = uuid.NewV7(); err != nil {
			return out, fmt.Errorf("test webhook: %w", err)
		}
	}
	event, delivery := ids[0], ids[1]
	var seq int64
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		err := tx.Q.InsertEventAlone(ctx, db.InsertEventAloneParams{
			TenantID: tenant, ID: event, Type: string(EventTest), CampaignID: sub.CampaignID, Data: data, CreatedAt: now,
		})
		if err != nil {
			return err
		}
		began, err := tx.Q.DatabaseTime(ctx)
		if err != nil {
			return err
		}
		seq, err = tx.Q.InsertDelivery(ctx, db.InsertDeliveryParams{
			TenantID: tenant, ID: delivery, SubscriptionID: id, EventID: event, EventType: string(EventTest), DueAt: began.Add(testLost),
		})
		return err
	})
	if err != nil {
		return out, err
	}
	body, err := encodeEvent(event, string(EventTest), now, tenant, data)
	if err != nil {
		return out, err
	}
	header := headers(store.EventID(event), string(EventTest), now, body, secrets)
	out.Request = TrialRequest{Method: http.MethodPost, URL: sub.Url, Headers: flat(header), Body: string(body)}
	clock := time.Now()
	watched, internal := s.targets.Watch(ctx)
	res := s.sender.post(watched, sub.Url, header, body)
	switch {
	case res.code != 0 && internal():
		out.Response = &TrialResponse{StatusCode: res.code, Headers: map[string]string{}}
	case res.code != 0:
		out.Response = &TrialResponse{StatusCode: res.code, Headers: flat(res.header), Body: text(res.body)}
	}
	if out.Delivery, err = s.recordTest(ctx, tenant, id, delivery, seq, res, entryOf(res, now, time.Since(clock))); err != nil {
		return out, err
	}
	return out, nil
}

// recordTest writes what came of a test's first attempt.
func (s *Subscriptions) recordTest(
	ctx context.Context, tenant, subscription, delivery uuid.UUID, seq int64, res result, entry Attempt,
) (row db.WebhookDelivery, err error) {
	plan := schedule{delays: delays(), random: func() float64 { return 0 }}
	attempt, err := json.Marshal([]Attempt{entry})
	if err != nil {
		return row, fmt.Errorf("encode attempt: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		now, err := tx.Q.DatabaseTime(ctx)
		if err != nil {
			return err
		}
		status, next := plan.follow(res, 1, now)
		err = tx.Q.RecordWebhookAttempts(ctx, db.RecordWebhookAttemptsParams{
			Subscriptions: []uuid.UUID{subscription}, Seqs: []int64{seq}, Tenants: []uuid.UUID{tenant}, Ids: []uuid.UUID{delivery},
			Attempts: []string{string(attempt)}, Statuses: []string{string(status)}, NextAt: []time.Time{next},
		})
		if err != nil {
			return err
		}
		tx.WakeWebhooks(subscription)
		row, err = tx.Q.LockWebhookDelivery(ctx, tenant, delivery)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return row, fmt.Errorf("test webhook: its delivery is gone: %w", err)
	}
	return row, err
}

// flat gives headers as people read them.
func flat(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		out[name] = text([]byte(strings.Join(values, ", ")))
	}
	return out
}

// text makes bytes of somebody else's fit for JSON.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "�")
}
