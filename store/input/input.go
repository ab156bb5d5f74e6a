// Package input decodes what clients send: members of JSON objects by their exact names, which encoding/json alone doesn't hold to.
package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNotObject says that a value is not a JSON object.
var ErrNotObject = errors.New("decode request: not a JSON object")

// Members hands an object's members to their decoders, by exact name; others are ignored. A decoder's error is returned as it is.
func Members(b []byte, into map[string]json.Unmarshaler) error {
	if trimmed := bytes.TrimSpace(b); len(trimmed) == 0 || trimmed[0] != '{' {
		return ErrNotObject
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return fmt.Errorf("decode request: %w", err)
	}
	for name, target := range into {
		if raw, sent := members[name]; sent {
			if err := target.UnmarshalJSON(raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// OrNil gives no text for an empty one.
func OrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
