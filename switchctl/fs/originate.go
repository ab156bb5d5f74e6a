package fs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Variables are a new leg's channel variables.
type Variables map[string]string

// VariableError rejects a channel variable that the originate syntax can't carry safely.
type VariableError struct {
	Name string
}

func (e *VariableError) Error() string {
	return "channel variable " + e.Name + " can't be written in an originate command"
}

// Park is the target of a leg that nothing happens to for now.
const Park = "&park()"

// Eavesdrop is the target of a leg that hears both sides of a channel, or those that its variables name.
func Eavesdrop(channel string) string { return "&eavesdrop(" + channel + ")" }

// Sides of a channel, for [NativeEavesdrop].
const (
	Read  = "read"  // what comes from its far end
	Write = "write" // what goes there
)

// NativeEavesdrop is the target of a leg that takes one side of a channel as it comes, in the channel's codec.
func NativeEavesdrop(channel, side string) string {
	return "'&native_eavesdrop(" + channel + " " + side + ")'"
}

// Extension is the target of a leg that goes to an extension of a context.
func Extension(name, context string) string { return name + " XML " + context }

// With sets more variables, and returns v.
func (v Variables) With(vars ...Var) Variables {
	for _, one := range vars {
		v[one.Name] = one.Value
	}
	return v
}

// WhileBridged are the variables of a leg by which the switch reads it in a bridge (switch_rtp.c, rtp_common_read). It does so by a timer: a leg whose packets
// it waits for can't hang up, since a BYE is taken up with the next packet, which never comes, or after 5 s. And what has come in one go after a stall of the
// network is read a little faster than it is spoken (hot_hits), until nothing waits: it would be heard that much later for the rest of the call.
func WhileBridged() []Var {
	return []Var{{"rtp_notimer_during_bridge", "false"}, {"rtp_autoflush_during_bridge", "true"}}
}

// AfterBridge is the value of transfer_after_bridge: where a channel goes when a bridge of it ends.
func AfterBridge(extension, context string) string { return extension + ":XML:" + context }

// Originate dials one leg and sends it to target once it is answered. Errors: [*VariableError].
func Originate(v Variables, endpoint, target string) (Command, error) {
	dial, err := DialString(v, endpoint)
	if err != nil {
		return Command{}, err
	}
	return command("originate", dial, target), nil
}

// DialString is an endpoint and the variables of its leg, as originate and bridge have it. A redirect (300, 301, 302, 305) fails the leg: the
// switch would follow it to any address, which nobody has judged (sofia.c, sofia_handle_sip_r_invite). Errors: [*VariableError].
func DialString(v Variables, endpoint string) (string, error) {
	if err := CheckEndpoint(endpoint); err != nil {
		return "", err
	}
	v["outbound_redirect_fatal"] = "true"
	block, err := v.block()
	if err != nil {
		return "", err
	}
	return block + endpoint, nil
}

// enterprise splits a dial string into several that are dialed at once, wherever it stands, before anything else of the string is read
// (switch_ivr_originate.c: SWITCH_ENT_ORIGINATE_DELIM).
const enterprise = ":_:"

// block writes variables as the originate syntax's {a=b,c=d}, in name order.
func (v Variables) block() (string, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := quote(name, v[name])
		if err != nil {
			return "", err
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(value)
	}
	b.WriteByte('}')
	return b.String(), nil
}

// CheckVariable refuses a value that the originate syntax can't carry. Errors: [*VariableError].
func CheckVariable(name, value string) error {
	_, err := quote(name, value)
	return err
}

// quote escapes one value. The switch splits a command at blanks (quotes group), finds the block's end by counting braces, and splits the
// block at commas (a backslash keeps one). What could end the block, a quote, or the command itself can't be carried and is refused.
func quote(name, value string) (string, error) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return "", &VariableError{Name: name}
	}
	if strings.Contains(value, enterprise) {
		return "", &VariableError{Name: name}
	}
	blank := false
	var b strings.Builder
	for _, r := range value {
		switch {
		case r < ' ' || r == 0x7f || strings.ContainsRune(`'"{}[]<>\^|$`, r):
			return "", &VariableError{Name: name}
		case r == ',':
			b.WriteString(`\,`)
		case r == ' ':
			blank = true
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	if blank {
		return "'" + b.String() + "'", nil
	}
	return b.String(), nil
}

// CheckEndpoint refuses a dial string that could hold anything but one endpoint. Errors: [*VariableError].
func CheckEndpoint(endpoint string) error {
	if endpoint == "" || strings.Contains(endpoint, enterprise) || strings.ContainsFunc(endpoint, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`'"{}[]<>\^|,&$`, r)
	}) {
		return &VariableError{Name: "endpoint"}
	}
	return nil
}

// RingSeconds is originate_timeout. The switch fires up to 0.7 s early, so a second is added: a callee who rings for the whole time is not cut
// short.
func RingSeconds(d time.Duration) string {
	return strconv.Itoa(max(1, int((d+time.Second-1)/time.Second)) + 1)
}

// Millis is a duration as variables such as media_timeout have it.
func Millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
