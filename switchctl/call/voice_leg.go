package call

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// legUpTimeout is how long a media leg may take to come up; legRetry is the pause before the next try.
	legUpTimeout = 4 * time.Second
	legRetry     = 300 * time.Millisecond
	// legGone is how long after its leg's end a caller may take to come back.
	legGone = 1500 * time.Millisecond
	// bridgeSlack is how long the switch may take to bridge a leg that has answered, or the word of it to come.
	bridgeSlack = 2 * time.Second
	// maxBridges is how often a leg that doesn't come up is asked for.
	maxBridges = 6
	// A leg that answers and carries no packets is ended by the switch's media timeout, after 2 s. Two in a row are no accident: nobody is left
	// in silence any longer.
	maxShortLegs = 2
	legStable    = 5 * time.Second
)

// tryBridge leads the caller to the session once both are there.
func (v *voice) tryBridge(ctx context.Context) {
	s := v.ai
	if !s.live() || s.phase != phaseOpen && s.endpoint == "" || s.legUp || s.bridging || s.stoppingRingback || (v.sock == nil && !v.conference.up()) || v.killCause != "" ||
		v.transfers.now.bridging() || v.transfers.now.bridged() || v.conference.phase == conferenceStarting {
		return
	}
	if v.music.playing {
		s.stoppingRingback = true
		v.music.afterMusic(ctx, func(ctx context.Context) {
			s.stoppingRingback = false
			if v.ai == s {
				v.tryBridge(ctx)
			}
		})
		return
	}
	if s.overSIP() {
		v.bridgeSIP(ctx)
		return
	}
	if s.shortLegs >= maxShortLegs {
		v.log.ErrorContext(ctx, "media leg carries no audio, ending the AI session", "legs", s.shortLegs)
		v.sessionBroke(ctx, ledger.SessionError, ledger.CauseTemporaryFailure)
		return
	}
	s.bridges++
	leg, err := uuid.NewV7()
	arg := ""
	switch {
	case err != nil:
	case v.conference.up():
		s.leg = leg.String()
		err = v.joinConference(ctx)
	default:
		s.leg = leg.String()
		arg, err = v.c.mediaBridge(v.id.String(), s.id.String(), s.leg, v.c.media.SIPAddr(), v.codec, v.bypass.bypassCodec())
	}
	if err != nil {
		v.log.ErrorContext(ctx, "dialing the media leg failed", "error", err)
		v.sessionBroke(ctx, ledger.SessionError, ledger.CauseTemporaryFailure)
		return
	}
	s.bridging = true
	v.rec.endHumanPart(ctx)
	v.arm(timerLeg, legUpTimeout)
	if arg != "" {
		v.refers.bridge(ctx, arg)
	}
}

// joinConference dials the media leg into the call's conference: of a voice agent whose leg has died there.
func (v *voice) joinConference(ctx context.Context) error {
	vars := v.c.mediaVariables(v.id.String(), v.ai.id.String(), v.ai.leg, v.codec, "")
	vars[varConference] = v.conference.name()
	vars["originate_timeout"] = fs.RingSeconds(legUpTimeout)
	cmd, err := fs.Originate(vars, v.c.mediaEndpoint(v.ai.id.String(), v.c.media.SIPAddr()), fs.Extension(conferenceExtension, v.c.cfg.Context))
	if err != nil {
		return err
	}
	v.command(ctx, jobMediaOriginate, cmd)
	return nil
}

// originateReply is the switch's word on a media leg's originate. Of one whose reply was lost the leg tells, or its time-out. One that there was no link for
// is no try.
func (v *voice) originateReply(ctx context.Context, m jobDone) (state, error) {
	reason := refusedJob(m)
	switch {
	case reason == "" || m.unknown():
		return v.state, nil
	case errors.Is(m.err, switchctl.ErrLinkDown):
		if v.ai.live() && v.ai.bridging {
			v.ai.bridges--
		}
	default:
		v.log.WarnContext(ctx, "media leg failed", "reply", reason)
	}
	return v.bridgeRefused()
}

// legComes: caller and session are led to each other, and soon hear each other. A leg that has answered is bridged a moment later: who was taken
// elsewhere before that would go alone.
func (v *voice) legComes() bool {
	unbridged := v.ai.bridgeDue && v.c.clock.Now().Sub(v.ai.upAt) < bridgeSlack
	return (!v.ai.legUp || unbridged) && v.conference.phase == conferenceNone && !v.transfers.now.pending() && !v.transfers.now.bridged()
}

// bridgeRefused: the bridge could not be asked for; the socket is most likely closing, and a new one comes.
func (v *voice) bridgeRefused() (state, error) {
	if v.ai.live() && v.ai.bridging {
		v.ai.bridging = false
		v.arm(timerLeg, legRetry)
	}
	return v.state, nil
}

// legDue: the media leg timed out.
func (v *voice) legDue(ctx context.Context) (state, error) {
	s := v.ai
	if s.live() && v.killCause == "" && v.refers.due(ctx) {
		return v.state, nil
	}
	if !s.live() || s.legUp || v.killCause != "" || v.transfers.now.bridging() || v.transfers.now.bridged() {
		return v.state, nil
	}
	if s.overSIP() {
		v.sipDue(ctx)
		return v.state, nil
	}
	if s.bridges >= maxBridges {
		v.log.ErrorContext(ctx, "media leg did not come up, ending the AI session", "tries", s.bridges)
		return v.sessionBroke(ctx, ledger.SessionError, ledger.CauseTemporaryFailure), nil
	}
	if s.bridging {
		// A second bridge would run inside the first: that one is ended, and its end starts the next.
		s.bridging = false
		v.command(ctx, jobKillLeg, fs.Kill(s.leg, ledger.CauseNormalClearing))
		v.arm(timerLeg, legGone)
		return v.state, nil
	}
	if v.sock == nil && !v.conference.up() {
		v.probe(ctx)
		v.arm(timerLeg, legUpTimeout)
		return v.state, nil
	}
	v.tryBridge(ctx)
	return v.state, nil
}

// mediaLegEvent is an event of the switch's leg to the session. Its end while no bridge stood means that it was refused.
func (v *voice) mediaLegEvent(ctx context.Context, m channelEvent) (state, error) {
	s := v.ai
	if !s.live() || m.ev.UUID() != s.leg {
		return v.state, nil
	}
	if s.overSIP() {
		return v.sipLegEvent(ctx, m)
	}
	if m.ev.Name() != fs.ChannelHangupComplete {
		return v.state, nil
	}
	if !s.legUp {
		if s.bridging {
			v.log.WarnContext(ctx, "media leg failed", "hangup_cause", m.ev.Get("Hangup-Cause"))
		}
		s.bridging = false
		v.arm(timerLeg, legRetry)
		v.music.playMusic(ctx) // of a caller who has heard nobody for long
	}
	return v.state, nil
}

// legAnswered: caller and voice agent hear each other.
func (v *voice) legAnswered(ctx context.Context, at time.Time) state {
	s := v.ai
	s.legUp, s.bridging, s.bridges, s.upAt = true, false, 0, v.c.clock.Now()
	s.bridgeDue = !v.bypass.bridged && !v.conference.up()
	v.music.on, v.music.playing = false, false
	v.bypass.awaited = false // of an earlier leg
	v.disarm(timerLeg)
	v.line.leaveSocket()
	v.bypass.considerBypass(ctx)
	if !s.answered && (!s.resumed || v.state == stateAnswered) {
		v.transfers.callState("answered", "")
	}
	s.answered = true
	v.verbs.tryAgain() // those that need no more
	if v.state != stateAnswered {
		return v.state // an agent had the call before
	}
	if at.IsZero() {
		at = v.c.clock.Now()
	}
	v.noteConnected(ctx, nil, at.Add(-v.ahead()).UTC()) // the record has the switch's times
	return stateAgentConnected
}

// legEnded: the media leg is gone. As a rule the caller has hung up and its end follows; if the call lives, it comes
// back by transfer_after_bridge, or is taken back.
func (v *voice) legEnded() {
	if v.ai.legDown(v.c.clock.Now()) {
		v.arm(timerLeg, legGone)
	}
}

// legDown notes that the media leg has ended by itself, and reports whether it was up. Either its own end tells so or the caller, who is back
// without it: whichever comes first.
func (s *aiSession) legDown(at time.Time) (wasUp bool) {
	if !s.legUp {
		return false
	}
	s.legUp = false
	s.shortLegs++
	if at.Sub(s.upAt) >= legStable {
		s.shortLegs = 0
	}
	return true
}
