// Package input decodes what clients send: members of JSON objects by their exact names, which encoding/json alone doesn't hold to.
package input

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrNotObject says that a value is not a JSON object.
var ErrNotObject = errors.New("decode request: not a JSON object")

// Members hands an object's members to their decoders, by exact name; others are ignored. A decoder's error is returned as it is. Decoders
// copy what they keep.
func Members(b []byte, into map[string]json.Unmarshaler) error {
	if trimmed := bytes.TrimSpace(b); len(trimmed) == 0 || trimmed[0] != '{' {
		return ErrNotObject
	}
	dec := lenient(b)
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() == '"' {
		var name jsontext.Token
		if name, err = dec.ReadToken(); err != nil {
			break
		}
		target, known := into[name.String()]
		if !known {
			err = dec.SkipValue()
			continue
		}
		var raw jsontext.Value
		if raw, err = dec.ReadValue(); err != nil {
			break
		}
		if err := target.UnmarshalJSON(raw); err != nil {
			return err
		}
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	if err != nil || len(bytes.TrimSpace(b[dec.InputOffset():])) > 0 {
		return fmt.Errorf("decode request: %w", cmp.Or(json.Unmarshal(b, &map[string]json.RawMessage{}), err, ErrNotObject))
	}
	return nil
}

// lenient reads JSON as encoding/json does, which takes what Check refuses.
func lenient(b []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// OrNil gives no text for an empty one.
func OrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
