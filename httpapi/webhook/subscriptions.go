package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// maxSubscriptions bounds a tenant's subscriptions: each event may be a delivery to all of them.
const maxSubscriptions = 100

// Codes of conflicts.
const (
	codeTooMany         = "too_many_webhooks"
	codePaused          = "subscription_inactive"
	codeRemoved         = "subscription_removed"
	codeDeliveryPending = "delivery_pending"
)

// Subscriptions are who wants which events, and what became of their deliveries. Its errors: store.ErrNotFound, [*fault.Error].
type Subscriptions struct {
	st      *store.Store
	targets netguard.Policy
	// campaign gives store.ErrNotFound for a campaign that isn't the tenant's.
	campaign func(ctx context.Context, tenant, id uuid.UUID) error
	now      func() time.Time
	sender   *sender // of tests
}

// NewSubscriptions makes the service. targets says which addresses events may be sent to.
func NewSubscriptions(
	st *store.Store, targets netguard.Policy, campaign func(ctx context.Context, tenant, id uuid.UUID) error, now func() time.Time,
) *Subscriptions {
	return &Subscriptions{st: st, targets: targets, campaign: campaign, now: now, sender: newTester(targets)}
}

// Create adds a subscription and makes its signing secret, which nobody is told again.
func (s *Subscriptions) Create(ctx context.Context, tenant uuid.UUID, in Edit) (sub db.WebhookSubscription, secret string, err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return sub, "", fmt.Errorf("create webhook: %w", err)
	}
	sub = db.WebhookSubscription{TenantID: tenant, ID: id, IsActive: true}
	bad := in.apply(ctx, &sub, s.targets)
	for _, need := range []struct {
		name string
		set  bool
	}{{"url", in.URL.Set}, {"event_types", in.EventTypes.Set}} {
		if !need.set {
			bad = append(bad, fault.Field{Field: need.name, Message: "is required"})
		}
	}
	if err := s.check(ctx, tenant, sub, bad); err != nil {
		return sub, "", err
	}
	secret = NewSecret()
	if sub.SecretSealed, err = s.st.Seal(SecretContext(id), []byte(secret)); err != nil {
		return sub, "", fmt.Errorf("create webhook: %w", err)
	}
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		err := store.Quota(ctx, tx, tenant, codeTooMany, maxSubscriptions, tx.Q.CountWebhooks)
		if err != nil {
			return err
		}
		sub, err = tx.Q.CreateWebhook(ctx, db.CreateWebhookParams{
			TenantID: sub.TenantID, ID: sub.ID, Url: sub.Url, EventTypes: sub.EventTypes, CampaignID: sub.CampaignID,
			SecretSealed: sub.SecretSealed, IsActive: sub.IsActive,
		})
		return err
	})
	return sub, secret, err
}

// check adds what only the service can tell: whether the campaign is the tenant's.
func (s *Subscriptions) check(ctx context.Context, tenant uuid.UUID, sub db.WebhookSubscription, bad []fault.Field) error {
	if len(bad) == 0 && sub.CampaignID != nil {
		err := s.campaign(ctx, tenant, *sub.CampaignID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			bad = append(bad, fault.Field{Field: "campaign_id", Message: "names no campaign"})
		case err != nil:
			return err
		}
	}
	if len(bad) > 0 {
		return fault.Fields(bad...)
	}
	return nil
}

func conflict(code, detail string) error {
	return &fault.Error{Kind: fault.Conflict, Code: code, Detail: detail}
}

// List gives all of a tenant's subscriptions.
func (s *Subscriptions) List(ctx context.Context, tenant uuid.UUID) (subs []db.WebhookSubscription, err error) {
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		subs, err = tx.Q.ListWebhooks(ctx, tenant)
		return err
	})
	return subs, err
}

// Get gives one.
func (s *Subscriptions) Get(ctx context.Context, tenant, id uuid.UUID) (sub db.WebhookSubscription, err error) {
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		sub, err = tx.Q.GetWebhook(ctx, tenant, id)
		return err
	})
	return sub, err
}

// Patch changes what the edit sets.
func (s *Subscriptions) Patch(ctx context.Context, tenant, id uuid.UUID, in Edit) (sub db.WebhookSubscription, err error) {
	var draft db.WebhookSubscription
	bad := in.apply(ctx, &draft, s.targets)
	if err := s.check(ctx, tenant, draft, bad); err != nil {
		return sub, err
	}
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		if sub, err = tx.Q.LockWebhook(ctx, tenant, id); err != nil {
			return err
		}
		in.copyTo(&sub, draft)
		tx.WebhookEdited(id) // for what is at hand
		sub, err = tx.Q.UpdateWebhook(ctx, db.UpdateWebhookParams{
			TenantID: sub.TenantID, ID: sub.ID, Url: sub.Url, EventTypes: sub.EventTypes, CampaignID: sub.CampaignID,
			IsActive: sub.IsActive,
		})
		return err
	})
	return sub, err
}

// Delete removes one.
func (s *Subscriptions) Delete(ctx context.Context, tenant, id uuid.UUID) error {
	return s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		tx.WebhookEdited(id)
		n, err := tx.Q.DeleteWebhook(ctx, tenant, id)
		if err == nil && n == 0 {
			return store.ErrNotFound
		}
		return err
	})
}

// DeliveryFilter says which deliveries are listed; nil members leave all in.
type DeliveryFilter struct {
	Status, EventType *string
	Subscription      *uuid.UUID
	Limit, Offset     int32
}

// Deliveries gives a page of deliveries, the newest first, and how many there are.
func (s *Subscriptions) Deliveries(ctx context.Context, tenant uuid.UUID, f DeliveryFilter) (rows []db.WebhookDelivery, total int64, err error) {
	err = s.st.ReadListByValues(ctx, tenant, func(q *db.Queries) (err error) {
		total, err = q.CountWebhookDeliveries(ctx, db.CountWebhookDeliveriesParams{
			TenantID: tenant, Status: f.Status, SubscriptionID: f.Subscription, EventType: f.EventType,
		})
		return err
	}, func(q *db.Queries) (err error) {
		rows, err = q.ListWebhookDeliveries(ctx, db.ListWebhookDeliveriesParams{
			TenantID: tenant, Status: f.Status, SubscriptionID: f.Subscription, EventType: f.EventType,
			PageLimit: f.Limit, PageOffset: f.Offset,
		})
		return err
	})
	return rows, total, err
}

// Replay delivers a finished delivery's event once more, with four attempts of its own.
func (s *Subscriptions) Replay(ctx context.Context, tenant, id uuid.UUID) (delivery db.WebhookDelivery, err error) {
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		before, err := tx.Q.LockWebhookDelivery(ctx, tenant, id)
		if err != nil {
			return err
		}
		if err := checkReplay(ctx, tx, before); err != nil {
			return err
		}
		if delivery, err = tx.Q.RearmWebhookDelivery(ctx, s.now(), tenant, id); err != nil {
			return err
		}
		tx.WakeWebhooks(delivery.SubscriptionID)
		return tx.Q.QueueReplay(ctx, db.QueueReplayParams{
			TenantID: tenant, SubscriptionID: delivery.SubscriptionID, DeliveryID: id, EventID: delivery.EventID,
		})
	})
	return delivery, err
}

func checkReplay(ctx context.Context, tx *store.Tx, d db.WebhookDelivery) error {
	if d.Status == string(StatusPending) {
		return conflict(codeDeliveryPending, "The delivery is still being attempted.")
	}
	sub, err := tx.Q.GetWebhook(ctx, d.TenantID, d.SubscriptionID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return conflict(codeRemoved, "The delivery's subscription was removed.")
	case err != nil:
		return err
	case !sub.IsActive:
		return conflict(codePaused, "The delivery's subscription is not active.")
	}
	return nil
}
