package remote

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"
)

// members are a body's, given one by one.
type members struct {
	Set []string `placeholder:"NAME=VALUE" sep:"none" help:"A member by its name in the API; may be repeated. Texts are written as they are, all else as JSON: 5, true, [\"a\"]; null clears."`
}

// fill puts the members into a body, a pointer to one of the client's types, on top of what flags have set.
func (m members) fill(body any) error { return assign(body, m.Set) }

// assign reads NAME=VALUE by the body's own type. Names that it doesn't have are refused: a typing error changes nothing.
func assign(body any, pairs []string) error {
	of, object := reflect.TypeOf(body).Elem(), map[string]json.RawMessage{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q is not of the form NAME=VALUE", pair)
		}
		field, names := fieldOf(of, name)
		if field == nil {
			return fmt.Errorf("there is no member %q; the members are %s", name, strings.Join(names, ", "))
		}
		object[name] = json.RawMessage(text)
		if text != "null" && isText(field) || text == "null" && field.Kind() == reflect.String {
			quoted, err := json.Marshal(text)
			if err != nil {
				return fmt.Errorf("encode %s: %w", name, err)
			}
			object[name] = quoted
		}
		if !json.Valid(object[name]) {
			return fmt.Errorf("the value of %s is not JSON: %s", name, text)
		}
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode the members: %w", err)
	}
	if err := json.Unmarshal(raw, body); err != nil {
		return fmt.Errorf("read the members: %w", err)
	}
	return nil
}

// fieldOf is the type of a member by its name, and the names of all.
func fieldOf(of reflect.Type, name string) (field reflect.Type, names []string) {
	for f := range of.Fields() {
		have, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if names = append(names, have); have == name {
			field = f.Type
		}
	}
	return field, names
}

// isText tells of a member that is text in JSON: of a pointer to one too, and of one that can be cleared, which is a map from a bool.
func isText(of reflect.Type) bool {
	if of.Kind() == reflect.Pointer || of.Kind() == reflect.Map && of.Key().Kind() == reflect.Bool {
		of = of.Elem()
	}
	return of.Kind() == reflect.String || of == reflect.TypeFor[uuid.UUID]() || of == reflect.TypeFor[time.Time]()
}

// some is a pointer to a flag that was given, nil for one that was not.
func some[T comparable](value T) *T {
	var none T
	if value == none {
		return nil
	}
	return &value
}

// freeObject reads a flag that is a JSON object.
func freeObject(flag, text string) (map[string]any, error) {
	var object map[string]any
	if text == "" {
		return object, nil
	}
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object: %w", flag, err)
	}
	return object, nil
}
