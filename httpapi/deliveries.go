package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

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

type deliveryPage struct {
	Items    []deliveryView `json:"items"`
	Total    int64          `json:"total"`
	Page     int            `json:"page"`
	PageSize int            `json:"page_size"`
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

func showDelivery(d db.WebhookDelivery) (reply, error) {
	view, err := viewDelivery(d)
	return ok(view), err
}

func conflict(code, detail string) *apiError { return newError(http.StatusConflict, code, detail) }

func (h webhookHandlers) deliveries(ctx context.Context, r *request) (reply, error) {
	pg, bad := r.page()
	status, badStatus := r.queryOneOf("status", string(webhook.StatusPending), string(webhook.StatusDelivered),
		string(webhook.StatusDeadLettered))
	subscription, badSubscription := r.queryID("subscription_id")
	eventType, badType := r.queryText("event_type")
	if err := faults(append(bad, badStatus, badSubscription, badType)...); err != nil {
		return reply{}, err
	}
	out := deliveryPage{Items: []deliveryView{}, Page: pg.number, PageSize: pg.size}
	var rows []db.WebhookDelivery
	err := h.store.InTenant(ctx, r.who.tenantID, func(tx *store.Tx) error {
		err := tx.Q.PlanByValues(ctx)
		if err != nil {
			return err
		}
		out.Total, err = tx.Q.CountWebhookDeliveries(ctx, db.CountWebhookDeliveriesParams{
			TenantID: r.who.tenantID, Status: status, SubscriptionID: subscription, EventType: eventType,
		})
		if err != nil {
			return err
		}
		rows, err = tx.Q.ListWebhookDeliveries(ctx, db.ListWebhookDeliveriesParams{
			TenantID: r.who.tenantID, Status: status, SubscriptionID: subscription, EventType: eventType,
			PageLimit: pg.limit(), PageOffset: pg.offset(),
		})
		return err
	})
	if err != nil {
		return reply{}, err
	}
	for _, row := range rows {
		view, err := viewDelivery(row)
		if err != nil {
			return reply{}, err
		}
		out.Items = append(out.Items, view)
	}
	return ok(out), nil
}

// replayDelivery delivers a finished delivery's event once more, with four attempts of its own.
func (h webhookHandlers) replay(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", deliveryNoun)
	if err != nil {
		return reply{}, err
	}
	var delivery db.WebhookDelivery
	err = h.store.InTenant(ctx, r.who.tenantID, func(tx *store.Tx) error {
		before, err := tx.Q.LockWebhookDelivery(ctx, r.who.tenantID, id)
		if err != nil {
			return err
		}
		if err := h.checkReplay(ctx, tx, before); err != nil {
			return err
		}
		var made []webhook.Attempt
		if err := json.Unmarshal(before.Attempts, &made); err != nil {
			return fmt.Errorf("decode the attempts of delivery %s: %w", id, err)
		}
		metadata, err := webhook.ReplayMetadata(len(made))
		if err != nil {
			return err
		}
		if delivery, err = tx.Q.RearmWebhookDelivery(ctx, h.now(), r.who.tenantID, id); err != nil {
			return err
		}
		return tx.Enqueue(ctx, store.WebhookDeliveryArgs{TenantID: r.who.tenantID, DeliveryID: id},
			&river.InsertOpts{Metadata: metadata})
	})
	if err != nil {
		return reply{}, named(err, deliveryNoun)
	}
	return showDelivery(delivery)
}

func (h webhookHandlers) checkReplay(ctx context.Context, tx *store.Tx, d db.WebhookDelivery) error {
	if d.Status == string(webhook.StatusPending) {
		return conflict(codeDeliveryPending, "The delivery is still being attempted.")
	}
	sub, err := tx.Q.GetWebhook(ctx, d.TenantID, d.SubscriptionID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return conflict(codeSubscriptionRemoved, "The delivery's subscription was removed.")
	case err != nil:
		return err
	case !sub.IsActive:
		return conflict(codeSubscriptionPaused, "The delivery's subscription is not active.")
	}
	return nil
}
