package gate

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
)

// callerIDOwned finds the number that the callee sees: the request's or the campaign's, which must be the tenant's own, or one of the
// tenant's in turn, of the category's series where the campaign declares one.
func callerIDOwned(ctx context.Context, tx *store.Tx, c *candidate) (*denial, error) {
	series := campaigns.CategoryOf(c.facts.CallCategory).Series()
	if single(c.req) {
		series = campaigns.CallCategory(c.req.Category).Series()
	}
	fixed := c.req.From
	if fixed == "" && c.facts.CallerID != nil {
		fixed = *c.facts.CallerID
	}
	if fixed != "" {
		owned, err := campaigns.OwnNumber(ctx, tx, c.req.TenantID, fixed)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return deny("the caller id is none of the tenant's active numbers").until(c.soon()), nil
		case err != nil:
			return nil, err
		case !strings.HasPrefix(owned, series):
			return deny("the caller id is no %s number", campaigns.SeriesName(series)).until(c.soon()), nil
		}
		c.from = owned
		return nil, nil //nolint:nilnil // no denial
	}
	var trunk *uuid.UUID
	if c.way != nil {
		trunk = c.way.routes[0].TrunkID
	}
	shown, err := tx.Q.GateCallerIDInTurn(ctx, c.req.TenantID, series, trunk)
	switch {
	case errors.Is(err, store.ErrNotFound) && series != "":
		return deny("the tenant has no %s number to call from", campaigns.SeriesName(series)).until(c.soon()), nil
	case errors.Is(err, store.ErrNotFound):
		return deny("the tenant has no number to call from").until(c.soon()), nil
	}
	c.from = shown
	return nil, err
}
