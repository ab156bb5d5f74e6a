package switchctl

import (
	"context"
	"os"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/wav"
)

// beginClose ends the call with its final record: what still runs is stopped, the recording is closed, and the record
// is committed with all that follows from it.
func (a *actor) beginClose(ctx context.Context, rec finalRecord) state {
	if a.state == stateClosing || a.state == stateDone {
		return a.state
	}
	a.final = rec
	a.timers.Stop()
	if awaitsVerdict(a.call) {
		a.c.metrics.answered.WithLabelValues(answeredBy(a.call), decidedHangup).Inc()
	}
	a.endAgent() // before the handler is stopped: it hears how the conversation ended
	if a.stopHandler != nil {
		a.stopHandler(nil)
	}
	a.answerWaiters(ErrCallEnded)
	a.closeTalk()
	a.refuseVerbs()
	if t := a.transfer; t != nil {
		t.tell(controlResult{err: ErrSessionTerminated})
		a.dropTransferLeg(ctx, t)
	}
	a.endTaps(ctx, media.CloseHangup)
	outcome := sessionHangup
	if s := a.ai; s.live() {
		a.endMonitors(ctx)
		s.phase, s.outcome, s.closeReason = phaseEnded, outcome, media.CloseHangup
		if s.cancelOpen != nil {
			s.cancelOpen()
		}
		a.c.metrics.sessions.WithLabelValues(string(outcome)).Inc()
		s.answer(OutcomeEnded, nil)
	}
	if s := a.sock; s != nil {
		a.sock = nil
		a.beside(func() { closeQuietly(s) })
	}
	a.commitClose(ctx, closing{call: a.call, record: rec, outcome: outcome, logsDropped: a.endLogs(ctx), ahead: a.ahead()})
	return stateClosing
}

// commitClose closes the recording first, so that the file is whole when its processing starts.
func (a *actor) commitClose(ctx context.Context, c closing) {
	var session mediaSession
	var reason media.CloseReason
	partDone := true
	if s := a.ai; s != nil && s.media != nil {
		session, reason, partDone = s.media, s.closeReason, s.partDone
	}
	a.sayEnded()
	answered, sessions := c.record.AnswerTime, a.sessions
	left := session == nil && a.ai != nil && a.ai.resumed && !a.ai.outcome.transferred()
	a.beside(func() {
		a.c.guard(a.log, func() { // whatever becomes of this, the record is written
			if left && answered != nil {
				a.finishLeft(ctx, *answered, c.record.EndTime)
			}
			q, stats := measured(c.call.Quality, sessions, reason)
			c.quality = q.column()
			a.c.metrics.quality.observe(q, stats)
			if session != nil && !partDone && answered != nil {
				if _, err := session.FinishRecording(answered.Add(c.ahead), c.record.EndTime.Add(c.ahead)); err != nil { // it began by our clock
					a.log.ErrorContext(ctx, "recording could not be finished", "error", err)
				}
			}
		})
		a.record(ctx, "close", func(ctx context.Context) error {
			return a.c.ledger.Close(ctx, c)
		}, func(err error) { a.post(closeCommitted{err: err}) })
	})
}

// finishLeft finishes the file of a session that was never dialed again: the call ended while nobody was there.
func (a *actor) finishLeft(ctx context.Context, answered, ended time.Time) {
	path := a.c.recordPath(a.id)
	if _, err := os.Stat(path); err != nil {
		return // nothing was recorded
	}
	if _, err := wav.Finish(ctx, path, answered, answered, ended); err != nil {
		a.log.ErrorContext(ctx, "recording could not be finished", "error", err)
	}
}

// closing: the call is over; only its record is still on the way.
func (a *actor) closing(ctx context.Context, m message) (state, error) {
	switch m := m.(type) {
	case closeCommitted:
		a.closed(ctx, m)
		return stateDone, nil
	case channelEvent, jobDone, socketDown, channelFound, channelGone, timerFired, handlerDone, mediaEvent, bridgeFailed,
		tokenMinted, bypassTried, partFinished, secondStarted, sessionGranted, agentLeg, agentWaits, agentGone, agentDoubt, musicEnded, musicFetched, agentCancel, whisperReady, queueAllowed, letGo:
		return a.state, nil // late, or told twice: the final record stands
	case socketUp, sessionOpened, transferAdmitted, routeChosen:
		a.refuse(m, ErrCallEnded)
		return a.state, nil
	case tapMessage, talkMessage:
		a.refuse(m, ErrCallEnded)
		return a.state, nil
	case controlCommand:
		return a.state, ErrSessionTerminated
	case hangupCommand, answerCommand, connectCommand, agentCommand, musicCommand, recordCommand:
		return a.state, ErrCallEnded
	}
	return a.state, a.notTaken(m)
}

// closed: the record is committed. A record that could not be written leaves its row open, for the next look at the
// node's open calls to close it.
func (a *actor) closed(ctx context.Context, m closeCommitted) {
	if m.err != nil {
		a.log.ErrorContext(ctx, "final record is not written, the call stays open in the database", "error", m.err)
		return
	}
	a.c.spendCDRs(a.c.registry.channelsOf(a)...)
	a.c.metrics.ended.WithLabelValues(a.final.Status(), causeLabel(a.final.Cause)).Inc()
	disposition := ""
	if a.final.Disposition != nil {
		disposition = *a.final.Disposition
	}
	a.log.InfoContext(ctx, "call ended", "status", a.final.Status(), "hangup_cause", a.final.Cause,
		"hangup_disposition", disposition)
}
