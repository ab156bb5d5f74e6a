package dialer

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

// headEvery is how often a claimer looks from the head of its campaign's leads, where those stand that were given back or are
// more urgent than they were, while there are enough behind.
const headEvery = 2 * time.Second

// sealedRetry is when a lead is tried again whose tenant's key doesn't open under the configured master key.
const sealedRetry = time.Hour

// claimer claims leads of one campaign. It goes on where it came to: while somebody holds an old snapshot of the database, the
// index entries of all leads that were claimed since stay in it, and each look from the head would step over every one.
type claimer struct {
	s        *Service
	tenant   uuid.UUID
	campaign uuid.UUID
	claimant string
	lease    time.Duration
	at       position
}

// position is how far a claimer has come. The zero value is the head.
type position struct {
	since    time.Time // when it looked from the head
	due      time.Time // of leads that are due
	begun    bool      // the next two are set
	priority int32
	id       uuid.UUID
}

// claimed is a lead that a claimer holds.
type claimed struct {
	id     uuid.UUID
	number store.Phone
}

// claim takes up to n leads, those that are due first, then fresh ones, and tells how many it took; those that have no number
// any more, or a damaged one, are ended.
func (c *claimer) claim(ctx context.Context, n int, now time.Time) (out []claimed, taken int, err error) {
	at := position{}
	err = c.s.st.InTenant(ctx, c.tenant, func(tx *store.Tx) error {
		at = c.at
		if time.Since(at.since) >= headEvery {
			at = position{since: time.Now()}
		}
		var err error
		out, taken, err = c.claimFrom(ctx, tx, n, now, &at)
		return err
	})
	if err == nil {
		c.at = at
	}
	return out, taken, err
}

// claimFrom claims from a position on, and from the head what is not found there.
func (c *claimer) claimFrom(ctx context.Context, tx *store.Tx, n int, now time.Time, at *position) (out []claimed, taken int, err error) {
	if err := tx.Q.PlanByValues(ctx); err != nil {
		return nil, 0, err
	}
	if out, taken, err = c.claimDue(ctx, tx, n, now, at); err != nil || taken == n {
		return out, taken, err
	}
	fresh, err := c.claimFresh(ctx, tx, n-taken, now, at)
	if err != nil {
		return out, taken, err
	}
	for _, lead := range fresh {
		if out, err = c.hold(ctx, tx, out, db.LeadsClaimDueRow(lead)); err != nil {
			return out, taken, err
		}
	}
	return out, taken + len(fresh), nil
}

// claimDue claims the callbacks that callees were promised, then retries. There are few callbacks at a time: they are looked for
// from their head.
func (c *claimer) claimDue(ctx context.Context, tx *store.Tx, n int, now time.Time, at *position) ([]claimed, int, error) {
	out, taken, _, err := c.claimIn(ctx, tx, nil, LeadCallback, n, now, time.Time{})
	for from := at.due; err == nil && taken < n; from = (time.Time{}) {
		var found int
		var last time.Time
		if out, found, last, err = c.claimIn(ctx, tx, out, LeadRetry, n-taken, now, from); found > 0 {
			at.due = last
		}
		if taken += found; from.IsZero() {
			break
		}
	}
	return out, taken, err
}

// claimIn claims leads of one status that have fallen due since a moment, those that wait longest first, and gives the due time of
// the last one.
func (c *claimer) claimIn(
	ctx context.Context, tx *store.Tx, out []claimed, status LeadStatus, n int, now, since time.Time,
) (_ []claimed, found int, last time.Time, err error) {
	due, err := tx.Q.LeadsClaimDue(ctx, db.LeadsClaimDueParams{
		TenantID: c.tenant, CampaignID: c.campaign, Status: string(status), Now: now, Since: since, Claimant: c.claimant,
		Until: now.Add(c.lease), Batch: int32(n), //nolint:gosec // at most claimBatch
	})
	if err != nil {
		return out, 0, last, err
	}
	slices.SortFunc(due, func(a, b db.LeadsClaimDueRow) int {
		return cmp.Or(a.NextAttemptAt.Compare(*b.NextAttemptAt), slices.Compare(a.ID[:], b.ID[:]))
	})
	for _, lead := range due {
		last = *lead.NextAttemptAt
		if out, err = c.hold(ctx, tx, out, lead); err != nil {
			return out, 0, last, err
		}
	}
	return out, len(due), last, nil
}

func (c *claimer) claimFresh(ctx context.Context, tx *store.Tx, n int, now time.Time, at *position) ([]db.LeadsClaimFreshRow, error) {
	var out []db.LeadsClaimFreshRow
	if at.begun {
		next, err := tx.Q.LeadsClaimNext(ctx, db.LeadsClaimNextParams{
			TenantID: c.tenant, CampaignID: c.campaign, Now: now, Claimant: c.claimant, Until: now.Add(c.lease),
			Priority: at.priority, FromID: at.id, Batch: int32(n), //nolint:gosec // at most claimBatch
		})
		if err != nil {
			return nil, err
		}
		for _, lead := range next {
			out = append(out, db.LeadsClaimFreshRow(lead))
		}
	}
	if len(out) < n {
		head, err := tx.Q.LeadsClaimFresh(ctx, db.LeadsClaimFreshParams{
			TenantID: c.tenant, CampaignID: c.campaign, Now: now, Claimant: c.claimant, Until: now.Add(c.lease),
			Batch: int32(n - len(out)), //nolint:gosec // at most claimBatch
		})
		if err != nil {
			return nil, err
		}
		out = append(out, head...)
	}
	slices.SortFunc(out, func(a, b db.LeadsClaimFreshRow) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), slices.Compare(a.ID[:], b.ID[:]))
	})
	if len(out) > 0 {
		last := out[len(out)-1]
		at.begun, at.priority, at.id = true, last.Priority, last.ID
	}
	return out, nil
}

func (c *claimer) hold(ctx context.Context, tx *store.Tx, out []claimed, lead db.LeadsClaimDueRow) ([]claimed, error) {
	number, err := leadPhone(ctx, tx, c.tenant, lead.Phone, lead.PhoneSealed)
	if errors.Is(err, store.ErrUnseal) { // the others are dialed all the same
		c.s.log.ErrorContext(ctx, "lead's number does not open", "tenant_id", c.tenant, "lead_id", lead.ID, "error", err)
	}
	if errors.Is(err, store.ErrMasterKey) {
		return out, tx.Q.LeadPostpone(ctx, db.LeadPostponeParams{
			TenantID: c.tenant, ID: lead.ID, NextAttemptAt: c.s.now().Add(sealedRetry), Claimant: c.claimant,
		})
	}
	if err != nil && !damaged(err) {
		return out, err
	}
	if number.IsZero() {
		row, err := tx.Q.LeadLock(ctx, c.tenant, lead.ID)
		if err != nil {
			return out, err
		}
		return out, c.s.finishLead(ctx, tx, row, LeadInvalid, c.s.now())
	}
	return append(out, claimed{id: lead.ID, number: number}), nil
}
