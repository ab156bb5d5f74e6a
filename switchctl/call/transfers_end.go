package call

import (
	"context"
	"errors"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// How a transfer ends that doesn't stand, and what the voice agent is told of it.

// transferLegEnded: the second leg is gone.
func (x *transfers) transferLegEnded(ctx context.Context, rec ledger.FinalRecord) (state, error) {
	t := x.now
	switch t.phase {
	case transferAdmitting:
	case transferDialing:
		if rec.FailsOver() && t.route+1 < len(t.adm.Routes) && x.killCause == "" {
			x.c.registry.unbind(t.channel)
			t.channel, t.failed = "", rec.Cause
			x.dial.chooseRoute(ctx, t.adm.UnitID, t.adm, nil, t.adm.Routes[t.route+1:])
			return x.state, nil
		}
		x.failTransfer(ctx, rec.Cause)
	case transferAnswered:
		x.failTransfer(ctx, rec.Cause) // whoever answered doesn't want the caller
	case transferBridging:
		x.unbridge(ctx, rec.Cause)
	case transferBridged:
		unit := t.adm.UnitID
		x.record(ctx, "transfer unit", func(ctx context.Context) error {
			return x.c.ledger.ReleaseUnit(ctx, x.tenant, unit)
		}, nil)
		switch {
		case x.killCause != "":
		case t.handler:
			x.handlerTransferOver(ctx, switchctl.OutcomeEnded, nil)
		default:
			x.kill(ctx, ledger.CauseNormalClearing)
		}
	}
	return x.state, nil
}

// unbridge gives up a bridge that did not come about: the caller goes back to the AI.
func (x *transfers) unbridge(ctx context.Context, cause string) {
	handler := x.now.handler
	x.endTransfer(ctx, cause)
	if handler {
		return // its variables are as they were
	}
	x.endAsBefore(ctx, x.afterTransfer)
	if x.voice.ai.live() && !x.voice.ai.legUp {
		x.arm(timerLeg, legRetry)
	}
}

// endAsBefore has the end of a bridge bring the caller to us again, as before bridgeTransfer; then runs on the actor's goroutine, once it does. Until
// there is a link to the switch nothing is to end the caller's bridge: they would be hung up.
func (x *transfers) endAsBefore(ctx context.Context, then func(ctx context.Context)) {
	asBefore := fs.Script{fs.Try(fs.SetVars(x.channel, fs.Var{Name: varHangupAfter, Value: "false"},
		fs.Var{Name: varAfterBridge, Value: fs.AfterBridge(reattachExtension, x.c.cfg.Context)}, fs.Var{Name: varTransfer}))}
	x.inTurn(&x.ends, func() {
		if x.c.insist(ctx, asBefore) { // else the process after us sees varTransfer
			x.post(afterwards{then: then})
		}
	})
}

// onceAsBefore runs then on the actor's goroutine, once the end of a bridge brings the caller to us whatever transfer there was before.
func (x *transfers) onceAsBefore(then func(ctx context.Context)) {
	x.inTurn(&x.ends, func() { x.post(afterwards{then: then}) })
}

// found puts back what the process before has set for a bridge that did not come about: to is where it was to lead the caller, as the channel keeps it.
func (x *transfers) found(ctx context.Context, to string) {
	if to != "" && !x.now.bridged() {
		x.endAsBefore(ctx, func(context.Context) {})
	}
}

// failTransfer ends a transfer that did not come about; the session goes on, if it can.
func (x *transfers) failTransfer(ctx context.Context, cause string) {
	x.endTransfer(ctx, cause)
	x.afterTransfer(ctx)
}

func (x *transfers) endTransfer(ctx context.Context, cause string) {
	t := x.now
	x.disarm(timerTransfer)
	x.log.InfoContext(ctx, "transfer failed", "destination_type", t.facts.DestinationType, "cause", cause)
	if t.handler {
		x.dropTransferLeg(ctx, t)
		x.handlerTransferOver(ctx, switchctl.OutcomeFailed, &switchctl.UnreachedError{Cause: cause})
		return
	}
	x.now = nil
	t.tell(controlResult{err: &switchctl.StateError{State: x.state.String(), Event: VerbTransfer, Detail: cause}})
	x.dropTransferLeg(ctx, t)
	x.refers.failed(ctx, t.referral, cause, nil)
	if !t.refused {
		x.transferFailed(ctx, switchctl.ControlRequest{DestinationType: t.facts.DestinationType, Destination: t.facts.Destination}, cause)
	}
	if t.media {
		x.bypass.switchMediaDone(ctx)
		return
	}
	x.bypass.considerBypass(ctx)
}

// abandon gives up a transfer that does not stand yet, and tells whoever waits for it why.
func (x *transfers) abandon(ctx context.Context, why error) {
	if x.now.pending() {
		x.replace(ctx, why, nil, func(context.Context) {})
	}
}

// replace has another transfer, or none, in place of one that does not stand yet. The verb that asked for that one is told why, and the sender of the REFER
// that did; then runs on the actor's goroutine once it was: the sender's leg may end next.
func (x *transfers) replace(ctx context.Context, why error, next *transfer, then func(ctx context.Context)) {
	t := x.now
	x.now = next
	if t == nil {
		then(ctx)
		return
	}
	t.tell(controlResult{err: why})
	x.dropTransferLeg(ctx, t)
	if t.bridging() && !t.handler {
		x.endAsBefore(ctx, func(context.Context) {})
	}
	if t.referral == nil {
		then(ctx)
		return
	}
	x.refers.failed(ctx, t.referral, failureCause(why), then)
}

// dropTransferLeg ends the second leg, if there is one, and gives its unit back.
func (x *transfers) dropTransferLeg(ctx context.Context, t *transfer) {
	if t == nil || t.phase == transferAdmitting {
		return
	}
	if t.channel != "" {
		x.c.registry.unbind(t.channel)
		x.command(ctx, jobKillLeg, fs.Kill(t.channel, ledger.CauseNormalClearing))
	}
	unit := t.adm.UnitID
	x.record(ctx, "transfer unit", func(ctx context.Context) error {
		return x.c.ledger.ReleaseUnit(ctx, x.tenant, unit)
	}, nil)
}

// transferFailed tells the AI.
func (x *transfers) transferFailed(ctx context.Context, req switchctl.ControlRequest, cause string) {
	if x.voice.ai == nil || x.voice.ai.media == nil || x.voice.ai.socketGone {
		return
	}
	err := x.voice.ai.media.SendText("transfer_failed", map[string]any{
		"destination_type": req.DestinationType, "destination": req.Destination, "cause": cause,
	})
	if err != nil {
		x.log.WarnContext(ctx, "sending transfer_failed failed", "error", err)
	}
}

// failureCause names why a transfer was refused.
func failureCause(err error) string {
	var conflict *switchctl.StateError
	var rate *VerbRateError
	_, invalid := fault.As(err, fault.Invalid)
	switch {
	case errors.As(err, &rate):
		return "RATE_LIMITED"
	case errors.Is(err, switchctl.ErrNobodyLoggedIn):
		return "no_agent_available"
	case errors.Is(err, switchctl.ErrUnknownExtension):
		return ledger.CauseUnallocated
	case invalid && !errors.Is(err, store.ErrValue):
		return "INVALID_NUMBER_FORMAT"
	case errors.As(err, &conflict) && conflict.Code != "":
		return conflict.Code
	case errors.As(err, &conflict):
		return "INVALID_STATE"
	case errors.Is(err, switchctl.ErrSessionTerminated):
		return "AISessionTerminated"
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return ledger.CauseTemporaryFailure
	}
	return "OUTGOING_CALL_BARRED"
}
