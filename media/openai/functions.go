package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The control verbs that a model may call.
const (
	functionTransfer = "transfer"
	functionHangup   = "hangup"
)

// The arguments of a transfer, and the type that needs no destination.
const (
	argumentDestination = "destination"
	argumentType        = "destination_type"
	queueType           = "agent_queue"
)

// function is a control verb as the model sees it.
type function struct {
	name, about string
	params      []param
}

// param is an argument, which is a string.
type param struct {
	name, about string
	oneOf       []string
	required    bool
	max         int // characters
}

func functions() []function {
	return []function{
		{functionTransfer, "Transfer the caller to a person. Say that you are going to, then call it: what you have said is heard first.", []param{
			{name: argumentType, about: "What destination is; e164 where it is left out.", oneOf: []string{queueType, "agent", "e164", "sip_uri"}},
			{name: argumentDestination, about: "A telephone number such as +919876543210, a SIP URI, a queue or an agent. Left out, the caller goes to the destination that is configured.", max: 512},
		}},
		{functionHangup, "End the call. Say goodbye, then call it: what you have said is heard to its end.", nil},
		{"send_dtmf", "Press keys of the telephone, to get through a menu.", []param{
			{name: "digits", about: "0 to 9, *, # and A to D; w is a pause of half a second, W of a second.", required: true, max: 64},
		}},
		{"set_disposition", "Say how the call has turned out.", []param{
			{name: "disposition", about: "A code such as interested, not_interested, wrong_number: a to z, 0 to 9 and _.", required: true, max: 64},
			{name: "notes", about: "What is worth knowing about the call.", max: 10_000},
		}},
		{"schedule_callback", "Promise the caller to call back at a time.", []param{
			{name: "scheduled_at", about: "When, as RFC 3339 with the caller's offset: 2026-11-25T15:30:00+05:30.", required: true, max: 64},
			{name: "reason", about: "Why.", max: 500},
		}},
	}
}

// FunctionNames are the control verbs that a voice agent may allow its model.
func FunctionNames() (names []string) {
	for _, f := range functions() {
		names = append(names, f.name)
	}
	return names
}

// find is a function of ours.
func find(name string) (function, bool) {
	all := functions()
	i := slices.IndexFunc(all, func(f function) bool { return f.name == name })
	if i < 0 {
		return function{}, false
	}
	return all[i], true
}

// find is a function of ours as a voice agent has it: it may allow transfers to some destinations alone.
func (c *Config) find(name string) (function, bool) {
	f, ok := find(name)
	if f.name != functionTransfer || c.TransferDestinations == nil {
		return f, ok
	}
	if len(c.TransferDestinations) == 0 {
		f.params = nil // a destination_type alone would name the queue
		return f, ok
	}
	i := slices.IndexFunc(f.params, func(p param) bool { return p.name == argumentDestination })
	f.params[i].oneOf = c.TransferDestinations
	return f, ok
}

// checkDestination refuses a transfer to the queue by its destination_type alone, which is a destination that is none of the list.
func (c *Config) checkDestination(name string, body map[string]string) error {
	if name == functionTransfer && c.TransferDestinations != nil && body[argumentDestination] == "" && body[argumentType] == queueType {
		return fmt.Errorf("%s must be one of %q, where %s is %s", argumentDestination, c.TransferDestinations, argumentType, queueType)
	}
	return nil
}

// Leaves tells whether a function ends the conversation: it waits until what was said before it has been heard.
func Leaves(name string) bool { return name == functionTransfer || name == functionHangup }

// tool is a function as a session declares it.
type tool struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Parameters  schema `json:"parameters"`
}

type schema struct {
	Type                 string              `json:"type"`
	Properties           map[string]property `json:"properties"`
	Required             []string            `json:"required"`
	AdditionalProperties bool                `json:"additionalProperties"`
}

type property struct {
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Enum        []string `json:"enum,omitempty"`
}

// tool declares a function.
func (f function) tool() tool {
	s := schema{Type: "object", Properties: map[string]property{}, Required: []string{}}
	for _, p := range f.params {
		s.Properties[p.name] = property{Type: "string", Description: p.about, Enum: p.oneOf}
		if p.required {
			s.Required = append(s.Required, p.name)
		}
	}
	return tool{Type: "function", Name: f.name, Description: f.about, Parameters: s}
}

// ErrNotAllowed refuses a function that the voice agent doesn't allow its model.
var ErrNotAllowed = errors.New("this function is not available")

// Command is a call of a function as a control command.
func (c *Config) Command(call *Item) (json.RawMessage, error) {
	if !slices.Contains(c.Functions, call.Name) {
		return nil, ErrNotAllowed
	}
	f, ours := c.find(call.Name)
	if !ours {
		return nil, ErrNotAllowed
	}
	if call.TooLong || len(call.Arguments) > maxArguments {
		return nil, fmt.Errorf("the arguments may have at most %d bytes, and those of a response's calls %d", maxArguments, maxArgumentsTogether)
	}
	args, err := f.arguments(call.Arguments)
	if err != nil {
		return nil, err
	}
	body := map[string]string{"event": call.Name}
	for _, p := range f.params {
		v, given, err := p.read(args[p.name])
		if err != nil {
			return nil, err
		}
		if given {
			body[p.name] = v
		}
	}
	if err := c.checkDestination(call.Name, body); err != nil {
		return nil, err
	}
	return json.Marshal(body)
}

// errArguments refuses what are no arguments.
var errArguments = errors.New("the arguments must be a JSON object")

// arguments reads a function's arguments up to the first that it doesn't have: the tick threads do.
func (f function) arguments(s string) (map[string]json.RawMessage, error) {
	args := map[string]json.RawMessage{}
	if strings.TrimSpace(s) == "" {
		return args, nil
	}
	dec := json.NewDecoder(strings.NewReader(s))
	if begin, err := dec.Token(); err != nil || begin != json.Delim('{') {
		return nil, errArguments
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, errArguments
		}
		name, _ := key.(string)
		if _, again := args[name]; again || !slices.ContainsFunc(f.params, func(p param) bool { return p.name == name }) {
			return nil, fmt.Errorf("%.64q is no argument of this function, or there twice", name)
		}
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return nil, errArguments
		}
		args[name] = v
	}
	if _, err := dec.Token(); err != nil {
		return nil, errArguments
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errArguments
	}
	return args, nil
}

// read takes an argument. What a model leaves empty, it leaves away.
func (p param) read(raw json.RawMessage) (v string, given bool, err error) {
	if len(raw) > 0 && json.Unmarshal(raw, &v) != nil {
		return "", false, fmt.Errorf("%s must be a string", p.name)
	}
	switch {
	case v == "" && p.required:
		return "", false, fmt.Errorf("%s is missing", p.name)
	case v == "":
		return "", false, nil
	case len(p.oneOf) > 0 && !slices.Contains(p.oneOf, v):
		return "", false, fmt.Errorf("%s must be one of %q", p.name, p.oneOf)
	case p.max > 0 && utf8.RuneCountInString(v) > p.max:
		return "", false, fmt.Errorf("%s may have at most %d characters", p.name, p.max)
	}
	return v, true, nil
}
