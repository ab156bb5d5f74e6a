package call

import (
	"context"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// unanswered: the call is admitted. In stateDialing its channel may exist or not, and an inbound call stays there until it is answered; in
// stateRinging the callee's phone rings.
func (a *actor) unanswered(ctx context.Context, m message) (state, error) {
	switch m := m.(type) {
	case begin:
		return a.dial.startDialing(ctx), nil
	case channelEvent:
		return a.unansweredEvent(ctx, m)
	case jobDone:
		return a.jobReply(ctx, m)
	case socketUp:
		return a.line.socketAttached(ctx, m)
	case socketDown:
		return a.line.socketLost(m)
	case channelFound:
		return a.line.channelLives(ctx, m)
	case channelGone:
		return a.line.channelVanished(ctx, m)
	case timerFired:
		return a.unansweredTimer(ctx, m)
	case routeChosen:
		return a.dial.routeFound(ctx, m)
	case hangupCommand:
		return a.ending.hangupLeg(ctx, m)
	case answerCommand:
		return a.line.answerLeg(ctx, m)
	case recordCommand:
		return a.rec.recordFlow(ctx, m)
	case handlerDone:
		return a.handling.handlerReturned(ctx, m)
	case controlCommand:
		return a.state, switchctl.ErrSessionTerminated
	case takeCommand:
		return a.state, a.conflict(m.Name(), "The call has not been answered.")
	case detach:
		return a.release(ctx)
	}
	return a.state, a.notTaken(m)
}

// unansweredEvent is a channel's event before answer. Events of a channel of a route that has failed are over.
func (a *actor) unansweredEvent(ctx context.Context, m channelEvent) (state, error) {
	if m.role != roleCaller {
		return a.state, a.notTaken(m)
	}
	if a.dial.isSpent(m.ev) {
		if m.ev.Name() == fs.ChannelDestroy && a.dial.rerouting {
			return a.dial.nextRoute(ctx), nil
		}
		return a.state, nil
	}
	a.dial.seen, a.recovered = true, false
	a.bypass.codecOf(m.ev)
	switch m.ev.Name() {
	case fs.ChannelCreate:
		if a.killCause != "" {
			a.sendKill(ctx) // it was asked for before the channel existed
		}
	case fs.ChannelProgress, fs.ChannelProgressMedia:
		return a.dial.rings(ctx, fs.EventTime(m.ev, "Caller-Channel-Progress-Time", "Caller-Channel-Progress-Media-Time")), nil
	case fs.ChannelAnswer:
		a.keypad.noteKeys(m.ev)
		at := fs.EventTime(m.ev, "Caller-Channel-Answered-Time")
		return a.dial.answers(ctx, at, a.c.sight.Ours(at)), nil
	case fs.ChannelHangupComplete:
		return a.dial.ended(ctx, m.ev), nil
	case fs.ChannelDestroy:
		a.arm(timerOriginate, 0) // without HANGUP_COMPLETE: ask the switch, and its records
	default:
		return a.state, a.notTaken(m)
	}
	return a.state, nil
}

// unansweredTimer asks the switch what has become of a call that should have been decided.
func (a *actor) unansweredTimer(ctx context.Context, m timerFired) (state, error) {
	if !a.timers.Due(m.timer, m.serial) {
		return a.state, nil
	}
	switch m.timer {
	case timerOriginate:
		a.arm(timerOriginate, probeEvery)
		a.probe(ctx)
	case timerRefused:
		return a.dial.refusedWithoutChannel(ctx), nil
	case timerReroute:
		return a.dial.nextRoute(ctx), nil
	case timerKill:
		a.ending.killAgain(ctx)
	case timerSocket:
		a.line.answerDue(ctx)
	case timerLeg, timerRefresh, timerSession, timerTransfer, timerVerdict, timerBypass, timerTap, timerAgent, timerTalk, timerMachine, timerOpening, timerVerbs,
		timerQuiet, timerConference:
		return a.state, a.notTaken(m)
	}
	return a.state, nil
}
