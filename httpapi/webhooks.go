package httpapi

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/store/db"
)

const webhookNoun = "webhook subscription"

type webhookView struct {
	ID         uuid.UUID  `json:"id"`
	URL        string     `json:"url"`
	EventTypes []string   `json:"event_types"`
	CampaignID *uuid.UUID `json:"campaign_id"`
	IsActive   bool       `json:"is_active"`
	CreatedAt  time.Time  `json:"created_at"`
	UpdatedAt  time.Time  `json:"updated_at"`
	// SigningSecret is shown at creation only.
	SigningSecret string `json:"signing_secret,omitempty"`
}

func viewWebhook(w db.WebhookSubscription) webhookView {
	return webhookView{
		ID: w.ID, URL: w.Url, EventTypes: w.EventTypes, CampaignID: w.CampaignID, IsActive: w.IsActive,
		CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(),
	}
}

func (h webhookHandlers) create(ctx context.Context, r *request) (reply, error) {
	var in webhook.Edit
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	sub, secret, err := h.webhooks.Create(ctx, r.who.TenantID, in)
	if err != nil {
		return reply{}, err
	}
	view := viewWebhook(sub)
	view.SigningSecret = secret
	out := created(view)
	out.secrets = []string{"signing_secret"}
	return out, nil
}

func (h webhookHandlers) list(ctx context.Context, r *request) (reply, error) {
	subs, err := h.webhooks.List(ctx, r.who.TenantID)
	return ok(listed(subs, viewWebhook)), err
}

func (h webhookHandlers) get(ctx context.Context, r *request) (reply, error) {
	return onOne(ctx, r, webhookNoun, h.webhooks.Get, viewWebhook)
}

func (h webhookHandlers) patch(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", webhookNoun)
	if err != nil {
		return reply{}, err
	}
	var in webhook.Edit
	if err := r.decodeInto(&in); err != nil {
		return reply{}, err
	}
	sub, err := h.webhooks.Patch(ctx, r.who.TenantID, id, in)
	return ok(viewWebhook(sub)), named(err, webhookNoun)
}

func (h webhookHandlers) test(ctx context.Context, r *request) (reply, error) {
	return h.one(ctx, r, webhookNoun, h.webhooks.Test)
}

// one answers with the delivery that an operation on what the path names gives.
func (h webhookHandlers) one(
	ctx context.Context, r *request, noun string, do func(ctx context.Context, tenant, id uuid.UUID) (db.WebhookDelivery, error),
) (reply, error) {
	id, err := r.pathID("id", noun)
	if err != nil {
		return reply{}, err
	}
	delivery, err := do(ctx, r.who.TenantID, id)
	if err != nil {
		return reply{}, named(err, noun)
	}
	view, err := viewDelivery(delivery)
	return ok(view), err
}
