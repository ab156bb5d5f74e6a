// Package frames has the JSON Schemas (2020-12) of all that crosses a voice agent's socket, by transport: `$defs/toAI` is what we send,
// `$defs/fromAI` what a voice agent may send. A [Set] names what is wrong with a frame.
package frames

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed *.schema.json
var files embed.FS

// Transports are those that have a schema, as voice agents name them.
func Transports() []string { return []string{"websocket", "twilio", "openai_realtime"} }

// Schema is a transport's, as it is published.
func Schema(transport string) ([]byte, error) {
	b, err := files.ReadFile(transport + ".schema.json")
	if err != nil {
		return nil, fmt.Errorf("transport %q has no schema; those that have one are %s", transport, strings.Join(Transports(), ", "))
	}
	return b, nil
}

// The two directions.
const (
	ToAI   = "toAI"
	FromAI = "fromAI"
)

// Set is a transport's schema, compiled.
type Set struct {
	member string // that tells the kinds of frames apart
	kinds  map[string]map[string]kind
}

// kind is one kind of frame.
type kind struct {
	schema *jsonschema.Schema
	at     string
}

// UnknownError means that a transport has no such kind of frame.
type UnknownError struct {
	Kind  string
	Known []string
}

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("%.64q is no kind of frame; there are %s", e.Kind, strings.Join(e.Known, ", "))
}

// InvalidError means that a frame breaks its schema.
type InvalidError struct {
	Kind string
	// At is the definition that the frame was held to, Where the part of the frame that breaks it, and What how.
	At, Where, What string
}

// Error implements error.
func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Kind, e.Where, e.What) }

// ErrNotJSON means that a frame is not a JSON object.
var ErrNotJSON = errors.New("the frame is not a JSON object")

// Load compiles a transport's schema.
func Load(transport string) (*Set, error) {
	raw, err := Schema(transport)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", transport, err)
	}
	c := jsonschema.NewCompiler()
	name := transport + ".json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", transport, err)
	}
	var parsed struct {
		Defs map[string]alternative `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", transport, err)
	}
	s := &Set{member: "type", kinds: map[string]map[string]kind{}}
	if transport == "twilio" {
		s.member = "event"
	}
	for _, direction := range []string{ToAI, FromAI} {
		s.kinds[direction] = map[string]kind{}
		for i, alt := range parsed.Defs[direction].OneOf {
			at := fmt.Sprintf("#/$defs/%s/oneOf/%d", direction, i)
			if alt.Ref != "" {
				at, alt = alt.Ref, parsed.Defs[strings.TrimPrefix(alt.Ref, "#/$defs/")]
			}
			schema, err := c.Compile(name + at)
			if err != nil {
				return nil, fmt.Errorf("compile the schema of %s: %w", transport, err)
			}
			s.kinds[direction][alt.named(s.member)] = kind{schema, name + at}
		}
	}
	return s, nil
}

// alternative is as much of a schema as tells its kind.
type alternative struct {
	Ref        string        `json:"$ref"`
	OneOf      []alternative `json:"oneOf"`
	Properties map[string]struct {
		Const any `json:"const"`
	} `json:"properties"`
}

// named is the kind's name, by the member that tells kinds apart.
func (a alternative) named(member string) string {
	name, _ := a.Properties[member].Const.(string)
	return name
}

// Kinds are the kinds of frames of a direction; "" is the one without a name.
func (s *Set) Kinds(direction string) []string { return slices.Sorted(maps.Keys(s.kinds[direction])) }

// Check holds a frame to its schema, and returns its kind. Errors are ErrNotJSON, *UnknownError and *InvalidError.
func (s *Set) Check(direction string, frame []byte) (string, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(frame))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	members, ok := v.(map[string]any)
	if !ok {
		return "", ErrNotJSON
	}
	name, _ := members[s.member].(string)
	k, ok := s.kinds[direction][name]
	if !ok {
		return name, &UnknownError{name, s.Kinds(direction)}
	}
	err = k.schema.Validate(v)
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		leaf := deepest(invalid)
		where := "/" + strings.Join(leaf.InstanceLocation, "/")
		return name, &InvalidError{name, k.at, where, leaf.ErrorKind.LocalizedString(message.NewPrinter(language.English))}
	}
	return name, err
}

// deepest is the cause that lies deepest in the frame.
func deepest(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	for _, c := range e.Causes {
		if d := deepest(c); len(best.Causes) > 0 || len(d.InstanceLocation) > len(best.InstanceLocation) {
			best = d
		}
	}
	return best
}
