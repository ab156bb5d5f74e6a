package switchctl

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// kill decides that the call ends, with a cause, and asks the switch for it.
func (a *actor) kill(ctx context.Context, cause string) {
	if a.killCause == "" {
		a.killCause = cause
	}
	a.sendKill(ctx)
}

// sendKill asks over the host link; the caller's own socket is the second way.
func (a *actor) sendKill(ctx context.Context) {
	a.arm(timerKill, killTimeout)
	if a.c.link.Generation() == 0 && a.sock != nil {
		sock, cause := a.sock, a.killCause
		a.beside(func() {
			if err := sock.Execute(ctx, esl.ExecuteRequest{App: "hangup", Arg: cause}); err != nil {
				a.log.WarnContext(ctx, "hangup could not be sent", "error", err)
			}
		})
		return
	}
	a.command(ctx, jobKill, fs.Kill(a.channel, a.killCause))
}

// killAgain: the call had to be gone by now. While there is no link, resynchronising does it.
func (a *actor) killAgain(ctx context.Context) {
	if a.killCause == "" {
		return
	}
	a.closeMedia()
	if a.c.link.Generation() == 0 {
		a.arm(timerKill, killTimeout)
		return
	}
	a.sendKill(ctx)
}

// hangupLeg is Leg.Hangup and Controller.Hangup.
func (a *actor) hangupLeg(ctx context.Context, m hangupCommand) (state, error) {
	if a.killCause == "" {
		a.kill(ctx, m.cause)
	}
	m.reply <- nil
	return a.state, nil
}

// answerLeg answers an inbound leg; the waiter is told when the switch has done it.
func (a *actor) answerLeg(ctx context.Context, m answerCommand) (state, error) {
	switch {
	case !a.inbound || a.killCause != "":
		return a.state, a.notTaken(m)
	case a.sock == nil:
		return a.state, &StateError{State: a.state.String(), Event: m.Name(), Detail: "the leg has no socket"}
	}
	a.waiters = append(a.waiters, m.reply)
	a.execute(ctx, esl.ExecuteRequest{App: "answer"})
	return a.state, nil
}

// execute runs an application on the caller's channel without waiting for it.
func (a *actor) execute(ctx context.Context, req esl.ExecuteRequest) {
	sock := a.sock
	a.beside(func() {
		if err := sock.Execute(ctx, req); err != nil {
			a.log.WarnContext(ctx, "application could not be sent", "app", req.App, "error", err)
			if req.App == "bridge" {
				a.post(bridgeFailed{err: err})
			}
		}
	})
}

// socketAttached takes a new outbound socket: the first one, or the one after a transfer to rm_reattach. The older one
// is closed first, since closing it later could end the newer one's park.
func (a *actor) socketAttached(ctx context.Context, m socketUp) (state, error) {
	if a.sock != nil && a.sock != m.sock {
		closeQuietly(a.sock)
	}
	a.sock = m.sock
	a.noteKeys(m.ev)
	found := a.recovered
	if found {
		a.rec.paused = m.ev.Var(varPaused) == "true"
	}
	a.recovered = false
	if found && a.hadAgent {
		found, a.recovered = false, true // a look tells whether the agent has ended the call while we were away
		a.probe(ctx)
	}
	a.reattach = 0
	a.away = false
	a.music.playing = false
	a.dial.seen = true
	a.codecOf(m.ev)
	a.disarm(timerSocket)
	if a.recovered {
		a.arm(timerSocket, socketTimeout) // the look may fail
	}
	next := a.state
	if next == stateDialing || next == stateRinging {
		if at := m.ev.Micros("Caller-Channel-Answered-Time"); !at.IsZero() || !a.inbound {
			if at.IsZero() {
				at = eventTime(m.ev)
			}
			next = a.answers(ctx, at, a.c.sight.ours(at))
		} else {
			a.startHandler(ctx)
		}
	}
	if a.killCause != "" {
		a.sendKill(ctx)
		return next, nil
	}
	if found {
		a.resume(ctx, next)
	}
	a.bypassReset(ctx)
	if a.talking.now != nil {
		a.startTalk(ctx)
	}
	if s := a.ai; s != nil {
		s.bridging = false
		s.legDown(a.c.clock.Now())
		a.tryBridge(ctx)
	}
	a.tryAgent(ctx)
	a.playMessage(ctx)
	a.playMusic(ctx) // unless the agent is there: what is asked for before a bridge would be heard in it
	return next, nil
}

// socketLost: the switch closed the socket, because the channel is down or went to another extension, or we did.
func (a *actor) socketLost(m socketDown) (state, error) {
	if a.sock != m.sock {
		return a.state, nil
	}
	a.sock = nil
	a.music.playing = false
	if a.steered() {
		return a.state, nil
	}
	a.arm(timerSocket, socketTimeout)
	return a.state, nil
}

// socketDue: an answered call is without a socket for too long. It is sent to the extension that calls us again.
func (a *actor) socketDue(ctx context.Context) {
	if (a.sock != nil && !a.away && !a.recovered) || a.killCause != "" || a.steered() {
		return
	}
	a.arm(timerSocket, socketTimeout)
	a.probe(ctx) // the channel, when it lives, is taken back
}

// takeBack transfers the caller to rm_reattach. other is the leg that it is bridged with, to a media endpoint that is
// gone: while the switch waits for packets from there it would not follow, so that leg is ended. A caller who was left in
// bypass is told first to come with its media.
func (a *actor) takeBack(ctx context.Context, other string, bypassed bool) {
	a.arm(timerSocket, socketTimeout)
	if a.c.link.Generation() == 0 {
		return // resynchronising does it
	}
	a.reattach++
	if a.reattach > maxReattach {
		a.log.ErrorContext(ctx, "call stays without its socket, hanging up", "tries", maxReattach)
		a.kill(ctx, CauseTemporaryFailure)
		return
	}
	transfer, link, attempt := fs.Transfer(a.channel, reattachExtension, a.c.cfg.Context), a.c.link, a.dial.attempt
	channel := a.channel
	a.beside(func() {
		if bypassed {
			if _, err := link.API(ctx, fs.SetVar(channel, "bypass_media", "false")); err != nil {
				a.log.WarnContext(ctx, "the caller's media could not be asked back", "error", err)
			}
		}
		body, err := link.API(ctx, transfer)
		a.post(jobDone{job: jobReattach, attempt: attempt, body: body, err: err})
		if err == nil && other != "" {
			if err := a.c.killChannel(ctx, other); err != nil {
				a.log.WarnContext(ctx, "the caller's other leg could not be ended", "error", err)
			}
		}
	})
}

// probe looks at the switch for the caller's channel; the answer is channelFound or channelGone.
func (a *actor) probe(ctx context.Context) {
	a.beside(func() {
		if follow, err := a.c.look(ctx, a, ""); err == nil && follow != nil {
			follow()
		}
	})
}

// channelLives: the switch has the caller's channel.
func (a *actor) channelLives(ctx context.Context, m channelFound) (state, error) {
	a.dial.seen = true
	found := a.recovered
	if found {
		a.rec.paused = m.paused
	}
	if a.ahead() == 0 && m.ahead != 0 && a.answerAt != nil && len(a.sessions) == 0 { // what was recorded has its place
		ours := a.answerAt.Add(m.ahead)
		a.answerAt = &ours
	}
	a.stillBridged(m.other)
	a.recovered = false
	if a.killCause != "" {
		a.sendKill(ctx)
		return a.state, nil
	}
	next := a.state
	if !m.answered {
		if a.dial.generation == 0 && !a.inbound {
			a.arm(timerOriginate, probeEvery)
		}
		return next, nil
	}
	if next == stateDialing || next == stateRinging {
		at := m.answeredAt
		if at.IsZero() {
			at = a.c.clock.Now().UTC().Add(-m.ahead)
		}
		next = a.answers(ctx, at, at.Add(m.ahead))
	}
	if found && a.transfer.bridged() && a.transfer.handler {
		a.startHandler(ctx)
	}
	if a.transfer.bridged() || a.transfer.bridging() {
		return next, nil
	}
	if a.adoptAgent(ctx, m.other) {
		return stateAgentConnected, nil
	}
	if found && m.left {
		a.noteServed(ctx, &served{agent: a.call.AgentID, at: m.bridgedAt}, a.call.AnswerTime)
		a.kill(ctx, CauseNormalClearing) // the agent has ended the call while we were away
		return next, nil
	}
	if found {
		a.resume(ctx, next)
		a.playMusic(ctx)
	}
	if a.bridgedWithAI() && (m.bypassed || m.other == a.ai.leg) {
		a.leaveSocket() // a link that was lost is back
		return next, nil
	}
	if (a.sock == nil || a.away) && a.killCause == "" {
		a.takeBack(ctx, m.other, m.bypassed)
	}
	return next, nil
}

// channelVanished: the switch has no such channel. Its record closes the call; without one the call was lost, or never
// begun.
func (a *actor) channelVanished(ctx context.Context, m channelGone) (state, error) {
	if m.record != nil && !a.dial.rerouting {
		a.c.metrics.recovered.WithLabelValues("closed").Inc()
		a.noteServed(ctx, m.served, m.record.AnswerTime)
		return a.endedWith(ctx, *m.record, ""), nil
	}
	if a.dial.rerouting {
		return a.state, nil
	}
	if a.dial.generation != 0 && a.dial.generation == m.generation && !a.dial.seen && a.dial.misses < maxMisses {
		a.dial.misses++
		return a.state, nil // the originate is on its way over this very connection
	}
	cause := CauseCrash
	if !a.dial.seen && a.answerAt == nil && a.state == stateDialing {
		cause = CauseNetworkOutOfOrder
		a.c.metrics.recovered.WithLabelValues("never_begun").Inc()
	} else {
		a.c.metrics.recovered.WithLabelValues("closed").Inc()
	}
	a.log.WarnContext(ctx, "switch knows nothing of the call", "hangup_cause", cause, "switch_restarted", m.restarted)
	return a.beginClose(ctx, lostRecord(cause, a.livedUntil(m.switchSeen), a.call.AnswerTime)), nil
}

// startHandler runs AnswerHandler.Answered beside the actor, once.
func (a *actor) startHandler(ctx context.Context) {
	if a.handled || a.killCause != "" {
		return
	}
	a.handled = true
	a.runBeside(ctx, func(ctx context.Context, l *leg) error { return a.c.handler.Answered(ctx, l) })
}

// runBeside runs a handler's operation beside the actor; there is one at a time.
func (a *actor) runBeside(ctx context.Context, handle func(ctx context.Context, l *leg) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	a.stopHandler = cancel
	a.handler++
	l := &leg{a: a, call: a.call, handler: a.handler}
	a.beside(func() {
		defer cancel(nil)
		err := a.c.runHandler(ctx, l, handle)
		a.post(handlerDone{serial: l.handler, err: err})
	})
}

// handlerReturned: nobody steers the call any more. Without a voice agent on it, it ends.
func (a *actor) handlerReturned(ctx context.Context, m handlerDone) (state, error) {
	if m.serial != a.handler {
		return a.state, nil // its call was handed over
	}
	if m.err != nil && a.killCause == "" {
		a.log.ErrorContext(ctx, "handling the call failed", "error", m.err)
	}
	if a.ai.live() || a.transfer.bridged() || a.human.bridged() || a.killCause != "" {
		return a.state, nil
	}
	cause := CauseNormalClearing
	if m.err != nil {
		cause = handlerCause(m.err)
	}
	a.kill(ctx, cause)
	return a.state, nil
}

// release leaves the call up: the controller stops, the call outlives it.
func (a *actor) release(ctx context.Context) (state, error) {
	a.endTaps(ctx, media.CloseShutdown)
	if a.ai != nil {
		a.ai.shutdown(a)
		a.keepQuality(ctx)
	}
	if s := a.sock; s != nil {
		a.sock = nil
		a.beside(func() { closeQuietly(s) })
	}
	a.log.InfoContext(ctx, "call is left to the switch")
	return stateDone, nil
}

// callRecordTimeout bounds how long a look at the switch waits for a call record. A switch that waits for packets of the
// call's other leg, whose endpoint is dead, writes it 5 s late.
const callRecordTimeout = 7 * time.Second
