package dialer

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// maxDailyCap is the most that a tenant may set; the deployment's own bound holds beside it.
const maxDailyCap = 1000

// dailyCap is how many calls a number may get on one day of the callee's, over all campaigns of the tenant; 0 for any number.
func (g *rules) dailyCap(tenants *int32) int64 {
	limit := int64(g.cfg.DailyCap)
	if tenants != nil && (limit == 0 || int64(*tenants) < limit) {
		limit = int64(*tenants)
	}
	return limit
}

// judgedNumber is a number that is to be dialed; counted are the calls that it got today of which this one is a part.
type judgedNumber struct {
	hash    []byte
	counted int64
}

// judgeDay refuses a number that has had its calls for today: leads', an agent's own and single ones count alike. A callback that
// the callee was promised is kept all the same. A leg to a third party counts neither way.
func (g gate) judgeDay(
	ctx context.Context, tx *store.Tx, req switchctl.OriginateRequest, f db.GateFactsRow, n judgedNumber, now time.Time,
) (*RefusalError, error) {
	limit := g.s.dailyCap(f.DailyCap)
	if limit == 0 || req.Purpose == switchctl.PurposeTransfer || LeadStatus(f.LeadStatus) == LeadCallback {
		return nil, nil //nolint:nilnil // no refusal
	}
	began := g.s.dayBegan(now)
	dialed, err := tx.Q.GateDialedToday(ctx, db.GateDialedTodayParams{
		// Ids are made by the host's clock, whatever clock the rules go by.
		TenantID: req.TenantID, PhoneHash: n.hash, FromID: store.IDFloor(time.Now().Add(began.Sub(now) - store.ClockSkew)), Since: began,
	})
	if err != nil || dialed-n.counted < limit {
		return nil, err
	}
	y, m, d := began.Date()
	_, at := g.s.mayCall(f.TenantWindow, f.CampaignWindow, f.Holidays, time.Date(y, m, d+1, 0, 0, 0, 0, began.Location()))
	return refuse(ReasonDailyCap, now, at, "the number has had its %d calls for today", limit), nil
}

// dayBegan is the midnight before t where the callee is.
func (g *rules) dayBegan(t time.Time) time.Time {
	y, m, d := t.In(g.legal.Zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, g.legal.Zone)
}
