package simswitch

import (
	"strconv"
	"strings"
	"time"
)

// bridgeApp dials and joins the channel with whoever answers.
func (ch *application) bridgeApp(arg string) string {
	if strings.TrimSpace(arg) == "" {
		return "_none_"
	}
	before := ch.callStateNow()
	ch.events.setCallState("RING_WAIT")
	b, c := ch.sw.dial(dialPlan{url: arg, originator: ch.channel, timeout: defaultDialTimeout})
	if ch.up() {
		ch.events.setCallState(before)
	}
	if b == nil {
		ch.bridge.bridgeFailed(c)
		return "_none_"
	}
	ch.setAll([]header{
		{"originate_disposition", "SUCCESS"},
		{"DIALSTATUS", "SUCCESS"},
		{"originate_causes", b.uuid + ";NONE"},
		{"originated_legs", b.uuid + ";Outbound Call;" + b.profileNow().destination},
	})
	ch.bridge.bridgeWith(b)
	return "_none_"
}

func (ch *channel) callStateNow() string {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.callState
}

func (ch *channel) profileNow() *callerProfile {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.profile.snapshot()
}

func (ch *bridging) bridged() *channel {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.partner
}

// bridgeFailed notes why nobody could be reached and hangs up with that cause, unless continue_on_fail says otherwise
// (switch_channel.c, switch_channel_handle_cause).
func (ch *bridging) bridgeFailed(c cause) {
	ch.setAll([]header{
		{"originate_disposition", string(c)},
		{"DIALSTATUS", dialStatusName(c)},
		{"originate_failed_cause", string(c)},
		{"last_bridge_hangup_cause", string(c)},
	})
	if !ch.ready() {
		return
	}
	if v := ch.get("failure_causes"); v != "" && !listHas(v, c) {
		return
	}
	if v := ch.get("continue_on_fail"); v != "" && (isTrue(v) || listHas(v, c)) {
		return
	}
	ch.hangup(c)
}

func listHas(list string, c cause) bool {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if strings.EqualFold(item, string(c)) || item == strconv.Itoa(q850Of(c)) {
			return true
		}
	}
	return false
}

func dialStatusName(c cause) string {
	names := map[cause]string{
		causeUserBusy: "BUSY", causeNoAnswer: "NOANSWER", causeNoUserResponse: "NOANSWER", causeCancel: "CANCEL",
		causeRejected: "DONTCALL", causeInvalidGateway: "INVALIDARGS", causeInvalidProfile: "INVALIDARGS",
	}
	if n, ok := names[c]; ok {
		return n
	}
	return string(c)
}

// bridgeWith joins the channel (the A leg, whose goroutine this is) and b until one of them ends or leaves.
func (ch *bridging) bridgeWith(b *channel) {
	ch.join(b)
	brokenOff := ch.awaitBridgeEnd(b)
	ch.part(b)
	b.bridge.afterBridgeB()
	ch.events.emitWith("CHANNEL_UNBRIDGE", bridgeIDs(ch.channel, b), nil)
	if !brokenOff {
		ch.afterBridgeA(b)
	}
}

func bridgeIDs(a, b *channel) []header {
	return []header{{"Bridge-A-Unique-ID", a.uuid}, {"Bridge-B-Unique-ID", b.uuid}}
}

// join ties two legs together and tells so.
func (ch *bridging) join(b *channel) {
	b.setState(csExchangeMedia)
	if b.isAnswered() {
		ch.app.answer()
	} else if !ch.isAnswered() {
		ch.leg.in.preAnswer()
	}
	now := time.Now()
	ap, bp := ch.profileNow(), b.profileNow()
	tie := func(c, other *channel, op *callerProfile, role string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bridge.partner = other
		c.profile.times.bridged = now
		if role == "originator" {
			c.bridge.otherType = "originatee"
			c.profile.originatee = append([]*callerProfile{op}, c.profile.originatee...)
			if c.profile.calleeNum == "" || c.outbound {
				c.profile.calleeName, c.profile.calleeNum = op.destination, op.destination
			}
		} else {
			c.bridge.otherType = "originator"
			c.profile.originator = []*callerProfile{op}
			c.vars.set("call_uuid", other.uuid)
		}
		c.vars.set("signal_bond", other.uuid)
		c.vars.set("bridge_to", other.uuid)
		c.vars.set("last_bridge_to", other.uuid)
		c.notify()
	}
	tie(ch.channel, b, bp, "originator")
	tie(b, ch.channel, ap, "originatee")
	bridgeMedia(ch.media, b.media)
	ch.events.emitWith("CHANNEL_BRIDGE", bridgeIDs(ch.channel, b), nil)
	for _, pair := range [][2]*channel{{ch.channel, b}, {b, ch.channel}} {
		pair[0].setAll([]header{{"bridge_channel", pair[1].name}, {"bridge_uuid", pair[1].uuid}})
	}
	ch.rec.retrainRecordings()
	b.rec.retrainRecordings()
	ch.confirm(true)
	b.bridge.confirm(true)
}

// awaitBridgeEnd returns when the bridge is over; true when it was broken off to do something else with the channel.
func (ch *bridging) awaitBridgeEnd(b *channel) bool {
	watch := newMediaWatch(ch.channel, b)
	defer watch.stop()
	for {
		changedA, changedB := ch.watch(), b.watch()
		ch.mu.Lock()
		ready, left := ch.readyLocked(), ch.way.transferring
		ch.mu.Unlock()
		if !ready {
			return left
		}
		b.mu.Lock()
		stays := b.state == csExchangeMedia && b.hangupCause == causeNone
		bAnswered := b.events.signalled.answer
		b.mu.Unlock()
		if !stays {
			return false
		}
		if bAnswered && !ch.isAnswered() {
			ch.app.answer()
			continue
		}
		if m, ok := ch.control.nextMessage(); ok {
			ch.app.handle(m)
			continue
		}
		select {
		case <-changedA:
		case <-changedB:
		case <-watch.tick():
			watch.check()
		}
		if !b.up() {
			ch.mu.Lock()
			defer ch.mu.Unlock()
			return ch.way.transferring // it has left first
		}
	}
}

// mediaWatch hangs a leg up that sends no RTP for its media_timeout (milliseconds). It counts the time between its looks, of which none counts for more
// than two: while this process, or the whole machine, had no processor, nobody has been silent.
type mediaWatch struct {
	legs   []*channel
	limits []time.Duration
	heard  []int64         // when the latest packet had come at the last look
	silent []time.Duration // since then
	looked time.Time
	ticker *time.Ticker
}

const mediaLook = 100 * time.Millisecond

func newMediaWatch(legs ...*channel) *mediaWatch {
	w := &mediaWatch{looked: time.Now()}
	for _, l := range legs {
		if limit := l.bypass.mediaLimit(); limit > 0 && l.media != nil {
			w.legs = append(w.legs, l)
			w.limits = append(w.limits, limit)
			w.heard = append(w.heard, l.media.lastRX.Load())
		}
	}
	w.silent = make([]time.Duration, len(w.legs))
	if len(w.legs) > 0 {
		w.ticker = time.NewTicker(mediaLook)
	}
	return w
}

func (w *mediaWatch) tick() <-chan time.Time {
	if w.ticker == nil {
		return nil
	}
	return w.ticker.C
}

func (w *mediaWatch) stop() {
	if w.ticker != nil {
		w.ticker.Stop()
	}
}

func (w *mediaWatch) check() {
	now := time.Now()
	step := min(now.Sub(w.looked), 2*mediaLook)
	w.looked = now
	for i, l := range w.legs {
		if at := l.media.lastRX.Load(); at != w.heard[i] {
			w.heard[i], w.silent[i] = at, 0
			continue
		}
		if w.silent[i] += step; w.silent[i] > w.limits[i] {
			l.hangup(causeMediaTimeout)
		}
	}
}

// part unties two legs.
func (ch *bridging) part(b *channel) {
	unbridgeMedia(ch.media, b.media)
	ch.rec.retrainRecordings()
	b.rec.retrainRecordings()
	ac, bc := ch.causeNow(), b.causeNow()
	untie := func(c *channel, role string, other cause) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bridge.partner = nil
		c.vars.set("bridge_to", "")
		c.vars.set("signal_bond", "")
		c.vars.set("last_bridge_role", role)
		c.vars.set("call_uuid", c.uuid)
		if other != causeNone {
			c.vars.set("bridge_hangup_cause", string(other))
			c.vars.set("last_bridge_hangup_cause", string(other))
		}
		c.notify()
	}
	untie(ch.channel, "originator", bc)
	untie(b, "originatee", ac)
}

func (ch *channel) causeNow() cause {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.hangupCause
}

// afterBridgeB is what becomes of the B leg when the A leg ends or leaves.
func (ch *bridging) afterBridgeB() {
	ch.mu.Lock()
	stays := ch.state == csExchangeMedia && ch.hangupCause == causeNone && !ch.bypass.redirected
	answered := ch.answered
	ch.mu.Unlock()
	if !stays {
		return
	}
	switch {
	case isTrue(ch.get("park_after_bridge")):
		ch.parkNow()
	case ch.get("transfer_after_bridge") != "":
		ch.transferAfterBridge()
	case answered:
		ch.hangup(causeNormalClearing)
	default:
		ch.hangup(causeCancel)
	}
}

// afterBridgeA is what becomes of the A leg: park_after_bridge, then transfer_after_bridge, then hangup_after_bridge
// (switch_ivr_bridge.c). A transfer is noted even on a channel that is down, where it leaves a new caller profile.
func (ch *bridging) afterBridgeA(b *channel) {
	c := b.causeNow()
	if c == causeNone {
		c = causeNormalClearing
	}
	switch {
	case isTrue(ch.get("park_after_bridge")):
		ch.parkNow()
	case ch.get("transfer_after_bridge") != "":
		ch.transferAfterBridge()
	case isTrue(ch.get("hangup_after_bridge")):
		ch.hangup(c)
	}
}

// parkNow takes the channel out of its extension into a park.
func (ch *bridging) parkNow() { ch.way.lead(csPark, nil) }

// transferAfterBridge takes "extension:dialplan:context", once.
func (ch *bridging) transferAfterBridge() {
	parts := strings.SplitN(ch.get("transfer_after_bridge"), ":", 3)
	ch.set("transfer_after_bridge", "")
	ch.way.transfer(parts[0], argAt(parts, 1), argAt(parts, 2))
}

// uuidBridge joins two channels that exist, taking each out of what it does. The A leg's goroutine runs the bridge.
func (sw *Switch) uuidBridge(a, b *channel) bool {
	if a == b || !a.up() || !b.up() || !a.isAnswered() || !b.isAnswered() {
		return false
	}
	return b.way.lead(csConsumeMedia, nil) && a.way.lead(csSoftExecute, func() { a.bridge.wanted = b })
}

// lead takes the channel out of what it does, unless it is hung up; also, unless nil, runs before it goes on.
func (ch *routing) lead(to chanState, also func()) bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.state >= csHangup || ch.hangupCause != causeNone {
		return false
	}
	ch.transferring, ch.led = true, true
	if also != nil {
		also()
	}
	ch.state = to
	ch.notify()
	return true
}

// runSoftExecute is the A leg of uuid_bridge. After the bridge the channel's extension goes on.
func (ch *bridging) runSoftExecute() {
	ch.mu.Lock()
	b, left := ch.wanted, ch.state != csSoftExecute
	ch.wanted = nil
	if !left {
		ch.way.transferring = false // by a second uuid_bridge: whom it names counts
	}
	ch.mu.Unlock()
	if left {
		return
	}
	if b == nil || !b.bridge.settled(csConsumeMedia) {
		if isTrue(ch.get("uuid_bridge_park_on_cancel")) {
			ch.parkNow()
			return
		}
		ch.hangup(causeOutOfOrder)
		return
	}
	ch.events.emit("CHANNEL_EXECUTE", header{"Application", "uuid_bridge"}, header{"Application-Data", b.uuid})
	b.events.emit("CHANNEL_EXECUTE", header{"Application", "uuid_bridge"}, header{"Application-Data", ch.uuid})
	ch.bridgeWith(b)
	ch.moveOn(csSoftExecute, csExecute)
}

// settleLimit is how long a channel may take to follow a command.
const settleLimit = 5 * time.Second

// settled waits until the channel's goroutine is in a state.
func (ch *bridging) settled(s chanState) bool {
	down := false
	return ch.waitFor(settleLimit, func() bool {
		down = ch.hangupCause != causeNone
		return down || ch.running == s && ch.partner == nil
	}) && !down
}
