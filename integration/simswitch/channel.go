package simswitch

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// chanState is where a channel is in its life, by FreeSWITCH's numbers.
type chanState int

// The states that a channel of this switch knows.
const (
	csNew           chanState = 0
	csInit          chanState = 1
	csRouting       chanState = 2
	csSoftExecute   chanState = 3
	csExecute       chanState = 4
	csExchangeMedia chanState = 5
	csPark          chanState = 6
	csConsumeMedia  chanState = 7
	csHibernate     chanState = 8
	csHangup        chanState = 10
	csReporting     chanState = 11
	csDestroy       chanState = 12
)

func (s chanState) String() string {
	return "CS_" + [...]string{
		"NEW", "INIT", "ROUTING", "SOFT_EXECUTE", "EXECUTE", "EXCHANGE_MEDIA", "PARK", "CONSUME_MEDIA", "HIBERNATE", "RESET", "HANGUP",
		"REPORTING", "DESTROY",
	}[s]
}

// appRecord is a line of the call record's app_log.
type appRecord struct {
	app, data string
	at        time.Time
}

// message is what a controller queued for a channel: an execute or a hang-up.
type message struct {
	command, app, arg, eventUUID, cause string
	loops                               int
	lock                                bool
}

// channel is one leg. Its own goroutine (run) walks through its states and runs its applications; others change it under mu
// and wake it. One lock is taken after the other, never two, with one exception: reporting's emitMu spans building and firing an event.
// What it can do is in its parts (parts.go).
type channel struct {
	sw        *Switch
	uuid      string
	outbound  bool
	name      string
	sessionID int64
	leg       *sipLeg
	media     *mediaPort
	gone      chan struct{} // closed when the channel is destroyed

	app     application
	bridge  bridging
	bypass  bypassing
	events  reporting
	rec     recording
	way     routing
	control controlling
	end     ending

	mu          sync.Mutex // guards all below, and the parts' fields
	changed     chan struct{}
	vars        variables
	profile     *callerProfile
	state       chanState
	running     chanState // what the channel's goroutine is in: Channel-State
	callState   string
	answered    bool
	early       bool
	ringReady   bool
	hangupCause cause
	breaks      int // rises with each uuid_break
	held        bool
	holdSince   time.Time
}

// signals are facts whose events have been fired: who waits for them acts after the event.
type signals struct {
	progress, media, answer bool
}

// newChannel makes a channel of a leg; register it before use.
func (sw *Switch) newChannel(id string, outbound bool) *channel {
	if id == "" {
		id = uuid.NewString()
	}
	ch := &channel{
		sw: sw, uuid: id, outbound: outbound, gone: make(chan struct{}), changed: make(chan struct{}),
		state: csNew, running: csNew, callState: "DOWN",
	}
	ch.assemble()
	ch.set("direction", ch.direction())
	if outbound {
		ch.set("is_outbound", "true")
	}
	ch.set("uuid", id)
	ch.set("call_uuid", id)
	return ch
}

func (ch *channel) direction() string {
	if ch.outbound {
		return "outbound"
	}
	return "inbound"
}

// notify wakes whoever waits for a change. The caller holds mu.
func (ch *channel) notify() {
	close(ch.changed)
	ch.changed = make(chan struct{})
}

// watch returns a channel that closes at the next change.
func (ch *channel) watch() <-chan struct{} {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.changed
}

// waitFor waits until done, which is asked under mu at each change. It is false when the time is over, or the switch stops, before.
func (ch *channel) waitFor(d time.Duration, done func() bool) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for {
		changed := ch.watch()
		ch.mu.Lock()
		is := done()
		ch.mu.Unlock()
		if is {
			return true
		}
		select {
		case <-changed:
		case <-timeout.C:
			return false
		case <-ch.sw.stop:
			return false
		}
	}
}

func (ch *channel) set(name, value string) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.vars.set(name, value)
}

func (ch *channel) setAll(vars []header) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for _, v := range vars {
		ch.vars.set(v.name, v.value)
	}
}

func (ch *channel) get(name string) string {
	v, _ := ch.lookup(name)
	return v
}

func (ch *channel) lookup(name string) (string, bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.vars.get(name)
}

// seconds reads a variable as a number of seconds, 0 when it is none.
func (ch *channel) seconds(name string) time.Duration {
	n, err := strconv.Atoi(ch.get(name))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// up says that the channel isn't hung up.
func (ch *channel) up() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.hangupCause == causeNone && ch.state < csHangup
}

// ready says that a running application may go on: neither hung up nor transferred.
func (ch *channel) ready() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.readyLocked()
}

func (ch *channel) readyLocked() bool {
	return ch.hangupCause == causeNone && ch.state < csHangup && !ch.way.transferring
}

func (ch *channel) isAnswered() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.answered
}

// setState moves the channel on, unless it is hung up already.
func (ch *channel) setState(s chanState) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.state < csHangup && ch.hangupCause == causeNone {
		ch.state = s
		ch.notify()
	}
}

// moveOn takes the channel from a state to the one that follows, unless it is hung up or a command was faster: the leg that is dialed
// may have been answered and sent on before its own goroutine is done with the INVITE.
func (ch *channel) moveOn(from, to chanState) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.state == from && ch.readyLocked() {
		ch.state = to
		ch.notify()
	}
}

// post queues a controller's message.
func (ch *controlling) post(m message) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.queue = append(ch.queue, m)
	ch.notify()
}

// maxNesting is how deep messages run inside of running applications (switch_ivr.c).
const maxNesting = 32

// nextMessage takes the oldest message that may run now.
func (ch *controlling) nextMessage() (message, bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if len(ch.queue) == 0 || ch.app.locked > 0 || ch.app.depth >= maxNesting || !ch.readyLocked() {
		return message{}, false
	}
	m := ch.queue[0]
	ch.queue = slices.Delete(ch.queue, 0, 1)
	return m, true
}

// waitEnd says why pause returned.
type waitEnd int

const (
	endDone    waitEnd = iota // what was waited for is there
	endTimeout                // the time is over
	endStopped                // hung up or transferred
	endBreak                  // uuid_break
)

// pause blocks the channel's goroutine until done closes, the time is over (0 = never), the channel is hung up or transferred,
// or broken off. Messages of controllers run meanwhile.
func (ch *channel) pause(done <-chan struct{}, d time.Duration) waitEnd {
	var timeout <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timeout = t.C
	}
	ch.mu.Lock()
	breaks := ch.breaks
	ch.mu.Unlock()
	// Whatever reads a leg's audio, not a bridge alone, sees that none comes.
	silent := newMediaWatch(ch)
	defer silent.stop()
	for {
		changed := ch.watch()
		ch.mu.Lock()
		ready, broken := ch.readyLocked(), ch.breaks != breaks
		ch.mu.Unlock()
		switch {
		case !ready:
			return endStopped
		case broken:
			ch.mu.Lock()
			ch.breaks = breaks // it ends the innermost application alone
			ch.mu.Unlock()
			return endBreak
		}
		if m, ok := ch.control.nextMessage(); ok {
			ch.app.handle(m)
			continue
		}
		select {
		case <-done:
			return endDone
		case <-timeout:
			return endTimeout
		case <-silent.tick():
			silent.check()
		case <-changed:
		}
	}
}

// after runs f in d unless the channel is gone by then.
func (ch *channel) after(d time.Duration, f func()) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.state >= csHangup {
		return
	}
	ch.end.timers = append(ch.end.timers, time.AfterFunc(d, func() { ch.sw.goFunc(f) }))
}

// readTimeout is how long a read without a timer waits for a packet (switch_rtp.c, rtp_common_read, poll_sec).
const readTimeout = 5 * time.Second

// untimed tells whether the leg is read when a packet comes, and not by a timer.
func (ch *channel) untimed() bool {
	return ch.bridge.bridged() != nil && (ch.get("rtp_timer_name") == "none" || isTrue(ch.get("rtp_notimer_during_bridge")))
}

// onceRead runs f when the leg's thread looks at what its far end has signalled: at once by a timer, else with the next packet, or
// when the read gives up.
func (ch *channel) onceRead(f func()) {
	if ch.media == nil || !ch.untimed() {
		f()
		return
	}
	ch.media.onceReceived(f)
	ch.after(readTimeout, f)
}

// transfer sends the channel to an extension. It works from any goroutine.
func (ch *routing) transfer(ext, dialplan, context string) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.transferLocked(ext, dialplan, context)
}

// firstTransfer is the originate's, unless a command has taken the channel elsewhere since its answer.
func (ch *routing) firstTransfer(ext, dialplan, context string) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.led {
		ch.transferLocked(ext, dialplan, context)
	}
}

func (ch *routing) transferLocked(ext, dialplan, context string) {
	if ch.state > csHangup {
		return
	}
	ch.replaceProfile(ext, dialplan, context, time.Now())
	if ch.state < csHangup && ch.hangupCause == causeNone {
		ch.transferring, ch.led = true, true
		ch.state = csRouting
	}
	ch.notify()
}

// replaceProfile puts a new caller profile before the old one. The caller holds mu.
func (ch *routing) replaceProfile(ext, dialplan, context string, now time.Time) {
	if dialplan == "" {
		dialplan = "XML"
	}
	if context == "" {
		context = ch.profile.context
	}
	old := ch.profile
	old.times.transferred = now
	ch.history = slices.Insert(ch.history, 0, old)
	ch.profile = old.clone(now)
	ch.profile.destination, ch.profile.dialplan, ch.profile.context = ext, dialplan, context
	src := strconv.FormatInt(now.Unix(), 10) + ":" + uuid.NewString() + ":bl_xfer:" + ext + "/" + context + "/" + dialplan
	ch.profile.transferSource = src
	ch.vars.push("transfer_history", src)
	ch.vars.set("transfer_source", src)
	if ch.outbound && !ch.hitDialplan {
		// A leg that was dialed turns caller when it enters the dialplan: its caller id is swapped with its callee's.
		p := ch.profile
		ch.vars.set("pre_transfer_caller_id_name", p.cidName)
		ch.vars.set("pre_transfer_caller_id_number", p.cidNumber)
		ch.vars.set("channel_cid_flipped", "yes")
		p.cidName, p.cidNumber, p.calleeName, p.calleeNum = p.calleeNum, p.calleeNum, p.cidName, p.cidNumber
	}
	ch.hitDialplan = true
	ch.bridge.otherType = ""
}

// run is the channel's goroutine: one function per state, until the channel is gone.
func (ch *channel) run() {
	defer close(ch.gone)
	for {
		ch.mu.Lock()
		state := ch.state
		if ch.hangupCause != causeNone && state < csHangup {
			// The hang-up is being announced by another goroutine: wait for the state that follows.
			changed := ch.changed
			ch.mu.Unlock()
			<-changed
			continue
		}
		ch.running = state
		ch.way.transferring = false // a command that comes from here on takes it out of this state
		ch.notify()
		ch.mu.Unlock()
		if state >= csHangup {
			ch.end.finish()
			return
		}
		ch.events.emit("CHANNEL_STATE")
		switch state {
		case csInit:
			ch.runInit()
		case csRouting:
			ch.way.runRouting()
		case csSoftExecute:
			ch.bridge.runSoftExecute()
		case csExecute:
			ch.way.runExecute()
		case csPark:
			ch.runPark()
		case csHibernate:
			ch.bypass.runHibernate()
		case csConsumeMedia, csExchangeMedia:
			ch.idle(state)
		case csNew, csHangup, csReporting, csDestroy:
			ch.hangup(causeNormalClearing)
		}
	}
}

// runInit announces the leg and, when it goes out, sends its INVITE.
func (ch *channel) runInit() {
	ch.events.emit("CHANNEL_CREATE")
	if !ch.outbound {
		ch.events.setCallState("RINGING")
		ch.moveOn(csInit, csRouting)
		return
	}
	ch.events.emit("CHANNEL_ORIGINATE")
	ch.leg.out.sendInvite()
	ch.moveOn(csInit, csConsumeMedia)
}

// idle waits in a state in which another goroutine (an originate, the bridge of the other leg) drives the channel. Controllers'
// messages run meanwhile.
func (ch *channel) idle(state chanState) {
	for {
		changed := ch.watch()
		ch.mu.Lock()
		same := ch.state == state && ch.hangupCause == causeNone
		ch.mu.Unlock()
		if !same {
			return
		}
		if m, ok := ch.control.nextMessage(); ok {
			ch.app.handle(m)
			continue
		}
		<-changed
	}
}

// runPark is uuid_park and park_after_bridge: the park application outside of any extension.
func (ch *channel) runPark() {
	ch.app.park()
	ch.mu.Lock()
	stuck := ch.state == csPark && ch.readyLocked()
	ch.mu.Unlock()
	if stuck {
		ch.hangup(causeNormalClearing)
	}
}
