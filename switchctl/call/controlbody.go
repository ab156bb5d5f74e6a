package call

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// maxDestination bounds a transfer's destination: the longest SIP URI that a carrier is likely to take.
	maxDestination = 512
	// maxReason bounds why a recording is paused.
	maxReason = 500
)

// members are those of a JSON object, by their exact names.
type members map[string]json.RawMessage

// text is a member that is a string; given: it is there and not null.
func (m members) text(name string) (value string, given, ok bool) {
	raw := bytes.TrimSpace(m[name])
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return "", false, true
	}
	return value, true, json.Unmarshal(raw, &value) == nil
}

// ParseControl reads a verb with its fields, as the control endpoint and the AI's command frame carry it. Its errors are
// [switchctl.ErrNoObject], [*switchctl.VerbError] and a [*fault.Error].
func ParseControl(body []byte) (switchctl.ControlRequest, error) {
	none := switchctl.ControlRequest{}
	var m members
	if err := json.Unmarshal(body, &m); err != nil || m == nil || !utf8.Valid(body) {
		return none, switchctl.ErrNoObject
	}
	event, _, ok := m.text("event")
	if !ok || event == "" {
		return none, switchctl.MalformedControl("event", "must be the name of a verb")
	}
	verb, known := VerbNamed(event)
	if !verb.Available() {
		return none, &switchctl.VerbError{Verb: event, Known: known}
	}
	req := switchctl.ControlRequest{Event: event, Source: "api"}
	if raw := bytes.TrimSpace(m["metadata"]); len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
		if raw[0] != '{' {
			return none, switchctl.MalformedControl("metadata", "must be an object")
		}
		req.Metadata = slices.Clone(raw)
	}
	if verb.read != nil {
		if err := verb.read(&req, m); err != nil {
			return none, err
		}
	}
	return req, nil
}

func readDigits(r *switchctl.ControlRequest, m members) error {
	r.Digits, _, _ = m.text("digits")
	return checkDigits(r.Digits)
}

func readReason(r *switchctl.ControlRequest, m members) error {
	reason, _, ok := m.text("reason")
	if !ok || len(reason) > maxReason {
		return switchctl.MalformedControl("reason", "must be a string of at most 500 characters")
	}
	r.Reason = reason
	return nil
}

func readTransfer(r *switchctl.ControlRequest, m members) error {
	kind, given, ok := m.text("destination_type")
	if !ok || given && !slices.Contains([]string{destinationQueue, destinationPerson, destinationE164, destinationSIP}, kind) {
		return switchctl.MalformedControl("destination_type", "must be one of agent_queue, agent, e164, sip_uri")
	}
	destination, given, ok := m.text("destination")
	if !ok || given && destination == "" || len(destination) > maxDestination {
		return switchctl.MalformedControl("destination", "must be a string of 1 to 512 characters")
	}
	r.DestinationType, r.Destination = kind, destination
	return nil
}

func readTarget(r *switchctl.ControlRequest, m members) error {
	target, _, _ := m.text("target_call_id")
	id, err := uuid.Parse(target)
	if err != nil || len(target) != len(id.String()) {
		return switchctl.MalformedControl("target_call_id", "must be the id of a call")
	}
	r.TargetCallID = id.String()
	return nil
}

func readMonitor(r *switchctl.ControlRequest, m members) error {
	if err := readTarget(r, m); err != nil {
		return err
	}
	mode, given, ok := m.text("mode")
	if !ok || given && !slices.Contains([]string{string(ledger.MonitorListen), string(ledger.MonitorWhisper)}, mode) {
		return switchctl.MalformedControl("mode", "must be one of listen, listen_and_whisper")
	}
	r.Mode = mode
	return nil
}
