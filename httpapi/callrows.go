package httpapi

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/lanes"
)

// callRow is a call with what else it is shown by.
type callRow struct {
	db.Call
	recordingStatus string
	privacy         store.PrivacyMode
	flowRuns        json.RawMessage // of a call that was read by itself
}

// callRows reads calls. Errors: store.ErrNotFound.
type callRows struct {
	store *store.Store
	reads *lanes.Reads[callLane, uuid.UUID, callRow]
}

// callLane is where calls are read that may be read together.
type callLane struct {
	tenant uuid.UUID
	month  string
}

// one reads a call, together with others of the tenant's that are asked for at the time.
func (c callRows) one(ctx context.Context, tenant, id uuid.UUID) (callRow, error) {
	return c.reads.One(ctx, callLane{tenant, store.MonthOf(id)}, id, func(id uuid.UUID) (callRow, error) {
		row, err := c.store.Read(tenant).GetCallView(ctx, tenant, id)
		return callRow{row.Call, row.RecordingStatus, store.PrivacyMode(row.PrivacyMode), row.FlowRuns}, err
	}, func(ids []uuid.UUID) (map[uuid.UUID]callRow, error) {
		rows, err := c.store.Read(tenant).CallViews(ctx, tenant, ids)
		found := make(map[uuid.UUID]callRow, len(rows))
		for _, row := range rows {
			found[row.Call.ID] = callRow{row.Call, row.RecordingStatus, store.PrivacyMode(row.PrivacyMode), row.FlowRuns}
		}
		return found, err
	})
}

// owner is the tenant whose call it is; who asks is looked at first.
func (c callRows) owner(ctx context.Context, asks, id uuid.UUID) (uuid.UUID, error) {
	return c.store.ReadSystem().FindCallTenant(ctx, asks, id)
}

// callPage is a page of calls, and how many there are.
type callPage struct {
	rows  []callRow
	total int64
}

// page gives a page of a tenant's calls, the newest first. Errors: store.ErrNotFound for the campaign whose calls they are to be.
func (c callRows) page(ctx context.Context, tenant uuid.UUID, f callFilter, pg page) (callPage, error) {
	var out callPage
	reads := []func(*db.Queries) error{
		func(q *db.Queries) (err error) {
			out.total, err = c.count(ctx, q, tenant, f, pg)
			return err
		},
		func(q *db.Queries) error {
			if f.matchesNone() {
				return nil
			}
			rows, err := q.ListCallViews(ctx, db.ListCallViewsParams{
				TenantID: tenant, CampaignID: f.campaignID, AgentID: f.agentID, Status: f.status, Disposition: f.disposition,
				Direction: f.direction, Since: f.since, FromID: f.fromID(), Until: f.until, UntilID: f.untilID(),
				Before: pg.afterOr(uuid.Max), PageLimit: pg.limit(), PageOffset: pg.offset(),
			})
			out.rows = make([]callRow, len(rows))
			for i, row := range rows {
				out.rows[i] = callRow{Call: row.Call, recordingStatus: row.RecordingStatus, privacy: store.PrivacyMode(row.PrivacyMode)}
			}
			return err
		},
	}
	if f.ofCampaign {
		reads = append(reads, func(q *db.Queries) error {
			_, err := q.CampaignGet(ctx, tenant, *f.campaignID)
			return named(err, campaignNoun)
		})
	}
	return out, c.store.ReadListByValues(ctx, tenant, reads...)
}

// callsCounted is up to how many calls of some time are counted, or so many as tell that there is a next page.
const callsCounted = 10_000

// count is by what is kept of calls, unless they are those of some time.
func (c callRows) count(ctx context.Context, q *db.Queries, tenant uuid.UUID, f callFilter, pg page) (int64, error) {
	if f.matchesNone() {
		return 0, nil
	}
	if f.since == nil && f.until == nil {
		return q.CountCalls(ctx, db.CountCallsParams{
			TenantID: tenant, CampaignID: f.campaignID, AgentID: f.agentID, Status: f.status, Disposition: f.disposition, Direction: f.direction,
		})
	}
	return q.CountCallsBetween(ctx, db.CountCallsBetweenParams{
		TenantID: tenant, CampaignID: f.campaignID, AgentID: f.agentID, Status: f.status, Disposition: f.disposition, Direction: f.direction,
		Since: f.since, FromID: f.fromID(), Until: f.until, UntilID: f.untilID(), Most: max(callsCounted, pg.offset()+pg.limit()+1),
	})
}

// matchesNone tells of values that no call has: the ids stand for something else in what is kept of calls.
func (f callFilter) matchesNone() bool {
	stands := func(id *uuid.UUID) bool { return id != nil && (*id == uuid.Nil || *id == uuid.Max) }
	return stands(f.agentID) || stands(f.campaignID) || f.disposition != nil && *f.disposition == ""
}

// fromID and untilID bound the ids of calls of some time: those come from the clocks of several machines.
func (f callFilter) fromID() uuid.UUID {
	if f.since == nil {
		return uuid.Nil
	}
	return store.IDFloor(f.since.Add(-store.ClockSkew))
}

func (f callFilter) untilID() uuid.UUID {
	if f.until == nil {
		return uuid.Max
	}
	return store.IDFloor(f.until.Add(store.ClockSkew))
}

// suspended tells whether a tenant's credentials are of no use.
func (c callRows) suspended(ctx context.Context, tenant uuid.UUID) (bool, error) {
	return c.store.Read(tenant).TenantSuspended(ctx, tenant)
}
