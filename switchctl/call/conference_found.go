package call

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// varMemberRole is what a phone's leg is in a conference.
const varMemberRole = "rm_member_role"

// foundConference is a conference as the switch has it.
type foundConference struct {
	members []foundMember
	// told: its start is told. silenced: the caller is muted.
	told, silenced bool
}

// foundMember is one of its members: what the leg's variables say of it.
type foundMember struct {
	channel, number       string
	id, role, destination string
	by                    string
	unit                  uuid.UUID
	// agent is whose phone it is; nil for a number.
	agent *uuid.UUID
}

// findConference asks the switch who is with a caller; nil for one who is in no conference.
func (c *host) findConference(ctx context.Context, a *core, caller *esl.Event) (*foundConference, error) {
	name := fs.ConferenceName(a.id.String())
	if !fs.InConference(caller) || caller.Var(varConference) != name {
		return nil, nil //nolint:nilnil // none is an answer
	}
	list, err := fs.ListConference(ctx, c.link, name)
	if err != nil {
		return nil, err
	}
	found := &foundConference{told: caller.Var(varConferenceTold) == "true"}
	for _, one := range list {
		m := foundMember{channel: one.Channel, number: one.Number}
		if m.channel == a.channel {
			found.silenced = one.Muted
		} else {
			ev, err := fs.FindChannel(ctx, c.link, m.channel)
			if err != nil {
				return nil, err
			}
			if ev == nil {
				continue // it has just left
			}
			m.id, m.role, m.destination = ev.Var(varMember), ev.Var(varMemberRole), ev.Var(varDestination)
			m.by = ev.Var(varMemberBy)
			m.agent = c.phones.Agent(m.channel)
			m.unit, _ = uuid.Parse(ev.Var(varUnit)) // a phone has none
		}
		found.members = append(found.members, m)
	}
	return found, nil
}

// found compares the conference with what the switch says of it, and takes one up that has outlived us. It reports whether the call is one.
//
// asked is when the switch was asked, by our clock.
func (cf *conference) found(ctx context.Context, f *foundConference, asked time.Time) bool {
	switch {
	case f == nil && asked.Before(cf.begunAt):
		return cf.up() // it has begun since
	case f == nil:
		if cf.up() {
			cf.callerCame(ctx) // it has ended while there was no link
		}
		return cf.up()
	case cf.killCause != "":
		return cf.up()
	case cf.phase == conferenceNone:
		cf.phase, cf.silenced = conferenceUp, f.silenced
		cf.bypass.holds++
		cf.begunAt = asked
		cf.dropRinging(ctx, f)
		if !f.told && cf.voice.ai != nil {
			cf.tellStart(ctx)
		}
		cf.c.metrics.recovered.WithLabelValues("resumed").Inc()
		cf.log.InfoContext(ctx, "conference found again", "members", len(f.members))
	}
	for _, m := range f.members {
		switch {
		case m.channel == cf.channel || cf.voice.ai != nil && m.channel == cf.voice.ai.leg:
			cf.joined(ctx, m.channel, m.number)
		case cf.guests.memberOn(m.channel) != nil:
			cf.guests.memberJoined(ctx, m.channel, m.number)
		case m.id != "":
			cf.adopt(m)
		}
	}
	for _, m := range slices.Clone(cf.guests.list) {
		there := slices.ContainsFunc(f.members, func(other foundMember) bool { return other.channel == m.channel })
		if m.phase == memberIn && !there {
			cf.guests.memberGone(ctx, m, changeLeft, m.source)
		}
	}
	cf.guests.lookForMembers(ctx)
	cf.muteCaller(ctx) // the switch may not have been told
	return cf.up()
}

// dropRinging ends the leg that the process before was dialing, unless it is a member's by now, who is known by the leg's own variables.
func (cf *conference) dropRinging(ctx context.Context, f *foundConference) {
	t := cf.transfers.now
	cf.transfers.now = nil
	if t == nil || slices.ContainsFunc(f.members, func(m foundMember) bool { return m.channel == t.channel || m.unit == t.adm.UnitID }) {
		return
	}
	cf.transfers.dropTransferLeg(ctx, t)
}

// adopt takes a member up whom a process before us has added.
func (cf *conference) adopt(f foundMember) {
	m := &member{id: f.id, role: f.role, destination: f.destination, source: f.by, phase: memberIn, channel: f.channel, number: f.number}
	m.adm.UnitID = f.unit
	if f.agent != nil {
		m.phone = &memberPhone{claimed: true, spec: phone.Spec{TenantID: cf.tenant, AgentID: *f.agent, Mode: phone.Held}}
		cf.c.phones.Join(f.channel, memberClaim{cf.core, m.id})
	}
	cf.c.registry.bind(cf.core, f.channel)
	cf.guests.list = append(cf.guests.list, m)
}
