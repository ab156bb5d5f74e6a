package switchctl

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/db"
)

const (
	directionInbound  = "inbound"
	directionOutbound = "outbound"
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
		return StatusDialing
	case stateRinging:
		return StatusRinging
	case stateAnswered:
		return StatusAnswered
	case stateAgentConnected:
		return StatusAgentConnected
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

func (c *Controller) newActor(call db.Call, channel string) *actor {
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
				a.refuse(m, ErrCallEnded)
				continue
			}
			a.state = a.step(ctx, m)
			a.music.watchQuiet()
		}
	}
}

// leave ends what the actor has started, in this order: timers, handler, waiting callers, registry.
func (a *actor) leave(ctx context.Context) {
	a.timers.Stop()
	if a.handling.stopHandler != nil {
		a.handling.stopHandler(nil)
	}
	a.line.answerWaiters(ErrCallEnded)
	if a.agents.human != nil {
		a.agents.human.answer("", ErrCallEnded)
	}
	if a.voice.ai != nil {
		a.voice.ai.answer(OutcomeEnded, ErrCallEnded)
	}
	a.talking.closeTalk()
	a.verbs.refuseVerbs()
	a.voice.endLogs(ctx)
	a.c.registry.remove(a.core)
	for _, m := range a.box.Close() {
		a.refuse(m, ErrCallEnded)
	}
}

// step gives one message to the state's function. A panic is counted and ends the call, not the process.
func (a *actor) step(ctx context.Context, m message) (next state) {
	defer func() {
		if r := recover(); r != nil {
			a.c.metrics.panics.Inc()
			a.log.ErrorContext(ctx, "panic in a call", "panic", fmt.Sprint(r), "message", m.Name(), "stack", string(debug.Stack()))
			a.refuse(m, &StateError{State: a.state.String(), Event: m.Name(), Detail: "internal error"})
			next = a.state
			if a.killCause == "" {
				a.kill(ctx, CauseTemporaryFailure)
			}
		}
	}()
	if _, ok := m.(besideFailed); ok {
		return a.faultBeside(ctx)
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
	a.log.DebugContext(ctx, "event is not taken", "event", m.Name(), "state", a.state.String(), "error", err)
	a.refuse(m, err)
}

// refuse answers a command with err; other messages have nobody waiting, but may carry what must be closed.
func (k *core) refuse(m message, err error) {
	switch m := m.(type) {
	case hangupCommand:
		m.reply <- err
	case answerCommand:
		m.reply <- err
	case connectCommand:
		m.reply <- connectResult{outcome: OutcomeFailed, err: err}
	case agentCommand:
		m.reply <- agentResult{outcome: AgentUnavailable, err: err}
	case musicCommand:
		m.reply <- err
	case recordCommand:
		m.reply <- err
	case controlCommand:
		m.reply <- controlResult{err: err}
	case socketUp:
		closeQuietly(m.sock)
	case sessionOpened:
		if m.media != nil {
			k.beside(func() { m.media.Close(media.CloseHangup) })
		}
	case tapMessage:
		m.refused(k, err)
	case talkMessage:
		m.refusedTalk(err)
	case transferAdmitted:
		if m.err == nil {
			k.c.releaseLate(k, m.adm)
		}
	}
}

// post sends a message to the actor itself; one that comes too late is dealt with as refused.
func (k *core) post(m message) {
	if err := k.box.Put(m); err != nil {
		k.refuse(m, err)
	}
}

// notTaken is the typed error of an event that a state rejects.
func (k *core) notTaken(m message) error {
	return &StateError{State: k.state.String(), Event: m.Name()}
}

func (l *callerLine) answerWaiters(err error) {
	for _, w := range l.waiters {
		w <- err
	}
	l.waiters = nil
}

func closeQuietly(s socket) {
	if s != nil {
		_ = s.Close() // its reader reports how it ended
	}
}

// timerKind names the timers of a call.
type timerKind int

const (
	// timerOriginate: the originate had to be decided by now.
	timerOriginate timerKind = iota
	// timerRefused: an originate was refused, and its channel's end, if it has one, had to be seen by now.
	timerRefused
	// timerReroute: the channel of the route before had to be gone by now.
	timerReroute
	// timerSocket: an answered call had to have its socket by now.
	timerSocket
	// timerKill: a call that we ended had to be gone by now.
	timerKill
	// timerLeg: the media leg had to be up by now.
	timerLeg
	// timerRefresh: the callback token is due for its successor.
	timerRefresh
	// timerSession: the AI session has reached its limit.
	timerSession
	// timerTransfer: the transfer's second leg had to be decided by now.
	timerTransfer
	// timerBypass: a change of the audio's way had to be done by now.
	timerBypass
	// timerVerdict: machine detection had to say by now who has answered.
	timerVerdict
	// timerTalk: a conversation had to go on by now.
	timerTalk
	// timerTap: a tap's leg is due to be dialed, or had to be up by now.
	timerTap
	// timerMachine: the end of a machine's greeting, or its beep, had to be heard by now.
	timerMachine
	// timerOpening: the ledger had to have the AI session by now.
	timerOpening
	// timerVerbs: a verb has waited long enough for the session.
	timerVerbs
	// timerQuiet: an answered caller has heard nobody for long enough.
	timerQuiet
	// timerAgent: the agent has heard the whisper, or the bridge with the agent had to be there by now.
	timerAgent
)

func (k timerKind) String() string {
	switch k {
	case timerOriginate:
		return "originate"
	case timerRefused:
		return "refused"
	case timerReroute:
		return "reroute"
	case timerSocket:
		return "socket"
	case timerKill:
		return "kill"
	case timerLeg:
		return "leg"
	case timerRefresh:
		return "token_refresh"
	case timerSession:
		return "session_limit"
	case timerTransfer:
		return "transfer"
	case timerBypass:
		return "bypass"
	case timerVerdict:
		return "verdict"
	case timerTap:
		return "tap"
	case timerAgent:
		return "agent"
	case timerTalk:
		return "talk"
	case timerMachine:
		return "machine"
	case timerOpening:
		return "opening"
	case timerVerbs:
		return "verbs"
	case timerQuiet:
		return "quiet"
	}
	return "unknown"
}

// arm sets a timer, in place of one of the same kind.
func (k *core) arm(kind timerKind, d time.Duration) { k.timers.Arm(kind, d) }

func (k *core) disarm(kind timerKind) { k.timers.Disarm(kind) }
