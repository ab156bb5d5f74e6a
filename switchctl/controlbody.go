package switchctl

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"
)

const (
	// maxDestination bounds a transfer's destination: the longest SIP URI that a carrier is likely to take.
	maxDestination = 512
	// maxReason bounds why a recording is paused.
	maxReason = 500
)

// knownVerbs are those of interface section 4.5; true marks the ones that this version carries out.
func knownVerbs() map[string]bool {
	return map[string]bool{
		VerbTransfer: true, VerbHangup: true, VerbLog: true, VerbGetCallState: true, VerbSendDTMF: true,
		VerbMonitorStart: true, VerbMonitorStop: true, VerbRecordingPause: true, VerbRecordingResume: true,
		"mute": false, "unmute": false, "hold": false, "unhold": false, "play_audio": false, "set_disposition": false,
		"conference_start": false, "conference_add": false, "conference_remove": false, "conference_leave": false,
		"request_supervisor": false, "whisper": false, "barge": false,
		"set_lead_field": false, "set_lead_status": false, "schedule_callback": false,
	}
}

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
// [ErrNoObject], [*MalformedError] and [*VerbError].
func ParseControl(body []byte) (ControlRequest, error) {
	none := ControlRequest{}
	var m members
	if err := json.Unmarshal(body, &m); err != nil || m == nil || !utf8.Valid(body) {
		return none, ErrNoObject
	}
	event, _, ok := m.text("event")
	if !ok || event == "" {
		return none, &MalformedError{Field: "event", Message: "must be the name of a verb"}
	}
	if available, known := knownVerbs()[event]; !available {
		return none, &VerbError{Verb: event, Known: known}
	}
	req := ControlRequest{Event: event, Source: "api"}
	if raw := bytes.TrimSpace(m["metadata"]); len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
		if raw[0] != '{' {
			return none, &MalformedError{Field: "metadata", Message: "must be an object"}
		}
		req.Metadata = slices.Clone(raw)
	}
	if err := req.readFields(m); err != nil {
		return none, err
	}
	return req, nil
}

// readFields reads what the verb alone has.
func (r *ControlRequest) readFields(m members) error {
	switch r.Event {
	case VerbTransfer:
		return r.readTransfer(m)
	case VerbSendDTMF:
		digits, _, _ := m.text("digits")
		r.Digits = digits
		return checkDigits(digits)
	case VerbMonitorStart, VerbMonitorStop:
		return r.readMonitor(m)
	case VerbRecordingPause:
		reason, _, ok := m.text("reason")
		if !ok || len(reason) > maxReason {
			return &MalformedError{Field: "reason", Message: "must be a string of at most 500 characters"}
		}
		r.Reason = reason
	}
	return nil
}

func (r *ControlRequest) readTransfer(m members) error {
	kind, given, ok := m.text("destination_type")
	if !ok || given && !slices.Contains([]string{destinationQueue, destinationPerson, destinationE164, destinationSIP}, kind) {
		return &MalformedError{Field: "destination_type", Message: "must be one of agent_queue, agent, e164, sip_uri"}
	}
	destination, given, ok := m.text("destination")
	if !ok || given && destination == "" || len(destination) > maxDestination {
		return &MalformedError{Field: "destination", Message: "must be a string of 1 to 512 characters"}
	}
	r.DestinationType, r.Destination = kind, destination
	return nil
}

// readMonitor reads the target, and the mode that monitor_start alone has.
func (r *ControlRequest) readMonitor(m members) error {
	target, _, _ := m.text("target_call_id")
	id, err := uuid.Parse(target)
	if err != nil || len(target) != len(id.String()) {
		return &MalformedError{Field: "target_call_id", Message: "must be the id of a call"}
	}
	r.TargetCallID = id.String()
	if r.Event == VerbMonitorStop {
		return nil
	}
	mode, given, ok := m.text("mode")
	if !ok || given && !slices.Contains([]string{string(MonitorListen), string(MonitorWhisper)}, mode) {
		return &MalformedError{Field: "mode", Message: "must be one of listen, listen_and_whisper"}
	}
	r.Mode = mode
	return nil
}
