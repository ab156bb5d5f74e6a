package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

const (
	// TrunkRateWindow is the time over which a trunk's calls per second are counted.
	TrunkRateWindow = time.Second
	// ClockSkew is how far the clocks of two controllers may be apart.
	ClockSkew = time.Second
)

// TrunksInUse reads the tenant's active trunks by their priority, with the channels that they hold and the calls that they have begun
// within TrunkRateWindow of now.
func (tx *Tx) TrunksInUse(ctx context.Context, tenant uuid.UUID, now time.Time) ([]db.GateTrunksRow, error) {
	since := now.Add(-TrunkRateWindow)
	return tx.Q.GateTrunks(ctx, tenant, since, IDFloor(since.Add(-ClockSkew)))
}
