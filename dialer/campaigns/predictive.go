package campaigns

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

const maxReasonLength = 500

// PredictiveInput is the body that pauses or resumes over-dialing.
type PredictiveInput struct {
	Reason input.Opt[string]
}

// UnmarshalJSON takes the body.
func (in *PredictiveInput) UnmarshalJSON(b []byte) error {
	*in = PredictiveInput{}
	err := input.Members(b, map[string]json.Unmarshaler{"reason": &in.Reason})
	return err
}

// SetPredictivePaused stops the over-dialing of a running predictive campaign, or lets it go on. The campaign runs all the while,
// with one call per ready agent when it is paused. Errors: store.ErrNotFound, *fault.Error.
func (cs *Service) SetPredictivePaused(
	ctx context.Context, tenant, id uuid.UUID, paused bool, in PredictiveInput,
) (Campaign, error) {
	trigger := "resume predictive dialing of"
	if paused {
		trigger = "pause predictive dialing of"
	}
	c := input.Form{}
	if in.Reason.Null {
		in.Reason = input.Opt[string]{}
	}
	reason, ok := input.Given(&c, "reason", in.Reason)
	if ok {
		c.Text("reason", reason, 0, maxReasonLength)
	}
	if err := c.Err(); err != nil {
		return Campaign{}, err
	}
	out, err := cs.inCampaign(ctx, tenant, trigger+" campaign", func(tx *store.Tx) (db.Campaign, error) {
		row, err := tx.Q.CampaignLock(ctx, tenant, id)
		if err != nil {
			return row, err
		}
		if row.DialMode != string(DialPredictive) {
			return row, &fault.Error{
				Kind: fault.Conflict, Code: CodeNotPredictive, Detail: "the campaign's dial mode is " + row.DialMode + ", not predictive",
				Members: map[string]any{"dial_mode": row.DialMode},
			}
		}
		if row.Status != string(StatusRunning) {
			return row, invalidTransition(trigger, row)
		}
		return tx.Q.CampaignSetPredictivePaused(ctx, paused, tenant, id)
	})
	if err == nil {
		cs.Log.InfoContext(ctx, "predictive dialing paused or resumed", "tenant_id", tenant, "campaign_id", id, "paused", paused, "reason", reason)
		cs.Wake.Campaign(id)
	}
	return out, err
}
