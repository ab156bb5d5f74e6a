package call

import (
	"cmp"
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
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/sipagent"
)

// sessionLimit is how long an AI session may last.
const sessionLimit = 30 * time.Minute

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
	grant  ledger.SessionGrant
	media  mediaSession
	format media.AudioFormat
	// resumed: the session outlived a crash and is dialed again.
	resumed bool
	granted bool
	// grantedAt is when the ledger told what the session runs with.
	grantedAt time.Time
	// legUp: caller and session hear each other. bridging: the switch was asked to bridge them.
	legUp bool
	// bridgeDue: the leg has answered, and the switch is about to bridge it with the caller. bridgedAt is when it has told of the newest bridge; zero where
	// that was missed.
	bridgeDue bool
	bridgedAt time.Time
	answered  bool // they have heard each other before
	bridging  bool
	bridges   int
	// shortLegs counts the legs in a row that ended by themselves before they were up for legStable; upAt is when the newest came up.
	shortLegs int
	upAt      time.Time
	// leg is the channel UUID of the newest media leg.
	leg     string
	outcome ledger.SessionOutcome
	// closeReason is what the AI is told. A caller who is being hung up goes first: closing the media leg before would
	// send it to rm_reattach, so the socket is closed when the call's end is seen.
	closeReason media.CloseReason
	// cancelOpen ends the dial of the AI's socket.
	cancelOpen context.CancelFunc
	reply      chan<- connectResult
	// socketGone: the AI has been told of the end, or its socket will not come again.
	socketGone bool
	// broke is why the session can't go on; it waits for a pending transfer to be decided.
	broke *sessionBreak
	// keepCaller: a voice agent that was never reached gives the caller back to the handler.
	keepCaller bool
	// note is what the session's log begins with; empty for nothing.
	note string
	// socketNotes counts what the log was told of the socket's failures that the session went on with.
	socketNotes int
	// stoppingRingback: the ringback is being ended before the bridge.
	stoppingRingback bool
	// partDone: the recording was finished when the call was transferred.
	partDone bool
	logs     *sessionLog
	// owed are the verbs on its socket whose answers are still to be sent. Who closes the socket waits for them: see settled.
	owed []chan struct{}
	// sip is how a voice agent that is a SIP endpoint is dialed; endpoint is where, empty until that is known.
	sip      sipagent.Config
	endpoint string
	// referring is a REFER whose caller is being bridged with it again; nil for none.
	referring *referral
	// local are the switch's own addresses in the endpoint's dialog: a REFER right behind the answer can find its leg gone.
	local []string
	// lastRefer is the event of its newest REFER; left is the end of its leg while the caller of that is on the way, else nil.
	lastRefer string
	left      *esl.Event
}

// live reports whether a session is open, or about to be.
func (s *aiSession) live() bool { return s != nil && s.phase != phaseEnded }

// neverReached tells of a session whose voice agent could not be reached: the call goes on without it.
func (s *aiSession) neverReached() bool {
	return s.phase == phaseEnded && s.outcome == ledger.SessionError && s.grant.Session.OpenedAt == nil
}

// answer tells Leg.ConnectVoiceAgent how it went, once.
func (s *aiSession) answer(outcome switchctl.Outcome, err error) {
	if s.reply != nil {
		s.reply <- connectResult{outcome: outcome, err: err}
		s.reply = nil
	}
}

// voice is the call's voice agent: its session, and those before.
type voice struct {
	*core
	conference *conference
	bypass     *bypass
	keypad     *keypad
	line       *callerLine
	machine    *machine
	monitors   *monitors
	music      *musicPlayer
	parties    *parties
	refers     *referrals
	rec        *recorder
	sound      *sound
	supervised *supervised
	talking    *talking
	transfers  *transfers
	verbs      *verbs

	// ai is the newest session; nil before the first.
	ai *aiSession
	// sessions are all AI sessions that this controller has opened for the call.
	sessions []mediaSession
}

// shutdown closes the AI's socket and the media leg, once the verbs on that socket have their answers, and writes what was measured so far; the session
// itself goes on after a restart.
func (v *voice) shutdown(ctx context.Context) {
	s := v.ai
	if s == nil {
		return
	}
	if s.cancelOpen != nil {
		s.cancelOpen()
	}
	sessions, call, settled := v.sessions, v.call, v.settled()
	if len(sessions) == 0 {
		return
	}
	v.beside(func() {
		settled()
		q, _ := measured(call.Quality, sessions, media.CloseShutdown)
		if column := q.Column(); column != nil {
			v.record(ctx, "quality", func(ctx context.Context) error { return v.c.ledger.Quality(ctx, call, column) }, nil)
		}
	})
}

// connect starts an AI session on the caller's leg.
func (v *voice) connect(ctx context.Context, m connectCommand) (state, error) {
	if err := v.parties.refuse(forVoiceAgent, m.Name()); err != nil {
		return v.state, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return v.state, err
	}
	now := v.c.clock.Now().UTC()
	token, err := callbacktoken.Mint(v.c.cfg.TokenKeys(), v.tenant, v.id, now, callbacktoken.LifeOf(m.Agent.TokenLifetime))
	if err != nil {
		return v.state, err
	}
	v.transfers.over = nil // the handler no longer asks for that one
	v.talking.stopDigits(ctx)
	v.sound.reset()
	m.Agent = sessionAgent(m.Agent)
	v.ai = &aiSession{id: id, agent: m.Agent, reply: m.reply, logs: newSessionLog(v.core, id), keepCaller: m.KeepCaller, note: m.Note}
	start := ledger.SessionStart{Call: v.call, Agent: m.Agent, ID: id, At: now, Token: token, Parameters: m.Parameters}
	v.arm(timerOpening, decisionLimit)
	due := v.c.clock.Now().Add(decisionLimit)
	v.recordFor(ctx, decisionLimit, "session start", func(ctx context.Context) error {
		left := due.Sub(v.c.clock.Now())
		if left <= 0 {
			return errUndecided
		}
		ctx, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		grant, err := v.c.ledger.StartSession(ctx, start)
		if err == nil {
			v.post(sessionGranted{id: id, grant: grant})
		}
		return err
	}, func(err error) {
		if err != nil {
			v.post(sessionGranted{id: id, err: err})
		}
	})
	return v.state, nil
}

// openingDue: writing the session timed out; it is ended there should it have come late.
func (v *voice) openingDue(ctx context.Context) {
	if s := v.ai; s != nil && s.phase == phaseOpening && !s.granted && !s.resumed {
		v.log.ErrorContext(ctx, "writing the AI session timed out", "limit", decisionLimit)
		v.openFailed(ctx, fmt.Errorf("write the AI session: %w", store.ErrUnavailable))
	}
}

// granted: the session's row is written; its socket can be dialed.
func (v *voice) granted(ctx context.Context, m sessionGranted) (state, error) {
	s := v.ai
	if s == nil || s.phase != phaseOpening || s.id != m.id || s.granted {
		return v.state, v.notTaken(m)
	}
	v.disarm(timerOpening)
	switch {
	case errors.Is(m.err, ledger.ErrAgentBusy):
		v.verbs.refuseVerbs(switchctl.ErrSessionTerminated)
		v.ai = nil
		s.answer(switchctl.OutcomeBusy, nil)
		return v.state, nil
	case m.err != nil:
		v.log.ErrorContext(ctx, "writing the AI session failed", "error", m.err)
		v.openFailed(ctx, m.err)
		return v.state, nil //nolint:nilerr // the failure is the event, and it is handled
	}
	s.grant, s.agent, s.granted, s.grantedAt = m.grant, m.grant.Agent, true, v.c.clock.Now()
	s.logs.resume(m.grant.LogEntries, m.grant.LogBytes)
	if s.note != "" {
		v.appendLog(ctx, noteType, noteEntry(s.note), sourceSystem)
	}
	if sub := subprotocolOf(s.agent); sub != "" && !slices.Contains(v.c.cfg.Subprotocols, sub) {
		v.log.ErrorContext(ctx, "voice agent's subprotocol is not in media.subprotocols", "subprotocol", sub)
		v.openFailed(ctx, &switchctl.SubprotocolError{Subprotocol: sub})
		return v.state, nil
	}
	if s.overSIP() {
		s.grant.Bypass = false // the switch records
		if s.resumed && s.grant.Session.OpenedAt != nil {
			v.sipResumed(ctx)
		} else {
			v.findSIP(ctx)
		}
		return v.state, nil
	}
	spec, err := v.sessionSpec()
	if err != nil {
		v.log.ErrorContext(ctx, "dialing the voice agent failed", "voice_agent_id", s.agent.ID.String(), "error", err)
		v.openFailed(ctx, err)
		return v.state, nil
	}
	v.open(ctx, spec)
	return v.state, nil
}

// subprotocolOf is what a voice agent's socket is asked for; "" for a transport that has none.
func subprotocolOf(agent db.VoiceAgent) string {
	if transportOf(agent) != media.TransportWebSocket {
		return ""
	}
	return cmp.Or(agent.Subprotocol, media.SubprotocolAlpha)
}

// transportOf is the protocol on a voice agent's socket.
func transportOf(agent db.VoiceAgent) media.Transport {
	return cmp.Or(media.Transport(agent.Transport), media.TransportWebSocket)
}

// sessionSpec describes the session to the media server.
func (v *voice) sessionSpec() (media.SessionSpec, error) {
	s := v.ai
	metadata, format, err := v.c.metadata(v.call, s.grant)
	if err != nil {
		return media.SessionSpec{}, err
	}
	ai, err := openaiSession(s.agent, v.codec, &format)
	if err != nil {
		return media.SessionSpec{}, err
	}
	s.format = format
	spec := media.SessionSpec{
		ID: s.id.String(), CallID: v.id.String(), Owner: v.tenant.String(), URL: s.agent.WsUrl, Transport: transportOf(s.agent),
		Subprotocol: subprotocolOf(s.agent), AuthToken: s.grant.AuthToken, Audio: format, Twilio: twilioStream(v.call, s.id), OpenAI: ai, Metadata: metadata, Reconnected: s.grant.Session.OpenedAt != nil,
		ReconnectFor: socketReconnect, MediaTimeout: mediaSilence, Recording: v.rec.recordingSpec(),
	}
	if v.machine.detects() {
		spec.AMD = &amd.Config{}
	}
	return spec, nil
}

func (c *host) recordPath(call uuid.UUID) string {
	return filepath.Join(c.cfg.RecordDir, call.String()+".wav")
}

// open dials the AI's socket beside the actor. A session that outlived a crash is dialed for as long as one whose socket
// broke.
func (v *voice) open(ctx context.Context, spec media.SessionSpec) {
	s := v.ai
	ctx, s.cancelOpen = context.WithCancel(ctx)
	cancel, resumed := s.cancelOpen, s.resumed
	v.beside(func() {
		defer cancel()
		deadline := v.c.clock.Now().Add(socketReconnect)
		for {
			session, err := v.c.media.Open(ctx, spec)
			if err != nil && resumed && ctx.Err() == nil && v.c.clock.Now().Before(deadline) &&
				rt.Pause(ctx, v.c.clock, 200*time.Millisecond) == nil {
				continue
			}
			v.post(sessionOpened{id: s.id, media: session, err: err})
			return
		}
	})
}

// opened: the AI's socket is up, or was refused. That of a session which has ended since says nothing of the one after it.
func (v *voice) opened(ctx context.Context, m sessionOpened) (state, error) {
	s := v.ai
	if s == nil || s.phase != phaseOpening || s.id != m.id {
		return v.state, v.notTaken(m)
	}
	if m.err != nil {
		v.log.ErrorContext(ctx, "opening the voice agent's socket failed", "voice_agent_id", s.agent.ID.String(), "error", m.err)
		v.openFailed(ctx, m.err)
		return v.state, nil //nolint:nilerr // the failure is the event, and it is handled
	}
	s.phase, s.media = phaseOpen, m.media
	v.sessions = append(v.sessions, m.media)
	v.beside(func() { v.pump(m.media) })
	v.keypad.applyKeys()
	if v.machine.taken() {
		v.machine.muteForMachine(ctx)
	}
	v.sound.restore()
	if s.resumed {
		v.c.metrics.recovered.WithLabelValues("resumed").Inc()
	}
	path := ""
	if v.answerAt != nil {
		path = v.c.recordPath(v.id)
	}
	v.sessionOpens(ctx, path)
	v.tryBridge(ctx)
	v.verbs.runVerbs(ctx)
	return v.state, nil
}

// sessionOpens tells of a session that is open, once, and begins its time. path is the file of its recording; empty for none of ours.
func (v *voice) sessionOpens(ctx context.Context, path string) {
	s := v.ai
	if s.grant.Session.OpenedAt == nil {
		call, session := v.call, s.grant.Session
		v.record(ctx, "session opened", func(ctx context.Context) error {
			return v.c.ledger.SessionOpened(ctx, call, session, path)
		}, nil)
	}
	age := v.c.clock.Now().Sub(s.grant.Session.StartedAt)
	v.arm(timerSession, sessionLimit-age)
	if s.agent.TokenLifetime != callbacktoken.LifetimeSocket && !s.overSIP() { // nothing would tell it of another token; the first lasts as long
		v.arm(timerRefresh, callbacktoken.RefreshAt-age)
	}
	v.supervised.sessionBegins(ctx)
}

// openFailed ends a session whose voice agent can't be reached: a flow's caller is given back to it; else ws_disconnect_action
// applies, with the true cause. One that a process before us was opening goes to whatever handles the call, which knows whether that is a flow.
func (v *voice) openFailed(ctx context.Context, err error) {
	s := v.ai
	if s.granted && !s.overSIP() { // another one is told of where it is refused
		v.noteSocket(ctx, "refused", err)
	}
	asked, found := s.keepCaller && s.reply != nil, s.resumed && s.grant.Session.OpenedAt == nil && !v.transfers.now.pending()
	if (asked || found) && v.killCause == "" {
		reply := s.reply
		s.reply = nil
		v.endSession(ctx, ledger.SessionError, nil, media.CloseError)
		if found {
			v.line.resume(ctx, v.state)
			return
		}
		reply <- connectResult{outcome: switchctl.OutcomeFailed}
		return
	}
	if v.ai.agent.WsDisconnectAction != actionQueue {
		v.ai.answer(switchctl.OutcomeFailed, err)
	}
	v.transfers.disconnected(ctx, ledger.SessionError, ledger.CauseServiceUnavailable, media.CloseError)
}

// pump brings the session's events to the actor's mailbox.
func (v *voice) pump(m mediaSession) {
	for ev := range m.Events() {
		text, ok := ev.(media.Text)
		command := ok && text.Type == "command"
		if command {
			if err := v.takeVerb(); err != nil {
				v.commandResult(m, text.ID, nil, err)
				continue
			}
		}
		report := mediaEvent{media: m, ev: ev}
		err := v.box.Put(report)
		if errors.Is(err, switchctl.ErrMailboxFull) {
			v.c.metrics.dropped.Inc()
		}
		if err != nil {
			v.refuse(report, err)
		}
	}
}

// sessionBroke ends a session that can't go on; the call follows ws_disconnect_action.
func (v *voice) sessionBroke(ctx context.Context, outcome ledger.SessionOutcome, cause string) state {
	reason := media.CloseError
	switch outcome {
	case ledger.SessionTimeout:
		reason = media.CloseTimeout
	case ledger.SessionHangup:
		reason = media.CloseHangup
	case ledger.SessionError, ledger.SessionTransferredE164, ledger.SessionTransferredAgent, ledger.SessionTransferredSIPURI:
	}
	v.transfers.disconnected(ctx, outcome, cause, reason)
	return v.state
}

func (v *voice) sessionExpired(ctx context.Context) state {
	if !v.ai.live() {
		return v.state
	}
	v.log.InfoContext(ctx, "AI session has reached its limit", "limit", sessionLimit)
	return v.sessionBroke(ctx, ledger.SessionTimeout, ledger.CauseNormalClearing)
}

// endSession ends the session in the ledger and closes its socket.
func (v *voice) endSession(ctx context.Context, outcome ledger.SessionOutcome, final json.RawMessage, reason media.CloseReason) {
	v.endSessionWith(ctx, ledger.SessionEnd{Outcome: outcome, Final: final, At: v.c.clock.Now().UTC()}, reason)
}

func (v *voice) endSessionWith(ctx context.Context, end ledger.SessionEnd, reason media.CloseReason) {
	s := v.ai
	if !s.live() {
		return
	}
	v.monitors.endMonitors(ctx)
	v.supervised.sessionEnds(ctx)
	v.machine.taps.sessionEnds(ctx)
	s.phase, s.outcome = phaseEnded, end.Outcome
	v.refers.letGo()
	v.verbs.refuseVerbs(switchctl.ErrSessionTerminated)
	for _, k := range []timerKind{timerLeg, timerRefresh, timerSession, timerOpening} {
		v.disarm(k)
	}
	if s.cancelOpen != nil {
		s.cancelOpen()
	}
	v.c.metrics.sessions.WithLabelValues(string(end.Outcome)).Inc()
	s.closeReason = reason
	if v.killCause == "" {
		v.closeMedia()
	}
	if s.id != uuid.Nil { // also one that was not written in time: the journal keeps the order
		end.Session, end.Revoke = s.id, s.agent.TokenLifetime == callbacktoken.LifetimeSocket
		end.Unsure = !s.granted && !s.resumed
		call := v.call
		end.LogsDropped = s.logs.end(ctx)
		v.record(ctx, "session end", func(ctx context.Context) error { return v.c.ledger.EndSession(ctx, call, end) }, nil)
	}
	s.answer(switchctl.OutcomeEnded, nil)
}

// sayEnded tells the AI, once, that the call is over for it.
func (v *voice) sayEnded() {
	if s := v.ai; s != nil && !s.socketGone {
		s.socketGone = true
		v.transfers.callState("ended", string(s.closeReason))
	}
}

// awaitCaller has a caller whose session has ended come back from the media leg, by transfer_after_bridge. The endpoint's BYE
// alone would not do: the switch's thread of that leg takes it up with the next packet that it reads, and none comes any more
// (switch_rtp.c: rtp_common_read polls for 5 s).
func (v *voice) awaitCaller(ctx context.Context) {
	v.arm(timerSocket, socketTimeout)
	leg := v.ai.leg
	if v.c.link.Generation() == 0 {
		return
	}
	v.beside(func() {
		if err := fs.EndChannel(ctx, v.c.link, leg, ledger.CauseNormalClearing); err != nil {
			v.log.WarnContext(ctx, "ending the media leg failed, the switch waits for its BYE", "error", err)
		}
	})
}

// closeMedia closes the socket and the media leg of a session that has ended.
func (v *voice) closeMedia() {
	s := v.ai
	if s == nil || s.media == nil || s.phase != phaseEnded {
		return
	}
	m, reason, settled := s.media, s.closeReason, v.settled()
	v.sayEnded()
	v.beside(func() {
		settled()
		m.Close(reason)
	})
}
