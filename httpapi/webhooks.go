package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
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
	// DisabledAt and DisabledReason tell that deliveries failed for too long.
	DisabledAt     *time.Time `json:"disabled_at"`
	DisabledReason *string    `json:"disabled_reason"`
	// FailingSince is when the first of the deliveries failed that have all failed since.
	FailingSince *time.Time `json:"failing_since"`
	// PreviousSecretUntil is until when the secret before the present one signs as well.
	PreviousSecretUntil *time.Time `json:"previous_secret_until"`
	// SigningSecret is shown at creation and rotation only.
	SigningSecret string `json:"signing_secret,omitempty"`
}

func viewWebhook(w db.WebhookSubscription) webhookView {
	return webhookView{
		ID: w.ID, URL: w.Url, EventTypes: w.EventTypes, CampaignID: w.CampaignID, IsActive: w.IsActive,
		CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(), DisabledAt: utc(w.DisabledAt), DisabledReason: w.DisabledReason,
		FailingSince: utc(w.FailingSince), PreviousSecretUntil: utc(w.PreviousSecretUntil),
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
	return withSecret(created, sub, secret), nil
}

// withSecret answers with a subscription and its secret, which a repeated request doesn't show again.
func withSecret(as func(any) reply, sub db.WebhookSubscription, secret string) reply {
	view := viewWebhook(sub)
	view.SigningSecret = secret
	out := as(view)
	out.secrets = []string{"signing_secret"}
	return out
}

func (h webhookHandlers) rotateSecret(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", webhookNoun)
	if err != nil {
		return reply{}, err
	}
	var in webhook.RotateInput
	if err := r.decodeOptional(&in); err != nil {
		return reply{}, err
	}
	sub, secret, err := h.webhooks.RotateSecret(ctx, r.who.TenantID, id, in)
	if err != nil {
		return reply{}, named(err, webhookNoun)
	}
	return withSecret(ok, sub, secret), nil
}

type queuedView struct {
	Queued int64 `json:"queued"`
}

func (h webhookHandlers) replayMany(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("id", webhookNoun)
	if err != nil {
		return reply{}, err
	}
	var in webhook.ReplayInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	n, err := h.webhooks.ReplayMany(ctx, r.who.TenantID, id, in)
	return reply{status: http.StatusAccepted, body: queuedView{n}}, named(err, webhookNoun)
}

func (h webhookHandlers) events(ctx context.Context, r *request) (reply, error) {
	pg, bad := r.keyset()
	var badFilter [4]*fault.Field
	f := webhook.EventFilter{Before: pg.afterOr(uuid.Max), Limit: pg.limit(), Offset: pg.offset()}
	f.Since, badFilter[0] = r.queryMoment("from")
	f.Until, badFilter[1] = r.queryMoment("to")
	f.Type, badFilter[2] = r.queryText("type")
	f.CallID, badFilter[3] = r.queryID("call_id")
	if err := faults(append(bad, badFilter[:]...)...); err != nil {
		return reply{}, err
	}
	rows, total, err := h.webhooks.Events(ctx, r.who.TenantID, f)
	if err != nil {
		return reply{}, err
	}
	out := keysetPage[webhook.EventView]{itemPage: pageOf[webhook.EventView](nil, total, pg)}
	for _, row := range rows {
		out.Items = append(out.Items, webhook.ViewEvent(row))
	}
	if len(rows) == pg.size {
		out.NextCursor = &rows[len(rows)-1].ID
	}
	return ok(out), nil
}

type trialView struct {
	deliveryView
	Request  webhook.TrialRequest   `json:"request"`
	Response *webhook.TrialResponse `json:"response"`
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
	id, err := r.pathID("id", webhookNoun)
	if err != nil {
		return reply{}, err
	}
	trial, err := h.webhooks.Test(ctx, r.who.TenantID, id)
	if err != nil {
		return reply{}, named(err, webhookNoun)
	}
	view, err := viewDelivery(trial.Delivery)
	return ok(trialView{view, trial.Request, trial.Response}), err
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
