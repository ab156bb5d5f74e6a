package store

import (
	"time"

	"github.com/google/uuid"
)

// NewID returns a UUIDv7: ids in the order of their making.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// IDFloor is the smallest UUIDv7 of a moment, as uuidv7_floor in SQL.
func IDFloor(t time.Time) uuid.UUID {
	var id uuid.UUID
	ms := uint64(max(0, t.UnixMilli())) //nolint:gosec // not negative
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i)) //nolint:gosec // one byte of six
	}
	return id
}
