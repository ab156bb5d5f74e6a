package dialer

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// Quota refuses one more of what a tenant may have most of, in a transaction that adds it. Lists of them have no pages. Errors: *fault.Error
// with that code.
func Quota(
	ctx context.Context, tx *store.Tx, tenant uuid.UUID, code string, most int64, count func(context.Context, uuid.UUID) (int64, error),
) error {
	if err := tx.Q.QuotaLock(ctx, tenant); err != nil {
		return err
	}
	n, err := count(ctx, tenant)
	if err == nil && n >= most {
		err = &fault.Error{Kind: fault.Conflict, Code: code, Detail: fmt.Sprintf("the tenant has the maximum of %d; delete some that are not in use", n)}
	}
	return err
}

// checkAddress checks a URL that the service will connect to; without a guard it looks at the text alone. A host whose name does not resolve
// in time passes, since the dial is guarded too.
func checkAddress(ctx context.Context, c *input.Form, guard *netguard.Policy, field, raw string, schemes ...string) bool {
	u, err := url.Parse(raw)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || strings.ContainsAny(raw, " \t\r\n\x00") {
		c.Fail(field, "must be a URL that starts with %s", strings.Join(schemes, ":// or ")+"://")
		return false
	}
	if utf8.RuneCountInString(raw) > 2000 {
		c.Fail(field, "must have at most 2000 characters")
		return false
	}
	if guard == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, carrier.LookupTimeout)
	defer cancel()
	if err := guard.Check(ctx, raw); err != nil {
		c.Fail(field, "names an address that may not be reached")
		return false
	}
	return true
}
