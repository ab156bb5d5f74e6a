// Package phone holds telephone numbers in types that mask themselves: neither a log line nor a response can show a number by
// accident, because every way of formatting one gives its mask. Read Phone first (a parsed Indian number), then Number (a number
// as a call's record shows it), then Privacy.
package phone

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// Why a number was refused. None of them carries the number.
var (
	ErrLength        = errors.New("phone number must have 5 to 20 characters")
	ErrInternational = errors.New("phone number is international; only Indian numbers are taken")
	ErrInvalid       = errors.New("phone number is not an Indian number of ten digits")
)

const (
	bullets = "••••"
	// scramble and scrambleByte keep a number unreadable where fmt reads memory by reflection and can't call methods (unexported
	// fields). They guard against accidents; they are no encryption.
	scramble     = 0x5bd1e995a3c4f00d
	scrambleByte = 0xa5
)

// Phone is an Indian number. The zero Phone holds none. Phones compare with ==.
type Phone struct {
	scrambled uint64 // the ten digits as an integer, xor scramble; 0 for none
}

// Parse reads ten digits, with an optional prefix 0, 91 or +91, by the contract's rules: 5 to 20 characters, of which spaces and
// hyphens between digits don't count. Ten digits that begin with 91 are a whole number. The error is ErrLength,
// ErrInternational or ErrInvalid.
func Parse(s string) (Phone, error) {
	s = strings.TrimSpace(s)
	if n := utf8.RuneCountInString(s); n < 5 || n > 20 {
		return Phone{}, ErrLength
	}
	digits, plus := strings.CutPrefix(s, "+")
	digits, ok := compact(digits)
	if !ok {
		return Phone{}, ErrInvalid
	}
	switch {
	case plus && !strings.HasPrefix(digits, "91"):
		return Phone{}, ErrInternational
	case plus, len(digits) == 12 && strings.HasPrefix(digits, "91"):
		digits = digits[2:]
	case len(digits) == 11 && digits[0] == '0':
		digits = digits[1:]
	case len(digits) > 10:
		return Phone{}, ErrInternational
	}
	if len(digits) != 10 || digits[0] == '0' {
		return Phone{}, ErrInvalid
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return Phone{}, ErrInvalid
	}
	return Phone{scrambled: n ^ scramble}, nil
}

// compact drops single spaces and hyphens that stand between digits.
func compact(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	separated := true
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			out = append(out, c)
			separated = false
		case (c == ' ' || c == '-') && !separated:
			separated = true
		default:
			return "", false
		}
	}
	return string(out), !separated
}

// IsZero tells whether p holds no number.
func (p Phone) IsZero() bool { return p.scrambled == 0 }

// National reveals the ten digits, "" for the zero Phone.
func (p Phone) National() string {
	if p.IsZero() {
		return ""
	}
	return strconv.FormatUint(p.scrambled^scramble, 10)
}

// Uint64 reveals the ten digits as a number, 0 for the zero Phone.
func (p Phone) Uint64() uint64 {
	if p.IsZero() {
		return 0
	}
	return p.scrambled ^ scramble
}

// E164 reveals the number as +91 and ten digits, "" for the zero Phone.
func (p Phone) E164() string {
	if p.IsZero() {
		return ""
	}
	return "+91" + p.National()
}

// Last4 gives the last four digits, which the mask shows too.
func (p Phone) Last4() string {
	if p.IsZero() {
		return ""
	}
	return p.National()[6:]
}

// Mask gives four bullets and the last four digits, "" for the zero Phone.
func (p Phone) Mask() string {
	if p.IsZero() {
		return ""
	}
	return bullets + p.Last4()
}

// Echo gives what a response about a lead shows: ten digits, or the mask under strict privacy.
func (p Phone) Echo(privacy Privacy) string {
	if privacy == Standard {
		return p.National()
	}
	return p.Mask()
}

// EchoE164 gives what events, metadata and calls show: +91 and ten digits, or the mask under strict privacy.
func (p Phone) EchoE164(privacy Privacy) string {
	if privacy == Standard {
		return p.E164()
	}
	return p.Mask()
}

// String gives the mask.
func (p Phone) String() string { return p.Mask() }

// Format writes the mask for every verb and flag.
func (p Phone) Format(f fmt.State, _ rune) { writeMask(f, p.Mask()) }

// LogValue gives the mask.
func (p Phone) LogValue() slog.Value { return slog.StringValue(p.Mask()) }

// MarshalText gives the mask.
func (p Phone) MarshalText() ([]byte, error) { return []byte(p.Mask()), nil }

// MarshalJSON gives the mask as a JSON string.
func (p Phone) MarshalJSON() ([]byte, error) { return []byte(strconv.Quote(p.Mask())), nil }

// TextValue gives the ten digits to the database, NULL for the zero Phone.
func (p Phone) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: p.National(), Valid: !p.IsZero()}, nil
}

// ScanText takes ten digits from the database; NULL gives the zero Phone.
func (p *Phone) ScanText(v pgtype.Text) error {
	*p = Phone{}
	if !v.Valid {
		return nil
	}
	parsed, err := Parse(v.String)
	if err != nil {
		return fmt.Errorf("read a phone number from the database: %w", err)
	}
	*p = parsed
	return nil
}

// FromSuffix gives the mask of a number of which only the last four digits are known.
func FromSuffix(last4 string) string {
	if last4 == "" {
		return ""
	}
	return bullets + last4
}

func writeMask(w io.Writer, mask string) {
	// fmt.State never fails.
	_, _ = io.WriteString(w, mask)
}

// Privacy says how a tenant's numbers are kept and shown.
type Privacy string

// The privacy modes.
const (
	// Standard keeps numbers in clear and shows them.
	Standard Privacy = "standard"
	// Strict keeps numbers sealed and shows the mask everywhere.
	Strict Privacy = "strict"
)
