package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// sweepTime is when the nightly sweep begins, after midnight UTC: 03:00 in India.
	sweepTime = 21*time.Hour + 30*time.Minute
	// sweepLock is the advisory lock of the process that sweeps.
	sweepLock = 0x726d7377656570 // "rmsweep"
	// sweepBatch bounds a sweep's transactions, sessionBatch those that take sessions: each has up to 1,000 log entries. familyBatch is for OAuth's
	// families, which may have a few tokens left.
	sweepBatch   = 5000
	sessionBatch = 100
	familyBatch  = 1000
	// idempotencyKept is longer than any window within which an Idempotency-Key answers again, or failures to sign in count.
	idempotencyKept = 48 * time.Hour
	// tokensKept is how long a callback token that has ended is still told apart from one that never was.
	tokensKept = 48 * time.Hour
	// oauthKept is for how long an authorization of OAuth, its refresh tokens, an assertion or a revocation is kept when nothing of it is good any more.
	oauthKept = 24 * time.Hour
)

// Retention says for how many days is kept what the tenants have no setting for; 0 is for ever.
type Retention struct {
	// CallDetails is for what a call leaves besides its record, after its end: AI sessions with their logs, what flows did, supervisors' sessions
	// and requests for one.
	CallDetails int
	// AgentLog is for agents' changes of status.
	AgentLog int
	// RevokedKeys is for API keys that were revoked.
	RevokedKeys int
	// Audit is for the audit, and for who got which recording.
	Audit int
}

// DefaultRetention keeps the audit for two years and the rest for one.
func DefaultRetention() Retention {
	return Retention{CallDetails: 365, AgentLog: 365, RevokedKeys: 365, Audit: 730}
}

// Swept is what a sweep has forgotten.
type Swept struct {
	// Leads and Calls are those whose numbers it took, Keys the idempotency keys, Tokens the callback tokens.
	Leads, Calls, Keys, Tokens int64
	// RefreshTokens, Families, Assertions and Revocations are OAuth's. What users granted stays.
	RefreshTokens, Families, Assertions, Revocations int64
	// WebhookEvents and WebhookDeliveries are those that their tenants keep no longer (webhook_retention_days).
	WebhookEvents, WebhookDeliveries int64
	// Sealed are leads, and Events events, whose numbers were in clear from before their tenant was strict.
	Sealed, Events int64
	// Sessions, FlowRuns, Reports, Supervisions, Escalations, AgentLog, RevokedKeys, Audit and Accesses are rows that Retention bounds; Supervisions are sessions of
	// supervisors, Accesses are of recordings.
	Sessions, FlowRuns, Reports, Supervisions, Escalations, AgentLog, RevokedKeys, Audit, Accesses int64
}

// NextSweep gives the first time after now at which the nightly sweep is due.
func NextSweep(now time.Time) time.Time {
	at := now.UTC().Truncate(24 * time.Hour).Add(sweepTime)
	if !at.After(now) {
		at = at.Add(24 * time.Hour)
	}
	return at
}

// Sweep forgets what is not to be kept: the numbers of strict tenants' leads and calls that ended longer ago than the tenant's
// pii_retention_days, events and deliveries older than its webhook_retention_days, idempotency keys, callback tokens and what came of OAuth's grants when their time is over, and what is older than keep says. Numbers in clear from
// before a tenant was strict are sealed in its leads and masked in its events at once. It works in short transactions, and one that was
// broken off does no harm. One process sweeps at a time; for any other there is nothing to do. What fails of one kind or one tenant holds up
// nothing else, unless the database is away (ErrUnavailable) or ctx ends: errors are joined, and what was done is in Swept.
func (s *Store) Sweep(ctx context.Context, now time.Time, keep Retention) (Swept, error) {
	w := &sweeper{st: s, now: now}
	if _, err := s.alone(ctx, sweepLock, func() error { return w.sweep(ctx, keep) }); err != nil {
		return w.done, fmt.Errorf("sweep: %w", err)
	}
	return w.done, nil
}

// sweeper is one sweep: of a moment, with what it has done so far.
type sweeper struct {
	st   *Store
	now  time.Time
	done Swept
}

func (w *sweeper) sweep(ctx context.Context, keep Retention) error {
	var faults sweepFaults
	if !faults.goOn(ctx, "numbers of strict tenants", w.strict(ctx)) {
		return faults.err()
	}
	if !faults.goOn(ctx, "events", w.oldEvents(ctx)) {
		return faults.err()
	}
	err := w.st.InSystem(ctx, func(tx *Tx) error {
		_, err := tx.Q.SignInFailuresForget(ctx, w.now.Add(-idempotencyKept))
		return err
	})
	if !faults.goOn(ctx, "failures to sign in", err) {
		return faults.err()
	}
	for _, f := range []forgetting{
		{"idempotency keys", w.now.Add(-idempotencyKept), sweepBatch, &w.done.Keys, (*db.Queries).IdempotencyKeysForget},
		{"callback tokens", w.now.Add(-tokensKept), sweepBatch, &w.done.Tokens, (*db.Queries).CallbackTokensForget},
		// The tokens first, so that few are left to go with a family.
		{"refresh tokens of OAuth", w.now.Add(-oauthKept), sweepBatch, &w.done.RefreshTokens, (*db.Queries).OAuthForgetRefreshTokens},
		{"authorizations of OAuth", w.now.Add(-oauthKept), familyBatch, &w.done.Families, (*db.Queries).OAuthForgetFamilies},
		{"assertions of OAuth", w.now.Add(-oauthKept), sweepBatch, &w.done.Assertions, (*db.Queries).OAuthForgetAssertions},
		{"revocations of OAuth", w.now.Add(-oauthKept), sweepBatch, &w.done.Revocations, (*db.Queries).OAuthForgetRevocations},
		{"AI sessions", daysBefore(w.now, keep.CallDetails), sessionBatch, &w.done.Sessions, byID((*db.Queries).SessionsForget)},
		{"runs of flows", daysBefore(w.now, keep.CallDetails), sweepBatch, &w.done.FlowRuns, byID((*db.Queries).FlowRunsForget)},
		{"reports of calls", daysBefore(w.now, keep.CallDetails), sweepBatch, &w.done.Reports, byID((*db.Queries).CallReportsForget)},
		{"supervisors' sessions", daysBefore(w.now, keep.CallDetails), sweepBatch, &w.done.Supervisions, byID((*db.Queries).SupervisionsForget)},
		{"requests for a supervisor", daysBefore(w.now, keep.CallDetails), sweepBatch, &w.done.Escalations, byID((*db.Queries).EscalationsForget)},
		{"agents' changes of status", daysBefore(w.now, keep.AgentLog), sweepBatch, &w.done.AgentLog, (*db.Queries).AgentLogForget},
		{"revoked API keys", daysBefore(w.now, keep.RevokedKeys), sweepBatch, &w.done.RevokedKeys, (*db.Queries).RevokedKeysForget},
		{"the audit", daysBefore(w.now, keep.Audit), sweepBatch, &w.done.Audit, (*db.Queries).AuditForget},
		{"accesses to recordings", daysBefore(w.now, keep.Audit), sweepBatch, &w.done.Accesses, byID((*db.Queries).RecordingAccessForget)},
	} {
		if !faults.goOn(ctx, f.what, w.forget(ctx, f)) {
			break
		}
	}
	return faults.err()
}

// oldEvents forgets events and their deliveries.
func (w *sweeper) oldEvents(ctx context.Context) error {
	tenants, err := w.st.ReadSystem().WebhookRetentions(ctx)
	if err != nil {
		return err
	}
	var faults sweepFaults
	for _, t := range tenants {
		before := IDFloor(daysBefore(w.now, int(t.WebhookRetentionDays)))
		batch := func(take func(*db.Queries) (int64, error)) func() (int64, error) {
			return func() (n int64, err error) {
				err = w.st.InTenant(ctx, t.ID, func(tx *Tx) error {
					n, err = take(tx.Q)
					return err
				})
				return n, err
			}
		}
		err := errors.Join(
			untilNone(&w.done.WebhookDeliveries, sweepBatch, batch(func(q *db.Queries) (int64, error) {
				return q.DeliveriesForget(ctx, t.ID, before, sweepBatch)
			})),
			untilNone(&w.done.WebhookEvents, sweepBatch, batch(func(q *db.Queries) (int64, error) {
				return q.EventsForget(ctx, t.ID, before, sweepBatch)
			})),
		)
		if !faults.goOn(ctx, "tenant "+t.ID.String(), err) {
			break
		}
	}
	return faults.err()
}

// sweepFaults are the errors of the parts of a sweep.
type sweepFaults []error

// goOn notes what became of a part, and tells whether there is sense in the next.
func (f *sweepFaults) goOn(ctx context.Context, what string, err error) bool {
	if err == nil {
		return true
	}
	*f = append(*f, fmt.Errorf("%s: %w", what, err))
	return ctx.Err() == nil && !errors.Is(err, ErrUnavailable)
}

func (f *sweepFaults) err() error { return errors.Join(*f...) }

// forgetting is what a sweep deletes of one kind: all of before a moment, in batches. The zero moment keeps all.
type forgetting struct {
	what   string
	before time.Time
	batch  int32
	sum    *int64
	take   func(q *db.Queries, ctx context.Context, before time.Time, batch int32) (int64, error)
}

// byID gives a query that finds rows by the time in their ids that time's bound, too: ids come from the clocks of several machines.
func byID(
	take func(q *db.Queries, ctx context.Context, began uuid.UUID, before time.Time, batch int32) (int64, error),
) func(q *db.Queries, ctx context.Context, before time.Time, batch int32) (int64, error) {
	return func(q *db.Queries, ctx context.Context, before time.Time, batch int32) (int64, error) {
		return take(q, ctx, IDFloor(before.Add(ClockSkew)), before, batch)
	}
}

func daysBefore(now time.Time, days int) time.Time {
	if days == 0 {
		return time.Time{}
	}
	return now.AddDate(0, 0, -days)
}

func (w *sweeper) forget(ctx context.Context, f forgetting) error {
	if f.before.IsZero() {
		return nil
	}
	return untilNone(f.sum, f.batch, func() (n int64, err error) {
		err = w.st.InSystem(ctx, func(tx *Tx) error {
			n, err = f.take(tx.Q, ctx, f.before, f.batch)
			return err
		})
		return n, err
	})
}

// untilNone repeats a batch until it isn't full, and adds up what they came to.
func untilNone(sum *int64, size int32, batch func() (int64, error)) error {
	for {
		n, err := batch()
		if err != nil {
			return err
		}
		if *sum += n; n < int64(size) {
			return nil
		}
	}
}
