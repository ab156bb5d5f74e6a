package simswitch

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// conferences are those that run now, by name.
type conferences struct {
	sw *Switch

	// telling is held while members come and go and while that is told, so that events come in the order of the sizes that they tell. It is
	// taken before any other lock.
	telling sync.Mutex

	mu     sync.Mutex // guards all below
	byName map[string]*conference
	ids    int // members so far
}

// conference mixes its members: each hears all others. It begins with its first member and ends with its last (mod_conference.c).
type conference struct {
	name, profile, uuid string
	begun               time.Time

	mu      sync.Mutex // guards the members and all that they have; taken under that of the port that feeds it, or of the one that plays it
	members []*member
}

// member is one leg of a conference.
type member struct {
	*conference
	ch     *channel
	id     int
	since  time.Time
	hears  map[*member]*spySide // what the others say, on its way
	muted  bool
	deaf   bool
	ends   bool // the conference ends with this member (endconf)
	left   bool
	put    chan struct{} // closed when it is taken out
	kicked bool          // by a command
}

// leave has the member's application end. The caller holds mu.
func (m *member) leave(kicked bool) {
	if !m.left {
		m.left, m.kicked = true, kicked
		close(m.put)
	}
}

// say takes a frame that the member's party says.
func (m *member) say(pcm []int16) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.muted {
		return
	}
	for _, other := range m.members {
		if other != m {
			other.hears[m].put(pcm)
		}
	}
}

// source is what the member's party hears.
func (m *member) source(frame []int16) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, side := range m.hears {
		side.add(frame)
	}
	if m.deaf {
		clear(frame)
	}
	return true
}

// conferenceArg is the application's: name[+pin][@profile][+flags{a|b}]. A PIN is not asked for here.
func conferenceArg(arg string) (name, profile string, flags []string) {
	name, set, _ := strings.Cut(strings.TrimSpace(arg), "+flags{")
	set, _, _ = strings.Cut(set, "}")
	name, profile, found := strings.Cut(name, "@")
	if !found {
		profile = "default"
	}
	name, _, _ = strings.Cut(name, "+")
	return strings.TrimSpace(name), profile, strings.FieldsFunc(set, func(r rune) bool { return r == '|' || r == ',' })
}

// conferenceApp is in a conference until it is taken out, sent elsewhere or hung up. With hangup_after_conference=false the extension goes
// on after the conference's own end, too.
func (ch *application) conferenceApp(arg string) {
	name, profile, flags := conferenceArg(arg)
	if name == "" || ch.media == nil {
		return
	}
	if !ch.isAnswered() {
		ch.leg.in.preAnswer()
	}
	ch.readsLinear(true)
	m := ch.sw.conferences.join(ch.channel, name, profile, append(flags, strings.Split(ch.get("conference_member_flags"), "|")...))
	play := ch.media.startPlay(m.source)
	ch.media.setMember(m)
	for ch.pause(m.put, 0) == endBreak {
		continue
	}
	ch.media.setMember(nil)
	ch.media.stopPlay(play)
	ch.sw.conferences.leave(m)
	ch.readsLinear(false)
	if v, set := ch.lookup("hangup_after_conference"); !m.kicked && m.left && (!set || isTrue(v)) {
		ch.hangup(causeNormalClearing)
	}
}

func (m *mediaPort) setMember(in *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.member = in
}

// join brings a channel into a conference, which begins with it if need be.
func (cs *conferences) join(ch *channel, name, profile string, flags []string) *member {
	cs.telling.Lock()
	defer cs.telling.Unlock()
	cs.mu.Lock()
	c := cs.byName[strings.ToLower(name)]
	begins := c == nil
	if begins {
		c = &conference{name: name, profile: profile, uuid: uuid.NewString(), begun: time.Now()}
		cs.byName[strings.ToLower(name)] = c
	}
	if ch.app.memberID == 0 {
		cs.ids++
		ch.app.memberID = cs.ids
	}
	cs.mu.Unlock()
	m := &member{
		conference: c, ch: ch, id: ch.app.memberID, since: time.Now(), hears: make(map[*member]*spySide), put: make(chan struct{}),
		muted: slices.Contains(flags, "mute"), deaf: slices.Contains(flags, "deaf"), ends: slices.Contains(flags, "endconf"),
	}
	ch.setAll([]header{{"conference_name", c.name}, {"conference_uuid", c.uuid}, {"conference_member_id", strconv.Itoa(m.id)}})
	if begins {
		cs.sw.bus.fire(c.event(cs.sw, "conference-create", 0))
	}
	c.mu.Lock()
	for _, other := range c.members {
		other.hears[m], m.hears[other] = &spySide{}, &spySide{}
	}
	c.members = append(c.members, m)
	size := len(c.members)
	c.mu.Unlock()
	m.tell("add-member", size)
	return m
}

// destroyedAfter is how long after its last member's end a conference's is told. One of the same name may have begun by then.
const destroyedAfter = 20 * time.Millisecond

// leave takes a member out. The conference ends with the last one.
func (cs *conferences) leave(m *member) {
	c := m.conference
	cs.telling.Lock()
	defer cs.telling.Unlock()
	c.mu.Lock()
	c.members = slices.DeleteFunc(c.members, func(other *member) bool { return other == m })
	for _, other := range c.members {
		delete(other.hears, m)
		if m.ends && !slices.ContainsFunc(c.members, func(other *member) bool { return other.ends }) {
			other.leave(false)
		}
	}
	size := len(c.members)
	c.mu.Unlock()
	m.tell("del-member", size)
	if size > 0 {
		return
	}
	cs.mu.Lock()
	delete(cs.byName, strings.ToLower(c.name))
	cs.mu.Unlock()
	cs.sw.goFunc(func() {
		t := time.NewTimer(destroyedAfter)
		defer t.Stop()
		select {
		case <-t.C:
			cs.sw.bus.fire(c.event(cs.sw, "conference-destroy", 0))
		case <-cs.sw.stop:
		}
	})
}

// find finds a conference that runs.
func (cs *conferences) find(name string) *conference {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byName[strings.ToLower(name)]
}

// conferenceEvents is the subclass of what conferences tell.
const conferenceEvents = "conference::maintenance"

// about are the headers of every event of a conference.
func (c *conference) about(size int) []header {
	return []header{
		{"Conference-Name", c.name},
		{"Conference-Domain", "cluecon.com"},
		{"Conference-Size", strconv.Itoa(size)},
		{"Conference-Ghosts", "0"},
		{"Conference-Profile-Name", c.profile},
		{"Conference-Unique-ID", c.uuid},
	}
}

// event is one of the conference itself: it names no channel.
func (c *conference) event(sw *Switch, action string, size int) *event {
	e := sw.newCustom(conferenceEvents)
	e.addAll(c.about(size)...)
	e.add("Action", action)
	return e
}

// tell fires an event of the member. It has its channel's data without the variables.
func (m *member) tell(action string, size int) {
	m.mu.Lock()
	muted, deaf := m.muted, m.deaf
	m.mu.Unlock()
	ch := m.ch
	ch.events.emitMu.Lock()
	defer ch.events.emitMu.Unlock()
	e := ch.sw.newCustom(conferenceEvents)
	e.addAll(m.about(size)...)
	ch.events.describe(e, false)
	e.addAll(
		header{"Video", "false"},
		header{"Hear", strconv.FormatBool(!deaf)},
		header{"See", "true"},
		header{"Speak", strconv.FormatBool(!muted)},
		header{"Talking", "false"},
		header{"Mute-Detect", "false"},
		header{"Hold", "false"},
		header{"Member-ID", strconv.Itoa(m.id)},
		header{"Member-Type", "member"},
		header{"Member-Ghost", "false"},
		header{"Energy-Level", "0"},
		header{"Current-Energy", "0"},
		header{"Action", action},
	)
	ch.events.fire(e)
}
