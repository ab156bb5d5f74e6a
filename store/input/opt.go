package input

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"
)

// Opt is a member of a request that may be absent, null or a value. A value of the wrong JSON type does not fail
// the decoding: it is kept as the member's fault, so that all faults of a request are reported together.
type Opt[T any] struct {
	Set   bool // the member was sent
	Null  bool // it was sent as null
	Value T
	fault string
}

// Some returns a member that holds v.
func Some[T any](v T) Opt[T] { return Opt[T]{Set: true, Value: v} }

// Null returns a member that was sent as null.
func Null[T any]() Opt[T] { return Opt[T]{Set: true, Null: true} }

// Fault says what is wrong with the member's JSON type, or is empty.
func (o Opt[T]) Fault() string { return o.fault }

// Has tells whether the member holds a usable value.
func (o Opt[T]) Has() bool { return o.Set && !o.Null && o.fault == "" }

// UnmarshalJSON takes the member as sent.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	*o = Opt[T]{Set: true}
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		o.Null = true
		return nil
	}
	switch v := any(&o.Value).(type) {
	case *int:
		o.fault = decodeInt(b, v)
		return nil
	case *string:
		if text, ok := plain(b); ok {
			*v = text
			return nil
		}
	case *[]json.RawMessage:
		if list, ok := elements(b); ok {
			*v = list
			return nil
		}
	}
	if err := json.Unmarshal(b, &o.Value); err != nil {
		o.fault = "must be " + wanted(o.Value)
	}
	return nil
}

// plain reads a string that has nothing to be decoded: most have not.
func plain(b []byte) (string, bool) {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return "", false
	}
	b = b[1 : len(b)-1]
	ascii := true
	for _, c := range b {
		if c == '"' || c == '\\' || c < ' ' {
			return "", false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if !ascii && !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

// elements takes an array apart, without a look into its elements.
func elements(b []byte) ([]json.RawMessage, bool) {
	b = bytes.Clone(b)
	dec := lenient(b)
	if begin, err := dec.ReadToken(); err != nil || begin.Kind() != '[' {
		return nil, false
	}
	list := []json.RawMessage{}
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		end := int(dec.InputOffset())
		list = append(list, b[end-len(value):end:end])
	}
	if _, err := dec.ReadToken(); err != nil || len(bytes.TrimSpace(b[dec.InputOffset():])) > 0 {
		return nil, false
	}
	return list, true
}

// decodeInt takes 25 and 25.0 alike, as JSON knows no difference.
func decodeInt(b []byte, n *int) string {
	var f float64
	if json.Unmarshal(b, &f) != nil || f != math.Trunc(f) {
		return "must be an integer"
	}
	*n = int(max(math.MinInt32, min(math.MaxInt32, f)))
	return ""
}

func wanted(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	case []string:
		return "a list of strings"
	case []json.RawMessage:
		return "a list"
	case time.Time:
		return "a time such as 2026-11-26T09:00:00Z"
	default:
		return "an object"
	}
}

// Object is any JSON object, as it was sent.
type Object json.RawMessage

// UnmarshalJSON takes any JSON object.
func (o *Object) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return ErrNotObject
	}
	*o = append((*o)[:0], b...)
	return nil
}

// MarshalJSON gives the object as it was sent.
func (o Object) MarshalJSON() ([]byte, error) { return o, nil }
