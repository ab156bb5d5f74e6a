package webhook

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// eventsCounted is up to how many events are counted, or so many as tell that there is a next page.
const eventsCounted = 10_000

// EventFilter says which events are listed; nil members leave all in.
type EventFilter struct {
	Since, Until *time.Time
	// Type is a type of the catalogue, or a prefix with .*.
	Type   *string
	CallID *uuid.UUID
	// Before is the last event of the page before.
	Before        uuid.UUID
	Limit, Offset int32
}

// Events gives a page of what happened, the newest first, whether somebody had subscribed it or not, and how many there are.
func (s *Subscriptions) Events(ctx context.Context, tenant uuid.UUID, f EventFilter) (rows []db.ListEventsRow, total int64, err error) {
	var types []string
	if f.Type != nil {
		if types = typesOf([]string{*f.Type}); *f.Type == string(EventTest) {
			types = []string{*f.Type}
		}
		if len(types) == 0 {
			return nil, 0, fault.Fields(fault.Field{Field: "type", Message: "is no event type of the catalogue, nor a prefix with .*"})
		}
	}
	within := span{f.Since, f.Until}
	err = s.st.ReadListByValues(ctx, tenant, func(q *db.Queries) (err error) {
		total, err = q.CountEvents(ctx, db.CountEventsParams{
			TenantID: tenant, CallID: f.CallID, Types: types, FromID: within.fromID(), UntilID: within.untilID(), Since: f.Since, Until: f.Until,
			Most: max(eventsCounted, f.Offset+f.Limit+1),
		})
		return err
	}, func(q *db.Queries) (err error) {
		rows, err = q.ListEvents(ctx, db.ListEventsParams{
			TenantID: tenant, CallID: f.CallID, Types: types, Before: f.Before, FromID: within.fromID(), UntilID: within.untilID(),
			Since: f.Since, Until: f.Until, PageLimit: f.Limit, PageOffset: f.Offset,
		})
		return err
	})
	return rows, total, err
}

// EventView is an event as it is listed: the envelope of its deliveries.
type EventView envelope

// ViewEvent is the envelope of an event.
func ViewEvent(row db.ListEventsRow) EventView {
	return EventView{ID: store.EventID(row.ID), Type: row.Type, CreatedAt: row.CreatedAt.UTC(), TenantID: row.TenantID, Data: row.Data}
}
