package fs

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Command is a command of the switch's API, whole. Arguments are written as they are given, on the command's one line (the event socket refuses
// any other): what a stranger has sent goes through [Variables].
type Command struct {
	text string
	slow bool
	try  bool
}

// String is the command as it is sent.
func (c Command) String() string { return c.text }

// Name is the command without its arguments.
func (c Command) Name() string {
	name, _, _ := strings.Cut(c.text, " ")
	return name
}

// Slow tells of a command that may wait for a disk: run it in a thread of its own (bgapi), so that no other waits behind it.
func (c Command) Slow() bool { return c.slow }

// IsZero tells of no command.
func (c Command) IsZero() bool { return c.text == "" }

// Try is the command as a step of a [Script] that goes on where the switch refuses it.
func Try(c Command) Command {
	c.try = true
	return c
}

func command(words ...string) Command { return Command{text: strings.Join(words, " ")} }

// Slow commands open or close a file.
func slow(words ...string) Command { return Command{text: strings.Join(words, " "), slow: true} }

// Ask is a question about the switch itself, such as "sofia xmlstatus", in its own words.
func Ask(text string) Command { return Command{text: text} }

// Exists answers "true" for a channel that the switch has.
func Exists(channel string) Command { return command("uuid_exists", channel) }

// Dump answers a channel's headers and variables, as JSON; the switch refuses it for a channel that it doesn't have.
func Dump(channel string) Command { return command("uuid_dump", channel, "json") }

// Channels answers all channels, as JSON.
func Channels() Command { return command("show channels as json") }

// CoreUUID answers what names the switch's process: another one after each start.
func CoreUUID() Command { return command("global_getvar core_uuid") }

// SyncClock has the switch take the host's clock once it has no calls.
func SyncClock() Command { return command("fsctl sync_clock_when_idle") }

// Kill ends a channel, with a hangup cause.
func Kill(channel, cause string) Command { return command("uuid_kill", channel, cause) }

// Bridge connects two channels that are up.
func Bridge(channel, other string) Command { return command("uuid_bridge", channel, other) }

// Transfer sends a channel to an extension of a context.
func Transfer(channel, extension, context string) Command {
	return command("uuid_transfer", channel, extension, "XML", context)
}

// SetVar sets a channel's variable; an empty value unsets it.
func SetVar(channel, name, value string) Command {
	if value == "" {
		return command("uuid_setvar", channel, name)
	}
	return command("uuid_setvar", channel, name, value)
}

// Var is a variable and its value.
type Var struct{ Name, Value string }

// SetVars sets several variables at once, in their order. What would end a value, or the command, is taken out of it.
func SetVars(channel string, vars ...Var) Command {
	list := make([]string, len(vars))
	for i, v := range vars {
		list[i] = v.Name + "=" + plain(v.Value)
	}
	return command("uuid_setvar_multi", channel, strings.Join(list, ";"))
}

// plain takes out of a value what separates values or words, and what groups them.
func plain(value string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(";,'\"`\\{}[]<>$", r) {
			return -1
		}
		return r
	}, value)
}

// GetVar answers a channel's variable; "_undef_" for one that it hasn't.
func GetVar(channel, name string) Command { return command("uuid_getvar", channel, name) }

// Record starts the recording of a channel in a file. The limit ends it, should nobody stop it by then; 0 is none. Whole seconds, rounded up.
func Record(channel, path string, limit time.Duration) Command {
	words := []string{"uuid_record", channel, "start", path}
	if limit > 0 {
		words = append(words, strconv.Itoa(int((limit+time.Second-1)/time.Second)))
	}
	return slow(words...)
}

// Hears are the commands behind that which starts a recording. A FreeSWITCH (1.11) that adds a media bug behind native taps alone takes the channel for
// one that has nothing but taps, since it doesn't look at the newest, and then neither the recording nor anything else hears a sound until a bug
// comes or goes (switch_core_media_bug_add, SSF_MEDIA_BUG_TAP_ONLY). This one comes and goes, and changes nothing that is said.
func Hears(channel string) Script {
	return Script{Try(command("uuid_audio", channel, "start", "read", "level", "0")), Try(command("uuid_audio", channel, "stop"))}
}

// RecordStereo has the next recording of a channel keep its sides apart. The variable is read when a recording starts, and holds for the one
// after as well.
func RecordStereo(channel string, stereo bool) Command {
	return SetVar(channel, "RECORD_STEREO", strconv.FormatBool(stereo))
}

// StopRecording ends the recording in a file.
func StopRecording(channel, path string) Command { return slow("uuid_record", channel, "stop", path) }

// MaskRecording has silence recorded from now on.
func MaskRecording(channel, path string) Command { return slow("uuid_record", channel, "mask", path) }

// UnmaskRecording ends that.
func UnmaskRecording(channel, path string) Command {
	return slow("uuid_record", channel, "unmask", path)
}

// Play plays a file to a channel, beside what it runs.
func Play(channel, path string) Command {
	return slow("uuid_broadcast", channel, "playback::"+path, "aleg")
}

// PlayInto mixes a file into what a channel hears.
func PlayInto(channel, path string) Command {
	return slow("uuid_displace", channel, "start", path, "0 m")
}

// StopPlaying ends what a channel plays, and what waits behind it.
func StopPlaying(channel string) Command { return command("uuid_break", channel, "all") }

// SendDTMF sends digits on a channel, each for so long.
func SendDTMF(channel, digits string, each time.Duration) Command {
	return command("uuid_send_dtmf", channel, digits+"@"+strconv.FormatInt(each.Milliseconds(), 10))
}

// MediaOff leads the audio of a bridged channel past the switch (bypass), MediaOn through it again.
func MediaOff(channel string) Command { return command("uuid_media", "off", channel) }

// MediaOn is the way back from [MediaOff].
func MediaOn(channel string) Command { return command("uuid_media", channel) }

// Reinvite sends the far end of a channel a re-INVITE that changes nothing.
func Reinvite(channel string) Command { return command("uuid_media_reneg", channel) }

// Registration answers where a user's phones are, as XML.
func Registration(profile, user, domain string) Command {
	return command("sofia xmlstatus profile", profile, "user", user+"@"+domain)
}

// ForgetRegistration has a profile forget where a user's phones are.
func ForgetRegistration(profile, user, domain string) Command {
	return command("sofia profile", profile, "flush_inbound_reg", user+"@"+domain)
}

// ForgetDirectory has the switch forget a user's entry of the directory.
func ForgetDirectory(user, domain string) Command { return command("xml_flush_cache id", user, domain) }
