package input

import (
	"bytes"
	"encoding/json"
	"math"
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
	if n, ok := any(&o.Value).(*int); ok {
		o.fault = decodeInt(b, n)
		return nil
	}
	if err := json.Unmarshal(b, &o.Value); err != nil {
		o.fault = "must be " + wanted(o.Value)
	}
	return nil
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
