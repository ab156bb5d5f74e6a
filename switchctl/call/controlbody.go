package call

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/form"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// maxDestination bounds a transfer's destination: the longest SIP URI that a carrier is likely to take.
	maxDestination = 512
	// maxReason bounds why a recording is paused, or a callback promised.
	maxReason = 500
	// maxNotes and maxLeadField bound what their names say, in characters; maxAudioURL an address and maxLeadValue a custom field's value, in bytes.
	maxAudioURL  = 2048
	maxNotes     = 10_000
	maxLeadField = 100
	maxLeadValue = 8 << 10
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
	if !known {
		return none, &switchctl.VerbError{Verb: event}
	}
	req := switchctl.ControlRequest{Event: event, Source: "api"}
	if raw := bytes.TrimSpace(m["metadata"]); len(raw) > 0 && !bytes.Equal(raw, []byte("null")) {
		if raw[0] != '{' {
			return none, switchctl.MalformedControl("metadata", "must be an object")
		}
		req.Metadata = slices.Clone(raw)
		if verb.Insights {
			if _, err := readInsights(req.Metadata); err != nil {
				return none, err
			}
		}
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
	_, err := parseDigits(r.Digits)
	return err
}

func readReason(r *switchctl.ControlRequest, m members) error {
	reason, _, ok := m.text("reason")
	if !ok || utf8.RuneCountInString(reason) > maxReason {
		return switchctl.MalformedControl("reason", "must be a string of at most 500 characters")
	}
	r.Reason = reason
	return nil
}

func readTransfer(r *switchctl.ControlRequest, m members) error {
	kind, given, ok := m.text("destination_type")
	if !ok || given && !slices.Contains([]string{switchctl.DestinationQueue, switchctl.DestinationAgent, switchctl.DestinationE164, switchctl.DestinationSIP}, kind) {
		return switchctl.MalformedControl("destination_type", "must be one of agent_queue, agent, e164, sip_uri")
	}
	destination, given, ok := m.text("destination")
	if !ok || given && destination == "" || len(destination) > maxDestination {
		return switchctl.MalformedControl("destination", "must be a string of 1 to 512 characters")
	}
	r.DestinationType, r.Destination = kind, destination
	return checkAnnounce(r.Metadata)
}

// defaultUrgency is that of a request that names none.
const defaultUrgency = "normal"

// maxUrgency bounds an urgency, in bytes.
const maxUrgency = 64

func readEscalation(r *switchctl.ControlRequest, m members) error {
	if err := readReason(r, m); err != nil {
		return err
	}
	urgency, given, ok := m.text("urgency")
	if !ok || given && (!form.IsDisposition(urgency) || len(urgency) > maxUrgency) {
		return switchctl.MalformedControl("urgency", "must be a word such as low, normal, high")
	}
	r.Urgency = cmp.Or(urgency, defaultUrgency)
	return nil
}

func readMember(r *switchctl.ControlRequest, m members) error {
	kind, _, _ := m.text("participant_type")
	if !slices.Contains([]string{switchctl.DestinationE164, switchctl.DestinationSIP, roleAgent, roleSupervisor}, kind) {
		return switchctl.MalformedControl("participant_type", "must be one of e164, sip_uri, agent, supervisor")
	}
	destination, given, ok := m.text("destination")
	if !ok || !given || destination == "" || len(destination) > maxDestination {
		return switchctl.MalformedControl("destination", "must be a string of 1 to 512 characters")
	}
	r.ParticipantType, r.Destination = kind, destination
	return nil
}

func readMemberID(r *switchctl.ControlRequest, m members) error {
	id, given, ok := m.text("member_id")
	if !ok || !given || id == "" || len(id) > maxDestination {
		return switchctl.MalformedControl("member_id", "must be the id of a participant")
	}
	r.MemberID = id
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

// readSide takes whom mute and unmute are about; the caller by default.
func readSide(r *switchctl.ControlRequest, m members) error {
	side, given, ok := m.text("target")
	if !given && ok {
		side = sideCaller
	}
	if side != sideCaller && side != sideAgent {
		return switchctl.MalformedControl("target", "must be one of caller, agent")
	}
	r.Target = side
	return nil
}

// audioURL takes an http(s) address; given: it is there.
func (m members) audioURL(name string) (address string, given bool, err error) {
	address, given, ok := m.text(name)
	if !given && ok {
		return "", false, nil
	}
	u, parseErr := url.Parse(address)
	if !ok || parseErr != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(address) > maxAudioURL {
		return "", true, switchctl.MalformedControl(name, "must be an http or https address of at most 2,048 bytes")
	}
	return address, true, nil
}

func readHold(r *switchctl.ControlRequest, m members) (err error) {
	r.AudioURL, _, err = m.audioURL("moh_url")
	return err
}

func readAudio(r *switchctl.ControlRequest, m members) error {
	address, given, err := m.audioURL("audio_url")
	if err != nil {
		return err
	}
	_, speech, ok := m.text("tts_text")
	switch {
	case !ok:
		return switchctl.MalformedControl("tts_text", "must be a string")
	case given == speech:
		return switchctl.MalformedControl("audio_url", "and tts_text: exactly one of them must be given")
	case speech:
		return switchctl.InvalidControl("tts_text", "is not supported yet: send audio_url")
	}
	r.AudioURL = address
	return nil
}

func readWhisper(r *switchctl.ControlRequest, m members) error {
	if err := readTarget(r, m); err != nil {
		return err
	}
	return readAudio(r, m)
}

func readDisposition(r *switchctl.ControlRequest, m members) error {
	code, _, _ := m.text("disposition")
	if !form.IsDisposition(code) {
		return switchctl.MalformedControl("disposition", "must have 1 to 64 characters of a to z, 0 to 9 and _")
	}
	notes, given, ok := m.text("notes")
	if !ok || utf8.RuneCountInString(notes) > maxNotes || strings.ContainsRune(notes, 0) {
		return switchctl.MalformedControl("notes", "must be a string of at most 10,000 characters, without NUL characters")
	}
	if r.Disposition = code; given {
		r.Notes = &notes
	}
	return nil
}

func readLeadField(r *switchctl.ControlRequest, m members) error {
	name, _, _ := m.text("field")
	if name == "" || utf8.RuneCountInString(name) > maxLeadField || strings.ContainsRune(name, 0) {
		return switchctl.MalformedControl("field", "must be a string of 1 to 100 characters")
	}
	value, given := m["value"]
	if !given || len(value) > maxLeadValue {
		return switchctl.MalformedControl("value", "is required, with at most 8,192 bytes; null removes the field")
	}
	r.Field, r.Value = name, slices.Clone(value)
	return nil
}

func readLeadStatus(r *switchctl.ControlRequest, m members) error {
	status, _, _ := m.text("status")
	if !slices.Contains(switchctl.LeadStatuses(), status) {
		return switchctl.MalformedControl("status", "must be one of "+strings.Join(switchctl.LeadStatuses(), ", "))
	}
	r.Status = status
	return nil
}

func readCallback(r *switchctl.ControlRequest, m members) error {
	when, _, _ := m.text("scheduled_at")
	at, err := time.Parse(time.RFC3339, when)
	if err != nil {
		return switchctl.MalformedControl("scheduled_at", "must be a timestamp, such as 2026-11-25T15:30:00+05:30")
	}
	if err := readReason(r, m); err != nil {
		return err
	}
	r.Callback = switchctl.Callback{At: at}
	agent, given, ok := m.text("voice_agent_id")
	id, err := uuid.Parse(agent)
	switch {
	case !given && ok:
	case !ok, err != nil, len(agent) != len(id.String()):
		return switchctl.MalformedControl("voice_agent_id", "must be the id of a voice agent")
	default:
		r.Callback.VoiceAgentID = &id
	}
	return nil
}
