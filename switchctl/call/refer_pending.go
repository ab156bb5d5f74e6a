package call

import (
	"context"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// A transfer that is under way ends with its controller. Who has sent a REFER for it waits for its NOTIFY all the same: the next controller sends it. That it
// is to do so stands on the sender's leg, and not what the switch keeps there of a REFER, which stays: a second NOTIFY would find no subscription.

// varReferPending is set on a leg whose REFER is being carried out: the event of its NOTIFY.
const varReferPending = "rm_refer_pending"

// pends notes on the sender's leg that it waits.
func (f *referrals) pends(ctx context.Context, r *referral) {
	if r.event == "" || r.left != nil || r.err != nil { // or it has left
		return
	}
	r.noted = true
	f.note(ctx, r.leg, r.event)
}

// note keeps an event on a leg, or takes it away, in turn with what the leg is told.
func (f *referrals) note(ctx context.Context, leg, event string) {
	link := f.c.link
	f.inTurn(&f.tells, func() {
		if _, err := link.API(ctx, fs.SetVar(leg, varReferPending, event)); err != nil {
			f.log.DebugContext(ctx, "noting a REFER on its sender's leg failed", "error", err)
		}
	})
}

// referLeft is the leg of a voice agent whose session has outlived a restart.
type referLeft struct{ leg *esl.Event }

func (referLeft) Name() string    { return "REFER from before a restart" }
func (referLeft) Essential() bool { return true }

// lookForLeft asks the switch whether the voice agent's REFER was left unanswered by the controller before us.
func (f *referrals) lookForLeft(ctx context.Context) {
	if !f.voice.ai.sip.Refers() {
		return
	}
	link, leg := f.c.link, f.voice.ai.leg
	f.beside(func() {
		ev, err := fs.FindChannel(ctx, link, leg)
		if err != nil {
			f.log.WarnContext(ctx, "reading the voice agent's leg failed, a REFER of before may stay unanswered", "error", err)
		}
		if ev != nil {
			f.post(referLeft{leg: ev})
		}
	})
}

// leftBefore answers it. One that has come since goes its own way.
func (f *referrals) leftBefore(ctx context.Context, m referLeft) {
	s := f.voice.ai
	if !s.live() || s.leg != m.leg.UUID() || s.lastRefer != "" || s.referring != nil {
		return
	}
	s.lastRefer = m.leg.Var(varReferEvent)
	if event := m.leg.Var(varReferPending); event != "" {
		f.failed(ctx, &referral{leg: s.leg, event: event, noted: true}, ledger.CauseTemporaryFailure, nil)
	}
}
