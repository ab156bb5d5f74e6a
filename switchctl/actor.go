package switchctl

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/db"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
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

// actor runs one call. All fields below the line belong to its goroutine.
type actor struct {
	c      *Controller
	id     uuid.UUID
	tenant uuid.UUID
	// channel is the caller's channel UUID.
	channel string
	box     *rt.Mailbox[message]
	// journal writes the call's changes, in the order in which they were decided.
	journal rt.Serial
	// verbs is the call's rate of verbs, over HTTP and the socket.
	verbs verbRate
	log   *slog.Logger
	// done is closed when the actor has ended.
	done chan struct{}
	// looking is true while somebody looks for the call's channel: one look at a time.
	looking atomic.Bool
	// aliveAt is when the call's channel was last known to be there, in Unix microseconds; 0 before that.
	aliveAt atomic.Int64
	// recordedAt is when the process before us had written audio of the call last, by our clock; the zero time when that isn't known.
	recordedAt time.Time

	// ---
	state  state
	call   db.Call
	timers *rt.Timers[timerKind]

	dial    dialProgress
	inbound bool
	sock    socket
	// answerAt is the answer by our clock. It is set together with call.AnswerTime, which is by the switch's.
	answerAt *time.Time
	// killCause is set once we have decided to end the call.
	killCause string
	waiters   []chan<- error // of Leg.Answer

	// stopHandler ends the context of AnswerHandler.Answered; nil before it runs.
	stopHandler context.CancelCauseFunc
	// handled is true when AnswerHandler.Answered has run for this call, here or before a restart.
	handled bool
	// handler numbers the handlers that the call has had.
	handler int

	// human is the call's agent; humans numbers them. music is what the caller hears meanwhile.
	human  *human
	humans uint64
	music  music
	// away: the caller's socket is of no use before the switch has brought the caller back from a bridge.
	away bool

	ai   *aiSession
	keys callerKeys
	// presses are the digits on their way to the caller.
	presses rt.Serial
	// sessions are all AI sessions that this controller has opened for the call.
	sessions []mediaSession
	transfer *transfer
	// early are the verbs that wait for the session.
	early   []waitingVerb
	rec     recording
	bypass  bypass
	talking talking
	machine machine
	// codec is the carrier's, as the switch names it; empty before it is known.
	codec string
	// taps fork this call's audio; monitors are the calls whose audio this call's AI session has forked.
	taps     []*tap
	monitors map[uuid.UUID]*monitor
	// recovered is true for a call that was found again and whose channel has not been seen yet.
	recovered bool
	// adopted is true for a call that was found again; it doesn't change.
	adopted bool
	// hadAgent is true for a call that was found again and had been with an agent; it doesn't change.
	hadAgent bool
	reattach int // uuid_transfer to rm_reattach without a socket so far

	final finalRecord
}

func (c *Controller) newActor(call db.Call, channel string) *actor {
	a := &actor{
		c: c, id: call.ID, tenant: call.TenantID, channel: channel, box: newMailbox(), call: call,
		log:  c.log.With("call_id", call.ID.String()),
		done: make(chan struct{}), inbound: call.Direction == directionInbound, answerAt: call.AnswerTime,
	}
	a.timers = rt.NewTimers(c.clock, func(kind timerKind, serial uint64) { a.post(timerFired{timer: kind, serial: serial}) })
	return a
}

// run owns the call until its record is committed, or until the controller lets go of it.
func (a *actor) run(ctx context.Context) {
	defer close(a.done)
	defer a.leave(ctx)
	a.awaitVerdict()
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
			a.watchQuiet()
		}
	}
}

// leave ends what the actor has started, in this order: timers, handler, waiting callers, registry.
func (a *actor) leave(ctx context.Context) {
	a.timers.Stop()
	if a.stopHandler != nil {
		a.stopHandler(nil)
	}
	a.answerWaiters(ErrCallEnded)
	if a.human != nil {
		a.human.answer("", ErrCallEnded)
	}
	if a.ai != nil {
		a.ai.answer(OutcomeEnded, ErrCallEnded)
	}
	a.closeTalk()
	a.refuseVerbs()
	a.endLogs(ctx)
	a.c.registry.remove(a)
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
		next, err = a.closing(ctx, m)
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
func (a *actor) refuse(m message, err error) {
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
			a.beside(func() { m.media.Close(media.CloseHangup) })
		}
	case tapMessage:
		m.refused(a, err)
	case talkMessage:
		m.refusedTalk(err)
	case transferAdmitted:
		if m.err == nil {
			a.c.releaseLate(a, m.adm)
		}
	}
}

// post sends a message to the actor itself; one that comes too late is dealt with as refused.
func (a *actor) post(m message) {
	if err := a.box.Put(m); err != nil {
		a.refuse(m, err)
	}
}

// notTaken is the typed error of an event that a state rejects.
func (a *actor) notTaken(m message) error {
	return &StateError{State: a.state.String(), Event: m.Name()}
}

func (a *actor) answerWaiters(err error) {
	for _, w := range a.waiters {
		w <- err
	}
	a.waiters = nil
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
func (a *actor) arm(kind timerKind, d time.Duration) { a.timers.Arm(kind, d) }

func (a *actor) disarm(kind timerKind) { a.timers.Disarm(kind) }
