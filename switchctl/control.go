package switchctl

import (
	"context"
	"errors"

	"github.com/google/uuid"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
)

// Control runs a verb on a call's AI session. The result is never nil without an error. Errors: store.ErrNotFound,
// [ErrSessionTerminated], [*StateError], [*InvalidError], [ErrMailboxFull], [ErrLinkDown], and those of the gate for a
// transfer.
func (c *Controller) Control(ctx context.Context, tenantID, callID uuid.UUID, req ControlRequest) (map[string]any, error) {
	a := c.registry.call(callID)
	if a == nil || a.tenant != tenantID {
		if _, _, err := c.ledger.CallState(ctx, tenantID, callID); err != nil {
			return nil, err
		}
		return nil, ErrSessionTerminated
	}
	r, err := rt.Ask(ctx, a.box, a.done, func(reply chan<- controlResult) message { return controlCommand{req: req, reply: reply} })
	if err == nil {
		err = r.err
	}
	return r.result, terminated(err)
}

// terminated is ErrCallEnded as verbs know it.
func terminated(err error) error {
	if errors.Is(err, ErrCallEnded) {
		return ErrSessionTerminated
	}
	return err
}

// Hangup ends a call with a switch cause. store.ErrNotFound: the tenant has no such call; [ErrCallEnded]: it is over.
func (c *Controller) Hangup(ctx context.Context, tenantID, callID uuid.UUID, cause string) error {
	a := c.registry.call(callID)
	if a == nil || a.tenant != tenantID {
		if _, _, err := c.ledger.CallState(ctx, tenantID, callID); err != nil {
			return err
		}
		return ErrCallEnded
	}
	return a.ask(ctx, func(reply chan<- error) message { return hangupCommand{cause: cause, reply: reply} })
}

// ask sends a command and waits for its answer.
func (a *actor) ask(ctx context.Context, build func(reply chan<- error) message) error {
	refused, err := rt.Ask(ctx, a.box, a.done, build)
	if err == nil {
		err = refused
	}
	return err
}

// noSession answers a verb on a call without an AI session.
func (a *actor) noSession(controlCommand) error { return ErrSessionTerminated }

// control is a verb in a state that may have an AI session.
func (a *actor) control(ctx context.Context, m controlCommand) (state, error) {
	a.runVerb(ctx, m)
	return a.state, nil
}

// runVerb runs one verb and answers it.
func (a *actor) runVerb(ctx context.Context, m controlCommand) {
	if a.ai != nil && a.ai.phase == phaseOpening && a.killCause == "" && m.req.Event != VerbHangup {
		a.verbWaits(m)
		return
	}
	answered, err := a.verb(ctx, m)
	switch {
	case err != nil:
		a.c.metrics.rejected.Inc()
		m.reply <- controlResult{err: err}
	case !answered:
		m.reply <- controlResult{result: map[string]any{}}
	}
}

// verb acts on one verb. answered: the reply comes later, from elsewhere.
func (a *actor) verb(ctx context.Context, m controlCommand) (answered bool, err error) {
	opening := a.ai.live() && m.req.Event == VerbHangup
	if a.ai == nil || a.ai.phase != phaseOpen && !opening || a.killCause != "" {
		return false, ErrSessionTerminated
	}
	switch m.req.Event {
	case VerbLog:
		a.appendLog(ctx, "log", m.req.Metadata, m.req.Source, m.reply)
		return true, nil
	case VerbGetCallState:
		a.replyCallState(ctx, m.reply)
		return true, nil
	case VerbHangup:
		a.hangupSession(ctx, m.req.Metadata)
		return false, nil
	}
	if a.transfer.pending() {
		return false, &StateError{State: a.state.String(), Event: m.req.Event, Detail: "a transfer is under way"}
	}
	switch m.req.Event {
	case VerbTransfer:
		return true, a.startTransfer(ctx, m.req, m.reply)
	case VerbSendDTMF:
		return true, a.sendDTMF(ctx, m)
	case VerbMonitorStart:
		return true, a.startMonitor(ctx, m.req, m.reply)
	case VerbMonitorStop:
		return false, a.stopMonitor(ctx, m.req)
	case VerbRecordingPause, VerbRecordingResume:
		return false, a.pauseOrResume(ctx, m.req)
	}
	return false, &VerbError{Verb: m.req.Event}
}

// replyCallState reads the call: what the actor knows, and the disposition that others may have set.
func (a *actor) replyCallState(ctx context.Context, reply chan<- controlResult) {
	result := map[string]any{
		"state": a.state.String(), "duration_s": 0, "answered": a.answerAt != nil,
		"current_participants": a.participants(), "is_recording": a.isRecording(),
		"is_muted": map[string]any{"caller": false, "agent": false}, "is_held": false,
		"conference_id": nil, "disposition": nil,
	}
	if a.transfer.pending() {
		result["state"] = "transferring"
	}
	if a.answerAt != nil {
		now := a.c.clock.Now()
		result["duration_s"] = *DurationSeconds(a.answerAt, &now)
	}
	a.beside(func() {
		_, disposition, err := a.c.ledger.CallState(ctx, a.tenant, a.id)
		if err == nil && disposition != nil {
			result["disposition"] = *disposition
		}
		reply <- controlResult{result: result, err: err}
	})
}

// participants are who is on the line.
func (a *actor) participants() []map[string]any {
	list := []map[string]any{{"role": "caller"}}
	if a.ai.live() {
		list = append(list, map[string]any{"role": "voice_agent", "voice_agent_id": a.ai.agent.ID.String()})
	}
	if a.transfer.bridged() {
		list = append(list, map[string]any{"role": "destination", "destination": a.transfer.facts.destination})
	}
	return list
}
