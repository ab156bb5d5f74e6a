package campaigns

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// CallCategory is what a campaign's calls are for, as India's regulator divides them: callees see a number of that category's
// series, and ordinary numbers of ten digits are barred for telemarketing.
type CallCategory string

// The categories of calls.
const (
	CategoryPromotional   CallCategory = "promotional"
	CategoryService       CallCategory = "service"
	CategoryTransactional CallCategory = "transactional"
)

// The series of numbers, in E.164.
const (
	seriesPromotional = "+91140"
	seriesService     = "+911600"
)

// CodeCategoryRequired refuses the start of a campaign that doesn't say what its calls are for, where the deployment asks for it.
const CodeCategoryRequired = "call_category_required"

// Series is how the numbers begin that a category's calls may show; empty where none was declared: any.
func (c CallCategory) Series() string {
	switch c {
	case CategoryPromotional:
		return seriesPromotional
	case CategoryService, CategoryTransactional:
		return seriesService
	default:
		return ""
	}
}

// AllSeries are the series that numbers may be of.
func AllSeries() []string { return []string{seriesPromotional, seriesService} }

// CategoryOf reads a campaign's column; empty for one that declares none.
func CategoryOf(column *string) CallCategory {
	if column == nil {
		return ""
	}
	return CallCategory(*column)
}

// SeriesName is a series as people say it.
func SeriesName(series string) string { return strings.TrimPrefix(series, "+91") + "-series" }

// OwnNumber finds an active number of the tenant's, however it is written. Error: store.ErrNotFound.
func OwnNumber(ctx context.Context, tx *store.Tx, tenant uuid.UUID, written string) (string, error) {
	return tx.Q.NumberOwned(ctx, tenant, Spellings(written))
}

// checkCallerID refuses a caller id that the tenant may not show.
func checkCallerID(ctx context.Context, tx *store.Tx, c *input.Form, in Input, row db.Campaign) error {
	if row.CallerID == nil || !in.has("caller_id") && !in.has("call_category") {
		return nil
	}
	owned, err := OwnNumber(ctx, tx, row.TenantID, *row.CallerID)
	series := CategoryOf(row.CallCategory).Series()
	switch {
	case errors.Is(err, store.ErrNotFound):
		c.Fail("caller_id", "must be one of your active numbers")
	case err != nil:
		return err
	case !strings.HasPrefix(owned, series):
		c.Fail("caller_id", "must be a %s number for %s calls", SeriesName(series), *row.CallCategory)
	}
	return nil
}

// checkCategory refuses the start of a campaign that could show no lawful number. One that declares no category is started where
// the deployment allows it, and the log says so.
func (cs *Service) checkCategory(ctx context.Context, tx *store.Tx, row db.Campaign) error {
	series := CategoryOf(row.CallCategory).Series()
	if series == "" {
		if cs.RequireCategory {
			return &fault.Error{
				Kind: fault.Conflict, Code: CodeCategoryRequired, Detail: "the campaign must declare a call_category: promotional, service or transactional",
			}
		}
		cs.Log.WarnContext(ctx, "campaign has no call_category: the number series of its caller ids is not checked",
			"tenant_id", row.TenantID, "campaign_id", row.ID)
		return nil
	}
	if row.CallerID != nil {
		return nil // was checked when it was set, and is for each call
	}
	there, err := tx.Q.NumbersOfSeries(ctx, row.TenantID, series)
	if err == nil && !there {
		return &fault.Error{Kind: fault.Dependency, Code: CodeNoCallerID, Detail: "you have no active " + SeriesName(series) + " number to call from"}
	}
	return err
}

// Spellings gives the E.164 forms that a carrier may have meant by what it sent.
func Spellings(sent string) []string {
	var out []string
	if strings.HasPrefix(sent, "+") {
		out = append(out, sent)
	}
	if p, err := store.ParsePhone(sent); err == nil {
		out = append(out, p.E164())
	}
	if !strings.HasPrefix(sent, "+") {
		out = append(out, "+"+strings.TrimPrefix(sent, "00"))
	}
	return out
}
