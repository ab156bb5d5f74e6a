package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The formats of audio, in both directions.
const (
	FormatPCMU = "audio/pcmu"
	FormatPCMA = "audio/pcma"
)

const (
	// MaxSession bounds a voice agent's session, in bytes: the server tells it back in one message.
	MaxSession = 48 << 10
	// maxFirstMessage bounds a first message, in characters.
	maxFirstMessage = 2000
	// maxDestinations and maxDestination, in characters, bound the destinations of transfers.
	maxDestinations, maxDestination = 64, 512
)

// Config is what a voice agent's transport_config says.
type Config struct {
	// Session is the session of OpenAI's API: instructions, voice, turn_detection, tools, and so on. Its formats are ours.
	Session json.RawMessage `json:"session,omitempty"`
	// AudioFormat is FormatPCMU or FormatPCMA; empty is what the carrier speaks.
	AudioFormat string `json:"audio_format,omitempty"`
	// Functions are the control verbs that the model may call.
	Functions []string `json:"functions,omitempty"`
	// TransferDestinations are the only destinations that the model may name for a transfer: nil leaves it to the model, an empty list allows none.
	TransferDestinations []string `json:"transfer_destinations,omitzero"`
	// Greet has the model speak first; FirstMessage is what it says then, word for word.
	Greet        bool   `json:"greet,omitempty"`
	FirstMessage string `json:"first_message,omitempty"`
}

// ConfigError means that a transport_config can't be served.
type ConfigError struct{ Field, Message string }

// Error implements error.
func (e *ConfigError) Error() string { return e.Field + " " + e.Message }

// ParseConfig reads a transport_config; null and nothing are an empty one. Its errors are a [*ConfigError].
func ParseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return c, nil
	}
	if raw[0] != '{' {
		return c, &ConfigError{"", "must be an object"}
	}
	if err := checkMembers(raw); err != nil {
		return c, err
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, &ConfigError{"", "can't be read: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	if c.AudioFormat != "" && c.AudioFormat != FormatPCMU && c.AudioFormat != FormatPCMA {
		return c, &ConfigError{"audio_format", "must be audio/pcmu or audio/pcma; left out, it is what the carrier speaks"}
	}
	for i, name := range c.Functions {
		if _, ok := find(name); !ok || slices.Contains(c.Functions[:i], name) {
			return c, &ConfigError{"functions", fmt.Sprintf("must be some of %s, each once", strings.Join(FunctionNames(), ", "))}
		}
	}
	if bad := func(d string) bool { return d == "" || utf8.RuneCountInString(d) > maxDestination }; len(c.TransferDestinations) > maxDestinations ||
		slices.ContainsFunc(c.TransferDestinations, bad) {
		return c, &ConfigError{"transfer_destinations", fmt.Sprintf("must be at most %d destinations of 1 to %d characters", maxDestinations, maxDestination)}
	}
	if utf8.RuneCountInString(c.FirstMessage) > maxFirstMessage {
		return c, &ConfigError{"first_message", fmt.Sprintf("may have at most %d characters", maxFirstMessage)}
	}
	if len(c.Session) > MaxSession {
		return c, &ConfigError{"session", fmt.Sprintf("may have at most %d bytes", MaxSession)}
	}
	_, _, err := c.merged(FormatPCMU)
	return c, err
}

// checkMembers refuses members that a transport_config doesn't have, names in another case included, and null where it says nothing.
func checkMembers(raw json.RawMessage) error {
	var members object
	if err := json.Unmarshal(raw, &members); err != nil {
		return &ConfigError{"", "can't be read: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	for name, v := range members {
		switch name {
		case "session", "functions", "transfer_destinations":
		case "audio_format", "greet", "first_message":
			if string(v) == "null" {
				return &ConfigError{name, "may not be null; leave it out"}
			}
		default:
			return &ConfigError{"", fmt.Sprintf("has no member %.64q", name)}
		}
	}
	return nil
}

// Turns is what the server does by itself when the caller speaks: it ends the response that is under way, and responds to what was said.
type Turns struct{ Interrupts, Responds bool }

// Update is the session.update of a session with a format. One that only listens makes no responses, and has no tools.
func (c *Config) Update(format string, listens bool) (frame []byte, turns Turns, err error) {
	session, turns, err := c.merged(format)
	if err == nil && listens {
		err = session.listen()
	}
	if err != nil {
		return nil, turns, err
	}
	frame, err = json.Marshal(struct {
		Type    string `json:"type"`
		EventID string `json:"event_id"`
		Session object `json:"session"`
	}{"session.update", UpdateID, session})
	return frame, turns, err
}

// object is a JSON object of which a few members matter.
type object map[string]json.RawMessage

// within is an object that a member is, or an empty one.
func (o object) within(path, name string) (object, error) {
	var in object
	if raw := o[name]; len(raw) > 0 && json.Unmarshal(raw, &in) != nil {
		return nil, &ConfigError{path + "." + name, "must be an object"}
	}
	if in == nil {
		in = object{}
	}
	return in, nil
}

// set makes a member something that always encodes.
func (o object) set(name string, v any) {
	o[name], _ = json.Marshal(v)
}

// listen has a session make no responses.
func (o object) listen() error {
	o.set("tools", []any{})
	delete(o, "tool_choice")
	audio, err := o.within("session", "audio")
	if err != nil {
		return err
	}
	in, err := audio.within("session.audio", "input")
	if err != nil || string(in["turn_detection"]) == "null" {
		return err
	}
	turns, err := in.within("session.audio.input", "turn_detection")
	if err != nil {
		return err
	}
	if len(turns["type"]) == 0 {
		turns.set("type", "server_vad")
	}
	turns.set("create_response", false)
	in.set("turn_detection", turns)
	audio.set("input", in)
	o.set("audio", audio)
	return nil
}

// merged is the customer's session with what is ours in it.
func (c *Config) merged(format string) (s object, turns Turns, err error) {
	if s, err = (object{"session": c.Session}).within("transport_config", "session"); err != nil {
		return nil, turns, &ConfigError{"session", "must be an object"}
	}
	var kind string
	if raw := s["type"]; len(raw) > 0 && (json.Unmarshal(raw, &kind) != nil || kind != "realtime") {
		return nil, turns, &ConfigError{"session.type", "must be realtime, or left out"}
	}
	s.set("type", "realtime")
	audio, err := s.within("session", "audio")
	if err != nil {
		return nil, turns, err
	}
	in, err := audio.within("session.audio", "input")
	if err != nil {
		return nil, turns, err
	}
	out, err := audio.within("session.audio", "output")
	if err != nil {
		return nil, turns, err
	}
	ours := map[string]string{"type": format}
	in.set("format", ours)
	out.set("format", ours)
	audio.set("input", in)
	audio.set("output", out)
	s.set("audio", audio)
	if err := c.addTools(s); err != nil {
		return nil, turns, err
	}
	detection := struct {
		Interrupts *bool `json:"interrupt_response"`
		Responds   *bool `json:"create_response"`
	}{}
	if raw := in["turn_detection"]; len(raw) > 0 && json.Unmarshal(raw, &detection) != nil {
		return nil, turns, &ConfigError{"session.audio.input.turn_detection", "must be an object or null"}
	}
	turns.Interrupts = detection.Interrupts == nil || *detection.Interrupts
	turns.Responds = detection.Responds == nil || *detection.Responds
	return s, turns, nil
}

// addTools puts our functions behind the customer's tools, and in place of those of the same name.
func (c *Config) addTools(s object) error {
	var theirs []json.RawMessage
	if raw := s["tools"]; len(raw) > 0 && json.Unmarshal(raw, &theirs) != nil {
		return &ConfigError{"session.tools", "must be an array"}
	}
	all := []any{}
	for _, raw := range theirs {
		var named struct {
			Name          string          `json:"name"`
			Authorization json.RawMessage `json:"authorization"`
			Headers       json.RawMessage `json:"headers"`
		}
		if json.Unmarshal(raw, &named) != nil || string(raw) == "null" {
			return &ConfigError{"session.tools", "must be objects"}
		}
		if named.Authorization != nil || named.Headers != nil {
			return &ConfigError{"session.tools", "may have no authorization and no headers: they are shown as they are; have server_url be a proxy of yours that adds them"}
		}
		if !slices.Contains(c.Functions, named.Name) {
			all = append(all, raw)
		}
	}
	for _, name := range c.Functions {
		if f, ok := c.find(name); ok {
			all = append(all, f.tool())
		}
	}
	if len(all) > 0 {
		s.set("tools", all)
	}
	return nil
}

// FirstWords are the instructions of the response that a conversation begins with, and whether there is one.
func (c *Config) FirstWords() (instructions string, speaks bool) {
	if c.FirstMessage == "" {
		return "", c.Greet
	}
	return "Say the following to the caller, word for word and nothing else: " + c.FirstMessage, true
}
