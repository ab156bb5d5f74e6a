package call

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// core is what every part of a call works with: the call's record and state, its channel and socket, its mailbox, timers and journal. Others hold it
// to send the call messages. All fields below the line belong to the actor's goroutine.
type core struct {
	c      *host
	id     uuid.UUID
	tenant uuid.UUID
	// channel is the caller's channel UUID.
	channel string
	box     *rt.Mailbox[message]
	// journal writes the call's changes, in the order in which they were decided.
	journal rt.Serial
	// rate is the call's rate of verbs, over HTTP and the socket.
	rate verbRate
	log  *slog.Logger
	// done is closed when the actor has ended.
	done chan struct{}
	// looking is true while somebody looks for the call's channel: one look at a time.
	looking atomic.Bool
	// letGo: the controller stops, and the call goes on without it. The actor writes it.
	letGo atomic.Bool
	// aliveAt is when the call's channel was last known to be there, in Unix microseconds; 0 before that.
	aliveAt atomic.Int64
	// recordedAt is when the process before us had written audio of the call last, by our clock; the zero time when that isn't known.
	recordedAt time.Time

	// ---
	state   state
	call    db.Call
	timers  *rt.Timers[timerKind]
	inbound bool
	sock    socket
	// answerAt is the answer by our clock. It is set together with call.AnswerTime, which is by the switch's.
	answerAt *time.Time
	// killCause is set once we have decided to end the call.
	killCause string
	// kills counts how often the switch was asked again to end it.
	kills int
	// attempt numbers the originates of the call: a reply to an earlier one is late.
	attempt int
	// codec is the carrier's, as the switch names it; empty before it is known.
	codec string
	// away: the caller's socket is of no use before the switch has brought the caller back from a bridge.
	away bool
	// recovered is true for a call that was found again and whose channel has not been seen yet.
	recovered bool
	// adopted is true for a call that was found again; it doesn't change.
	adopted bool
	// hadAgent is true for a call that was found again and had been with an agent; it doesn't change.
	hadAgent bool
	// inFlow is true for a call that was found again and that its flow had, with no voice agent since; it doesn't change.
	inFlow bool
}

func newCore(c *host, call db.Call, channel string) *core {
	k := &core{
		c: c, id: call.ID, tenant: call.TenantID, channel: channel, box: newMailbox(), call: call,
		log:  c.log.With("call_id", call.ID.String()),
		done: make(chan struct{}), inbound: call.Direction == ledger.DirectionInbound, answerAt: call.AnswerTime,
	}
	k.timers = rt.NewTimers(c.clock, func(kind timerKind, serial uint64) { k.post(timerFired{timer: kind, serial: serial}) })
	return k
}

// post sends a message to the actor itself; one that comes too late is dealt with as refused.
func (k *core) post(m message) {
	if err := k.box.Put(m); err != nil {
		k.refuse(m, err)
	}
}

// refuse deals with a message that came too early or too late.
func (k *core) refuse(m message, err error) {
	if m, ok := m.(refusable); ok {
		m.refused(k, err)
	}
}

// notTaken is the typed error of an event that a state rejects.
func (k *core) notTaken(m message) error {
	return &switchctl.StateError{State: k.state.String(), Event: m.Name()}
}

// arm sets a timer, in place of one of the same kind.
func (k *core) arm(kind timerKind, d time.Duration) { k.timers.Arm(kind, d) }

func (k *core) disarm(kind timerKind) { k.timers.Disarm(kind) }

// ask sends a command and waits for its answer.
func (k *core) ask(ctx context.Context, build func(reply chan<- error) message) error {
	refused, err := rt.Ask(ctx, k.box, k.done, build)
	if err == nil {
		err = refused
	}
	return err
}

func closeQuietly(s socket) {
	if s != nil {
		_ = s.Close() // its reader reports how it ended
	}
}

// afterwards has the actor go on with what has waited for the switch, unless the call ends by now.
type afterwards struct{ then func(ctx context.Context) }

func (afterwards) Name() string    { return "afterwards" }
func (afterwards) Essential() bool { return true }

func (k *core) proceed(ctx context.Context, m afterwards) {
	if k.killCause == "" {
		m.then(ctx)
	}
}
