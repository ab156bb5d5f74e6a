package dialer

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ringmaster/ringmaster/store/fault"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
)

// checker collects what is wrong with a request. In an edit a null is a fault where the member can't be cleared.
type checker struct {
	faults []fault.Field
	edit   bool
	// code is the refusal's where it has one of its own.
	code string
}

func (c *checker) fail(field, format string, args ...any) {
	c.faults = append(c.faults, fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) err() error {
	if len(c.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(c.faults, func(a, b fault.Field) int { return strings.Compare(a.Field, b.Field) })
	refusal := fault.Fields(c.faults...)
	refusal.Code = cmp.Or(c.code, refusal.Code)
	return refusal
}

// given returns a member that was sent with a usable value.
func given[T any](c *checker, field string, o Opt[T]) (T, bool) {
	switch {
	case o.fault != "":
		c.fail(field, "%s", o.fault)
	case o.Null && c.edit:
		c.fail(field, "can't be null")
	}
	return o.Value, o.Has()
}

// required is given for a member without which a resource can't be created.
func required[T any](c *checker, field string, o Opt[T]) (T, bool) {
	if !c.edit && (!o.Set || o.Null) {
		c.fail(field, "is required")
		return o.Value, false
	}
	return given(c, field, o)
}

// clearable returns a member that null clears: a nil value with true.
func clearable[T any](c *checker, field string, o Opt[T]) (*T, bool) {
	switch {
	case o.fault != "":
		c.fail(field, "%s", o.fault)
		return nil, false
	case !o.Set:
		return nil, false
	case o.Null:
		return nil, true
	default:
		return &o.Value, true
	}
}

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
		err = &fault.Error{Kind: fault.Conflict, Code: code, Detail: fmt.Sprintf("the tenant has %d, which is the most; delete some that are not in use", n)}
	}
	return err
}

// text checks a string's length in characters, and that the database can hold it.
func (c *checker) text(field, s string, least, most int) bool {
	n := utf8.RuneCountInString(s)
	switch {
	case strings.ContainsRune(s, 0):
		c.fail(field, "can't hold a zero character")
	case n < least || n > most:
		c.fail(field, "must have %d to %d characters", least, most)
	default:
		return true
	}
	return false
}

func (c *checker) oneOf(field, s string, allowed ...string) bool {
	if slices.Contains(allowed, s) {
		return true
	}
	c.fail(field, "must be one of %s", strings.Join(allowed, ", "))
	return false
}

func (c *checker) between(field string, n, least, most int) bool {
	if n >= least && n <= most {
		return true
	}
	c.fail(field, "must lie between %d and %d", least, most)
	return false
}

func (c *checker) uuid(field, s string) (uuid.UUID, bool) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		c.fail(field, "must be a UUID")
		return uuid.Nil, false
	}
	return id, true
}

// lookupTimeout bounds the look-up of a configured host's name; one that does not resolve in time passes, since the
// dial is guarded too.
const lookupTimeout = time.Second

// address checks a URL that the service will connect to; without a guard it looks at the text alone.
func (c *checker) address(ctx context.Context, guard *netguard.Policy, field, raw string, schemes ...string) bool {
	u, err := url.Parse(raw)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || strings.ContainsAny(raw, " \t\r\n\x00") {
		c.fail(field, "must be a URL that starts with %s", strings.Join(schemes, ":// or ")+"://")
		return false
	}
	if utf8.RuneCountInString(raw) > 2000 {
		c.fail(field, "must have at most 2000 characters")
		return false
	}
	if guard == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if err := guard.Check(ctx, raw); err != nil {
		c.fail(field, "names an address that may not be reached")
		return false
	}
	return true
}
