package switchctl

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// kill decides that the call ends, with a cause, and asks the switch for it.
func (k *core) kill(ctx context.Context, cause string) {
	if k.killCause == "" {
		k.killCause = cause
	}
	k.sendKill(ctx)
}

// sendKill asks over the host link; the caller's own socket is the second way.
func (k *core) sendKill(ctx context.Context) {
	k.arm(timerKill, killTimeout)
	if k.c.link.Generation() == 0 && k.sock != nil {
		sock, cause := k.sock, k.killCause
		k.beside(func() {
			if err := sock.Execute(ctx, esl.ExecuteRequest{App: "hangup", Arg: cause}); err != nil {
				k.log.WarnContext(ctx, "hangup could not be sent", "error", err)
			}
		})
		return
	}
	k.command(ctx, jobKill, fs.Kill(k.channel, k.killCause))
}

// killAgain: the call had to be gone by now. While there is no link, resynchronising does it.
func (e *ending) killAgain(ctx context.Context) {
	if e.killCause == "" {
		return
	}
	e.voice.closeMedia()
	if e.c.link.Generation() == 0 {
		e.arm(timerKill, killTimeout)
		return
	}
	e.sendKill(ctx)
}

// hangupLeg is Leg.Hangup and Controller.Hangup.
func (e *ending) hangupLeg(ctx context.Context, m hangupCommand) (state, error) {
	if e.killCause == "" {
		e.kill(ctx, m.cause)
	}
	m.reply <- nil
	return e.state, nil
}

// answerLeg answers an inbound leg; the waiter is told when the switch has done it.
func (l *callerLine) answerLeg(ctx context.Context, m answerCommand) (state, error) {
	switch {
	case !l.inbound || l.killCause != "":
		return l.state, l.notTaken(m)
	case l.sock == nil:
		return l.state, &StateError{State: l.state.String(), Event: m.Name(), Detail: "the leg has no socket"}
	}
	l.waiters = append(l.waiters, m.reply)
	l.execute(ctx, esl.ExecuteRequest{App: "answer"})
	return l.state, nil
}

// execute runs an application on the caller's channel without waiting for it.
func (k *core) execute(ctx context.Context, req esl.ExecuteRequest) {
	sock := k.sock
	k.beside(func() {
		if err := sock.Execute(ctx, req); err != nil {
			k.log.WarnContext(ctx, "application could not be sent", "app", req.App, "error", err)
			if req.App == "bridge" {
				k.post(bridgeFailed{err: err})
			}
		}
	})
}

// socketAttached takes a new outbound socket: the first one, or the one after a transfer to rm_reattach. The older one
// is closed first, since closing it later could end the newer one's park.
func (l *callerLine) socketAttached(ctx context.Context, m socketUp) (state, error) {
	if l.sock != nil && l.sock != m.sock {
		closeQuietly(l.sock)
	}
	l.sock = m.sock
	l.keypad.noteKeys(m.ev)
	found := l.recovered
	if found {
		l.rec.paused = m.ev.Var(varPaused) == "true"
	}
	l.recovered = false
	if found && l.hadAgent {
		found, l.recovered = false, true // a look tells whether the agent has ended the call while we were away
		l.probe(ctx)
	}
	l.reattach = 0
	l.away = false
	l.music.playing = false
	l.dial.seen = true
	l.bypass.codecOf(m.ev)
	l.disarm(timerSocket)
	if l.recovered {
		l.arm(timerSocket, socketTimeout) // the look may fail
	}
	next := l.state
	if next == stateDialing || next == stateRinging {
		if at := m.ev.Micros("Caller-Channel-Answered-Time"); !at.IsZero() || !l.inbound {
			if at.IsZero() {
				at = eventTime(m.ev)
			}
			next = l.dial.answers(ctx, at, l.c.sight.ours(at))
		} else {
			l.handling.startHandler(ctx)
		}
	}
	if l.killCause != "" {
		l.sendKill(ctx)
		return next, nil
	}
	if found {
		l.resume(ctx, next)
	}
	l.bypass.bypassReset(ctx)
	if l.talking.now != nil {
		l.talking.startTalk(ctx)
	}
	if s := l.voice.ai; s != nil {
		s.bridging = false
		s.legDown(l.c.clock.Now())
		l.voice.tryBridge(ctx)
	}
	l.agents.tryAgent(ctx)
	l.machine.playMessage(ctx)
	l.music.playMusic(ctx) // unless the agent is there: what is asked for before a bridge would be heard in it
	return next, nil
}

// socketLost: the switch closed the socket, because the channel is down or went to another extension, or we did.
func (l *callerLine) socketLost(m socketDown) (state, error) {
	if l.sock != m.sock {
		return l.state, nil
	}
	l.sock = nil
	l.music.playing = false
	if l.steered() {
		return l.state, nil
	}
	l.arm(timerSocket, socketTimeout)
	return l.state, nil
}

// socketDue: an answered call is without a socket for too long. It is sent to the extension that calls us again.
func (l *callerLine) socketDue(ctx context.Context) {
	if (l.sock != nil && !l.away && !l.recovered) || l.killCause != "" || l.steered() {
		return
	}
	l.arm(timerSocket, socketTimeout)
	l.probe(ctx) // the channel, when it lives, is taken back
}

// takeBack transfers the caller to rm_reattach. other is the leg that it is bridged with, to a media endpoint that is
// gone: while the switch waits for packets from there it would not follow, so that leg is ended. A caller who was left in
// bypass is told first to come with its media.
func (l *callerLine) takeBack(ctx context.Context, other string, bypassed bool) {
	l.arm(timerSocket, socketTimeout)
	if l.c.link.Generation() == 0 {
		return // resynchronising does it
	}
	l.reattach++
	if l.reattach > maxReattach {
		l.log.ErrorContext(ctx, "call stays without its socket, hanging up", "tries", maxReattach)
		l.kill(ctx, CauseTemporaryFailure)
		return
	}
	transfer, link, attempt := fs.Transfer(l.channel, reattachExtension, l.c.cfg.Context), l.c.link, l.attempt
	channel := l.channel
	l.beside(func() {
		if bypassed {
			if _, err := link.API(ctx, fs.SetVar(channel, "bypass_media", "false")); err != nil {
				l.log.WarnContext(ctx, "the caller's media could not be asked back", "error", err)
			}
		}
		body, err := link.API(ctx, transfer)
		l.post(jobDone{job: jobReattach, attempt: attempt, body: body, err: err})
		if err == nil && other != "" {
			if err := l.c.killChannel(ctx, other); err != nil {
				l.log.WarnContext(ctx, "the caller's other leg could not be ended", "error", err)
			}
		}
	})
}

// probe looks at the switch for the caller's channel; the answer is channelFound or channelGone.
func (k *core) probe(ctx context.Context) {
	k.beside(func() {
		if follow, err := k.c.look(ctx, k, ""); err == nil && follow != nil {
			follow()
		}
	})
}

// channelLives: the switch has the caller's channel.
func (l *callerLine) channelLives(ctx context.Context, m channelFound) (state, error) {
	l.dial.seen = true
	found := l.recovered
	if found {
		l.rec.paused = m.paused
	}
	if l.ahead() == 0 && m.ahead != 0 && l.answerAt != nil && len(l.voice.sessions) == 0 { // what was recorded has its place
		ours := l.answerAt.Add(m.ahead)
		l.answerAt = &ours
	}
	l.stillBridged(m.other)
	l.recovered = false
	if l.killCause != "" {
		l.sendKill(ctx)
		return l.state, nil
	}
	next := l.state
	if !m.answered {
		if l.dial.generation == 0 && !l.inbound {
			l.arm(timerOriginate, probeEvery)
		}
		return next, nil
	}
	if next == stateDialing || next == stateRinging {
		at := m.answeredAt
		if at.IsZero() {
			at = l.c.clock.Now().UTC().Add(-m.ahead)
		}
		next = l.dial.answers(ctx, at, at.Add(m.ahead))
	}
	if found && l.transfers.transfer.bridged() && l.transfers.transfer.handler {
		l.handling.startHandler(ctx)
	}
	if l.transfers.transfer.bridged() || l.transfers.transfer.bridging() {
		return next, nil
	}
	if l.agents.adoptAgent(ctx, m.other) {
		return stateAgentConnected, nil
	}
	if found && m.left {
		l.ending.noteServed(ctx, &served{agent: l.call.AgentID, at: m.bridgedAt}, l.call.AnswerTime)
		l.kill(ctx, CauseNormalClearing) // the agent has ended the call while we were away
		return next, nil
	}
	if found {
		l.resume(ctx, next)
		l.music.playMusic(ctx)
	}
	if l.bridgedWithAI() && (m.bypassed || m.other == l.voice.ai.leg) {
		l.leaveSocket() // a link that was lost is back
		return next, nil
	}
	if (l.sock == nil || l.away) && l.killCause == "" {
		l.takeBack(ctx, m.other, m.bypassed)
	}
	return next, nil
}

// channelVanished: the switch has no such channel. Its record closes the call; without one the call was lost, or never
// begun.
func (l *callerLine) channelVanished(ctx context.Context, m channelGone) (state, error) {
	if m.record != nil && !l.dial.rerouting {
		l.c.metrics.recovered.WithLabelValues("closed").Inc()
		l.ending.noteServed(ctx, m.served, m.record.AnswerTime)
		return l.dial.endedWith(ctx, *m.record, ""), nil
	}
	if l.dial.rerouting {
		return l.state, nil
	}
	if l.dial.generation != 0 && l.dial.generation == m.generation && !l.dial.seen && l.dial.misses < maxMisses {
		l.dial.misses++
		return l.state, nil // the originate is on its way over this very connection
	}
	cause := CauseCrash
	if !l.dial.seen && l.answerAt == nil && l.state == stateDialing {
		cause = CauseNetworkOutOfOrder
		l.c.metrics.recovered.WithLabelValues("never_begun").Inc()
	} else {
		l.c.metrics.recovered.WithLabelValues("closed").Inc()
	}
	l.log.WarnContext(ctx, "switch knows nothing of the call", "hangup_cause", cause, "switch_restarted", m.restarted)
	return l.ending.beginClose(ctx, lostRecord(cause, l.livedUntil(m.switchSeen), l.call.AnswerTime)), nil
}

// handling is the AnswerHandler's part of a call.
type handling struct {
	*core
	agents    *agentBridge
	transfers *transfers
	voice     *voice
	// stopHandler ends the context of AnswerHandler.Answered; nil before it runs.
	stopHandler context.CancelCauseFunc
	// handled is true when AnswerHandler.Answered has run for this call, here or before a restart.
	handled bool
	// handler numbers the handlers that the call has had.
	handler int
}

// startHandler runs AnswerHandler.Answered beside the actor, once.
func (h *handling) startHandler(ctx context.Context) {
	if h.handled || h.killCause != "" {
		return
	}
	h.handled = true
	h.runBeside(ctx, func(ctx context.Context, l *leg) error { return h.c.handler.Answered(ctx, l) })
}

// runBeside runs a handler's operation beside the actor; there is one at a time.
func (h *handling) runBeside(ctx context.Context, handle func(ctx context.Context, l *leg) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	h.stopHandler = cancel
	h.handler++
	l := &leg{a: h.core, call: h.call, handler: h.handler}
	h.beside(func() {
		defer cancel(nil)
		err := h.c.runHandler(ctx, l, handle)
		h.post(handlerDone{serial: l.handler, err: err})
	})
}

// handlerReturned: nobody steers the call any more. Without a voice agent on it, it ends.
func (h *handling) handlerReturned(ctx context.Context, m handlerDone) (state, error) {
	if m.serial != h.handler {
		return h.state, nil // its call was handed over
	}
	if m.err != nil && h.killCause == "" {
		h.log.ErrorContext(ctx, "handling the call failed", "error", m.err)
	}
	if h.voice.ai.live() || h.transfers.transfer.bridged() || h.agents.human.bridged() || h.killCause != "" {
		return h.state, nil
	}
	cause := CauseNormalClearing
	if m.err != nil {
		cause = handlerCause(m.err)
	}
	h.kill(ctx, cause)
	return h.state, nil
}

// release leaves the call up: the controller stops, the call outlives it.
func (a *actor) release(ctx context.Context) (state, error) {
	a.taps.endTaps(ctx, media.CloseShutdown)
	if a.voice.ai != nil {
		a.voice.ai.shutdown(a)
		a.voice.keepQuality(ctx)
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
