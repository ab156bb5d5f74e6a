package input

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/fault"
)

// Form checks the members of a request and collects what is wrong with them.
type Form struct {
	// Edit: absent members are left alone, and null is a fault where the member can't be cleared.
	Edit bool
	// Code is the refusal's where it has one of its own.
	Code string

	faults []fault.Field
}

// Fail adds a fault.
func (f *Form) Fail(field, format string, args ...any) {
	f.faults = append(f.faults, fault.Field{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Faults is how many there are.
func (f *Form) Faults() int { return len(f.faults) }

// Err gives the *fault.Error of all faults, by the members' names; nil without any.
func (f *Form) Err() error {
	if len(f.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(f.faults, func(a, b fault.Field) int { return strings.Compare(a.Field, b.Field) })
	refusal := fault.Fields(f.faults...)
	refusal.Code = cmp.Or(f.Code, refusal.Code)
	return refusal
}

// Given returns a member that was sent with a usable value.
func Given[T any](f *Form, field string, o Opt[T]) (T, bool) {
	switch {
	case o.fault != "":
		f.Fail(field, "%s", o.fault)
	case o.Null && f.Edit:
		f.Fail(field, "can't be null")
	}
	return o.Value, o.Has()
}

// Required is Given for a member without which a resource can't be created.
func Required[T any](f *Form, field string, o Opt[T]) (T, bool) {
	if !f.Edit && (!o.Set || o.Null) {
		f.Fail(field, "is required")
		return o.Value, false
	}
	return Given(f, field, o)
}

// Clearable returns a member that null clears: a nil value with true.
func Clearable[T any](f *Form, field string, o Opt[T]) (*T, bool) {
	switch {
	case o.fault != "":
		f.Fail(field, "%s", o.fault)
		return nil, false
	case !o.Set:
		return nil, false
	case o.Null:
		return nil, true
	default:
		return &o.Value, true
	}
}

// Text checks a string's length in characters, and that the database can hold it.
func (f *Form) Text(field, s string, minimum, maximum int) bool {
	n := utf8.RuneCountInString(s)
	switch {
	case strings.ContainsRune(s, 0):
		f.Fail(field, "can't contain NUL characters")
	case n < minimum || n > maximum:
		f.Fail(field, "must have %d to %d characters", minimum, maximum)
	case minimum > 0 && strings.TrimSpace(s) == "":
		f.Fail(field, "must not be blank")
	default:
		return true
	}
	return false
}

// OneOf checks a string against a closed list.
func (f *Form) OneOf(field, s string, allowed ...string) bool {
	if slices.Contains(allowed, s) {
		return true
	}
	f.Fail(field, "must be one of %s", strings.Join(allowed, ", "))
	return false
}

// Between checks a number's range.
func (f *Form) Between(field string, n, minimum, maximum int) bool {
	if n >= minimum && n <= maximum {
		return true
	}
	f.Fail(field, "must lie between %d and %d", minimum, maximum)
	return false
}

// UUID reads an id.
func (f *Form) UUID(field, s string) (uuid.UUID, bool) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		f.Fail(field, "must be a UUID")
		return uuid.Nil, false
	}
	return id, true
}

// Guard refuses addresses that a customer may not have us connect to.
type Guard func(ctx context.Context, url string) error

// guardTimeout bounds the look-up of a host's name.
const guardTimeout = time.Second

// Address checks a URL that the service will connect to; without a guard it looks at the text alone. A host whose name does not resolve
// in time passes, since the dial is guarded too.
func (f *Form) Address(ctx context.Context, guard Guard, field, raw string, schemes ...string) bool {
	u, err := url.Parse(raw)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || strings.ContainsAny(raw, " \t\r\n\x00") {
		f.Fail(field, "must be a URL that starts with %s", strings.Join(schemes, ":// or ")+"://")
		return false
	}
	if utf8.RuneCountInString(raw) > 2000 {
		f.Fail(field, "must have at most 2000 characters")
		return false
	}
	if u.User != nil && strings.HasPrefix(u.Scheme, "ws") { // RFC 6455 section 3 has no place for them, and no socket is dialed so
		f.Fail(field, "must have no user name or password")
		return false
	}
	if guard == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	if err := guard(ctx, raw); err != nil {
		f.Fail(field, "names an address to which connections are not allowed")
		return false
	}
	return true
}
