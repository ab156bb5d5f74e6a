package e2e

import (
	"slices"
	"strings"
	"time"
)

// What a verb, or a supervisor's request, is answered with: status and code.
const (
	done      = "200"
	over      = "409 AISessionTerminated"
	clash     = "409 invalid_call_state"
	unrelated = "403 no_relationship"
)

// The bounds that the model knows of.
const (
	modelMonitors = 8  // that one session has
	modelTaps     = 8  // that listen to one call
	modelMembers  = 10 // of one conference
)

// verb is a control verb with its members.
type verb struct {
	event  string
	side   string // mute, unmute
	number string // conference_add, transfer
	// fate is what becomes of the number that is dialed.
	fate   fate
	member string // conference_remove
	mode   string // monitor_start
	url    string // play_audio, whisper
	word   string // set_disposition
	other  *modelCall
}

// fate is what a number does that is dialed.
type fate int

const (
	answers fate = iota
	busy
	rings  // longer than anybody waits
	leaves // after three seconds
)

func (v verb) body() map[string]any {
	out := map[string]any{"event": v.event}
	for name, text := range map[string]string{
		"target": v.side, "destination": v.number, "member_id": v.member, "mode": v.mode, "audio_url": v.url, "disposition": v.word,
	} {
		if text != "" {
			out[name] = text
		}
	}
	switch v.event {
	case "conference_add":
		out["participant_type"] = "e164"
	case "transfer":
		out["destination_type"] = "e164"
	case "send_dtmf":
		out["digits"] = "5"
	}
	if v.other != nil {
		out["target_call_id"] = v.other.id
	}
	return out
}

// modelMember is a number in a conference, or on its way there.
type modelMember struct {
	id, number string
	fate       fate
	in         bool
	since      time.Time
}

// modelTransfer is a transfer of a call.
type modelTransfer struct {
	number string
	fate   fate
	since  time.Time
	stands bool
}

// modelMonitor is what a session has with another call.
type modelMonitor struct {
	mode           string
	barged, active bool
}

// modelCall is what is true of one call.
type modelCall struct {
	slot       int
	id, number string
	// alive: the call is up; session: its voice agent is there.
	alive, session bool
	// coming: it is being dialed, and takes no part yet.
	coming bool
	lead   string
	// apart is when a transfer came to nothing: the caller is on the way back to the voice agent for a while.
	apart time.Time
	// fleeting: the callee hangs up at a moment of its own.
	fleeting                               bool
	callerMuted, agentMuted, held, stopped bool // stopped: the recording
	disposition                            string
	conference                             bool
	members                                []*modelMember
	// outside: somebody outside was asked in, or is the destination of a transfer: whoever whispers may have fallen back to listening since.
	outside  bool
	transfer *modelTransfer // nil for none
	monitors map[*modelCall]*modelMonitor
}

// model is what is true of all of them.
type model struct {
	calls []*modelCall // those that are up, by their slot
	// supervised is the call that the supervisor listens to; nil for none.
	supervised *modelCall
	session    string // of the supervisor
	mode       string
}

func (c *modelCall) transferring() bool { return c.transfer != nil && !c.transfer.stands }

// listens reports whether the session hears another call.
func (c *modelCall) listens() bool {
	for _, mon := range c.monitors {
		if mon.active {
			return true
		}
	}
	return false
}

// listeners counts the sessions that have forked a call's audio.
func (m *model) listeners(to *modelCall) (monitors int) {
	for _, c := range m.calls {
		if mon := c.monitors[to]; mon != nil && mon.active {
			monitors++
		}
	}
	return monitors
}

// judge says which answers are right for a verb.
func (m *model) judge(c *modelCall, v verb) []string {
	var right []string
	switch {
	case !c.session:
		return []string{over}
	case c.transferring() && v.event != "hangup" && v.event != "log" && v.event != "get_call_state":
		right = append(right, clash)
		if c.transfer.fate == rings && time.Since(c.transfer.since) < 10*time.Second {
			break // it rings for longer
		}
		right = append(right, m.judgeIdle(c, v)) // it may be over
		if c.transfer.fate == answers {
			right = append(right, over)
		}
	default:
		right = append(right, m.judgeIdle(c, v))
		right = append(right, c.wavers(v)...)
	}
	if c.fleeting {
		right = append(right, over)
	}
	if v.other != nil && v.other.fleeting {
		right = append(right, clash, unrelated)
	}
	return right
}

// wavers are further answers to a verb about members who may have come, or been given up, since they were looked at.
func (c *modelCall) wavers(v verb) []string {
	coming := func(one *modelMember) bool { return one.fate == answers && time.Since(one.since) < 10*time.Second }
	switch one := c.member(v.member); {
	case v.event == "conference_remove" && one != nil && !one.in && one.fate != answers:
		return []string{clash}
	case v.other != nil && v.other.outside && (v.event == "whisper" || v.event == "monitor_start" && v.mode == "listen_and_whisper"):
		return []string{done, clash}
	case v.event == "conference_leave" && slices.ContainsFunc(c.members, coming):
		return []string{done, clash}
	}
	return nil
}

// judgeIdle is the answer of a session whose caller isn't being transferred.
func (m *model) judgeIdle(c *modelCall, v verb) string {
	switch v.event {
	case "hold", "transfer":
		return clashIf(c.conference)
	case "conference_start":
		return clashIf(c.conference || c.held)
	case "conference_add":
		return clashIf(!c.conference || len(c.members) >= modelMembers)
	case "conference_remove":
		return clashIf(!c.conference || c.member(v.member) == nil)
	case "conference_leave":
		return clashIf(!c.conference || !slices.ContainsFunc(c.members, func(one *modelMember) bool { return one.in }))
	case "monitor_start", "monitor_stop", "whisper", "barge":
		return m.judgeMonitor(c, v)
	}
	return done
}

func clashIf(so bool) string {
	if so {
		return clash
	}
	return done
}

func (c *modelCall) member(id string) *modelMember {
	i := slices.IndexFunc(c.members, func(one *modelMember) bool { return one.id == id })
	if i < 0 {
		return nil
	}
	return c.members[i]
}

func (m *model) judgeMonitor(c *modelCall, v verb) string {
	mon := c.monitors[v.other]
	active := mon != nil && mon.active
	switch {
	case v.event == "monitor_stop" && mon != nil, v.event == "monitor_start" && active:
		return done
	case v.event == "monitor_start":
		live := 0
		for _, one := range c.monitors {
			if one.active {
				live++
			}
		}
		return clashIf(!v.other.alive || live >= modelMonitors || m.listeners(v.other) >= modelTaps)
	case !active:
		return unrelated
	case v.event == "whisper":
		return clashIf(mon.barged)
	}
	return done
}

// apply makes what a verb has done true.
func (m *model) apply(c *modelCall, v verb, memberID string) {
	switch v.event {
	case "mute", "unmute":
		muted := v.event == "mute"
		if v.side == "agent" {
			c.agentMuted = muted
		} else {
			c.callerMuted = muted
		}
	case "hold", "unhold":
		c.held = v.event == "hold"
	case "recording_pause", "recording_resume":
		c.stopped = v.event == "recording_pause"
	case "set_disposition":
		c.disposition = v.word
	case "conference_start":
		c.conference = true
	case "conference_add":
		c.outside = true
		c.members = append(c.members, &modelMember{id: memberID, number: v.number, fate: v.fate, since: time.Now()})
	case "conference_remove":
		c.forget(c.member(v.member))
	case "conference_leave":
		m.sessionEnds(c)
	case "transfer":
		c.outside = true
		c.transfer = &modelTransfer{number: v.number, fate: v.fate, since: time.Now()}
	case "monitor_start":
		c.monitors[v.other] = &modelMonitor{mode: v.mode, active: true}
	case "monitor_stop":
		c.monitors[v.other].active = false
	case "barge":
		c.monitors[v.other].barged = true
	case "hangup":
		m.ends(c)
	}
}

func (c *modelCall) forget(one *modelMember) {
	c.members = slices.DeleteFunc(c.members, func(other *modelMember) bool { return other == one })
}

// sessionEnds: the voice agent has left; what it listened to, it hears no more.
func (m *model) sessionEnds(c *modelCall) {
	c.session = false
	for _, mon := range c.monitors {
		mon.active = false
	}
}

// ends: the call is over, and what others had with it.
func (m *model) ends(c *modelCall) {
	m.sessionEnds(c)
	c.alive, c.conference, c.members, c.transfer = false, false, nil, nil
	for _, other := range m.calls {
		if mon := other.monitors[c]; mon != nil {
			mon.active = false
		}
	}
	if m.supervised == c {
		m.supervised, m.session = nil, ""
	}
}

// considerEnd: a caller whom everybody has left is alone.
func (m *model) considerEnd(c *modelCall) {
	if c.conference && !c.session && len(c.members) == 0 {
		m.ends(c)
	}
}

// participants are the roles that get_call_state shows; those who are on their way may be there already.
func (m *model) participants(c *modelCall) string {
	all := []string{"caller", "voice_agent"}
	if m.supervised == c {
		all = append(all, "supervisor")
	}
	var members []string
	for _, one := range c.members {
		if one.in {
			members = append(members, "destination "+one.id)
		}
	}
	slices.Sort(members) // of those who were added at a time nobody knows who was first
	return strings.Join(append(all, members...), ", ")
}

// legs are how many channels the switch has of a call, by their role: at least and at most.
func (m *model) legs(c *modelCall) map[string][2]int {
	switch {
	case c.coming:
		return map[string][2]int{"caller": {0, 1}, "media": {0, 1}}
	case !c.alive:
		return nil
	}
	legs := map[string][2]int{"caller": {1, 1}}
	if c.session {
		legs["media"] = [2]int{1, 1}
	}
	if taps := m.listeners(c); taps > 0 {
		legs["tap"] = [2]int{taps, taps}
	}
	var in int
	for _, one := range c.members {
		if one.in {
			in++
		}
	}
	if len(c.members) > 0 {
		legs["member"] = [2]int{in, len(c.members)}
	}
	switch {
	case c.transfer == nil:
	case c.transfer.stands:
		legs["transfer"] = [2]int{1, 1}
	default:
		legs["transfer"] = [2]int{0, 1}
	}
	return legs
}

// conferees are how many are in a call's conference.
func (c *modelCall) conferees() (least, most int) {
	least = 1
	if c.session {
		least++
	}
	most = least
	for _, one := range c.members {
		most++
		if one.in {
			least++
		}
	}
	return least, most
}
