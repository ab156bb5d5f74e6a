package dialer

import "github.com/google/uuid"

// Form checks the members of a request for services beside this package, by the rules that campaigns and leads are checked by,
// and collects what is wrong.
type Form struct{ c checker }

// NewForm begins a creation, or an edit: there absent members are left alone, and null is a fault unless it clears.
func NewForm(edit bool) *Form { return &Form{checker{edit: edit}} }

// Fail adds a fault.
func (f *Form) Fail(field, format string, args ...any) { f.c.fail(field, format, args...) }

// Err gives the *fault.Error of all faults, nil without any.
func (f *Form) Err() error { return f.c.err() }

// Text checks a string's length in characters, and that the database can hold it.
func (f *Form) Text(field, s string, least, most int) bool { return f.c.text(field, s, least, most) }

// OneOf checks a string against a closed list.
func (f *Form) OneOf(field, s string, allowed ...string) bool { return f.c.oneOf(field, s, allowed...) }

// Between checks a number's range.
func (f *Form) Between(field string, n, least, most int) bool {
	return f.c.between(field, n, least, most)
}

// UUID reads an id.
func (f *Form) UUID(field, s string) (uuid.UUID, bool) { return f.c.uuid(field, s) }

// Given returns a member that was sent with a usable value.
func Given[T any](f *Form, field string, o Opt[T]) (T, bool) { return given(&f.c, field, o) }

// Required is Given for a member without which a resource can't be created.
func Required[T any](f *Form, field string, o Opt[T]) (T, bool) { return required(&f.c, field, o) }

// Clearable returns a member that null clears: a nil value with true.
func Clearable[T any](f *Form, field string, o Opt[T]) (*T, bool) { return clearable(&f.c, field, o) }
