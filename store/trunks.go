package store

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// TrunkRateWindow is the time over which a trunk's calls per second are counted.
	TrunkRateWindow = time.Second
	// ClockSkew is how far the clocks of controllers and the database may be apart.
	ClockSkew = 5 * time.Second
	// trunkIDsSince is how far back the ids of calls reach among which those of the last TrunkRateWindow are looked for: an id is of the clock of the
	// controller that began the call, its time is the database's.
	trunkIDsSince = 30 * time.Second
)

// TrunksInUse reads the tenant's active trunks by their priority, with the channels that they hold and the calls that they have begun
// within the last TrunkRateWindow. The gate's lock makes the count exact: what it admits has a later time.
func TrunksInUse(ctx context.Context, q *db.Queries, tenant uuid.UUID) ([]db.GateTrunksRow, error) {
	return q.GateTrunks(ctx, TrunkRateWindow.Seconds(), tenant, IDFloor(time.Now().Add(-trunkIDsSince)))
}

// A trunk that is out of order is left alone for a while, and tried by one call at a time then.
const (
	// trunkRun is the weight of the calls in a row that fail for a trunk's sake, over at least trunkRunSpan, before it rests: five that
	// it refused, or ten of which nothing was heard, as some callees' networks tell of no ringing. Between two calls that a congested
	// one refuses another rings within that time.
	trunkRun     = 10
	trunkRunSpan = 10 * time.Second
	// trunkRest is a trunk's first rest. Each further one is twice as long, up to trunkRestMost.
	trunkRest     = 30 * time.Second
	trunkRestMost = 10 * time.Minute
	// trunkTrial outlives the ringing of the call that tries a trunk.
	trunkTrial = 90 * time.Second
)

// TrunkFault is a call that failed for its trunk's sake. Silent is one of which nothing was heard, which a callee who doesn't answer
// may be as well: of a trunk that gives signs of life, but never tells of ringing, it counts for nothing.
type TrunkFault struct {
	Tenant, Trunk, Call uuid.UUID
	Cause               string
	Silent              bool
	At                  time.Time
}

// TrunkFailed counts a fault, and has a trunk rest after a run of them; the call that tries it then, in vain, has it rest again, for
// twice as long. dead tells whether the run is long enough to take the trunk for out of order; until is when it will be tried, where that
// was decided now.
func (tx *Tx) TrunkFailed(ctx context.Context, f TrunkFault) (dead bool, until *time.Time, err error) {
	t, err := tx.Q.TrunkHealth(ctx, f.Tenant, f.Trunk)
	if errors.Is(err, ErrNotFound) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	return tx.TrunkFaulty(ctx, f, t)
}

// TrunkFaulty is TrunkFailed for a trunk that was read with its lock (TrunkHealth). It is written with what the transaction sends next.
func (tx *Tx) TrunkFaulty(ctx context.Context, f TrunkFault, t db.Trunk) (dead bool, until *time.Time, err error) {
	if f.Silent && t.RangAt == nil && t.HeardAt != nil && t.Rests == 0 {
		return false, nil, nil
	}
	if t.Failures += 2; f.Silent {
		t.Failures--
	}
	if t.FailingSince == nil {
		t.FailingSince = &f.At
	}
	tried := t.Probe != nil && *t.Probe == f.Call
	if tried || t.Rests == 0 && t.Failures >= trunkRun && f.At.Sub(*t.FailingSince) >= trunkRunSpan {
		at := f.At.Add(min(trunkRestMost, trunkRest<<min(t.Rests, 10)))
		t.Rests++
		t.RestsUntil, t.Probe, until = &at, nil, &at
	}
	return t.Failures >= trunkRun, until, tx.Later(ctx, func(q *db.Queries) error {
		return q.TrunkFailed(ctx, db.TrunkFailedParams{
			TenantID: f.Tenant, ID: f.Trunk, Failures: t.Failures, FailingSince: *t.FailingSince, Failure: f.Cause, Rests: t.Rests,
			RestsUntil: t.RestsUntil, Probe: t.Probe,
		})
	})
}

// TrunkAlive notes that a trunk gave a sign of life at a moment, ringing for one; rested tells whether that has ended its rest.
func TrunkAlive(ctx context.Context, q *db.Queries, tenant, trunk uuid.UUID, at time.Time, rang bool) (rested bool, err error) {
	rows, err := q.TrunkAlive(ctx, db.TrunkAliveParams{TenantID: tenant, ID: trunk, At: at, Rang: rang})
	return len(rows) > 0 && rows[0], err
}

// TryTrunk has a call try a trunk whose rest is over: no other does before its fate is known.
func (tx *Tx) TryTrunk(ctx context.Context, tenant, trunk, call uuid.UUID, now time.Time) error {
	return tx.Q.TrunkProbed(ctx, db.TrunkProbedParams{TenantID: tenant, ID: trunk, CallID: call, Until: now.Add(trunkTrial)})
}
