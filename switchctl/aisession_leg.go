package switchctl

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

const (
	// legUpTimeout is how long a media leg may take to come up; legRetry is the pause before the next try.
	legUpTimeout = 4 * time.Second
	legRetry     = 300 * time.Millisecond
	// legGone is how long after its leg's end a caller may take to come back.
	legGone = 1500 * time.Millisecond
	// maxBridges is how often a leg that doesn't come up is asked for.
	maxBridges = 6
	// A leg that answers and carries no packets is ended by the switch's media timeout, after 2 s. Two in a row are no accident: nobody is left
	// in silence any longer.
	maxShortLegs = 2
	legStable    = 5 * time.Second
)

// tryBridge leads the caller to the session once both are there.
func (a *actor) tryBridge(ctx context.Context) {
	s := a.ai
	if s == nil || s.phase != phaseOpen || s.legUp || s.bridging || s.hushed || a.sock == nil || a.killCause != "" ||
		a.transfer.bridging() || a.transfer.bridged() {
		return
	}
	if a.music.playing {
		s.hushed = true
		a.afterMusic(ctx, func(ctx context.Context) {
			s.hushed = false
			if a.ai == s {
				a.tryBridge(ctx)
			}
		})
		return
	}
	if s.shortLegs >= maxShortLegs {
		a.log.ErrorContext(ctx, "media leg carries no audio", "legs", s.shortLegs)
		a.sessionBroke(ctx, sessionError, CauseTemporaryFailure)
		return
	}
	s.bridges++
	leg, err := uuid.NewV7()
	arg := ""
	if err == nil {
		s.leg = leg.String()
		arg, err = a.c.mediaBridge(a.id.String(), s.id.String(), s.leg, a.c.media.SIPAddr(), a.codec, a.bypassCodec())
	}
	if err != nil {
		a.log.ErrorContext(ctx, "media leg can't be dialed", "error", err)
		a.sessionBroke(ctx, sessionError, CauseTemporaryFailure)
		return
	}
	s.bridging = true
	a.endHumanPart(ctx)
	a.arm(timerLeg, legUpTimeout)
	a.execute(ctx, esl.ExecuteRequest{App: "bridge", Arg: arg})
}

// bridgeRefused: the bridge could not be asked for; the socket is most likely closing, and a new one comes.
func (a *actor) bridgeRefused() (state, error) {
	if a.ai.live() && a.ai.bridging {
		a.ai.bridging = false
		a.arm(timerLeg, legRetry)
	}
	return a.state, nil
}

// legDue: the media leg had to be up by now.
func (a *actor) legDue(ctx context.Context) (state, error) {
	s := a.ai
	if !s.live() || s.legUp || a.killCause != "" || a.transfer.bridging() || a.transfer.bridged() {
		return a.state, nil
	}
	if s.bridges >= maxBridges {
		a.log.ErrorContext(ctx, "media leg does not come up", "tries", s.bridges)
		return a.sessionBroke(ctx, sessionError, CauseTemporaryFailure), nil
	}
	if s.bridging {
		// A second bridge would run inside the first: that one is ended, and its end starts the next.
		s.bridging = false
		a.command(ctx, jobKillLeg, fs.Kill(s.leg, CauseNormalClearing))
		a.arm(timerLeg, legGone)
		return a.state, nil
	}
	if a.sock == nil {
		a.probe(ctx)
		a.arm(timerLeg, legUpTimeout)
		return a.state, nil
	}
	a.tryBridge(ctx)
	return a.state, nil
}

// mediaLegEvent is an event of the switch's leg to the session. Its end while no bridge stood means that it was refused.
func (a *actor) mediaLegEvent(ctx context.Context, m channelEvent) (state, error) {
	s := a.ai
	if m.ev.Name() != evHangupComplete || !s.live() || m.ev.UUID() != s.leg {
		return a.state, nil
	}
	if !s.legUp {
		if s.bridging {
			a.log.WarnContext(ctx, "media leg failed", "hangup_cause", m.ev.Get("Hangup-Cause"))
		}
		s.bridging = false
		a.arm(timerLeg, legRetry)
		a.playMusic(ctx) // of a caller who has heard nobody for long
	}
	return a.state, nil
}

// legAnswered: caller and voice agent hear each other.
func (a *actor) legAnswered(ctx context.Context, at time.Time) state {
	s := a.ai
	s.legUp, s.bridging, s.bridges, s.upAt = true, false, 0, a.c.clock.Now()
	a.music.on, a.music.playing = false, false
	a.bypass.awaited = false // of an earlier leg
	a.disarm(timerLeg)
	a.leaveSocket()
	a.considerBypass(ctx)
	if !s.answered && (!s.resumed || a.state == stateAnswered) {
		a.callState("answered", "")
	}
	s.answered = true
	if a.state != stateAnswered {
		return a.state // an agent had the call before
	}
	if at.IsZero() {
		at = a.c.clock.Now()
	}
	at = at.Add(-a.ahead()).UTC() // the record has the switch's times
	a.call.AgentConnectTime = &at
	call := a.call
	a.record(ctx, "agent connected", func(ctx context.Context) error {
		return a.c.ledger.AgentConnected(ctx, call, at)
	}, nil)
	return stateAgentConnected
}

// legEnded: the media leg is gone. As a rule the caller has hung up and its end follows; if the call lives, it comes
// back by transfer_after_bridge, or is taken back.
func (a *actor) legEnded() {
	if a.ai.legDown(a.c.clock.Now()) {
		a.arm(timerLeg, legGone)
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
