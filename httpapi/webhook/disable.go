package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// disabledReason is why a subscription was disabled.
const disabledReason = "all deliveries failed for three days"

// disabledData is the data of webhook.disabled.
type disabledData struct {
	SubscriptionID uuid.UUID `json:"subscription_id"`
	URL            string    `json:"url"`
	Reason         string    `json:"reason"`
	FailingSince   time.Time `json:"failing_since"`
	DisabledAt     time.Time `json:"disabled_at"`
}

// disable ends a subscription whose deliveries have all failed for three days, and tells the tenant's others.
func disable(ctx context.Context, st *store.Store, tenant, id uuid.UUID, now time.Time) error {
	err := st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		sub, err := tx.Q.DisableWebhook(ctx, db.DisableWebhookParams{
			TenantID: tenant, ID: id, At: now, Reason: disabledReason, Before: now.Add(-disableAfter),
		})
		if errors.Is(err, store.ErrNotFound) {
			return nil // it recovered, or somebody was faster
		}
		if err != nil {
			return err
		}
		tx.WebhookEdited(id)
		others, err := tx.Q.ActiveWebhooksBut(ctx, tenant, id)
		if err != nil {
			return err
		}
		_, err = tx.EmitTo(ctx, store.Event{
			TenantID: tenant, Type: store.EventWebhookDisabled, At: now, CampaignID: sub.CampaignID,
			Data: disabledData{
				SubscriptionID: id, URL: sub.Url, Reason: disabledReason, FailingSince: sub.FailingSince.UTC(), DisabledAt: store.Moment(now),
			},
		}, others)
		return err
	})
	if err != nil {
		return fmt.Errorf("disable subscription %s: %w", id, err)
	}
	return nil
}
