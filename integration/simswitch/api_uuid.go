package simswitch

import (
	"slices"
	"strconv"
	"strings"
)

// uuidTable has the commands about one channel.
func uuidTable() map[string]apiFunc {
	return map[string]apiFunc{
		"uuid_exists": func(sw *commands, arg string) string { return strconv.FormatBool(sw.channel(arg) != nil) },
		"uuid_kill": onChannel("<uuid> [cause]", func(ch *channel, args []string) string {
			ch.hangup(parseCause(argAt(args, 1)))
			return "+OK\n"
		}),
		"uuid_park":     onChannel("<uuid>", func(ch *channel, _ []string) string { ch.bridge.parkNow(); return "+OK\n" }),
		"uuid_transfer": (*commands).uuidTransfer,
		"uuid_bridge":   (*commands).uuidBridgeCommand,
		"uuid_dump":     onChannel("<uuid> [format]", uuidDump),
		"uuid_getvar": onChannel("<uuid> <var>", func(ch *channel, args []string) string {
			if v, ok := ch.lookup(argAt(args, 1)); ok {
				return v
			}
			return "_undef_"
		}),
		"uuid_setvar":       setVarCommand,
		"uuid_setvar_multi": setVarsCommand,
		"uuid_send_dtmf": onChannelOr("-ERR Cannot locate session!\n", "<uuid> <dtmf_data>", func(ch *channel, args []string) string {
			if ch.leg.sendDigits(argAt(args, 1)) == 0 {
				return "-ERR no digits\n"
			}
			return "+OK " + ch.uuid + " sent DTMF " + args[1] + ".\n"
		}),
		"uuid_broadcast": (*commands).uuidBroadcast,
		"uuid_break": onChannel("<uuid> [all]", func(ch *channel, args []string) string {
			ch.mu.Lock()
			defer ch.mu.Unlock()
			if argAt(args, 1) == "all" {
				ch.control.queue = nil
			}
			ch.breaks++
			ch.notify()
			return "+OK\n"
		}),
		"uuid_record":      (*commands).uuidRecord,
		"uuid_displace":    onChannel("<uuid> [start|stop] <path> [<limit>] [mux]", uuidDisplace),
		"uuid_audio":       onChannel(audioUsage, uuidAudio),
		"uuid_media":       (*commands).mediaCommand,
		"uuid_media_reneg": (*commands).renegCommand,
		"uuid_hold":        (*commands).uuidHold,
	}
}

// onChannel wraps a command whose first argument is a channel.
func onChannel(usage string, f func(ch *channel, args []string) string) apiFunc {
	return onChannelOr(noChannel, usage, f)
}

// onChannelOr is onChannel with the command's own words for a channel that isn't there.
func onChannelOr(missing, usage string, f func(ch *channel, args []string) string) apiFunc {
	return func(sw *commands, arg string) string {
		args := splitArgs(arg)
		if len(args) == 0 {
			return "-USAGE: " + usage + "\n"
		}
		ch := sw.channel(args[0])
		if ch == nil {
			return missing
		}
		return f(ch, args)
	}
}

func (sw *commands) uuidTransfer(arg string) string {
	args := splitArgs(arg)
	if len(args) < 2 {
		return "-USAGE: <uuid> [-bleg|-both] <dest-exten> [<dialplan>] [<context>]\n"
	}
	ch := sw.channel(args[0])
	if ch == nil {
		return noChannel
	}
	args = args[1:]
	switch args[0] {
	case "-bleg", "-both":
		if len(args) < 2 {
			return "-USAGE: <uuid> [-bleg|-both] <dest-exten> [<dialplan>] [<context>]\n"
		}
		other := ch.bridge.bridged()
		both := args[0] == "-both"
		args = args[1:]
		if both && other != nil {
			transferBoth(ch, other, args[0], argAt(args, 1), argAt(args, 2))
			return "+OK\n"
		}
		if other != nil {
			other.way.transfer(args[0], argAt(args, 1), argAt(args, 2))
		} else if !both {
			return "-ERR No such channel!\n"
		}
		if !both {
			return "+OK\n"
		}
	}
	ch.way.transfer(args[0], argAt(args, 1), argAt(args, 2))
	return "+OK\n"
}

// transferBoth sends both legs of a bridge on. Neither looks for what follows a bridge that the other one has left (CF_REDIRECT).
func transferBoth(ch, other *channel, ext, dialplan, context string) {
	a, b := ch, other
	if !ch.bypass.bridgedFirst() {
		a, b = other, ch
	}
	b.bypass.redirect(true)
	defer b.bypass.redirect(false)
	a.way.transfer(ext, dialplan, context) // whose goroutine runs the bridge
	b.way.transfer(ext, dialplan, context)
}

func (sw *commands) uuidBridgeCommand(arg string) string {
	args := splitArgs(arg)
	if len(args) != 2 {
		return "-USAGE: <uuid> <other_uuid>\n"
	}
	a, b := sw.channel(args[0]), sw.channel(args[1])
	if a == nil || b == nil || !sw.uuidBridge(a, b) {
		return "-ERR Invalid uuid\n"
	}
	return "+OK " + args[1] + "\n"
}

func uuidDump(ch *channel, args []string) string {
	e := ch.sw.newEvent("CHANNEL_DATA")
	ch.events.describe(e, true)
	if strings.EqualFold(argAt(args, 1), "json") {
		return string(e.json())
	}
	return string(e.plain())
}

// setVarCommand is `uuid_setvar <uuid> <name> [<value>]`; the value goes to the end of the line.
func setVarCommand(sw *commands, arg string) string {
	id, rest, _ := strings.Cut(arg, " ")
	name, value, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if id == "" || name == "" {
		return "-USAGE: <uuid> <var> [value]\n"
	}
	ch := sw.channel(id)
	if ch == nil {
		return noChannel
	}
	ch.set(name, value)
	return "+OK\n"
}

// setVarsCommand is `uuid_setvar_multi <uuid> a=1;b=2`, 64 at most.
func setVarsCommand(sw *commands, arg string) string {
	id, rest, _ := strings.Cut(arg, " ")
	if id == "" || rest == "" {
		return "-USAGE: <uuid> <var>=<value>;<var>=<value>...\n"
	}
	ch := sw.channel(id)
	if ch == nil {
		return noChannel
	}
	for i, pair := range strings.Split(rest, ";") {
		if i == 64 {
			break
		}
		name, value, _ := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); name != "" {
			ch.set(name, value)
		}
	}
	return "+OK\n"
}

// uuidBroadcast is `uuid_broadcast <uuid> [app::]path [aleg|bleg|both|holdb]`.
func (sw *commands) uuidBroadcast(arg string) string {
	args := splitArgs(arg)
	if len(args) < 2 {
		return "-USAGE: <uuid> <path> [aleg|bleg|holdb|both]\n"
	}
	ch := sw.channel(args[0])
	if ch == nil {
		return "-ERR invalid uuid\n"
	}
	app, data := "playback", args[1]
	if name, rest, ok := strings.Cut(args[1], "::"); ok {
		app, data = name, rest
	}
	legs := []*channel{ch}
	switch argAt(args, 2) {
	case "both":
		legs = append(legs, ch.bridge.bridged())
	case "bleg":
		legs = []*channel{ch.bridge.bridged()}
	}
	for _, l := range slices.DeleteFunc(legs, func(l *channel) bool { return l == nil }) {
		l.control.post(message{command: "execute", app: app, arg: data})
	}
	return "+OK Message sent\n"
}

// uuidRecord is `uuid_record <uuid> start|stop|mask|unmask <path>`.
func (sw *commands) uuidRecord(arg string) string {
	args := splitArgs(arg)
	if len(args) < 3 {
		return "-USAGE: <uuid> [start|stop|mask|unmask] <path> [<limit>] [<recording_vars>]\n"
	}
	ch := sw.channel(args[0])
	if ch == nil {
		return "-ERR Cannot locate session!\n"
	}
	var ok bool
	var failure string
	switch strings.ToLower(args[1]) {
	case "start":
		err := ch.rec.startRecording(args[2])
		if err != nil {
			sw.log.Warn("recording not started", "channel", ch.uuid, "error", err)
		}
		ok, failure = err == nil, "-ERR Cannot record session!\n"
	case "stop":
		ok, failure = ch.rec.stopRecording(args[2], "success-maxtime"), "-ERR Cannot stop record session!\n"
	case "mask":
		ok, failure = ch.rec.maskRecording(args[2], true), "-ERR Cannot mask recording session!\n"
	case "unmask":
		ok, failure = ch.rec.maskRecording(args[2], false), "-ERR Cannot unmask recording session!\n"
	default:
		return "-USAGE: <uuid> [start|stop|mask|unmask] <path> [<limit>] [<recording_vars>]\n"
	}
	if !ok {
		return failure
	}
	return "+OK Success\n"
}

const audioUsage = "<uuid> [start [read|write] [mute|level <level>]|stop]"

// uuidAudio mutes what the party says (read) or hears (write). A level changes nothing here.
func uuidAudio(ch *channel, args []string) string {
	if ch.media == nil {
		return noChannel
	}
	muted := argAt(args, 3) == "mute" && argAt(args, 4) != "0"
	switch argAt(args, 1) + " " + argAt(args, 2) {
	case "start read":
		ch.media.mute(&muted, nil)
	case "start write":
		ch.media.mute(nil, &muted)
	default:
		if argAt(args, 1) != "stop" {
			return "-USAGE: " + audioUsage + "\n"
		}
		ch.media.mute(new(bool), new(bool))
	}
	return "+OK\n"
}

// uuidHold is `uuid_hold [off|toggle] <uuid>`: a re-INVITE to the leg. An unknown channel is +OK too, a repetition -ERR
// (switch_ivr.c).
func (sw *commands) uuidHold(arg string) string {
	args := splitArgs(arg)
	if len(args) == 0 {
		return "-USAGE: [off|toggle] <uuid> [<display>]\n"
	}
	mode := ""
	if args[0] == "off" || args[0] == "toggle" {
		mode = args[0]
		args = args[1:]
	}
	ch := sw.channel(argAt(args, 0))
	if ch == nil {
		return "+OK Success\n"
	}
	ch.mu.Lock()
	held := ch.held
	ch.mu.Unlock()
	hold := mode == "" || (mode == "toggle" && !held)
	if hold == held {
		return "-ERR Operation failed\n"
	}
	dir := sendRecv
	if hold {
		dir = sendOnly
	}
	ch.leg.reinvite(dir)
	ch.markHold(hold)
	return "+OK Success\n"
}
