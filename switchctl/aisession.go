package switchctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

const (
	// socketReconnect is how long a broken AI socket is dialed again.
	socketReconnect = 5 * time.Second
	// mediaSilence is how long a media leg may carry no packets before that is reported.
	mediaSilence = 10 * time.Second
)

// phase of an AI session.
type phase int

const (
	phaseOpening phase = iota // row and socket are on their way
	phaseOpen                 // the AI's socket is up
	phaseEnded
)

// aiSession is a call's voice agent. All fields belong to the actor's goroutine.
type aiSession struct {
	id     uuid.UUID
	phase  phase
	agent  db.VoiceAgent
	grant  sessionGrant
	media  mediaSession
	format media.AudioFormat
	// resumed: the session outlived a crash and is dialed again.
	resumed bool
	granted bool
	// grantedAt is when the ledger told what the session runs with.
	grantedAt time.Time
	// legUp: caller and session hear each other. bridging: the switch was asked to bridge them.
	legUp    bool
	answered bool // they have heard each other before
	bridging bool
	bridges  int
	// shortLegs counts the legs in a row that ended by themselves before they were up for legStable; upAt is when the newest came up.
	shortLegs int
	upAt      time.Time
	// leg is the channel UUID of the newest media leg.
	leg     string
	outcome sessionOutcome
	// closeReason is what the AI is told. A caller who is being hung up goes first: closing the media leg before would
	// send it to rm_reattach, so the socket is closed when the call's end is seen.
	closeReason media.CloseReason
	// cancelOpen ends the dial of the AI's socket.
	cancelOpen context.CancelFunc
	reply      chan<- connectResult
	// opening: sessionOpened is still to come.
	opening bool
	// socketGone: the AI has been told of the end, or its socket will not come again.
	socketGone bool
	// broke is why the session can't go on; it waits for a pending transfer to be decided.
	broke *sessionBreak
	// keepCaller: a voice agent that was never reached gives the caller back to the handler.
	keepCaller bool
	// hushed: the ringback is being ended before the bridge.
	hushed bool
	// partDone: the recording was finished when the call was transferred.
	partDone bool
	logs     *sessionLog
}

// live reports whether a session is open, or about to be.
func (s *aiSession) live() bool { return s != nil && s.phase != phaseEnded }

// answer tells Leg.ConnectVoiceAgent how it went, once.
func (s *aiSession) answer(outcome Outcome, err error) {
	if s.reply != nil {
		s.reply <- connectResult{outcome: outcome, err: err}
		s.reply = nil
	}
}

// shutdown closes the AI's socket and the media leg; the session itself goes on after a restart.
func (s *aiSession) shutdown(a *actor) {
	if s.cancelOpen != nil {
		s.cancelOpen()
	}
	if m := s.media; m != nil && s.phase != phaseEnded {
		a.beside(func() { m.Close(media.CloseShutdown) })
	}
}

// connect starts an AI session on the caller's leg.
func (a *actor) connect(ctx context.Context, m connectCommand) (state, error) {
	switch {
	case a.killCause != "":
		return a.state, ErrCallEnded
	case a.ai != nil && a.ai.phase != phaseEnded:
		return a.state, &StateError{State: a.state.String(), Event: m.Name(), Detail: "an AI session is on the call"}
	case a.transfer.bridged():
		return a.state, &StateError{State: a.state.String(), Event: m.Name(), Detail: "the call was transferred"}
	case a.human != nil:
		return a.state, &StateError{State: a.state.String(), Event: m.Name(), Detail: "an agent is on the call"}
	case a.machine.taken():
		return a.state, ErrMachine
	}
	id, err := uuid.NewV7()
	if err != nil {
		return a.state, err
	}
	now := a.c.clock.Now().UTC()
	token, err := callbacktoken.Mint(a.c.cfg.TokenKeys(), a.tenant, a.id, now, tokenLifeOf(m.agent.TokenLifetime))
	if err != nil {
		return a.state, err
	}
	a.deafen(ctx)
	a.ai = &aiSession{id: id, agent: m.agent, reply: m.reply, logs: newSessionLog(a, id), keepCaller: m.keepCaller}
	start := sessionStart{call: a.call, agent: m.agent, id: id, at: now, token: token}
	a.arm(timerOpening, decisionLimit)
	due := a.c.clock.Now().Add(decisionLimit)
	a.recordFor(ctx, decisionLimit, "session start", func(ctx context.Context) error {
		left := due.Sub(a.c.clock.Now())
		if left <= 0 {
			return errUndecided
		}
		ctx, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		grant, err := a.c.ledger.StartSession(ctx, start)
		if err == nil {
			a.post(sessionGranted{id: id, grant: grant})
		}
		return err
	}, func(err error) {
		if err != nil {
			a.post(sessionGranted{id: id, err: err})
		}
	})
	return a.state, nil
}

// openingDue: the database had to have the session by now, which is ended there should it have come late.
func (a *actor) openingDue(ctx context.Context) {
	if s := a.ai; s != nil && s.phase == phaseOpening && !s.granted && !s.resumed {
		a.log.ErrorContext(ctx, "AI session was not written in time", "limit", decisionLimit)
		a.openFailed(ctx, fmt.Errorf("write the AI session: %w", store.ErrUnavailable))
	}
}

// granted: the session's row is written; its socket can be dialed.
func (a *actor) granted(ctx context.Context, m sessionGranted) (state, error) {
	s := a.ai
	if s == nil || s.phase != phaseOpening || s.id != m.id || s.granted {
		return a.state, a.notTaken(m)
	}
	a.disarm(timerOpening)
	switch {
	case errors.Is(m.err, errAgentBusy):
		a.refuseVerbs()
		a.ai = nil
		s.answer(OutcomeBusy, nil)
		return a.state, nil
	case m.err != nil:
		a.log.ErrorContext(ctx, "AI session could not be written", "error", m.err)
		a.openFailed(ctx, m.err)
		return a.state, nil //nolint:nilerr // the failure is the event, and it is handled
	}
	s.grant, s.agent, s.granted, s.grantedAt = m.grant, m.grant.agent, true, a.c.clock.Now()
	s.logs.resume(m.grant.logEntries, m.grant.logBytes)
	sub := s.agent.Subprotocol
	if sub == "" {
		sub = media.SubprotocolAlpha
	}
	if !slices.Contains(a.c.cfg.Subprotocols, sub) {
		a.log.ErrorContext(ctx, "voice agent's subprotocol is not served by this host", "subprotocol", sub)
		a.openFailed(ctx, &SubprotocolError{Subprotocol: sub})
		return a.state, nil
	}
	spec, err := a.sessionSpec(sub)
	if err != nil {
		a.log.ErrorContext(ctx, "voice agent can't be dialed", "voice_agent_id", s.agent.ID.String(), "error", err)
		a.openFailed(ctx, err)
		return a.state, nil
	}
	a.open(ctx, spec)
	return a.state, nil
}

// sessionSpec describes the session to the media server.
func (a *actor) sessionSpec(subprotocol string) (media.SessionSpec, error) {
	s := a.ai
	metadata, format, err := a.c.metadata(a.call, s.grant)
	if err != nil {
		return media.SessionSpec{}, err
	}
	s.format = format
	spec := media.SessionSpec{
		ID: s.id.String(), CallID: a.id.String(), Owner: a.tenant.String(), URL: s.agent.WsUrl, Subprotocol: subprotocol,
		AuthToken: s.grant.authToken, Audio: format, Metadata: metadata, Reconnected: s.grant.session.OpenedAt != nil,
		ReconnectFor: socketReconnect, MediaTimeout: mediaSilence, Recording: a.recordingSpec(),
	}
	if a.detects() {
		spec.AMD = &amd.Config{}
	}
	return spec, nil
}

func (c *Controller) recordPath(call uuid.UUID) string {
	return filepath.Join(c.cfg.RecordDir, call.String()+".wav")
}

// open dials the AI's socket beside the actor. A session that outlived a crash is dialed for as long as one whose socket
// broke.
func (a *actor) open(ctx context.Context, spec media.SessionSpec) {
	s := a.ai
	ctx, s.cancelOpen = context.WithCancel(ctx)
	cancel, resumed := s.cancelOpen, s.resumed
	s.opening = true
	a.beside(func() {
		defer cancel()
		deadline := a.c.clock.Now().Add(socketReconnect)
		for {
			session, err := a.c.media.Open(ctx, spec)
			if err != nil && resumed && ctx.Err() == nil && a.c.clock.Now().Before(deadline) &&
				a.c.pause(ctx, 200*time.Millisecond) == nil {
				continue
			}
			a.post(sessionOpened{media: session, err: err})
			return
		}
	})
}

// opened: the AI's socket is up, or was refused.
func (a *actor) opened(ctx context.Context, m sessionOpened) (state, error) {
	s := a.ai
	if s != nil {
		s.opening = false
	}
	if s == nil || s.phase != phaseOpening {
		return a.state, a.notTaken(m)
	}
	if m.err != nil {
		a.log.ErrorContext(ctx, "voice agent's socket did not open", "voice_agent_id", s.agent.ID.String(), "error", m.err)
		a.openFailed(ctx, m.err)
		return a.state, nil //nolint:nilerr // the failure is the event, and it is handled
	}
	s.phase, s.media = phaseOpen, m.media
	a.sessions = append(a.sessions, m.media)
	a.beside(func() { a.pump(m.media) })
	a.applyKeys()
	if a.machine.taken() {
		a.hush(ctx)
	}
	if s.resumed {
		a.c.metrics.recovered.WithLabelValues("resumed").Inc()
	}
	if s.grant.session.OpenedAt == nil {
		call, session, path := a.call, s.grant.session, ""
		if a.answerAt != nil {
			path = a.c.recordPath(a.id)
		}
		a.record(ctx, "session opened", func(ctx context.Context) error {
			return a.c.ledger.SessionOpened(ctx, call, session, path)
		}, nil)
	}
	age := a.c.clock.Now().Sub(s.grant.session.StartedAt)
	a.arm(timerSession, sessionLimit-age)
	if s.agent.TokenLifetime != lifetimeSocket {
		a.arm(timerRefresh, tokenRefreshAt-age)
	}
	a.tryBridge(ctx)
	a.runVerbs(ctx)
	return a.state, nil
}

// openFailed ends a session whose voice agent can't be reached: a flow's caller is given back to it; else ws_disconnect_action
// applies, with the true cause.
func (a *actor) openFailed(ctx context.Context, err error) {
	if s := a.ai; s.keepCaller && s.reply != nil && a.killCause == "" {
		reply := s.reply
		s.reply = nil
		a.endSession(ctx, sessionError, nil, media.CloseError)
		reply <- connectResult{outcome: OutcomeFailed}
		return
	}
	if a.ai.agent.WsDisconnectAction != actionQueue {
		a.ai.answer(OutcomeFailed, err)
	}
	a.disconnected(ctx, sessionError, CauseServiceUnavailable, media.CloseError)
}

// pump brings the session's events to the actor's mailbox.
func (a *actor) pump(m mediaSession) {
	for ev := range m.Events() {
		text, ok := ev.(media.Text)
		command := ok && text.Type == "command"
		if command {
			if err := a.takeVerb(); err != nil {
				a.commandResult(m, text.ID, nil, err)
				continue
			}
		}
		err := a.box.Put(mediaEvent{media: m, ev: ev})
		if errors.Is(err, ErrMailboxFull) {
			a.c.metrics.dropped.Inc()
			if command {
				a.commandResult(m, text.ID, nil, err)
			}
		}
	}
}

// sessionBroke ends a session that can't go on; the call follows ws_disconnect_action.
func (a *actor) sessionBroke(ctx context.Context, outcome sessionOutcome, cause string) state {
	reason := media.CloseError
	switch outcome {
	case sessionTimeout:
		reason = media.CloseTimeout
	case sessionHangup:
		reason = media.CloseHangup
	case sessionError, sessionTransferredE164, sessionTransferredAgent, sessionTransferredSIPURI:
	}
	a.disconnected(ctx, outcome, cause, reason)
	return a.state
}

func (a *actor) sessionExpired(ctx context.Context) state {
	if !a.ai.live() {
		return a.state
	}
	a.log.InfoContext(ctx, "AI session has reached its limit", "limit", sessionLimit)
	return a.sessionBroke(ctx, sessionTimeout, CauseNormalClearing)
}

// endSession ends the session in the ledger and closes its socket.
func (a *actor) endSession(ctx context.Context, outcome sessionOutcome, final json.RawMessage, reason media.CloseReason) {
	a.endSessionWith(ctx, sessionEnd{outcome: outcome, final: final, at: a.c.clock.Now().UTC()}, reason)
}

func (a *actor) endSessionWith(ctx context.Context, end sessionEnd, reason media.CloseReason) {
	s := a.ai
	if !s.live() {
		return
	}
	a.endMonitors(ctx)
	s.phase, s.outcome = phaseEnded, end.outcome
	a.refuseVerbs()
	for _, k := range []timerKind{timerLeg, timerRefresh, timerSession, timerOpening} {
		a.disarm(k)
	}
	if s.cancelOpen != nil {
		s.cancelOpen()
	}
	a.c.metrics.sessions.WithLabelValues(string(end.outcome)).Inc()
	s.closeReason = reason
	if a.killCause == "" {
		a.closeMedia()
	}
	if s.id != uuid.Nil { // also one that was not written in time: the journal keeps the order
		end.session, end.revoke = s.id, s.agent.TokenLifetime == lifetimeSocket
		call := a.call
		end.logsDropped = s.logs.end(ctx)
		a.record(ctx, "session end", func(ctx context.Context) error { return a.c.ledger.EndSession(ctx, call, end) }, nil)
	}
	s.answer(OutcomeEnded, nil)
}

// sayEnded tells the AI, once, that the call is over for it.
func (a *actor) sayEnded() {
	if s := a.ai; s != nil && !s.socketGone {
		s.socketGone = true
		a.callState("ended", string(s.closeReason))
	}
}

// awaitCaller has a caller whose session has ended come back from the media leg, by transfer_after_bridge. The endpoint's BYE
// alone would not do: the switch's thread of that leg takes it up with the next packet that it reads, and none comes any more
// (switch_rtp.c: rtp_common_read polls for 5 s).
func (a *actor) awaitCaller(ctx context.Context) {
	a.arm(timerSocket, socketTimeout)
	leg := a.ai.leg
	if a.c.link.Generation() == 0 {
		return
	}
	a.beside(func() {
		if err := a.c.killChannel(ctx, leg); err != nil {
			a.log.WarnContext(ctx, "media leg could not be ended, the switch waits for its BYE", "error", err)
		}
	})
}

// closeMedia closes the socket and the media leg of a session that has ended.
func (a *actor) closeMedia() {
	s := a.ai
	if s == nil || s.media == nil || s.phase != phaseEnded {
		return
	}
	m, reason := s.media, s.closeReason
	a.sayEnded()
	a.beside(func() { m.Close(reason) })
}
