package call

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// callerLine is the caller's channel on the switch and its socket: answered, lost, taken back, looked for.
type callerLine struct {
	*core
	conference *conference
	agents     *agentBridge
	bypass     *bypass
	dial       *origination
	ending     *ending
	handling   *handling
	keypad     *keypad
	machine    *machine
	music      *musicPlayer
	parties    *parties
	refers     *referrals
	rec        *recorder
	sound      *sound
	takeaway   *takeaway
	talking    *talking
	transfers  *transfers
	voice      *voice
	newest     uint64         // the order of the newest socket
	waiters    []chan<- error // of Leg.Answer
	reattaches int            // uuid_transfer to rm_reattach without a socket so far
	again      int            // how often the caller was looked for anew, since whoever they were bridged with had left
}

// steered reports whether the call is steered over the host link alone.
func (l *callerLine) steered() bool {
	return !l.parties.free(stayOnSocket) || l.bridgedWithAI()
}

// bridgedWithAI reports whether caller and voice agent hear each other, as both the switch and the media endpoint say.
func (l *callerLine) bridgedWithAI() bool {
	return l.voice.ai.live() && l.voice.ai.legUp && l.bypass.bridged
}

// leaveSocket closes the caller's socket once the host link alone steers the call. While there is no link, the socket is the
// one way to the call.
//
// A caller's outbound socket costs the switch a thread that looks at it fifty times a second, about a quarter of what its part
// of a bridge costs. While caller and voice agent hear each other nothing goes over it: the host link steers the call, and
// when the bridge ends transfer_after_bridge brings a new socket. So it is closed for that time. The switch's `socket`
// application goes on with what runs in it, without a gap in the audio.
func (l *callerLine) leaveSocket() {
	if l.sock == nil || l.killCause != "" || !l.bridgedWithAI() || l.c.link.Generation() == 0 {
		return
	}
	s := l.sock
	l.sock = nil
	l.beside(func() { closeQuietly(s) })
}

// answerLeg answers an inbound leg; the waiter is told when the switch has done it.
func (l *callerLine) answerLeg(ctx context.Context, m answerCommand) (state, error) {
	switch {
	case !l.inbound || l.killCause != "":
		return l.state, l.notTaken(m)
	case l.sock == nil:
		return l.state, &switchctl.StateError{State: l.state.String(), Event: m.Name(), Detail: "the leg has no socket"}
	}
	l.waiters = append(l.waiters, m.reply)
	l.arm(timerSocket, socketTimeout)
	l.execute(ctx, esl.ExecuteRequest{App: "answer"})
	return l.state, nil
}

// answerDue: a call without its socket is looked for, and so is one whose answer is overdue: its event, or the command, may have been lost.
func (l *callerLine) answerDue(ctx context.Context) {
	if len(l.waiters) > 0 {
		l.log.WarnContext(ctx, "the switch has not reported the answer in time, asking it")
		l.arm(timerSocket, socketTimeout)
	}
	l.probe(ctx)
}

func (l *callerLine) answerWaiters(err error) {
	for _, w := range l.waiters {
		w <- err
	}
	l.waiters = nil
}

// socketAttached takes a new outbound socket: the first one, or the one after a transfer to rm_reattach. The older one
// is closed first, since closing it later could end the newer one's park. One that comes behind a newer one is of no use: the channel has left it.
func (l *callerLine) socketAttached(ctx context.Context, m socketUp) (state, error) {
	if m.order < l.newest {
		closeQuietly(m.sock)
		return l.state, nil
	}
	l.newest = m.order
	if l.refers.holds(ctx, m) || l.refers.came(ctx, m) {
		return l.state, nil
	}
	return l.callerCame(ctx, m)
}

// callerCame: the caller is on a socket, with nobody.
func (l *callerLine) callerCame(ctx context.Context, m socketUp) (state, error) {
	if l.sock != nil && l.sock != m.sock {
		closeQuietly(l.sock)
	}
	l.sock = m.sock
	l.keypad.noteKeys(m.ev)
	l.conference.callerCame(ctx)
	l.agents.forgetLeft(ctx)
	found := l.recovered
	if found {
		l.rec.paused = m.ev.Var(varPaused) == "true"
		l.sound.found(m.ev.Var(varSound))
		l.takeaway.found(ctx, m.ev.Var(varTaken), "")
		l.transfers.found(ctx, m.ev.Var(varTransfer))
	}
	l.recovered = false
	if found && (l.hadAgent || l.transfers.now.pending()) {
		found, l.recovered = false, true // a look tells whether the agent has ended the call while we were away, or the destination has parted from the caller
		l.probe(ctx)
	}
	l.reattaches = 0
	l.away = false
	l.music.playing = false
	l.dial.seen = true
	l.bypass.codecOf(m.ev)
	l.refers.replaces = m.ev.Var(varReplaces) != ""
	l.disarm(timerSocket)
	if l.recovered {
		l.arm(timerSocket, socketTimeout) // the look may fail
	}
	next := l.state
	if next == stateDialing || next == stateRinging {
		if at := m.ev.Micros("Caller-Channel-Answered-Time"); !at.IsZero() || !l.inbound {
			if at.IsZero() {
				at = fs.EventTime(m.ev)
			}
			next = l.dial.answers(ctx, at, l.c.sight.Ours(at))
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
	l.transfers.parted(ctx, m.ev.Var(varLastBridge), time.Time{})
	if l.talking.now != nil {
		l.talking.startTalk(ctx)
	}
	if s := l.voice.ai; s != nil {
		s.bridging = false
		if s.legDown(l.c.clock.Now()) && s.overSIP() {
			l.arm(timerLeg, legGone) // its leg's own end tells why
		}
		l.voice.tryBridge(ctx)
		l.transfers.ringAlone(ctx)
	}
	l.agents.tryAgent(ctx)
	l.machine.playMessage(ctx)
	l.music.playMusic(ctx) // unless the agent is there: what is asked for before a bridge would be heard in it
	return next, nil
}

// socketLost: the switch closed the socket, because the channel is down or went to another extension, or we did.
func (l *callerLine) socketLost(m socketDown) (state, error) {
	if l.refers.lost(m.sock) {
		l.arm(timerSocket, socketTimeout)
		return l.state, nil
	}
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
	if (l.sock != nil && !l.away && !l.recovered) || l.killCause != "" || l.steered() || l.refers.pending() {
		return
	}
	l.arm(timerSocket, socketTimeout)
	l.probe(ctx) // the channel, when it lives, is taken back
}

// reattach transfers the caller to rm_reattach. other is the leg that it is bridged with, to a media endpoint that is
// gone: while the switch waits for packets from there it would not follow, so that leg is ended. A caller who was left in
// bypass is told first to come with its media.
func (l *callerLine) reattach(ctx context.Context, other string, bypassed bool) {
	l.arm(timerSocket, socketTimeout)
	if l.c.link.Generation() == 0 {
		return // resynchronising does it
	}
	l.reattaches++
	if l.reattaches > maxReattach {
		l.log.ErrorContext(ctx, "outbound socket not re-established, hanging up", "tries", maxReattach)
		l.kill(ctx, ledger.CauseTemporaryFailure)
		return
	}
	transfer, link, attempt := fs.Transfer(l.channel, reattachExtension, l.c.cfg.Context), l.c.link, l.attempt
	channel := l.channel
	l.beside(func() {
		if bypassed {
			if _, err := link.API(ctx, fs.SetVar(channel, "bypass_media", "false")); err != nil {
				l.log.WarnContext(ctx, "turning off bypass_media on the caller's channel failed", "error", err)
			}
		}
		body, err := link.API(ctx, transfer)
		l.post(jobDone{job: jobReattach, attempt: attempt, body: body, err: err})
		if err == nil && other != "" {
			if err := fs.EndChannel(ctx, l.c.link, other, ledger.CauseNormalClearing); err != nil {
				l.log.WarnContext(ctx, "ending the caller's other leg failed", "error", err)
			}
		}
	})
}

// channelLives: the switch has the caller's channel.
func (l *callerLine) channelLives(ctx context.Context, m channelFound) (state, error) {
	l.dial.seen = true
	found := l.recovered
	if found {
		l.rec.paused = m.paused
		l.sound.found(m.sound)
	}
	if l.ahead() == 0 && m.ahead != 0 && l.answerAt != nil && len(l.voice.sessions) == 0 { // what was recorded has its place
		ours := l.answerAt.Add(m.ahead)
		l.answerAt = &ours
	}
	l.stillBridged(ctx, m)
	l.voice.adoptSIP(m.other)
	if found {
		l.takeaway.found(ctx, m.taken, m.other)
		l.transfers.found(ctx, m.transfer)
	}
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
		if len(l.waiters) > 0 && l.sock != nil {
			l.execute(ctx, esl.ExecuteRequest{App: "answer"})
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
	l.bypass.looked(ctx, m.bypassed, m.asked)
	if l.conference.found(ctx, m.conference, m.asked) {
		if found {
			l.resume(ctx, next)
		}
		return stateAgentConnected, nil
	}
	if l.conference.holds() {
		return next, nil // on the way there, or its time-out leads them back
	}
	if found && l.transfers.now.bridged() && l.transfers.now.handler {
		l.handling.startHandler(ctx)
	}
	if found && l.transfers.partedBefore(ctx, m) {
		m.left = false // it was the destination that has
	}
	if l.transfers.now.bridging() {
		l.transfers.apart(ctx, m)
		return next, nil
	}
	l.transfers.lookForSecond(ctx, m.other)
	if l.transfers.now.bridged() {
		return next, nil
	}
	if l.agents.adoptAgent(ctx, m.other) {
		return stateAgentConnected, nil
	}
	if found && m.left {
		l.ending.noteServed(ctx, &served{agent: l.call.AgentID, at: m.bridgedAt}, l.call.AnswerTime)
		if !l.agents.leftBefore(ctx) {
			l.kill(ctx, ledger.CauseNormalClearing) // the agent has ended the call while we were away
			return next, nil
		}
	}
	if found && l.hadAgent && m.other != "" && l.again < maxAgain { // whoever that was has left since, and may have been the agent
		l.lookAgain()
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
	if (l.sock == nil || l.away) && l.killCause == "" && !l.refers.pending() {
		l.reattach(ctx, m.other, m.bypassed)
	}
	return next, nil
}

const (
	// againPause is how long after the end of a leg the caller is looked for: the switch may take them for bridged until then.
	againPause = 200 * time.Millisecond
	maxAgain   = 3
)

// lookAgain has a call that was found again, and whose agent is gone, go on once the switch has told whether the agent has hung up.
func (l *callerLine) lookAgain() {
	l.again++
	l.recovered = true
	l.arm(timerSocket, againPause)
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
	cause := ledger.CauseCrash
	if !l.dial.seen && l.answerAt == nil && l.state == stateDialing {
		if cause = ledger.CauseNetworkOutOfOrder; l.call.Environment == ledger.EnvironmentTest {
			cause = ledger.CauseTestEnvironment
		}
		l.c.metrics.recovered.WithLabelValues("never_begun").Inc()
	} else {
		l.c.metrics.recovered.WithLabelValues("closed").Inc()
	}
	l.log.WarnContext(ctx, "channel not found on the switch", "hangup_cause", cause, "switch_restarted", m.restarted)
	return l.ending.beginClose(ctx, ledger.LostRecord(cause, l.livedUntil(m.switchSeen), l.call.AnswerTime)), nil
}

// stillBridged: a call is bridged with its second leg, and the switch's word of that was missed, or the call was found again. Its handler has dialed that leg
// then, before any voice agent or behind one that was never reached, or its voice agent has, whose session is over.
func (l *callerLine) stillBridged(ctx context.Context, m channelFound) {
	t, s := l.transfers.now, l.voice.ai
	if !t.pending() || t.channel == "" || t.channel != m.other {
		return
	}
	at := m.bridgedAt
	if at.IsZero() {
		at = l.c.clock.Now().Add(-l.ahead())
	}
	switch {
	case t.bridging():
		l.transfers.comesAbout(ctx, at)
	case !l.recovered:
	case s == nil || s.neverReached():
		t.phase, t.handler = transferBridged, true
		t.recording = l.rec.leftMessage()
		l.noteServed(ctx, at)
		l.handling.handled = false // the flow goes on from where it was
	case s.live():
		kind, destination, _ := strings.Cut(m.transfer, ":")
		t.facts.DestinationType = kind
		if plain, err := url.QueryUnescape(destination); err == nil {
			t.facts.Destination = plain
		}
		l.transfers.comesAbout(ctx, at)
		if answered, ours := l.answerAt, at.Add(l.ahead()); answered != nil {
			l.beside(func() { l.ending.finishLeft(ctx, *answered, ours) })
		}
	}
}

// resume goes on with a call that was found again: its voice agent in the same session, or its handler when it had not
// got that far.
func (l *callerLine) resume(ctx context.Context, now state) {
	l.transfers.abandon(ctx, switchctl.ErrSessionTerminated) // its answer had nobody to hear it
	if !l.transfers.now.bridged() {
		l.rec.endLeft(ctx)
	}
	switch s := l.voice.ai; {
	case l.transfers.now.bridged():
	case l.conference.up() && !s.live():
		l.conference.considerEnd(ctx) // the voice agent has left before
	case l.transfers.queued() != nil:
		l.away = l.sock == nil
		l.music.on = true
		l.transfers.startQueue(ctx, *l.transfers.queued())
	case s == nil:
		if now == stateAnswered || now == stateAgentConnected {
			l.handling.startHandler(ctx)
		}
	case s.neverReached():
		l.handling.handled = false
		l.handling.startHandler(ctx) // the flow goes on from where it was
	case s.phase == phaseEnded:
		l.kill(ctx, ledger.CauseNormalClearing) // what ended the session was ending the call
	case s.phase == phaseOpening:
		call, session := l.call, s.grant.Session
		l.recordFor(ctx, decisionWait, "session resume", func(ctx context.Context) error {
			grant, err := l.c.ledger.ResumeSession(ctx, call, session)
			if err == nil {
				l.post(sessionGranted{id: session.ID, grant: grant})
			}
			return err
		}, func(err error) {
			if err != nil {
				l.post(sessionGranted{id: session.ID, err: err})
			}
		})
	}
}

// callRecordTimeout bounds how long a look at the switch waits for a call record. A switch that waits for packets of the
// call's other leg, whose endpoint is dead, writes it 5 s late.
const callRecordTimeout = 7 * time.Second
