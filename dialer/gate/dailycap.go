package gate

import (
	"time"
)

// MaxDailyCap is the most that a tenant may set; the deployment's own bound holds beside it.
const MaxDailyCap = 1000

// dailyCap is how many calls a number may get on one day of the callee's, over all campaigns of the tenant; 0 for any number.
func (g *Gate) dailyCap(tenants *int32) int64 {
	limit := int64(g.DailyCap)
	if tenants != nil && (limit == 0 || int64(*tenants) < limit) {
		limit = int64(*tenants)
	}
	return limit
}

// dayBegan is the midnight before t where the callee is.
func (g *Gate) dayBegan(t time.Time) time.Time {
	y, m, d := t.In(g.Legal.Zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, g.Legal.Zone)
}
