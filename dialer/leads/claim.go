package leads

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// ClaimBatch bounds a claim.
const ClaimBatch = 50

// HeadEvery is how often a claimer looks from the head of its campaign's leads, where those stand that were given back or are
// more urgent than they were, while there are enough behind.
const HeadEvery = 2 * time.Second

// NumberRetry is when a lead is tried again whose number can't be dialed, for a reason that may pass: its tenant's key doesn't open.
const NumberRetry = time.Hour

// Claimer claims leads of one campaign. It goes on where it came to: while somebody holds an old snapshot of the database, the
// index entries of all leads that were claimed since stay in it, and each look from the head would step over every one.
type Claimer struct {
	Leads    *Service
	Tenant   uuid.UUID
	Campaign uuid.UUID
	Claimant string
	Lease    time.Duration
	At       Position
	Unopened int // leads of the last claim whose tenant's key doesn't open
	// mixed: the last claim took leads of several kinds, or was filled before it had asked for each, so that the next asks for each kind what the one
	// before has left. Kinds that are asked for together are each asked for all that the claim wants.
	mixed bool
}

// kind is what a lead is to a claim.
type kind int

const (
	callback kind = iota
	retry
	fresh
	kinds
)

// Position is how far a claimer has come. The zero value is the head.
type Position struct {
	Since  time.Time // when it looked from the head
	levels []level   // the highest first; what is above them has nothing left
}

// level is how far a claimer has come among the leads of one priority.
type level struct {
	priority int32
	due      time.Time // of retries
	fresh    uuid.UUID // of leads that were never dialed
}

// Claimed is a lead that a claimer holds.
type Claimed struct {
	ID     uuid.UUID
	Number store.Phone
	// VoiceAgent is the one that a callback was promised of; nil for the campaign's.
	VoiceAgent *uuid.UUID
}

// Claim takes up to n leads and tells how many it took; those that have no number any more, or a damaged one, are ended. First come
// the callbacks that callees were promised, as they fall due. Then the highest priority: its retries that are due, the longest
// overdue first, then its leads that were never dialed, in the order in which they came. Then the next priority.
func (c *Claimer) Claim(ctx context.Context, n int, now time.Time) (out []Claimed, taken int, err error) {
	at := Position{}
	err = c.Leads.Store.InTenant(ctx, c.Tenant, func(tx *store.Tx) error {
		at, c.Unopened = Position{Since: c.At.Since, levels: slices.Clone(c.At.levels)}, 0
		if time.Since(at.Since) >= HeadEvery {
			at = Position{Since: time.Now()}
		}
		var err error
		out, taken, err = c.ClaimFrom(ctx, tx, n, now, &at)
		return err
	})
	if err == nil {
		c.At = at
	}
	return out, taken, err
}

// ClaimFrom claims from a position on, and from the head what is not found there.
func (c *Claimer) ClaimFrom(ctx context.Context, tx *store.Tx, n int, now time.Time, at *Position) (out []Claimed, taken int, err error) {
	if err := tx.Later(ctx, func(q *db.Queries) error { return q.PlanByValues(ctx) }); err != nil {
		return nil, 0, err
	}
	var took [kinds]bool
	take := func(k kind, found []db.LeadsClaimFreshRow, err error) error {
		for _, lead := range found {
			if err == nil {
				out, err = c.hold(ctx, tx, out, lead)
			}
		}
		took[k] = took[k] || len(found) > 0
		taken += len(found)
		return err
	}
	left := true // there may be leads of a kind that wasn't asked for, or went back
	together := !c.mixed && len(at.levels) > 0
	defer func() {
		several := took[callback] && took[retry] || took[callback] && took[fresh] || took[retry] && took[fresh]
		c.mixed = several || left
	}()
	if together {
		var found [kinds][]db.LeadsClaimFreshRow
		found, left, err = c.together(ctx, tx, n, now, &at.levels[0])
		for k := range kinds {
			err = take(k, found[k], err)
		}
		if err != nil || taken == n {
			return out, taken, err
		}
		at.levels = at.levels[1:]
	} else {
		found, err := c.callbacks(ctx, tx.Q, n, now)
		if err := take(callback, found, err); err != nil || taken == n {
			return out, taken, err
		}
	}
	for fromHead := len(at.levels) == 0; ; fromHead = true {
		if fromHead {
			if at.levels, err = c.levels(ctx, tx, now); err != nil {
				return out, taken, err
			}
		}
		for len(at.levels) > 0 {
			left = true
			found, err := c.retries(ctx, tx.Q, n-taken, now, &at.levels[0])
			if err := take(retry, found, err); err != nil || taken == n {
				return out, taken, err
			}
			left = false
			found, err = c.fresh(ctx, tx.Q, n-taken, now, &at.levels[0])
			if err := take(fresh, found, err); err != nil || taken == n {
				return out, taken, err
			}
			at.levels = at.levels[1:]
		}
		if fromHead {
			return out, taken, nil
		}
	}
}

// together claims up to n callbacks, retries and fresh leads of a level in one round trip. What is more than n altogether goes
// back, and is claimed next.
func (c *Claimer) together(ctx context.Context, tx *store.Tx, n int, now time.Time, at *level) (found [kinds][]db.LeadsClaimFreshRow, back bool, err error) {
	was := *at
	err = tx.Together(ctx, func(q *db.Queries) (err error) {
		found[callback], err = c.callbacks(ctx, q, n, now)
		return err
	}, func(q *db.Queries) (err error) {
		found[retry], err = c.retries(ctx, q, n, now, at)
		return err
	}, func(q *db.Queries) (err error) {
		found[fresh], err = c.fresh(ctx, q, n, now, at)
		return err
	})
	if err != nil {
		return found, false, err
	}
	left := n
	var over []uuid.UUID
	for k, of := range found {
		keep := min(left, len(of))
		for _, lead := range of[keep:] {
			over = append(over, lead.ID)
		}
		found[k], left = of[:keep], left-keep
	}
	if len(over) == 0 {
		return found, false, nil
	}
	*at = was
	return found, true, tx.Later(ctx, func(q *db.Queries) error { return q.LeadsRelease(ctx, c.Tenant, over, c.Claimant) })
}

// levels gives the priorities that there are, each from its head.
func (c *Claimer) levels(ctx context.Context, tx *store.Tx, now time.Time) ([]level, error) {
	priorities, err := tx.Q.LeadPriorities(ctx, c.Tenant, c.Campaign, now)
	out := make([]level, len(priorities))
	for i, p := range priorities {
		out[i].priority = p
	}
	return out, err
}

// callbacks claims callbacks. There are few at a time: they are looked for from their head.
func (c *Claimer) callbacks(ctx context.Context, q *db.Queries, n int, now time.Time) ([]db.LeadsClaimFreshRow, error) {
	rows, err := q.LeadsClaimCallbacks(ctx, db.LeadsClaimCallbacksParams{
		TenantID: c.Tenant, CampaignID: c.Campaign, Now: now, Claimant: c.Claimant, Until: now.Add(c.Lease),
		Batch: int32(n), //nolint:gosec // at most claimBatch
	})
	out := make([]db.LeadsClaimFreshRow, len(rows))
	for i, row := range rows {
		out[i] = db.LeadsClaimFreshRow(row)
	}
	sortDue(out)
	return out, err
}

func sortDue(leads []db.LeadsClaimFreshRow) {
	slices.SortFunc(leads, func(a, b db.LeadsClaimFreshRow) int {
		return cmp.Or(a.NextAttemptAt.Compare(*b.NextAttemptAt), slices.Compare(a.ID[:], b.ID[:]))
	})
}

// retries claims those of a level, the longest overdue first.
func (c *Claimer) retries(ctx context.Context, q *db.Queries, n int, now time.Time, at *level) (out []db.LeadsClaimFreshRow, err error) {
	rows, err := q.LeadsClaimRetries(ctx, db.LeadsClaimRetriesParams{
		TenantID: c.Tenant, CampaignID: c.Campaign, Priority: at.priority, Now: now, Since: at.due, Claimant: c.Claimant,
		Until: now.Add(c.Lease), Batch: int32(n), //nolint:gosec // at most claimBatch
	})
	for _, row := range rows {
		out = append(out, db.LeadsClaimFreshRow(row))
	}
	if sortDue(out); len(out) > 0 {
		at.due = *out[len(out)-1].NextAttemptAt
	}
	return out, err
}

// fresh claims leads of a level that were never dialed.
func (c *Claimer) fresh(ctx context.Context, q *db.Queries, n int, now time.Time, at *level) ([]db.LeadsClaimFreshRow, error) {
	out, err := q.LeadsClaimFresh(ctx, db.LeadsClaimFreshParams{
		TenantID: c.Tenant, CampaignID: c.Campaign, Priority: at.priority, FromID: at.fresh, Now: now, Claimant: c.Claimant,
		Until: now.Add(c.Lease), Batch: int32(n), //nolint:gosec // at most claimBatch
	})
	slices.SortFunc(out, func(a, b db.LeadsClaimFreshRow) int { return slices.Compare(a.ID[:], b.ID[:]) })
	if len(out) > 0 {
		at.fresh = out[len(out)-1].ID
	}
	return out, err
}

func (c *Claimer) hold(ctx context.Context, tx *store.Tx, out []Claimed, lead db.LeadsClaimFreshRow) ([]Claimed, error) {
	number, err := PhoneOf(ctx, tx, c.Tenant, lead.Phone, lead.PhoneSealed)
	if errors.Is(err, store.ErrUnseal) { // the others are dialed all the same
		c.Leads.Unusable.Inc()
		c.Leads.Log.ErrorContext(ctx, "decrypting the lead's number failed", "tenant_id", c.Tenant, "campaign_id", c.Campaign, "lead_id", lead.ID, "error", err)
	}
	if errors.Is(err, store.ErrMasterKey) {
		c.Unopened++
		return out, tx.Q.LeadPostpone(ctx, db.LeadPostponeParams{
			TenantID: c.Tenant, ID: lead.ID, NextAttemptAt: c.Leads.Now().Add(NumberRetry), Claimant: c.Claimant,
		})
	}
	if err != nil && !Damaged(err) {
		return out, err
	}
	if number.IsZero() {
		row, err := tx.Q.LeadLock(ctx, c.Tenant, lead.ID)
		if err != nil {
			return out, err
		}
		return out, c.Leads.Finish(ctx, tx, row, StatusInvalid, c.Leads.Now())
	}
	return append(out, Claimed{ID: lead.ID, Number: number, VoiceAgent: lead.CallbackVoiceAgentID}), nil
}
