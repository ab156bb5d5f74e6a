package httpapi

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// usagePeriod is counted when no beginning is named.
	usagePeriod = 30 * 24 * time.Hour
	dateOnly    = "2006-01-02"
)

type usageView struct {
	Items []dialer.UsageRow `json:"items"`
}

// count counts the tenant's calls by day, campaign or direction.
func (h usageHandlers) count(ctx context.Context, r *request) (reply, error) {
	to, badTo := r.queryTime("to", h.now())
	from, badFrom := r.queryTime("from", to.Add(-usagePeriod))
	by, badBy := r.queryOneOf("group_by", string(dialer.UsageByDay), string(dialer.UsageByCampaign), string(dialer.UsageByDirection))
	if badTo == nil && badFrom == nil && from.After(to) {
		badFrom = &fault.Field{Field: "from", Message: "must not lie after to"}
	}
	if err := faults(badFrom, badTo, badBy); err != nil {
		return reply{}, err
	}
	group := dialer.UsageByDay
	if by != nil {
		group = dialer.UsageGroup(*by)
	}
	rows, err := h.statistics.Usage(ctx, r.who.TenantID, from, to, group)
	return ok(usageView{Items: orEmpty(rows)}), err
}

// queryTime reads a moment, or a day of UTC, which stands for its beginning.
func (r *request) queryTime(name string, fallback time.Time) (time.Time, *fault.Field) {
	text, sent := r.query(name)
	if !sent {
		return fallback, nil
	}
	for _, layout := range []string{time.RFC3339Nano, dateOnly} {
		if at, err := time.Parse(layout, text); err == nil && at.Year() > 0 && at.Year() < 10_000 {
			return at, nil
		}
	}
	return time.Time{}, &fault.Field{Field: name, Message: "must be a date or a timestamp"}
}
