package call

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Control runs a verb on a call's AI session. The result is never nil without an error. Errors: store.ErrNotFound,
// [switchctl.ErrSessionTerminated], [*switchctl.StateError], a [*fault.Error], [switchctl.ErrMailboxFull], [switchctl.ErrLinkDown], and those of the gate for a
// transfer.
func (c *Controller) Control(ctx context.Context, tenantID, callID uuid.UUID, req switchctl.ControlRequest) (map[string]any, error) {
	a := c.registry.call(callID)
	if a == nil || a.tenant != tenantID {
		if _, _, err := c.ledger.CallState(ctx, tenantID, callID); err != nil {
			return nil, err
		}
		return nil, switchctl.ErrSessionTerminated
	}
	r, err := rt.Ask(ctx, a.box, a.done, func(reply chan<- controlResult) message { return controlCommand{req: req, reply: reply} })
	if err == nil {
		err = r.err
	}
	return r.result, terminated(a.outlived(err))
}

// terminated is ErrCallEnded as verbs know it.
func terminated(err error) error {
	if errors.Is(err, ledger.ErrCallEnded) {
		return switchctl.ErrSessionTerminated
	}
	return err
}

// errLetGo answers what was asked for of a call that goes on without this controller (503). It is not [switchctl.ErrDraining], after which the same request
// may be made again: it may have been carried out.
var errLetGo error = &fault.Error{
	Kind: fault.Unavailable, Code: "service_unavailable", Detail: "This host stopped before it was known what has come of the request. The call goes on.",
	Text: "switchctl: the controller stops, the call goes on",
}

// outlived is the error of what was asked for from outside: of a call that goes on without this controller it is not said that it is over.
func (k *core) outlived(err error) error {
	if errors.Is(err, ledger.ErrCallEnded) && k.letGo.Load() {
		return errLetGo
	}
	return err
}

// Hangup ends a call with a switch cause. store.ErrNotFound: the tenant has no such call; [ledger.ErrCallEnded]: it is over.
func (c *Controller) Hangup(ctx context.Context, tenantID, callID uuid.UUID, cause string) error {
	return c.hangup(ctx, tenantID, callID, hangupCommand{cause: cause})
}

func (c *Controller) hangup(ctx context.Context, tenantID, callID uuid.UUID, m hangupCommand) error {
	a := c.registry.call(callID)
	if a == nil || a.tenant != tenantID {
		if _, _, err := c.ledger.CallState(ctx, tenantID, callID); err != nil {
			return err
		}
		return ledger.ErrCallEnded
	}
	return a.outlived(a.ask(ctx, func(reply chan<- error) message {
		m.reply = reply
		return m
	}))
}

// AgentHangup ends a call for an agent who is on it: in a conference the agent leaves, and the others talk on; any other call ends. Errors: those of
// Hangup, [*switchctl.StateError] for one who is not in the conference.
func (c *Controller) AgentHangup(ctx context.Context, tenantID, callID, agent uuid.UUID) error {
	return c.hangup(ctx, tenantID, callID, hangupCommand{cause: ledger.CauseNormalClearing, agent: &agent})
}

// verbs are the control verbs of the call's AI session.
type verbs struct {
	*core
	conference *conference
	keypad     *keypad
	monitors   *monitors
	parties    *parties
	rec        *recorder
	sound      *sound
	supervised *supervised
	transfers  *transfers
	voice      *voice
	// early are the verbs that wait for the session.
	early []waitingVerb
	// unwritten are the outcomes that wait to be written.
	unwritten atomic.Int32
}

// control is a verb in a state that may have an AI session.
func (vs *verbs) control(ctx context.Context, m controlCommand) {
	vs.runVerb(ctx, waitingVerb{m: m, due: vs.c.clock.Now().Add(verbLimit)})
}

// runVerb runs one verb and answers it, now or once what it waits for is there.
func (vs *verbs) runVerb(ctx context.Context, w waitingVerb) {
	m := w.m
	v, _ := VerbNamed(m.req.Event)
	if why := vs.waitsFor(v); why != "" {
		vs.verbWaits(w, why)
		return
	}
	later, err := vs.verb(ctx, v, m)
	switch {
	case err != nil:
		vs.c.metrics.rejected.Inc()
		m.reply <- controlResult{err: err}
	case !later:
		m.reply <- controlResult{result: map[string]any{}}
	}
}

// verb acts on one verb, if the call is in a state for it.
func (vs *verbs) verb(ctx context.Context, v Verb, m controlCommand) (later bool, err error) {
	switch ai := vs.voice.ai; {
	case !ai.live(), ai.phase != phaseOpen && !v.whileOpening, vs.killCause != "":
		return false, switchctl.ErrSessionTerminated
	case vs.transfers.now.pending() && !v.duringTransfer:
		return false, &switchctl.StateError{State: vs.state.String(), Event: m.req.Event, Detail: "a transfer is under way"}
	case v.ourAudio && vs.voice.ai.overSIP():
		return false, errNoAudio
	case v.run == nil:
		return false, &switchctl.VerbError{Verb: m.req.Event}
	}
	later, err = v.run(ctx, vs, m)
	if err == nil && !later && v.Insights {
		vs.keepInsights(ctx, m.req.Metadata)
	}
	return later, err
}

// replyCallState reads the call: what the actor knows, and the disposition that others may have set.
func (vs *verbs) replyCallState(ctx context.Context, reply chan<- controlResult) {
	result := map[string]any{
		"state": vs.state.String(), "duration_s": 0, "answered": vs.answerAt != nil,
		"current_participants": vs.participants(), "is_recording": vs.rec.isRecording(),
		"is_muted": map[string]any{"caller": vs.sound.callerMuted, "agent": vs.sound.agentMuted}, "is_held": vs.sound.held,
		"conference_id": vs.conference.shownID(), "disposition": nil,
	}
	if vs.transfers.now.pending() {
		result["state"] = "transferring"
	}
	if vs.answerAt != nil {
		now := vs.c.clock.Now()
		result["duration_s"] = *ledger.DurationSeconds(vs.answerAt, &now)
	}
	vs.beside(func() {
		_, disposition, err := vs.c.ledger.CallState(ctx, vs.tenant, vs.id)
		if err == nil && disposition != nil {
			result["disposition"] = *disposition
		}
		reply <- controlResult{result: result, err: err}
	})
}

// participants are who is on the line, as get_call_state shows them.
func (vs *verbs) participants() []map[string]any {
	var list []map[string]any
	for _, one := range vs.parties.participants() {
		shown := map[string]any{"role": one.role}
		if one.role == roleVoiceAgent {
			shown["voice_agent_id"] = one.voiceAgentID.String()
		}
		if one.destination != "" {
			shown["destination"] = one.destination
		}
		if vs.conference.up() {
			shown["member_id"] = one.memberID
		}
		list = append(list, shown)
	}
	for _, one := range vs.supervised.present(nil) {
		shown := map[string]any{"role": one.Role, "destination": *one.Destination}
		if vs.conference.up() {
			shown["member_id"] = one.MemberID
		}
		list = append(list, shown)
	}
	return list
}

// waitingVerb is a verb that came too early; due is when it is refused.
type waitingVerb struct {
	m   controlCommand
	due time.Time
}

// waitsFor says what a verb has to wait for; empty: nothing. One that changes something waits behind those that came before it.
func (vs *verbs) waitsFor(v Verb) string {
	ai := vs.voice.ai
	switch {
	case !ai.live() || vs.killCause != "" || v.whileOpening:
	case ai.phase == phaseOpening:
		return "the AI session is being opened"
	case ai.phase == phaseOpen && vs.voice.legComes() && (v.needsLeg || len(vs.early) > 0 && !v.NoKey):
		return "the caller does not hear the voice agent now"
	}
	return ""
}

// verbWaits keeps a verb until it is due, when it is refused.
func (vs *verbs) verbWaits(w waitingVerb, why string) {
	now := vs.c.clock.Now()
	if !w.due.After(now) {
		vs.c.metrics.rejected.Inc()
		w.m.reply <- controlResult{err: &switchctl.StateError{State: vs.state.String(), Event: w.m.req.Event, Detail: why}}
		return
	}
	vs.early = append(vs.early, w)
	if len(vs.early) == 1 {
		vs.arm(timerVerbs, w.due.Sub(now))
	}
}

// tryAgain has the verbs that wait looked at again, after what is being done now.
func (vs *verbs) tryAgain() {
	if len(vs.early) > 0 {
		vs.arm(timerVerbs, 0)
	}
}

// runVerbs runs the verbs that have waited, in order: those that can go on, and refuses those that are due.
func (vs *verbs) runVerbs(ctx context.Context) {
	early := vs.early
	vs.early = nil
	vs.disarm(timerVerbs)
	for _, w := range early {
		vs.runVerb(ctx, w)
	}
}

// refuseVerbs: the session that verbs waited for will not be open, or not here.
func (vs *verbs) refuseVerbs(err error) {
	for _, w := range vs.early {
		w.m.reply <- controlResult{err: err}
	}
	vs.early = nil
	vs.disarm(timerVerbs)
}

// errUndecided: neither gate nor queue has answered in time.
var errUndecided = fmt.Errorf("switchctl: nothing was decided within %s: %w", decisionLimit, store.ErrUnavailable)
