package dialer

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// UsageGroup is what usage is counted by.
type UsageGroup string

// The groups of usage; a day is one of UTC.
const (
	UsageByDay       UsageGroup = "day"
	UsageByCampaign  UsageGroup = "campaign"
	UsageByDirection UsageGroup = "direction"
)

// UsageRow counts the calls of one group: a day as YYYY-MM-DD, a campaign's id (empty for calls of none), or a direction.
type UsageRow struct {
	Group    string  `json:"group"`
	Calls    int64   `json:"calls"`
	Answered int64   `json:"answered"`
	Minutes  float64 `json:"minutes"`
}

// Usage counts the tenant's calls that began in [from, to). Minutes are those between answer and hang-up.
func (t *statistics) Usage(ctx context.Context, tenant uuid.UUID, from, to time.Time, by UsageGroup) ([]UsageRow, error) {
	out := []UsageRow{}
	err := t.st.InTenant(ctx, tenant, func(tx *store.Tx) error {
		rows, err := tx.Q.Usage(ctx, db.UsageParams{
			TenantID: tenant, GroupBy: string(by), Since: from, Until: to, FromID: store.IDFloor(from.Add(-time.Hour)),
		})
		out = make([]UsageRow, len(rows))
		for i, r := range rows {
			out[i] = UsageRow{Group: r.Grp, Calls: r.Calls, Answered: r.Answered, Minutes: math.Round(r.TalkS/60*100) / 100}
		}
		return err
	})
	if err != nil {
		return nil, fault.Wrap("count usage", err)
	}
	return out, nil
}
