package simswitch

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// appFunc runs an application on its channel's goroutine and returns Application-Response.
type appFunc func(ch *application, arg string) string

// appTable has the applications by their names.
func appTable() map[string]appFunc {
	none := func(f func(ch *application, arg string)) appFunc {
		return func(ch *application, arg string) string { f(ch, arg); return "_none_" }
	}
	return map[string]appFunc{
		"answer":              none(func(ch *application, _ string) { ch.app.answer() }),
		"pre_answer":          none(func(ch *application, _ string) { ch.leg.in.preAnswer() }),
		"ring_ready":          none(func(ch *application, _ string) { ch.leg.in.ring() }),
		"park":                none(func(ch *application, _ string) { ch.app.park() }),
		"bridge":              (*application).bridgeApp,
		"hangup":              none(func(ch *application, arg string) { ch.hangup(parseCause(arg)) }),
		"respond":             none((*application).respondApp),
		"start_dtmf":          none(func(ch *application, _ string) { ch.app.listenForKeys(true) }),
		"stop_dtmf":           none(func(ch *application, _ string) { ch.app.listenForKeys(false) }),
		"break":               none(func(ch *application, _ string) { ch.app.breakOff() }),
		"playback":            func(ch *application, arg string) string { return ch.app.playbackApp(arg, false) },
		"endless_playback":    func(ch *application, arg string) string { return ch.app.playbackApp(arg, true) },
		"set":                 none(func(ch *application, arg string) { ch.app.setApp(arg) }),
		"export":              none((*application).exportApp),
		"unset":               none(func(ch *application, arg string) { ch.set(strings.TrimSpace(arg), "") }),
		"sleep":               none((*application).sleepApp),
		"socket":              none((*application).socketApp),
		"transfer":            none((*application).transferApp),
		"record_session":      none((*application).recordSessionApp),
		"stop_record_session": none(func(ch *application, arg string) { ch.rec.stopRecording(arg, "success-maxtime") }),
		"echo":                none((*application).echoApp),
		"conference":          none((*application).conferenceApp),
		"eavesdrop":           none((*application).eavesdropApp),
		"native_eavesdrop":    none((*application).nativeEavesdropApp),
		"send_dtmf":           none((*application).sendDTMFApp),
		"sched_hangup":        none(func(ch *application, arg string) { ch.app.schedHangup(splitArgs(arg)) }),
		"blind_transfer_ack":  none((*application).blindTransferAckApp),
		"intercept":           none((*application).interceptApp),
		"log":                 none(func(*application, string) {}),
		"info":                none(func(*application, string) {}),
	}
}

// splitAppArg splits "app arg" and "app::arg".
func splitAppArg(s string) (name, arg string) {
	if name, arg, ok := strings.Cut(s, "::"); ok {
		return name, arg
	}
	name, arg, _ = strings.Cut(s, " ")
	return name, arg
}

// handle runs a controller's message on the channel's goroutine.
func (ch *application) handle(m message) {
	switch m.command {
	case "hangup":
		ch.hangup(parseCause(m.cause))
	case "execute":
		for range max(m.loops, 1) {
			if !ch.ready() {
				return
			}
			if !ch.execute(m.app, m.arg, m.eventUUID, m.lock) {
				return
			}
		}
	}
}

// execute runs one application between its two events. Without CHANNEL_EXECUTE_COMPLETE: an unknown application, which also
// hangs up (false).
func (ch *application) execute(name, arg, eventUUID string, lock bool) bool {
	fn, ok := ch.sw.applications[strings.ToLower(name)]
	if !ok {
		ch.sw.log.Warn("invalid application", "app", name, "channel", ch.uuid)
		ch.hangup(causeOutOfOrder)
		return false
	}
	if eventUUID == "" {
		eventUUID = uuid.NewString()
	}
	arg = ch.expand(arg)
	ch.mu.Lock()
	ch.appLog = append(ch.appLog, appRecord{name, arg, time.Now()})
	ch.vars.set("current_application_data", arg)
	ch.vars.set("current_application", name)
	if lock {
		ch.locked++
	}
	ch.depth++
	ch.mu.Unlock()
	about := []header{{"Application", name}}
	if arg != "" {
		about = append(about, header{"Application-Data", arg})
	}
	id := header{"Application-UUID", eventUUID}
	ch.events.emit("CHANNEL_EXECUTE", append(append([]header{}, about...), id)...)
	response := fn(ch, arg)
	ch.mu.Lock()
	if lock {
		ch.locked--
	}
	ch.depth--
	ch.mu.Unlock()
	ch.events.emit("CHANNEL_EXECUTE_COMPLETE", append(about, header{"Application-Response", response}, id)...)
	return true
}

// expand replaces ${name} by the channel's variables.
func (ch *application) expand(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		if !ok {
			break
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			break
		}
		b.WriteString(before)
		v, found := ch.lookup(name)
		if !found {
			v = ch.sw.globals[name]
		}
		b.WriteString(v)
		s = after
	}
	b.WriteString(s)
	return b.String()
}

// readsLinear says whether what runs reads linear audio.
func (ch *application) readsLinear(on bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.linear = on
}

// park waits for a controller's messages, a transfer or the end. Nothing is sent to the far end.
func (ch *application) park() {
	ch.events.emit("CHANNEL_PARK")
	for ch.pause(nil, 0) == endBreak {
		continue
	}
	ch.events.emit("CHANNEL_UNPARK")
}

// answer accepts a call that came in.
func (ch *application) answer() {
	if ch.isAnswered() || !ch.up() {
		return
	}
	ch.leg.in.answer()
}

func (ch *application) respondApp(arg string) {
	code, _, _ := strings.Cut(strings.TrimSpace(arg), " ")
	status, err := strconv.Atoi(code)
	if err != nil || status < 300 || status > 699 {
		ch.hangup(parseCause(arg))
		return
	}
	ch.leg.in.refuseWith(status)
	ch.hangup(causeOfStatus(status))
}

func (ch *application) setApp(arg string) {
	name, value, ok := strings.Cut(arg, "=")
	if !ok {
		name, value, _ = strings.Cut(arg, ",")
	}
	if value == "_undef_" {
		value = ""
	}
	ch.set(strings.TrimSpace(name), value)
}

// exportApp sets a variable that legs bridged to later get too; nolocal: keeps it off this one.
func (ch *application) exportApp(arg string) {
	name, value, _ := strings.Cut(arg, "=")
	name = strings.TrimSpace(name)
	exported := ch.get("export_vars")
	if exported != "" {
		exported += ","
	}
	ch.set("export_vars", exported+name)
	ch.set(name, value)
}

func (ch *application) sleepApp(arg string) {
	ms, err := strconv.Atoi(strings.TrimSpace(arg))
	if err != nil || ms <= 0 {
		return
	}
	ch.pause(nil, time.Duration(ms)*time.Millisecond)
}

func (ch *application) transferApp(arg string) {
	args := splitArgs(arg)
	if len(args) == 0 {
		return
	}
	if args[0] == "-both" || args[0] == "-bleg" {
		if other := ch.bridge.bridged(); other != nil && len(args) > 1 {
			other.way.transfer(args[1], argAt(args, 2), argAt(args, 3))
		}
		if args[0] == "-bleg" {
			return
		}
		args = args[1:]
	}
	if len(args) > 0 {
		ch.way.transfer(args[0], argAt(args, 1), argAt(args, 2))
	}
}

// argAt is args[i], empty when there is none.
func argAt(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

func (ch *application) sendDTMFApp(arg string) {
	if ch.media != nil {
		ch.leg.sendDigits(arg)
	}
}

// schedHangup takes "+seconds [cause]" or an absolute epoch.
func (ch *application) schedHangup(args []string) {
	if len(args) == 0 {
		return
	}
	c := causeAllottedTimeout
	if len(args) > 1 {
		c = parseCause(args[1])
	}
	rel, isRel := strings.CutPrefix(args[0], "+")
	n, err := strconv.Atoi(rel)
	if err != nil {
		return
	}
	d := time.Duration(n) * time.Second
	if !isRel {
		d = time.Until(time.Unix(int64(n), 0))
	}
	ch.after(max(d, 0), func() { ch.hangup(c) })
}
