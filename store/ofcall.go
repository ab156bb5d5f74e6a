package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringmaster/ringmaster/store/db"
)

// CallMonth is the month of calls, by their ids: they are in one partition.
type CallMonth struct {
	// condition bounds c.id; empty for ids of no month of ours.
	condition string
}

// MonthOfCall gives the month of a call's id.
func (s *Store) MonthOfCall(id uuid.UUID) CallMonth {
	m := monthOf(id)
	if m == nil {
		return CallMonth{}
	}
	return CallMonth{"AND c.id >= '" + m.first + "' AND c.id < '" + m.next + "'"}
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
