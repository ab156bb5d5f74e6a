package store

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringmaster/ringmaster/store/db"
)

// ReadCall is Read for a query that ends with its conditions on one call, c. It adds the bounds of the month that is in the call's id, as
// constants: a plan for whatever id has all months, which are locked and looked through for each call, and a plan for a month has one. There are
// as many texts, and plans on a connection, as months that are asked for.
func (s *Store) ReadCall(tenantID, id uuid.UUID) *db.Queries {
	return db.New(ofMonth{&singles{store: s, scope: scope{tenant: tenantID}, read: true}, monthOf(id)})
}

// firstMonth and monthsOn bound the ids whose months are written out: whoever makes ids up is not to make texts.
const (
	firstMonth = 2025
	monthsOn   = 2 * 31 * 24 * time.Hour
)

// monthOf gives the condition that a call c is of the month of an id; none for a UUID that is of no month of ours.
func monthOf(id uuid.UUID) string {
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC() //nolint:gosec,mnd // the first 48 bits
	if at.Year() < firstMonth || at.After(time.Now().Add(monthsOn)) {
		return ""
	}
	month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	return "AND c.id >= '" + IDFloor(month).String() + "' AND c.id < '" + IDFloor(month.AddDate(0, 1, 0)).String() + "'"
}

// ofMonth adds a condition to the end of each query.
type ofMonth struct {
	of        db.DBTX
	condition string
}

// Exec implements db.DBTX.
func (m ofMonth) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return m.of.Exec(ctx, sql+m.condition, args...)
}

// Query implements db.DBTX.
func (m ofMonth) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return m.of.Query(ctx, sql+m.condition, args...)
}

// QueryRow implements db.DBTX.
func (m ofMonth) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return m.of.QueryRow(ctx, sql+m.condition, args...)
}
