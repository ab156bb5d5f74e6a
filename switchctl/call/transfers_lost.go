package call

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// A transfer goes on although the link to the switch was lost: what the switch says of its channels, once there is a link again, decides.

// apart: the switch, asked at a time of our clock, has the caller, and not with the destination. A bridge that is overdue has not come about. One whose
// reply was lost with the link is asked for again: of a handler's caller, whom the switch bridges at once, over the next link, and of a voice agent's, who
// goes on hearing that, not before the bridge is overdue.
func (x *transfers) apart(ctx context.Context, m channelFound) {
	t := x.now
	if x.parted(ctx, m.last, m.bridgedAt) {
		return
	}
	overdue := !t.overdue.IsZero() && !m.asked.Before(t.overdue)
	lost := !t.unheard.IsZero() && m.asked.After(t.unheard)
	switch {
	case lost && (t.handler || overdue):
		x.log.WarnContext(ctx, "transfer did not come about on the switch, asking for it again")
		x.bridgeTransfer(ctx)
	case overdue:
		x.log.WarnContext(ctx, "transfer did not come about on the switch")
		x.unbridge(ctx, ledger.CauseTemporaryFailure)
	}
}

// parted has a handler's caller go on who is with nobody, and was with the destination, of which nobody has heard; false for any other. last is the channel
// that they were bridged with last, at a time of the switch's, if that is known.
func (x *transfers) parted(ctx context.Context, last string, at time.Time) bool {
	t := x.now
	if !t.bridging() || !t.handler || last != t.channel {
		return false
	}
	x.cameAbout(ctx, x.switchTime(at))
	_, _ = x.transferLegEnded(ctx, ledger.FinalRecord{Cause: ledger.CauseNormalClearing})
	return true
}

// partedBefore has a handler's caller go on who was with the destination before this call was found again; false for any other.
func (x *transfers) partedBefore(ctx context.Context, m channelFound) bool {
	t := x.now
	if x.over != nil {
		return true // the destination's end has told
	}
	if !x.handlersBefore() || m.last != t.channel && m.lastUnit != t.adm.UnitID.String() {
		return false
	}
	t.handler = true
	x.cameAbout(ctx, x.switchTime(m.bridgedAt))
	_, _ = x.transferLegEnded(ctx, ledger.FinalRecord{Cause: ledger.CauseNormalClearing})
	return true
}

// handlersBefore tells of a transfer that the process before us has begun for the call's handler, before any voice agent or behind one that was never reached.
func (x *transfers) handlersBefore() bool {
	s := x.voice.ai
	return x.now.pending() && (s == nil || s.neverReached())
}

// bridgedUnseen: the second leg's end tells that it was bridged with the caller, of which nobody has heard.
func (x *transfers) bridgedUnseen(ctx context.Context, end *esl.Event) {
	t, before := x.now, x.recovered && x.handlersBefore()
	if !t.bridging() && !before || end.Var(varLastBridge) != x.channel {
		return
	}
	t.handler = t.handler || before
	at := x.switchTime(end.Micros("Caller-Channel-Bridged-Time"))
	if x.cameAbout(ctx, at); !t.handler {
		x.stands(ctx, at.Add(x.ahead()))
	}
}

// switchTime is a time of the switch's, or now by its clock where it doesn't tell.
func (x *transfers) switchTime(at time.Time) time.Time {
	if at.IsZero() {
		return x.c.clock.Now().Add(-x.ahead())
	}
	return at
}

// secondLeg is what the switch says of a transfer's second leg, or a conference member's, when asked, and of how one has ended that it doesn't have.
type secondLeg struct {
	channel string
	leg     *esl.Event // nil when there is no such channel
	ended   ledger.FinalRecord
}

func (secondLeg) Name() string    { return "second leg found" }
func (secondLeg) Essential() bool { return true }

// lookForSecond asks the switch for a second leg of which nobody has heard since it was dialed, or that the handler's caller is no longer with: other is whom
// they are bridged with. With the end of any other bridge the caller is hung up.
func (x *transfers) lookForSecond(ctx context.Context, other string) {
	t := x.now
	if t == nil || t.channel == "" {
		return
	}
	dialed, left := t.phase == transferDialing && t.lost, t.bridged() && t.handler && t.channel != other
	if dialed || left {
		x.lookForLeg(ctx, t.channel)
	}
}

// lookForLeg asks the switch for a leg of the call that is no phone's: the answer is a secondLeg.
func (k *core) lookForLeg(ctx context.Context, channel string) {
	m := secondLeg{channel: channel, ended: ledger.FinalRecord{Cause: ledger.CauseNetworkOutOfOrder}}
	k.beside(func() {
		leg, err := fs.FindChannel(ctx, k.c.link, channel)
		if err != nil {
			k.log.DebugContext(ctx, "looking for a call's second leg failed", "error", err)
			return // the next connection looks again, or its time is over
		}
		m.leg = leg
		if rec, err := k.c.cdrs.Read(channel); leg == nil && err == nil {
			m.ended = rec.Final()
		}
		k.post(m)
	})
}

// secondNamed: a call that is found again has a second leg over another route than the first, whose channel alone has the name of its unit.
func (x *transfers) secondNamed(m secondLeg) bool {
	t := x.now
	if t == nil || !x.recovered || m.leg == nil || m.leg.Var(varPartner) != x.channel {
		return false
	}
	x.c.registry.unbind(t.channel)
	t.channel = m.channel
	x.c.registry.bind(x.core, t.channel)
	return true
}

// secondFound: the second leg rings, or has been answered, or ended. One that has left the caller is about to end.
func (x *transfers) secondFound(ctx context.Context, m secondLeg) (state, error) {
	t := x.now
	if x.secondNamed(m) || t == nil || t.phase != transferDialing && !t.bridged() || t.channel != m.channel {
		return x.state, nil // it has gone on by an event
	}
	switch {
	case m.leg == nil:
		return x.transferLegEnded(ctx, m.ended)
	case t.phase == transferDialing && fs.Answered(m.leg):
		x.transferAnswered(ctx)
	}
	return x.state, nil
}
