package store

import "github.com/ringmaster/ringmaster/store/phone"

// Phone is an Indian number that shows its mask wherever it is formatted. See package phone.
type Phone = phone.Phone

// Number is a call's side as its record shows it; it too shows its mask. See package phone.
type Number = phone.Number

// PrivacyMode says how a tenant's numbers are kept and shown.
type PrivacyMode = phone.Privacy

// The privacy modes of a tenant.
const (
	PrivacyStandard = phone.Standard
	PrivacyStrict   = phone.Strict
)

// ParsePhone reads ten digits with an optional prefix 0, 91 or +91. The error is phone.ErrLength, phone.ErrInternational or
// phone.ErrInvalid.
func ParsePhone(s string) (Phone, error) { return phone.Parse(s) }

// NewNumber wraps the text of a call's side.
func NewNumber(text string) Number { return phone.NewNumber(text) }
