package call

import (
	"context"
	"errors"
	"time"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// dispatch brings an event of the host link to its call.
func (c *Controller) dispatch(ev *esl.Event) {
	channel := ev.UUID()
	switch {
	case ev.Name() == fs.Custom && ev.Subclass() == fs.ConferenceMaintenance:
		c.dispatchConference(ev)
		return
	case ev.Name() == fs.Custom:
		c.phones.Registered(ev)
		return
	case ev.Var("rm_role") == roleTap:
		return // its leg is watched at the media endpoint, where its audio arrives
	case ev.Var("rm_role") == phone.Role:
		c.phones.Event(ev)
		return
	}
	a := c.registry.find(channel, ev.Var("rm_call_id"))
	if a == nil {
		c.endStray(ev)
		return
	}
	role := roleCaller
	if channel != a.channel {
		role = ev.Var("rm_role")
		if role != roleTransfer && role != roleMember {
			role = roleMedia
			c.registry.own(a, channel)
		}
	}
	c.put(a, channelEvent{ev: ev, role: role})
}

// strayTimeout bounds the end of such a leg.
const strayTimeout = 5 * time.Second

// endStray ends a second leg of ours whose call is over: it was given up before the switch had it.
func (c *Controller) endStray(ev *esl.Event) {
	role := ev.Var("rm_role")
	if role != roleMember && role != roleTransfer || ev.Var("rm_node") != c.cfg.NodeID || ev.Name() != fs.ChannelAnswer {
		return
	}
	channel := ev.UUID()
	c.log.Warn("killing a leg of a call that is over", "channel", channel, "call_id", ev.Var("rm_call_id"), "role", role)
	c.goes.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), strayTimeout)
		defer cancel()
		if err := fs.EndChannel(ctx, c.link, channel, ledger.CauseNormalClearing); err != nil {
			c.log.Warn("killing a leg of a call that is over failed", "channel", channel, "error", err)
		}
	})
}

// dispatchConference brings an event of a conference to its call: the one that has the member's channel, else the one that the conference is
// named after. An event of the conference itself names no channel.
func (c *Controller) dispatchConference(ev *esl.Event) {
	switch ev.Get("Action") {
	case fs.ConferenceAddMember, fs.ConferenceDelMember, fs.ConferenceDestroy:
	default:
		return // what follows from a command, or comes with every word
	}
	if a := c.registry.find(ev.UUID(), fs.ConferenceCall(ev.Get("Conference-Name"))); a != nil {
		c.put(a, channelEvent{ev: ev, role: roleConference})
	}
}

// put queues an event for a call, or drops and counts it.
func (c *Controller) put(a *core, m channelEvent) {
	if err := a.box.Put(m); errors.Is(err, switchctl.ErrMailboxFull) {
		c.metrics.dropped.Inc()
		a.log.Warn("event dropped, the call's mailbox is full", "event", m.Name())
	}
}
