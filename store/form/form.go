// Package form says what codes look like that the database holds to a form, so that everyone who takes one asks the same question.
package form

import "strings"

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyz"
)

// IsDisposition tells whether s can be a disposition code: 1 to 64 small letters, digits and underscores.
func IsDisposition(s string) bool { return s != "" && len(s) <= 64 && only(s, letters+digits+"_") }

// IsExtension tells whether a softphone can register as s: 2 to 10 digits.
func IsExtension(s string) bool { return len(s) >= 2 && len(s) <= 10 && only(s, digits) }

func only(s, set string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return !strings.ContainsRune(set, c) })
}
