package gate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
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
		owned, err := c.ownNumber(ctx, tx, fixed)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return deny("the caller id is not one of the tenant's active numbers").until(c.soon()), nil
		case err != nil:
			return nil, err
		case !strings.HasPrefix(owned, series):
			return deny("the caller id is not a %s number", campaigns.SeriesName(series)).until(c.soon()), nil
		}
		c.from = owned
		return nil, nil //nolint:nilnil // no denial
	}
	var trunk *uuid.UUID
	if c.way != nil {
		trunk = c.way.routes[0].TrunkID
	}
	shown := inTurn(c.numbers, series, trunk)
	switch {
	case shown == nil && series != "":
		return deny("the tenant has no %s number to call from", campaigns.SeriesName(series)).until(c.soon()), nil
	case shown == nil:
		return deny("the tenant has no number to call from").until(c.soon()), nil
	}
	c.from, c.shown = shown.E164, &shown.ID
	return nil, nil //nolint:nilnil // no denial
}

// ownNumber finds a number among those that were read; it is looked for otherwise where it is written in another way than the tenant's.
func (c *candidate) ownNumber(ctx context.Context, tx *store.Tx, written string) (string, error) {
	spellings := campaigns.Spellings(written)
	for _, n := range c.numbers {
		if n.Asked && slices.Contains(spellings, n.E164) {
			return n.E164, nil
		}
	}
	return campaigns.OwnNumber(ctx, tx, c.req.TenantID, written)
}

// inTurn is the number that a call shows next: of those that begin with series, the trunk's and those of no trunk alike, the one whose turn is
// longest ago. A carrier refuses another's numbers, so those of another trunk have turns only where there are no others.
func inTurn(numbers []db.GateNumbersRow, series string, trunk *uuid.UUID) *db.GateNumbersRow {
	foreign := func(n *db.GateNumbersRow) int {
		if n.TrunkID == nil || trunk != nil && *n.TrunkID == *trunk {
			return 0
		}
		return 1
	}
	var next *db.GateNumbersRow
	for i := range numbers {
		n := &numbers[i]
		if !strings.HasPrefix(n.E164, series) {
			continue
		}
		if next == nil || cmp.Or(cmp.Compare(foreign(n), foreign(next)), shownBefore(n.ShownAt, next.ShownAt), bytes.Compare(n.ID[:], next.ID[:])) < 0 {
			next = n
		}
	}
	return next
}

// shownBefore orders the moments of turns; what had none comes first.
func shownBefore(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	default:
		return a.Compare(*b)
	}
}
