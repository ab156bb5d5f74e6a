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

// CallMonth is the month of calls, by their ids: they are in one partition.
type CallMonth struct {
	// from and until bound the milliseconds of ids; both are 0 for ids of no month of ours.
	from, until int64
	condition   string
}

// firstMonth and monthsOn bound the months: whoever makes ids up is not to make texts of queries.
const (
	firstMonth = 2025
	monthsOn   = 2 * 31 * 24 * time.Hour
)

// MonthOfCall gives the month of a call's id.
func (s *Store) MonthOfCall(id uuid.UUID) CallMonth {
	ms := int64(binary.BigEndian.Uint64(id[:8]) >> 16) //nolint:gosec,mnd // the first 48 bits
	if last := s.month.Load(); last != nil && last.from <= ms && ms < last.until {
		return *last
	}
	at := time.UnixMilli(ms).UTC()
	if at.Year() < firstMonth || at.After(time.Now().Add(monthsOn)) {
		return CallMonth{}
	}
	first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	next := first.AddDate(0, 1, 0)
	month := CallMonth{first.UnixMilli(), next.UnixMilli(), "AND c.id >= '" + IDFloor(first).String() + "' AND c.id < '" + IDFloor(next).String() + "'"}
	s.month.Store(&month)
	return month
}

// ReadCall is Read for a query that ends with its conditions on one call, c: see ReadCalls.
func (s *Store) ReadCall(tenantID, id uuid.UUID) *db.Queries {
	return s.ReadCalls(tenantID, s.MonthOfCall(id))
}

// ReadCalls is Read for a query that ends with its conditions on calls c of a month. It adds the bounds of the month as constants: a plan for
// whatever id has all months, which are locked and looked through for each call, and a plan for a month has one. There are as many texts, and plans
// on a connection, as months that are asked for.
func (s *Store) ReadCalls(tenantID uuid.UUID, month CallMonth) *db.Queries {
	return db.New(ofMonth{&singles{store: s, scope: scope{tenant: tenantID}, read: true}, month.condition})
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
