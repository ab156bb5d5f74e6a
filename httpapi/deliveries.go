package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

const deliveryNoun = "webhook delivery"

type deliveryView struct {
	ID             uuid.UUID         `json:"id"`
	SubscriptionID uuid.UUID         `json:"subscription_id"`
	EventID        string            `json:"event_id"`
	EventType      string            `json:"event_type"`
	Status         string            `json:"status"`
	Attempts       []webhook.Attempt `json:"attempts"`
	NextAttemptAt  *time.Time        `json:"next_attempt_at"`
	CreatedAt      time.Time         `json:"created_at"`
	UpdatedAt      time.Time         `json:"updated_at"`
}

func viewDelivery(d db.WebhookDelivery) (deliveryView, error) {
	v := deliveryView{
		ID: d.ID, SubscriptionID: d.SubscriptionID, EventID: store.EventID(d.EventID), EventType: d.EventType, Status: d.Status,
		NextAttemptAt: utc(d.NextAttemptAt), CreatedAt: d.CreatedAt.UTC(), UpdatedAt: d.UpdatedAt.UTC(),
	}
	if err := json.Unmarshal(d.Attempts, &v.Attempts); err != nil {
		return v, fmt.Errorf("decode the attempts of delivery %s: %w", d.ID, err)
	}
	v.Attempts = orEmpty(v.Attempts)
	return v, nil
}

func (h webhookHandlers) deliveries(ctx context.Context, r *request) (reply, error) {
	pg, bad := r.page()
	status, badStatus := r.queryOneOf("status", string(webhook.StatusPending), string(webhook.StatusDelivered),
		string(webhook.StatusDeadLettered))
	subscription, badSubscription := r.queryID("subscription_id")
	eventType, badType := r.queryText("event_type")
	if err := faults(append(bad, badStatus, badSubscription, badType)...); err != nil {
		return reply{}, err
	}
	out := pageOf[deliveryView](nil, 0, pg)
	rows, total, err := h.webhooks.Deliveries(ctx, r.who.TenantID, webhook.DeliveryFilter{
		Status: status, EventType: eventType, Subscription: subscription, Limit: pg.limit(), Offset: pg.offset(),
	})
	if err != nil {
		return reply{}, err
	}
	out.Total = total
	for _, row := range rows {
		view, err := viewDelivery(row)
		if err != nil {
			return reply{}, err
		}
		out.Items = append(out.Items, view)
	}
	return ok(out), nil
}

func (h webhookHandlers) replay(ctx context.Context, r *request) (reply, error) {
	return h.one(ctx, r, deliveryNoun, h.webhooks.Replay)
}
