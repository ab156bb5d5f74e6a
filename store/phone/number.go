package phone

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// Number is one side of a call as its record shows it: E.164 as a rule, whatever the carrier sent for an inbound caller
// ("anonymous"), or the mask for a strict tenant. Reveal alone shows it. Numbers compare with ==.
type Number struct {
	scrambled string // each byte xor scrambleByte
}

// NewNumber wraps a number's text.
func NewNumber(text string) Number { return Number{scrambled: xor(text)} }

// Reveal gives the text as it stands in the record.
func (n Number) Reveal() string { return xor(n.scrambled) }

// Mask gives four bullets and the last four digits; text without four digits gives the bullets alone, and no text gives "".
func (n Number) Mask() string {
	text := n.Reveal()
	if text == "" || strings.HasPrefix(text, bullets) {
		return text
	}
	digits := make([]byte, 0, len(text))
	for i := range len(text) {
		if text[i] >= '0' && text[i] <= '9' {
			digits = append(digits, text[i])
		}
	}
	if len(digits) < 5 {
		return bullets
	}
	return bullets + string(digits[len(digits)-4:])
}

// String gives the mask.
func (n Number) String() string { return n.Mask() }

// Format writes the mask for every verb and flag.
func (n Number) Format(f fmt.State, _ rune) { writeMask(f, n.Mask()) }

// LogValue gives the mask.
func (n Number) LogValue() slog.Value { return slog.StringValue(n.Mask()) }

// MarshalText gives the mask.
func (n Number) MarshalText() ([]byte, error) { return []byte(n.Mask()), nil }

// MarshalJSON gives the mask as a JSON string.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(strconv.Quote(n.Mask())), nil }

// TextValue gives the text to the database.
func (n Number) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: n.Reveal(), Valid: true}, nil
}

// ScanText takes the text from the database; NULL gives the empty Number.
func (n *Number) ScanText(v pgtype.Text) error {
	*n = NewNumber(v.String)
	return nil
}

func xor(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] ^= scrambleByte
	}
	return string(b)
}
