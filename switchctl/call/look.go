package call

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/hostlink"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// look asks the switch for a call's channel. The answer goes to the actor. Where there is none, follow does the rest, which takes as long as the
// call's record takes to come: it is nil otherwise, and to be called once. leg is the call's media leg on the switch, if one is known: when the caller
// is gone it is ended, since the switch may wait for its packets before it writes the caller's record. An error says that the switch didn't answer.
func (c *host) look(ctx context.Context, a *core, leg string) (follow func(), err error) {
	if !a.looking.CompareAndSwap(false, true) {
		return nil, nil //nolint:nilnil // somebody does already
	}
	defer func() {
		if follow == nil {
			a.looking.Store(false)
		}
	}()
	generation := c.link.Generation()
	if generation == 0 {
		return nil, switchctl.ErrLinkDown // the next connection looks at every call
	}
	asked := c.clock.Now()
	found, err := fs.FindChannel(ctx, c.link, a.channel)
	if err != nil {
		a.log.DebugContext(ctx, "channel lookup failed", "error", err)
		return nil, err
	}
	if found == nil {
		seen, restarted := c.sight.Last()
		gone := channelGone{generation: generation, restarted: restarted, switchSeen: seen}
		return func() {
			defer a.looking.Store(false)
			c.followGone(ctx, a, leg, gone)
		}, nil
	}
	at := found.Micros("Caller-Channel-Answered-Time")
	ahead := hostlink.AheadOf(found, asked, c.clock.Now())
	conference, err := c.findConference(ctx, a, found)
	if err != nil {
		a.log.DebugContext(ctx, "conference lookup failed", "error", err)
		return nil, err
	}
	a.post(channelFound{
		answered: fs.Answered(found), answeredAt: at, generation: generation, ahead: ahead, bridgedAt: found.Micros("Caller-Channel-Bridged-Time"),
		other: found.Var("signal_bond"), last: found.Var(varLastBridge), lastUnit: c.lastUnit(a, found), bypassed: found.Get("Channel-State") == fs.Hibernating,
		paused: found.Var(varPaused) == "true", sound: found.Var(varSound), taken: found.Var(varTaken), transfer: found.Var(varTransfer), left: a.hadAgent && c.agentLeft(ctx, found),
		conference: conference, asked: asked,
	})
	return nil, nil //nolint:nilnil // nothing follows
}

// followGone ends the media leg of a call whose channel is gone, waits for the call's record, and tells the actor.
func (c *host) followGone(ctx context.Context, a *core, leg string, gone channelGone) {
	if leg != "" {
		if err := fs.EndChannel(ctx, c.link, leg, ledger.CauseNormalClearing); err != nil {
			a.log.DebugContext(ctx, "killing the media leg of an ended call failed", "error", err)
		}
	}
	timeout := callRecordTimeout
	if gone.restarted {
		timeout = 0 // whoever would have written it is dead
	}
	if rec, err := c.cdrs.Wait(ctx, a.channel, timeout); err == nil {
		final := rec.Final()
		gone.record, gone.served = &final, c.servedBy(ctx, rec.Get)
	}
	if ctx.Err() == nil {
		a.post(gone)
	}
}

// varLastBridge is the leg that a caller was bridged with last, as the switch keeps it.
const varLastBridge = "last_bridge_to"

// lastUnit is the unit of the leg that the caller of a call which was found again was bridged with last, as that leg's call record has it; empty for none.
func (c *host) lastUnit(a *core, caller *esl.Event) string {
	if !a.adopted {
		return ""
	}
	rec, err := c.cdrs.Read(caller.Var(varLastBridge))
	if err != nil {
		return ""
	}
	return rec.Get("variable_" + varUnit)
}

// leftTimeout bounds the wait for the call record of an agent's leg that has just ended: the caller may be here before it.
const leftTimeout = time.Second

// agentLeft tells from the call record of the leg that a caller was bridged with last whether its party has hung up, as an
// agent does to end a call.
func (c *host) agentLeft(ctx context.Context, caller *esl.Event) bool {
	leg := caller.Var(varLastBridge)
	if leg == "" || caller.Var("signal_bond") == leg {
		return false
	}
	rec, err := c.cdrs.Read(leg)
	if err != nil && uuid.Validate(leg) == nil {
		if there, err := c.link.API(ctx, fs.Exists(leg)); err != nil || strings.TrimSpace(there) == "true" {
			return false
		}
		rec, err = c.cdrs.Wait(ctx, leg, leftTimeout)
	}
	if err != nil {
		return false
	}
	final := rec.Final()
	return final.Disposition != nil && *final.Disposition == "recv_bye"
}

// resyncTries bounds how often a resynchronisation that was cut off is tried on one connection.
const (
	resyncTries = 5
	resyncPause = 500 * time.Millisecond
)
