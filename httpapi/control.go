package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
)

const (
	// controlPerSecond is how many verbs a call takes in any second.
	controlPerSecond = 10
	// maxDestination bounds a transfer's destination: the longest SIP URI that a carrier is likely to take.
	maxDestination = 512
	// maxReason bounds why a recording is paused.
	maxReason = 500
)

type controlView struct {
	OK           bool           `json:"ok"`
	CallID       uuid.UUID      `json:"call_id"`
	DispatchedAt time.Time      `json:"dispatched_at"`
	Result       map[string]any `json:"result"`
}

// verbs are those of interface section 4.5; true marks the ones that this version carries out.
func verbs() map[string]bool {
	return map[string]bool{
		switchctl.VerbTransfer: true, switchctl.VerbHangup: true, switchctl.VerbLog: true, switchctl.VerbGetCallState: true,
		switchctl.VerbSendDTMF: true, switchctl.VerbMonitorStart: true, switchctl.VerbMonitorStop: true,
		"mute": false, "unmute": false, "hold": false, "unhold": false, "play_audio": false,
		"set_disposition": false, switchctl.VerbRecordingPause: true, switchctl.VerbRecordingResume: true, "conference_start": false,
		"conference_add": false, "conference_remove": false, "conference_leave": false, "request_supervisor": false,
		"whisper": false, "barge": false, "set_lead_field": false,
		"set_lead_status": false, "schedule_callback": false,
	}
}

// controlCall dispatches one verb. Whose call it is comes first, then how often it is asked, then what is asked.
func (s *Server) controlCall(ctx context.Context, r *request) (reply, error) {
	callID, err := s.ownCall(ctx, r)
	if err != nil {
		return reply{}, err
	}
	if allowed, wait := s.calls.take(callID.String(), s.cfg.Now()); !allowed {
		return reply{}, &apiError{
			status: http.StatusTooManyRequests, code: codeRateLimited, retryAfter: wait,
			detail: "A call takes ten verbs in a second.",
		}
	}
	req, err := parseControl(r.rc.PostBody())
	if err != nil {
		return reply{}, err
	}
	if r.who.kind == kindCallback {
		req.Source = "ai"
	}
	if req.Event == switchctl.VerbLog || req.Event == switchctl.VerbGetCallState {
		return s.dispatch(ctx, r, callID, req)
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return reply{}, err
	}
	if key == uuid.Nil {
		return s.dispatch(ctx, r, callID, req)
	}
	return s.dispatchOnce(ctx, r, callID, key, req)
}

// ownCall checks that the credential reaches the call of the path: a callback token that of its own call, a key those of its
// tenant. A foreign call answers 403 here, and 404 only when there is none at all.
func (s *Server) ownCall(ctx context.Context, r *request) (uuid.UUID, error) {
	foreign := newError(http.StatusForbidden, codeForeignCall, "The credential does not reach this call.")
	callID, err := r.pathID("call_id", callNoun)
	if r.who.kind == kindCallback {
		if err != nil || callID != r.who.callID {
			return uuid.Nil, foreign
		}
		return callID, nil
	}
	if err != nil {
		return uuid.Nil, err
	}
	err = s.deps.Store.InSystem(ctx, func(tx *store.Tx) error {
		tenantID, err := tx.Q.FindCallTenant(ctx, callID)
		if err != nil {
			return named(err, callNoun)
		}
		if tenantID != r.who.tenantID {
			return foreign
		}
		return nil
	})
	return callID, err
}

// controlInput is the body of the control endpoint.
type controlInput struct {
	Event           dialer.Opt[string]
	Metadata        dialer.Opt[json.RawMessage]
	DestinationType dialer.Opt[string]
	Destination     dialer.Opt[string]
	Digits          dialer.Opt[string]
	TargetCallID    dialer.Opt[string]
	Mode            dialer.Opt[string]
	Reason          dialer.Opt[string]
}

// UnmarshalJSON takes a verb with its fields.
func (in *controlInput) UnmarshalJSON(b []byte) error {
	return decodeMembers(b, map[string]json.Unmarshaler{
		"event": &in.Event, "metadata": &in.Metadata, "destination_type": &in.DestinationType, "destination": &in.Destination,
		"digits":         &in.Digits,
		"target_call_id": &in.TargetCallID, "mode": &in.Mode,
		"reason": &in.Reason,
	})
}

// parseControl reads a verb with its fields. Whatever is wrong with the body is a 400 here, except a verb that is known and
// not carried out.
func parseControl(body []byte) (switchctl.ControlRequest, error) {
	var in controlInput
	if err := decodeObject(body, &in); err != nil {
		return switchctl.ControlRequest{}, asBadRequest(err)
	}
	if !in.Event.Has() || in.Event.Value == "" {
		return switchctl.ControlRequest{}, badControl(codeBadRequest, "event", "must be the name of a verb")
	}
	available, known := verbs()[in.Event.Value]
	if !known {
		return switchctl.ControlRequest{}, badControl(codeUnknownVerb, "event", "is no known verb")
	}
	if !available {
		return switchctl.ControlRequest{}, newError(http.StatusUnprocessableEntity, codeVerbNotAvailable,
			"The verb "+in.Event.Value+" is not available on this server.")
	}
	req := switchctl.ControlRequest{Event: in.Event.Value, Source: "api"}
	if in.Metadata.Has() {
		if m := bytes.TrimSpace(in.Metadata.Value); len(m) == 0 || m[0] != '{' {
			return switchctl.ControlRequest{}, badControl(codeBadRequest, "metadata", "must be an object")
		}
		req.Metadata = slices.Clone(in.Metadata.Value)
	}
	switch req.Event {
	case switchctl.VerbRecordingPause:
		if in.Reason.Set && !in.Reason.Null && (!in.Reason.Has() || len(in.Reason.Value) > maxReason) {
			return switchctl.ControlRequest{}, badControl(codeBadRequest, "reason", "must be a string of at most 500 characters")
		}
		req.Reason = in.Reason.Value
	case switchctl.VerbTransfer:
		return parseTransfer(req, in.DestinationType, in.Destination)
	case switchctl.VerbSendDTMF:
		if err := switchctl.CheckDigits(in.Digits.Value); err != nil {
			return switchctl.ControlRequest{}, badControl(codeBadRequest, "digits", err.Error())
		}
		req.Digits = in.Digits.Value
	}
	if req.Event == switchctl.VerbMonitorStart || req.Event == switchctl.VerbMonitorStop {
		return parseMonitor(req, in.TargetCallID, in.Mode)
	}
	return req, nil
}

// parseMonitor reads the target, and the mode that monitor_start alone has.
func parseMonitor(req switchctl.ControlRequest, target, mode dialer.Opt[string]) (switchctl.ControlRequest, error) {
	none := switchctl.ControlRequest{}
	id, err := uuid.Parse(target.Value)
	if !target.Has() || err != nil || len(target.Value) != len(id.String()) {
		return none, badControl(codeBadRequest, "target_call_id", "must be the id of a call")
	}
	req.TargetCallID = id.String()
	if req.Event == switchctl.VerbMonitorStart && mode.Set && !mode.Null {
		modes := []string{string(switchctl.MonitorListen), string(switchctl.MonitorWhisper)}
		if !mode.Has() || !slices.Contains(modes, mode.Value) {
			return none, badControl(codeBadRequest, "mode", "must be one of listen, listen_and_whisper")
		}
		req.Mode = mode.Value
	}
	return req, nil
}

func parseTransfer(req switchctl.ControlRequest, kind, destination dialer.Opt[string]) (switchctl.ControlRequest, error) {
	none := switchctl.ControlRequest{}
	if kind.Set && !kind.Null {
		if !kind.Has() || !slices.Contains([]string{"agent_queue", "agent", "e164", "sip_uri"}, kind.Value) {
			return none, badControl(codeBadRequest, "destination_type", "must be one of agent_queue, agent, e164, sip_uri")
		}
		req.DestinationType = kind.Value
	}
	if destination.Set && !destination.Null {
		if !destination.Has() || destination.Value == "" || len(destination.Value) > maxDestination {
			return none, badControl(codeBadRequest, "destination", "must be a string of 1 to 512 characters")
		}
		req.Destination = destination.Value
	}
	return req, nil
}

func badControl(code, field, message string) *apiError {
	return &apiError{
		status: http.StatusBadRequest, code: code, detail: "The control request is not valid: " + field + " " + message + ".",
		fields: []dialer.FieldError{{Field: field, Message: message}},
	}
}

// asBadRequest gives the control endpoint's status to a body that can't be decoded.
func asBadRequest(err error) error {
	var e *apiError
	if errors.As(err, &e) && e.status == http.StatusUnprocessableEntity {
		bad := *e
		bad.status = http.StatusBadRequest
		return &bad
	}
	return err
}

// dispatch hands the verb to the call's actor.
func (s *Server) dispatch(ctx context.Context, r *request, callID uuid.UUID, req switchctl.ControlRequest) (reply, error) {
	result, err := s.deps.Calls.Control(ctx, r.who.tenantID, callID, req)
	if err != nil {
		return reply{}, s.controlError(err)
	}
	if result == nil {
		result = map[string]any{}
	}
	return ok(controlView{OK: true, CallID: callID, DispatchedAt: s.cfg.Now().UTC(), Result: result}), nil
}

// controlError tells a call that is over, whose row the credential has been shown to reach, from one that is not there.
func (s *Server) controlError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &apiError{
			status: http.StatusConflict, code: codeSessionTerminated, detail: "The call has no active AI session.", cause: err,
		}
	}
	return err
}
