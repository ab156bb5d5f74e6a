package call

import (
	"context"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// transferCommand leads the caller to somebody else for its handler.
type transferCommand struct {
	destinationType, destination string
	reply                        chan<- connectResult
}

func (transferCommand) Name() string    { return VerbTransfer }
func (transferCommand) Essential() bool { return false }

func (m transferCommand) refused(_ *core, err error) {
	m.reply <- connectResult{outcome: switchctl.OutcomeFailed, err: err}
}

func (m transferCommand) result(out switchctl.Outcome) error {
	m.reply <- connectResult{outcome: out}
	return nil
}

func (l *leg) Transfer(ctx context.Context, destinationType, destination string) (switchctl.Outcome, error) {
	if err := l.Answer(ctx); err != nil {
		return switchctl.OutcomeFailed, fmt.Errorf("switchctl: answer the leg: %w", err)
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
func (x *transfers) handlerTransfer(ctx context.Context, m transferCommand) error {
	if t := x.now; t != nil && t.handler && t.waiter == nil && x.killCause == "" && x.parties.machine.grip() < gripConnected {
		t.waiter = m.reply // it has outlived a restart of ours
		return nil
	}
	if over := x.over; over != nil && x.killCause == "" {
		x.over = nil
		return m.result(*over)
	}
	if err := x.parties.refuse(forDestination, m.Name()); err != nil {
		return err
	}
	facts := ledger.TransferFacts{DestinationType: m.destinationType, Destination: m.destination}
	t := &transfer{facts: facts, handler: true, waiter: m.reply}
	switch m.destinationType {
	case switchctl.DestinationE164:
		to, err := store.ParsePhone(m.destination)
		if err != nil {
			x.log.InfoContext(ctx, "invalid transfer number", "error", err)
			m.reply <- connectResult{outcome: switchctl.OutcomeFailed, err: &switchctl.UnreachedError{Cause: failureCause(err)}}
			return nil
		}
		t.to, t.facts.Destination = to, to.E164()
	case switchctl.DestinationSIP:
		t.uri = m.destination
	default:
		return switchctl.InvalidControl("destination_type", "must be "+switchctl.DestinationE164+" or "+switchctl.DestinationSIP)
	}
	x.talking.stopDigits(ctx)
	x.now = t
	x.admitTransfer(ctx, nil)
	return nil
}

// handlerBridged: caller and destination hear each other, and the switch records them. When they part, the caller comes back
// to its handler by transfer_after_bridge. ours is when that was, by our clock.
func (x *transfers) handlerBridged(ctx context.Context, ours time.Time) {
	t := x.now
	x.log.InfoContext(ctx, "call is transferred", "destination_type", t.facts.DestinationType)
	if x.rec.second != "" {
		return // the switch has recorded the call for some time, and goes on
	}
	path := x.rec.messagePath()
	t.recording = path
	x.rec.recordMono(ctx, path, 0, ours, func(err error) {
		if err != nil {
			x.log.ErrorContext(ctx, "recording the transferred call failed", "error", err)
		}
	})
}

// handlerTransferOver: the destination has gone, or was never reached, and then why says so. The caller's handler goes on.
func (x *transfers) handlerTransferOver(ctx context.Context, out switchctl.Outcome, why error) {
	t := x.now
	x.now = nil
	if t.channel != "" {
		x.c.registry.unbind(t.channel)
	}
	if t.recording != "" {
		x.rec.stop(ctx, t.recording)
	}
	if t.phase == transferBridged && x.sock == nil {
		x.arm(timerSocket, socketTimeout) // it is on its way through rm_reattach
	}
	if t.phase == transferBridged && x.call.AgentID != nil {
		x.line.agents.gaveBack = true
	}
	if t.media {
		x.bypass.switchMediaDone(ctx)
	}
	if t.waiter == nil {
		x.over = &out
		return
	}
	t.waiter <- connectResult{outcome: out, err: why}
	t.waiter = nil
}
