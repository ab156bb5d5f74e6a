package dialer

import (
	"time"
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

// dayBegan is the midnight before t where the callee is.
func (g *rules) dayBegan(t time.Time) time.Time {
	y, m, d := t.In(g.legal.Zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, g.legal.Zone)
}
