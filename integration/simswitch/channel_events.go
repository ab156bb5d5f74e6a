package simswitch

import (
	"strconv"
	"time"
)

// verbose lists the events that carry every channel variable (switch_channel.c).
func verbose(name string) bool {
	switch name {
	case "CHANNEL_CREATE", "CHANNEL_ORIGINATE", "CHANNEL_UUID", "CHANNEL_ANSWER", "CHANNEL_PARK", "CHANNEL_UNPARK",
		"CHANNEL_BRIDGE", "CHANNEL_UNBRIDGE", "CHANNEL_PROGRESS", "CHANNEL_PROGRESS_MEDIA", "CHANNEL_HANGUP",
		"CHANNEL_HANGUP_COMPLETE", "CHANNEL_DATA", "CHANNEL_EXECUTE", "CHANNEL_EXECUTE_COMPLETE", "CHANNEL_DESTROY",
		"RECORD_START", "RECORD_STOP", "PLAYBACK_START", "PLAYBACK_STOP", "CALL_UPDATE", "CHANNEL_HOLD", "CHANNEL_UNHOLD",
		"MEDIA_BUG_START", "MEDIA_BUG_STOP", "CUSTOM":
		return true
	}
	return false
}

// emit fires an event of this channel. Headers in first come before the channel's own, those in last after them.
func (ch *reporting) emit(name string, last ...header) { ch.emitWith(name, nil, last) }

func (ch *reporting) emitWith(name string, first, last []header) {
	ch.emitMu.Lock()
	defer ch.emitMu.Unlock()
	ch.fire(ch.build(name, first, last))
}

// fire hands an event to the listeners, or to the controlling socket alone when it diverts the channel's events.
func (ch *reporting) fire(e *event) { ch.sw.bus.fire(e) }

// emitChange changes the channel and fires the event that tells so, then marks it signalled: who waits for the fact acts after
// the event. change runs under mu and may refuse.
func (ch *reporting) emitChange(name string, change func() bool, done func()) bool {
	ch.emitMu.Lock()
	ch.mu.Lock()
	if !change() {
		ch.mu.Unlock()
		ch.emitMu.Unlock()
		return false
	}
	ch.mu.Unlock()
	ch.fire(ch.build(name, nil, nil))
	ch.emitMu.Unlock()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	done()
	ch.notify()
	return true
}

// build makes an event with the channel's data.
func (ch *reporting) build(name string, first, last []header) *event {
	e := ch.sw.newEvent(name)
	e.headers = append(e.headers, first...)
	ch.describe(e, verbose(name))
	e.headers = append(e.headers, last...)
	return e
}

// describe adds what FreeSWITCH's switch_channel_event_set_data adds.
func (ch *reporting) describe(e *event, withVars bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	state := ch.state
	if ch.hangupCause != causeNone && state < csHangup {
		state = csHangup
	}
	running := ch.running.String()
	if ch.running == csNew {
		running = "CS_NONE"
	}
	e.add("Channel-State", running)
	e.add("Channel-Call-State", ch.callState)
	e.add("Channel-State-Number", strconv.Itoa(int(state)))
	e.add("Channel-Name", ch.name)
	e.add("Unique-ID", ch.uuid)
	e.add("Call-Direction", ch.direction())
	e.add("Presence-Call-Direction", ch.direction())
	e.add("Channel-HIT-Dialplan", strconv.FormatBool(ch.way.hitDialplan))
	callUUID, ok := ch.vars.get("call_uuid")
	if !ok {
		callUUID = ch.uuid
	}
	e.add("Channel-Call-UUID", callUUID)
	e.add("Answer-State", ch.answerState())
	if ch.hangupCause != causeNone {
		e.add("Hangup-Cause", string(ch.hangupCause))
	}
	if ch.media != nil && ch.early {
		for _, c := range ch.codecs() {
			e.add("Channel-"+c.way+"-Codec-Name", c.name)
			e.add("Channel-"+c.way+"-Codec-Rate", "8000")
			e.add("Channel-"+c.way+"-Codec-Bit-Rate", c.bitRate)
		}
	}
	if ch.profile != nil {
		ch.profile.addTo(e, "Caller")
		switch {
		case ch.bridge.otherType == "originator" && len(ch.profile.originator) > 0:
			e.add("Other-Type", "originator")
			ch.profile.originator[0].addTo(e, "Other-Leg")
		case ch.bridge.otherType == "originatee" && len(ch.profile.originatee) > 0:
			e.add("Other-Type", "originatee")
			ch.profile.originatee[0].addTo(e, "Other-Leg")
		}
	}
	if withVars {
		for _, v := range ch.vars.list {
			e.add("variable_"+v.name, v.value)
		}
	}
}

// codecShown is a codec as events and rows show it.
type codecShown struct{ way, name, bitRate string }

// codecs are those of the leg's two ways. A conference, and a leg that eavesdrops, reads linear audio. The caller holds mu.
func (ch *channel) codecs() []codecShown {
	write := ch.media.codecName()
	read := codecShown{"Read", write, "64000"}
	if ch.app.linear {
		read.name, read.bitRate = "L16", "128000"
	}
	return []codecShown{read, {"Write", write, "64000"}}
}

// answerState is the Answer-State header. The caller holds mu.
func (ch *reporting) answerState() string {
	switch {
	case ch.hangupCause != causeNone:
		return "hangup"
	case ch.answered:
		return "answered"
	case ch.early:
		return "early"
	default:
		return "ringing"
	}
}

// setCallState moves Channel-Call-State and tells so.
func (ch *reporting) setCallState(s string) {
	ch.emitMu.Lock()
	defer ch.emitMu.Unlock()
	ch.mu.Lock()
	old := ch.callState
	if old == s || old == "HANGUP" {
		ch.mu.Unlock()
		return
	}
	ch.callState = s
	number := "0"
	if s == "ACTIVE" {
		number = "4"
	}
	ch.mu.Unlock()
	ch.fire(ch.build("CHANNEL_CALLSTATE", []header{
		{"Original-Channel-Call-State", old}, {"Channel-Call-State-Number", number},
	}, nil))
}

// markProgress tells that the far end rings.
func (ch *reporting) markProgress() {
	if ch.emitChange("CHANNEL_PROGRESS", func() bool {
		if ch.ringReady || ch.answered {
			return false
		}
		ch.ringReady = true
		if ch.profile.times.progress.IsZero() {
			ch.profile.times.progress = time.Now()
		}
		return true
	}, func() { ch.signalled.progress = true }) {
		ch.setCallState("RINGING")
	}
}

// markEarly tells that early media flows.
func (ch *reporting) markEarly() {
	if ch.emitChange("CHANNEL_PROGRESS_MEDIA", func() bool {
		if ch.early || ch.answered {
			return false
		}
		ch.early = true
		if ch.profile.times.progressMedia.IsZero() {
			ch.profile.times.progressMedia = time.Now()
		}
		return true
	}, func() { ch.signalled.media = true }) {
		ch.setCallState("EARLY")
	}
}

// markAnswered tells that the leg was answered.
func (ch *reporting) markAnswered() {
	if ch.emitChange("CHANNEL_ANSWER", func() bool {
		if ch.answered || ch.hangupCause != causeNone {
			return false
		}
		ch.answered, ch.early = true, true
		ch.profile.times.answered = time.Now()
		ch.vars.set("endpoint_disposition", "ANSWER")
		return true
	}, func() { ch.signalled.answer = true }) {
		ch.setCallState("ACTIVE")
		if v := ch.get("execute_on_answer"); v != "" {
			app, arg := splitAppArg(v)
			ch.control.post(message{command: "execute", app: app, arg: arg})
		}
	}
}
