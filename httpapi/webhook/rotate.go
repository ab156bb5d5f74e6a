package webhook

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	defaultOverlapHours = 24
	maxOverlapHours     = 168
)

// RotateInput says for how long the secret before the new one signs as well.
type RotateInput struct {
	OverlapHours *int `json:"overlap_hours"`
}

// RotateSecret gives a subscription a new signing secret, which nobody is told again. The one before signs beside it until the overlap is over; one
// before that ends at once.
func (s *Subscriptions) RotateSecret(ctx context.Context, tenant, id uuid.UUID, in RotateInput) (sub db.WebhookSubscription, secret string, err error) {
	hours := defaultOverlapHours
	if in.OverlapHours != nil {
		hours = *in.OverlapHours
	}
	if hours < 0 || hours > maxOverlapHours {
		return sub, "", fault.Fields(fault.Field{Field: "overlap_hours", Message: "must be an integer from 0 to " + strconv.Itoa(maxOverlapHours)})
	}
	secret = NewSecret()
	sealed, err := s.st.Seal(SecretContext(id), []byte(secret))
	if err != nil {
		return sub, "", fmt.Errorf("rotate the secret of a webhook: %w", err)
	}
	err = s.st.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		tx.WebhookEdited(id)
		var until *time.Time
		if hours > 0 {
			now, err := tx.Q.DatabaseTime(ctx)
			if err != nil {
				return err
			}
			until = new(now.Add(time.Duration(hours) * time.Hour))
		}
		sub, err = tx.Q.RotateWebhookSecret(ctx, db.RotateWebhookSecretParams{TenantID: tenant, ID: id, SecretSealed: sealed, Until: until})
		return err
	})
	return sub, secret, err
}
