package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// callRows reads calls. Errors: store.ErrNotFound.
type callRows struct{ store *store.Store }

func (c callRows) one(ctx context.Context, tenant, id uuid.UUID) (row db.GetCallViewRow, err error) {
	err = c.store.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		row, err = tx.Q.GetCallView(ctx, tenant, id)
		return err
	})
	return row, err
}

// owner is the tenant whose call it is; who asks is looked at first.
func (c callRows) owner(ctx context.Context, asks, id uuid.UUID) (tenant uuid.UUID, err error) {
	err = c.store.InSystem(ctx, func(tx *store.Tx) (err error) {
		tenant, err = tx.Q.FindCallTenant(ctx, asks, id)
		return err
	})
	return tenant, err
}

// page gives a page of a tenant's calls, the newest first, and how many there are.
func (c callRows) page(ctx context.Context, tenant uuid.UUID, f callFilter, pg page) (rows []db.ListCallViewsRow, total int64, err error) {
	err = c.store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		err := tx.Q.PlanByValues(ctx)
		if err != nil {
			return err
		}
		total, err = tx.Q.CountCalls(ctx, db.CountCallsParams{
			TenantID: tenant, CampaignID: f.campaignID, AgentID: f.agentID, Status: f.status, Disposition: f.disposition, Direction: f.direction,
		})
		if err != nil {
			return err
		}
		rows, err = tx.Q.ListCallViews(ctx, db.ListCallViewsParams{
			TenantID: tenant, CampaignID: f.campaignID, AgentID: f.agentID, Status: f.status, Disposition: f.disposition, Direction: f.direction,
			PageLimit: pg.limit(), PageOffset: pg.offset(),
		})
		return err
	})
	return rows, total, err
}

// suspended tells whether a tenant's credentials are of no use.
func (c callRows) suspended(ctx context.Context, tenant uuid.UUID) (suspended bool, err error) {
	err = c.store.InTenant(ctx, tenant, func(tx *store.Tx) (err error) {
		suspended, err = tx.Q.TenantSuspended(ctx, tenant)
		return err
	})
	return suspended, err
}
