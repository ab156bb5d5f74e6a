package switchctl

import (
	"context"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/store"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// transferCommand leads the caller to somebody else for its handler.
type transferCommand struct {
	destinationType, destination string
	reply                        chan<- connectResult
}

func (transferCommand) Name() string    { return VerbTransfer }
func (transferCommand) Essential() bool { return false }
func (m transferCommand) refusedTalk(err error) {
	m.reply <- connectResult{outcome: OutcomeFailed, err: err}
}

func (m transferCommand) result(out Outcome) error {
	m.reply <- connectResult{outcome: out}
	return nil
}

func (l *leg) Transfer(ctx context.Context, destinationType, destination string) (Outcome, error) {
	if err := l.Answer(ctx); err != nil {
		return OutcomeFailed, fmt.Errorf("switchctl: answer the leg: %w", err)
	}
	r, err := rt.Ask(ctx, l.a.box, l.a.done, func(reply chan<- connectResult) message {
		return transferCommand{destinationType: destinationType, destination: destination, reply: reply}
	})
	if err != nil {
		return unanswered(err), err
	}
	return r.outcome, r.err
}

// handlerTransfer dials the second leg for the call's handler. What the gate or the carrier refuses is the outcome failed.
func (a *actor) handlerTransfer(ctx context.Context, m transferCommand) error {
	switch t := a.transfer; {
	case a.killCause != "":
		return ErrCallEnded
	case t != nil && t.handler && t.waiter == nil:
		t.waiter = m.reply // it has outlived a restart of ours
		return nil
	case a.ai.live() || t != nil || a.talking.now != nil || a.human != nil:
		return &StateError{State: a.state.String(), Event: m.Name(), Detail: "the caller is connected with somebody"}
	}
	facts := transferFacts{destinationType: m.destinationType, destination: m.destination}
	t := &transfer{facts: facts, handler: true, waiter: m.reply}
	switch m.destinationType {
	case destinationE164:
		to, err := store.ParsePhone(m.destination)
		if err != nil {
			a.log.InfoContext(ctx, "transfer to what is no number", "error", err)
			return m.result(OutcomeFailed)
		}
		t.to, t.facts.destination = to, to.E164()
	case destinationSIP:
		t.uri = m.destination
	default:
		return &InvalidError{Field: "destination_type", Message: "must be " + destinationE164 + " or " + destinationSIP}
	}
	a.deafen(ctx)
	a.transfer = t
	a.admitTransfer(ctx, nil)
	return nil
}

// handlerBridged: caller and destination hear each other, and the switch records them. When they part, the caller comes back
// to its handler by transfer_after_bridge.
func (a *actor) handlerBridged(ctx context.Context, at time.Time) {
	t := a.transfer
	a.log.InfoContext(ctx, "call is transferred", "destination_type", t.facts.destinationType)
	if a.rec.second != "" {
		return // the switch has recorded the call for some time, and goes on
	}
	path := a.messagePath()
	t.recording = path
	a.recordMono(ctx, path, 0, at, func(err error) {
		if err != nil {
			a.log.ErrorContext(ctx, "recording of the transferred call did not start", "error", err)
		}
	})
}

// handlerTransferOver: the destination has gone, or was never reached. The caller's handler goes on.
func (a *actor) handlerTransferOver(ctx context.Context, out Outcome) {
	t := a.transfer
	a.transfer = nil
	a.registryUnbind(t)
	if t.recording != "" {
		a.command(ctx, jobStopRecord, fs.StopRecording(a.channel, t.recording))
	}
	if t.phase == transferBridged && a.sock == nil {
		a.arm(timerSocket, socketTimeout) // it is on its way through rm_reattach
	}
	if t.media {
		a.switchMediaDone(ctx)
	}
	if t.waiter != nil {
		t.waiter <- connectResult{outcome: out}
		t.waiter = nil
	}
}

func (a *actor) registryUnbind(t *transfer) {
	if t.channel != "" {
		a.c.registry.unbind(t.channel)
	}
}

// stillBridged: a call that was found again is bridged with the second leg that its handler had dialed.
func (a *actor) stillBridged(other string) {
	if t := a.transfer; a.recovered && a.ai == nil && t.pending() && t.channel != "" && t.channel == other {
		t.phase, t.handler = transferBridged, true
	}
}
