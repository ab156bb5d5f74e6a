package simswitch

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// hangup ends the channel. The first cause wins. It works from any goroutine and returns when CHANNEL_HANGUP is fired; the
// channel's own goroutine does the rest.
func (ch *channel) hangup(c cause) {
	if c == causeNone {
		c = causeNormalClearing
	}
	ch.events.emitChange("CHANNEL_HANGUP", func() bool {
		if ch.hangupCause != causeNone || ch.state >= csHangup {
			return false
		}
		ch.hangupCause = c
		return true
	}, func() { ch.state = csHangup })
}

// finish takes a hung-up channel down: the dialog, the record, the last events.
func (ch *ending) finish() {
	ch.rec.stopRecordings("success-channel-gone")
	ch.mu.Lock()
	for _, t := range ch.timers {
		t.Stop()
	}
	ch.timers = nil
	c := ch.hangupCause
	ch.profile.times.hungup = time.Now()
	ch.endHoldLocked()
	ch.vars.set("hangup_cause", string(c))
	ch.vars.set("hangup_cause_q850", strconv.Itoa(q850Of(c)))
	ch.vars.set("signal_bond", "")
	ch.setTimeVars()
	ch.mu.Unlock()
	ch.events.emit("CHANNEL_STATE")
	ch.events.setCallState("HANGUP")
	for _, s := range ch.control.controllers() {
		if !s.lingers() {
			s.shutdown()
		}
	}
	ch.leg.terminate(c)
	if ch.media != nil {
		ch.media.close()
		ch.setAll(ch.media.statVars())
	}

	ch.enter(csReporting)
	ch.writeCDR()
	ch.events.emitWith("CHANNEL_HANGUP_COMPLETE", []header{{"Hangup-Cause", string(c)}}, nil)
	for _, s := range ch.control.controllers() {
		s.lingerNotice()
		<-s.done
	}
	ch.mu.Lock()
	ch.state = csDestroy
	ch.mu.Unlock()
	ch.events.emit("CHANNEL_DESTROY")
	ch.enter(csDestroy)
	ch.leg.forget()
	ch.sw.unregister(ch.channel)
}

// enter moves the hung-up channel to its next state.
func (ch *channel) enter(s chanState) {
	ch.mu.Lock()
	ch.state, ch.running = s, s
	ch.notify()
	ch.mu.Unlock()
	ch.events.emit("CHANNEL_STATE")
}

// abandonSocket cuts a controller that lingers without end.
func (ch *controlling) abandonSocket() {
	for _, s := range ch.controllers() {
		s.cut()
	}
}

func (ch *controlling) controllers() []*eslConn {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return slices.Clone(ch.controls)
}

// endHoldLocked adds a running hold to the leg's account. The caller holds mu.
func (ch *ending) endHoldLocked() {
	if ch.held {
		ch.held = false
		ch.profile.times.holdAccum += time.Since(ch.holdSince)
	}
}

// setTimeVars sets what switch_channel_set_timestamps sets. The caller holds mu.
func (ch *ending) setTimeVars() {
	t := ch.profile.times
	start := t.created
	if ch.vars.index("digits_dialed") < 0 {
		ch.vars.set("digits_dialed", "none")
	}
	stamp := func(name string, at time.Time) {
		if !at.IsZero() {
			ch.vars.set(name+"_stamp", at.Format(stampLayout))
		}
	}
	epoch := func(name string, at time.Time) {
		sec := "0"
		if !at.IsZero() {
			sec = strconv.FormatInt(at.Unix(), 10)
		}
		ch.vars.set(name+"_epoch", sec)
		ch.vars.set(name+"_uepoch", micros(at))
	}
	for _, m := range []struct {
		name string
		at   time.Time
	}{
		{"start", start},
		{"profile_start", t.profileCreated},
		{"answer", t.answered},
		{"bridge", t.bridged},
		{"progress", t.progress},
		{"progress_media", t.progressMedia},
		{"end", t.hungup},
	} {
		stamp(m.name, m.at)
		epoch(m.name, m.at)
	}
	epoch("last_hold", t.lastHold)
	epoch("resurrect", time.Time{})
	ch.vars.set("hold_accum_seconds", strconv.Itoa(int(t.holdAccum.Seconds())))
	ch.vars.set("hold_accum_usec", strconv.FormatInt(t.holdAccum.Microseconds(), 10))
	ch.vars.set("hold_accum_ms", strconv.FormatInt(t.holdAccum.Milliseconds(), 10))
	if n := len(ch.app.appLog); n > 0 {
		ch.vars.set("last_app", ch.app.appLog[n-1].app)
		ch.vars.set("last_arg", ch.app.appLog[n-1].data)
	}
	ch.vars.set("caller_id", fmt.Sprintf("%q <%s>", ch.profile.cidName, ch.profile.cidNumber))
	since := func(at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		return at.Sub(start)
	}
	billed := time.Duration(0)
	if !t.answered.IsZero() {
		billed = t.hungup.Sub(t.answered)
	}
	for _, d := range []struct {
		name string // behind which letter the milliseconds and microseconds have theirs
		d    time.Duration
	}{
		{"%sduration", t.hungup.Sub(start)},
		{"bill%ssec", billed},
		{"progress%ssec", since(t.progress)},
		{"answer%ssec", since(t.answered)},
		{"wait%ssec", since(t.bridged)},
		{"progress_media%ssec", since(t.progressMedia)},
		{"flow_bill%ssec", t.hungup.Sub(start)},
	} {
		ch.vars.set(fmt.Sprintf(d.name, ""), strconv.Itoa(int(d.d.Seconds())))
		ch.vars.set(fmt.Sprintf(d.name, "m"), strconv.FormatInt(d.d.Milliseconds(), 10))
		ch.vars.set(fmt.Sprintf(d.name, "u"), strconv.FormatInt(d.d.Microseconds(), 10))
	}
}
