package call

import (
	"context"
	"os"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// ending is the end of a call: asked of the switch, written, and what still runs stopped.
type ending struct {
	*core
	conference *conference
	agents     *agentBridge
	handling   *handling
	line       *callerLine
	monitors   *monitors
	supervised *supervised
	refers     *referrals
	talking    *talking
	taps       *taps
	transfers  *transfers
	verbs      *verbs
	voice      *voice
	final      ledger.FinalRecord
}

// beginClose ends the call with its final record: what still runs is stopped, the recording is closed, and the record
// is committed with all that follows from it.
func (e *ending) beginClose(ctx context.Context, rec ledger.FinalRecord) state {
	if e.state == stateClosing || e.state == stateDone {
		return e.state
	}
	e.final = rec
	e.timers.Stop()
	if ledger.AwaitsVerdict(e.call) {
		e.c.metrics.answered.WithLabelValues(ledger.AnsweredBy(e.call), decidedHangup).Inc()
	}
	e.agents.endAgent() // before the handler is stopped: it hears how the conversation ended
	if e.handling.stopHandler != nil {
		e.handling.stopHandler(nil)
	}
	e.line.answerWaiters(ledger.ErrCallEnded)
	e.talking.closeTalk()
	e.verbs.refuseVerbs(switchctl.ErrSessionTerminated)
	e.transfers.now.tell(controlResult{err: switchctl.ErrSessionTerminated})
	e.transfers.dropTransferLeg(ctx, e.transfers.now)
	e.conference.close(ctx)
	e.taps.endTaps(ctx, media.CloseHangup)
	e.supervised.callEnds(ctx)
	outcome := ledger.SessionHangup
	if s := e.voice.ai; s.live() {
		e.monitors.endMonitors(ctx)
		s.phase, s.outcome, s.closeReason = phaseEnded, outcome, media.CloseHangup
		if s.cancelOpen != nil {
			s.cancelOpen()
		}
		e.c.metrics.sessions.WithLabelValues(string(outcome)).Inc()
		s.answer(switchctl.OutcomeEnded, nil)
	}
	e.refers.endLeg(ctx)
	if s := e.sock; s != nil {
		e.sock = nil
		e.beside(func() { closeQuietly(s) })
	}
	e.commitClose(ctx, ledger.Closing{Call: e.call, Record: rec, Outcome: outcome, LogsDropped: e.voice.endLogs(ctx), Ahead: e.ahead()})
	return stateClosing
}

// commitClose closes the recording first, so that the file is whole when its processing starts.
func (e *ending) commitClose(ctx context.Context, c ledger.Closing) {
	var session mediaSession
	var reason media.CloseReason
	partDone := true
	if s := e.voice.ai; s != nil && s.media != nil {
		session, reason, partDone = s.media, s.closeReason, s.partDone
	}
	settled := e.voice.settled()
	e.voice.sayEnded()
	answered, sessions := c.Record.AnswerTime, e.voice.sessions
	left := session == nil && e.voice.ai != nil && e.voice.ai.resumed && !e.voice.ai.outcome.Transferred()
	e.beside(func() {
		e.c.guard(e.log, func() { // whatever becomes of this, the record is written
			if left && answered != nil {
				e.finishLeft(ctx, *answered, c.Record.EndTime)
			}
			settled()
			q, stats := measured(c.Call.Quality, sessions, reason)
			c.Quality = q.Column()
			e.c.metrics.quality.observe(q, stats)
			if session != nil && !partDone && answered != nil {
				if _, err := session.FinishRecording(answered.Add(c.Ahead), c.Record.EndTime.Add(c.Ahead)); err != nil { // it began by our clock
					e.log.ErrorContext(ctx, "finishing the recording failed", "error", err)
				}
			}
		})
		e.record(ctx, "close", func(ctx context.Context) error {
			return e.c.ledger.Close(ctx, c)
		}, func(err error) { e.post(closeCommitted{err: err}) })
	})
}

// finishLeft finishes the file of a session that was never dialed again: the call ended while nobody was there.
func (e *ending) finishLeft(ctx context.Context, answered, ended time.Time) {
	path := e.c.recordPath(e.id)
	if _, err := os.Stat(path); err != nil {
		return // nothing was recorded
	}
	if _, err := wav.Finish(ctx, path, answered, answered, ended); err != nil {
		e.log.ErrorContext(ctx, "finishing the recording failed", "error", err)
	}
}

// closing: the call is over; only its record is still on the way.
func (e *ending) closing(ctx context.Context, m message) (state, error) {
	switch m := m.(type) {
	case closeCommitted:
		e.closed(ctx, m)
		return stateDone, nil
	case controlCommand:
		return e.state, switchctl.ErrSessionTerminated
	case hangupCommand, answerCommand, connectCommand, agentCommand, musicCommand, recordCommand, noteCommand, takeCommand:
		return e.state, ledger.ErrCallEnded
	case begin:
		return e.state, e.notTaken(m)
	case channelEvent:
		if m.role == roleMember || m.role == roleTransfer {
			e.endStray(ctx, m)
		}
	}
	e.refuse(m, ledger.ErrCallEnded) // late, or told twice: the final record stands
	return e.state, nil
}

// closed: the record is committed. A record that could not be written leaves its row open, for the next look at the
// node's open calls to close it.
func (e *ending) closed(ctx context.Context, m closeCommitted) {
	if m.err != nil {
		e.log.ErrorContext(ctx, "writing the final record failed, the call stays open in the database", "error", m.err)
		return
	}
	e.c.cdrs.ScheduleDeletion(e.c.registry.channelsOf(e.core)...)
	e.c.metrics.ended.WithLabelValues(e.final.Status(), causeLabel(e.final.Cause)).Inc()
	disposition := ""
	if e.final.Disposition != nil {
		disposition = *e.final.Disposition
	}
	e.log.InfoContext(ctx, "call ended", "status", e.final.Status(), "hangup_cause", e.final.Cause,
		"hangup_disposition", disposition)
}

// killAgain: the kill timed out. While there is no link, resynchronising does it. It is repeated ever more rarely.
func (e *ending) killAgain(ctx context.Context) {
	if e.killCause == "" {
		return
	}
	e.voice.closeMedia()
	if e.c.link.Generation() == 0 {
		e.arm(timerKill, fs.KillTimeout)
		return
	}
	e.kills++
	e.log.WarnContext(ctx, "the switch has not ended the channel, killing it again", "hangup_cause", e.killCause, "repeats", e.kills)
	e.sendKill(ctx)
}

// hangupLeg is Leg.Hangup, Controller.Hangup and Controller.AgentHangup.
func (e *ending) hangupLeg(ctx context.Context, m hangupCommand) (state, error) {
	switch {
	case e.killCause != "":
	case m.agent != nil && e.conference.holds():
		if err := e.conference.guests.agentLeaves(ctx, *m.agent); err != nil {
			return e.state, err
		}
	case m.agent != nil && e.agents.givesBack(ctx, *m.agent):
	default:
		e.kill(ctx, m.cause)
	}
	m.reply <- nil
	return e.state, nil
}
