package call

import (
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// grip is how firmly a party holds the caller.
type grip int

const (
	gripNone grip = iota
	// gripPending: it is claimed, dialed or opened; the caller isn't led to it yet.
	gripPending
	// gripBridging: the switch leads the caller to it.
	gripBridging
	// gripConnected: caller and party hear each other.
	gripConnected
)

// party is one of those that a caller can be with: a machine's message, a voice agent, an agent, a destination, a prompt.
type party interface {
	grip() grip
	// participant is the party on the line; nil while it isn't, and for one that is no participant.
	participant() *participant
	// occupied is why nobody else gets the caller while this party holds it.
	occupied(event string) error
}

// The roles of participants beside the caller.
const (
	roleVoiceAgent  = "voice_agent"
	roleDestination = "destination"
)

// participant is somebody on the line, as the API and the events show them. Members that don't fit the role are empty.
type participant struct {
	role         string
	memberID     string
	voiceAgentID uuid.UUID
	destination  string
}

// parties tells who holds the caller. At most one is connected with it; others may be on their way.
type parties struct {
	*core
	machine, voice, agent, destination, prompt party
	// conference is a party as well; its members are participants.
	conference *conference
}

// use is what somebody may want with the caller, or know of it.
type use int

const (
	forVoiceAgent use = iota
	forAgent
	forDestination
	forPrompt
	forMusic
	toStopMusic
	// playMusicNow: nothing that the caller hears, or is about to hear, is in the way of music that was asked for.
	playMusicNow
	// hearNothing: the caller is in silence.
	hearNothing
	// endWithHandler: nobody goes on with the call when its handler has returned.
	endWithHandler
	// stayOnSocket: the switch has not taken the caller away from its socket.
	stayOnSocket
	// toTakeAway: nobody from whom a supervisor can't take the caller has them.
	toTakeAway
)

// limits are the grips from which on the parties are in the way of a use; gripNone is never.
type limits struct {
	machine, voice, agent, destination, prompt, conference grip
}

// limits is the table of who gets the caller when.
func (u use) limits() limits {
	return [...]limits{
		forVoiceAgent: {machine: gripConnected, voice: gripPending, agent: gripPending, destination: gripConnected, conference: gripBridging},
		forAgent:      {machine: gripPending, voice: gripPending, agent: gripPending, destination: gripPending, conference: gripBridging},
		forDestination: {
			machine: gripConnected, voice: gripPending, agent: gripPending, destination: gripPending, prompt: gripConnected, conference: gripBridging,
		},
		forPrompt:    {machine: gripConnected, voice: gripPending, agent: gripBridging, destination: gripPending, conference: gripBridging},
		forMusic:     {machine: gripPending, voice: gripPending, agent: gripBridging, destination: gripConnected, conference: gripBridging},
		toStopMusic:  {machine: gripPending},
		playMusicNow: {voice: gripBridging, agent: gripBridging, destination: gripBridging, prompt: gripConnected, conference: gripBridging},
		hearNothing: {
			machine: gripPending, voice: gripConnected, agent: gripBridging, destination: gripBridging, prompt: gripConnected, conference: gripConnected,
		},
		endWithHandler: {voice: gripPending, agent: gripConnected, destination: gripConnected, conference: gripConnected},
		stayOnSocket:   {agent: gripBridging, destination: gripConnected, conference: gripBridging},
		toTakeAway:     {},
	}[u]
}

// inTheWay is the party that stands in the way of a use; nil when none does.
func (p *parties) inTheWay(u use) party {
	min := u.limits()
	for _, held := range []struct {
		by  party
		min grip
	}{{p.machine, min.machine}, {p.voice, min.voice}, {p.destination, min.destination}, {p.agent, min.agent}, {p.prompt, min.prompt}, {p.conference, min.conference}} {
		if held.min > gripNone && held.by.grip() >= held.min {
			return held.by
		}
	}
	return nil
}

// refuse is why somebody doesn't get the caller now; nil when they do.
func (p *parties) refuse(u use, event string) error {
	if p.killCause != "" {
		return ledger.ErrCallEnded
	}
	if by := p.inTheWay(u); by != nil {
		return by.occupied(event)
	}
	return nil
}

// free reports whether no party stands in the way of a use.
func (p *parties) free(u use) bool { return p.inTheWay(u) == nil }

// participants are who is on the line, the caller first.
func (p *parties) participants() []participant {
	list := []participant{{role: "caller", memberID: p.channel}}
	for _, by := range []party{p.voice, p.destination} {
		if one := by.participant(); one != nil {
			list = append(list, *one)
		}
	}
	return append(list, p.conference.guests.present()...)
}

// members are those, as events name them.
func (p *parties) members() []ledger.ConferenceMember {
	var list []ledger.ConferenceMember
	for _, one := range p.participants() {
		m := ledger.ConferenceMember{MemberID: one.memberID, Role: one.role}
		if one.destination != "" {
			m.Destination = new(one.destination)
		}
		list = append(list, m)
	}
	return list
}

// conflict is the error of an event that the call's state doesn't allow.
func (k *core) conflict(event, detail string) error {
	return &switchctl.StateError{State: k.state.String(), Event: event, Detail: detail}
}

// grip implements [party].
func (mc *machine) grip() grip {
	switch {
	case mc.taken():
		return gripConnected
	case mc.phase != machineNone:
		return gripPending
	}
	return gripNone
}

func (mc *machine) participant() *participant { return nil }
func (mc *machine) occupied(string) error     { return switchctl.ErrMachine }

// grip implements [party].
func (v *voice) grip() grip {
	switch s := v.ai; {
	case !s.live():
		return gripNone
	case s.legUp:
		return gripConnected
	case s.bridging, s.stoppingRingback:
		return gripBridging
	}
	return gripPending
}

func (v *voice) participant() *participant {
	if !v.ai.live() {
		return nil
	}
	return &participant{role: roleVoiceAgent, memberID: v.ai.id.String(), voiceAgentID: v.ai.agent.ID}
}

func (v *voice) occupied(event string) error {
	return v.conflict(event, "an AI session is on the call")
}

// grip implements [party].
func (b *agentBridge) grip() grip {
	switch h := b.human; {
	case h == nil:
		return gripNone
	case h.bridged():
		return gripConnected
	case h.bridging():
		return gripBridging
	}
	return gripPending
}

func (b *agentBridge) participant() *participant { return nil }

func (b *agentBridge) occupied(event string) error {
	return b.conflict(event, "an agent is on the call")
}

// grip implements [party].
func (x *transfers) grip() grip {
	switch t := x.now; {
	case t == nil:
		return gripNone
	case t.bridged():
		return gripConnected
	case t.bridging():
		return gripBridging
	}
	return gripPending
}

func (x *transfers) participant() *participant {
	if !x.now.bridged() {
		return nil
	}
	return &participant{role: roleDestination, memberID: x.now.channel, destination: x.now.facts.Destination}
}

func (x *transfers) occupied(event string) error {
	return x.conflict(event, "the call is transferred")
}

// grip implements [party].
func (s *talking) grip() grip {
	if s.now == nil {
		return gripNone
	}
	return gripConnected
}

func (s *talking) participant() *participant { return nil }

func (s *talking) occupied(event string) error {
	return s.conflict(event, "the caller hears something else")
}
