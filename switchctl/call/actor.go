package call

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// state of a call, as its actor runs it.
type state int

const (
	stateDialing state = iota
	stateRinging
	stateAnswered
	stateAgentConnected
	// stateClosing is completed or failed, while the final record is being committed.
	stateClosing
	stateDone
)

func (s state) String() string {
	switch s {
	case stateDialing:
		return ledger.StatusDialing
	case stateRinging:
		return ledger.StatusRinging
	case stateAnswered:
		return ledger.StatusAnswered
	case stateAgentConnected:
		return ledger.StatusAgentConnected
	case stateClosing:
		return "closing"
	case stateDone:
		return "closed"
	}
	return "unknown"
}

// actor runs one call: it reads the mailbox and gives each message to the part of the call whose it is. Its goroutine owns all of them.
type actor struct {
	*core
	parts
}

func (c *host) newActor(call db.Call, channel string) *actor {
	k := newCore(c, call, channel)
	return &actor{core: k, parts: newParts(k)}
}

// run owns the call until its record is committed, or until the controller lets go of it.
func (a *actor) run(ctx context.Context) {
	defer close(a.done)
	defer a.leave(ctx)
	a.machine.awaitVerdict()
	for a.state != stateDone {
		batch, ok := a.box.Next(ctx)
		if !ok {
			return
		}
		for _, m := range batch {
			if a.state == stateDone {
				a.refuse(m, ledger.ErrCallEnded)
				continue
			}
			a.state = a.step(ctx, m)
			a.music.watchQuiet()
			a.transfers.ringOrNot()
			a.watchOutsiders()
		}
	}
}

// leave ends what the actor has started, in this order: timers, handler, waiting callers, registry.
func (a *actor) leave(ctx context.Context) {
	late := ledger.ErrCallEnded
	if a.letGo.Load() {
		late = switchctl.ErrDraining // nothing has been done
	}
	a.timers.Stop()
	if a.handling.stopHandler != nil {
		a.handling.stopHandler(nil)
	}
	a.line.answerWaiters(ledger.ErrCallEnded)
	if a.agents.human != nil {
		a.agents.human.answer("", ledger.ErrCallEnded)
	}
	if a.voice.ai != nil {
		a.voice.ai.answer(switchctl.OutcomeEnded, ledger.ErrCallEnded)
	}
	a.conference.letGo()
	a.transfers.now.tell(controlResult{err: ledger.ErrCallEnded})
	a.monitors.letGo()
	a.talking.closeTalk()
	a.verbs.refuseVerbs(late)
	a.voice.endLogs(ctx)
	a.c.registry.remove(a.core)
	for _, m := range a.box.Close() {
		a.refuse(m, late)
	}
}

// step gives one message to the state's function. A panic is counted and ends the call, not the process.
func (a *actor) step(ctx context.Context, m message) (next state) {
	defer func() {
		if r := recover(); r != nil {
			a.c.metrics.panics.Inc()
			a.log.ErrorContext(ctx, "panic in a call", "panic", fmt.Sprint(r), "message", m.Name(), "stack", string(debug.Stack()))
			a.refuse(m, &switchctl.StateError{State: a.state.String(), Event: m.Name(), Detail: "internal error"})
			next = a.state
			if a.killCause == "" {
				a.kill(ctx, ledger.CauseTemporaryFailure)
			}
		}
	}()
	if _, ok := m.(besideFailed); ok {
		return a.endAfterFault(ctx)
	}
	a.signs(m)
	var err error
	switch a.state {
	case stateDialing, stateRinging:
		next, err = a.unanswered(ctx, m)
	case stateAnswered, stateAgentConnected:
		next, err = a.up(ctx, m)
	case stateClosing:
		next, err = a.ending.closing(ctx, m)
	case stateDone:
		return stateDone
	}
	if err != nil {
		a.reject(ctx, m, err)
	}
	return next
}

// reject tells whoever waits for m that the state did not take it.
func (a *actor) reject(ctx context.Context, m message, err error) {
	a.c.metrics.rejected.Inc()
	a.log.DebugContext(ctx, "event ignored in this state", "event", m.Name(), "state", a.state.String(), "error", err)
	a.refuse(m, err)
}

// release leaves the call up: the controller stops, the call outlives it.
func (a *actor) release(ctx context.Context) (state, error) {
	a.letGo.Store(true)
	a.taps.endTaps(ctx, media.CloseShutdown)
	a.voice.shutdown(ctx)
	if s := a.sock; s != nil {
		a.sock = nil
		a.beside(func() { closeQuietly(s) })
	}
	a.log.InfoContext(ctx, "controller stops, the call stays up on the switch")
	return stateDone, nil
}

// jobReply is the switch's reply to a command of the call.
func (a *actor) jobReply(ctx context.Context, m jobDone) (state, error) {
	switch m.job {
	case jobOriginate:
		return a.dial.originateReply(ctx, m), nil
	case jobTransferOriginate, jobTransferBridge:
		return a.transfers.transferReply(ctx, m)
	case jobKill:
		if refusedJob(m) != "" {
			a.probe(ctx) // there is no such channel: how did it end?
		}
	case jobReattach:
		if reason := refusedJob(m); reason != "" {
			a.log.WarnContext(ctx, "reattaching the call failed", "reply", reason)
			a.probe(ctx)
		}
	case jobBypass:
		a.bypass.bypassReply(ctx, m)
	case jobMediaBack:
		a.bypass.mediaBackReply(ctx, m)
	case jobAgentBridge:
		a.agents.agentBridgeReply(ctx, m)
	case jobConference:
		a.conference.conferenceReply(ctx, m)
	case jobMediaOriginate:
		return a.voice.originateReply(ctx, m)
	case jobConferenceMute:
		a.conference.muted(ctx, m)
	case jobConferenceMember:
		if reason := refusedJob(m); reason != "" {
			a.log.WarnContext(ctx, "command on a conference's member failed", "reply", reason)
		}
	case jobKillLeg, jobReneg:
		// A leg that was gone already is what was wanted; how a re-INVITE goes is seen by what follows.
	}
	return a.state, nil
}
