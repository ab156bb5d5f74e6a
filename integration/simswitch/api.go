package simswitch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	switchVersion     = "1.11.3-simulated"
	maxSessions       = 1000
	sessionsPerSecond = 200
	noChannel         = "-ERR No such channel!\n"
)

// apiFunc runs an API command.
type apiFunc func(sw *commands, arg string) string

// api runs one command line and returns what the switch prints.
func (sw *commands) api(line string) string {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	f := sw.table[strings.ToLower(name)]
	if f == nil {
		return "-ERR " + name + " Command not found!\n"
	}
	return f(sw, strings.TrimSpace(arg))
}

// always is a command with one answer.
func always(answer func(sw *commands) string) apiFunc {
	return func(sw *commands, _ string) string { return answer(sw) }
}

// apiTable has the commands that are not about one channel.
func apiTable() map[string]apiFunc {
	return map[string]apiFunc{
		"status":          (*commands).apiStatus,
		"version":         always(func(*commands) string { return "FreeSWITCH Version " + switchVersion + " (64bit)\n" }),
		"show":            (*commands).apiShow,
		"originate":       (*commands).apiOriginate,
		"hupall":          (*commands).apiHupAll,
		"sched_hangup":    (*commands).apiSchedHangup,
		"create_uuid":     always(func(*commands) string { return uuid.NewString() }),
		"module_exists":   func(_ *commands, arg string) string { return strconv.FormatBool(slices.Contains(modules(), arg)) },
		"global_getvar":   func(sw *commands, arg string) string { return sw.globals[arg] },
		"hostname":        always(func(sw *commands) string { return sw.hostname }),
		"switchname":      always(func(sw *commands) string { return sw.hostname }),
		"uptime":          always(func(sw *commands) string { return strconv.Itoa(int(time.Since(sw.started).Seconds())) }),
		"strepoch":        always(func(*commands) string { return strconv.FormatInt(time.Now().Unix(), 10) }),
		"echo":            func(_ *commands, arg string) string { return arg },
		"sofia_contact":   (*commands).apiSofiaContact,
		"sofia":           (*commands).apiSofia,
		"xml_flush_cache": (*commands).apiFlushCache,
		"conference":      (*commands).apiConference,
		"fsctl": func(_ *commands, arg string) string {
			if arg != "sync_clock_when_idle" {
				return "-ERR Invalid command\n"
			}
			return "+OK clock will synchronize when there are no more calls\n" // its clock is the host's
		},
		"reloadxml": always(func(*commands) string { return "+OK [Success]\n" }),
	}
}

// modules are the modules whose work the switch does.
func modules() []string {
	return []string{
		"mod_event_socket", "mod_sofia", "mod_commands", "mod_dptools", "mod_dialplan_xml", "mod_json_cdr", "mod_sndfile",
		"mod_tone_stream", "mod_console", "mod_logfile", "mod_xml_curl", "mod_conference", "mod_hash", "mod_loopback", "mod_spandsp",
	}
}

// showModules answers `show modules as json`: one row for each interface of a module there, one for each module here.
func showModules() string {
	rows := make([]map[string]string, 0, len(modules()))
	for _, name := range modules() {
		rows = append(rows, map[string]string{"type": "generic", "name": name, "ikey": name, "filename": ""})
	}
	raw, err := json.Marshal(map[string]any{"row_count": len(rows), "rows": rows})
	if err != nil {
		return "-ERR " + err.Error() + "\n"
	}
	return string(raw) + "\n"
}

// upTime writes a duration as `status` does.
func upTime(d time.Duration) string {
	s := int64(d.Seconds())
	return fmt.Sprintf("%d years, %d days, %d hours, %d minutes, %d seconds, %d milliseconds, %d microseconds",
		s/31536000, s/86400%365, s/3600%24, s/60%60, s%60, d.Milliseconds()%1000, d.Microseconds()%1000)
}

func (sw *commands) apiStatus(string) string {
	live, peak := sw.Live(), sw.peak.Load()
	return fmt.Sprintf("UP %s\nFreeSWITCH (Version %s 64bit) is ready\n%d session(s) since startup\n"+
		"%d session(s) - peak %d, last 5min %d \n0 session(s) per Sec out of max %d, peak 0, last 5min 0 \n"+
		"%d session(s) max\nmin idle cpu 0.00/100.00\nCurrent Stack Size/Max 240K/8192K\n",
		upTime(time.Since(sw.started)), switchVersion, sw.sessions.Load(), live, peak, peak, sessionsPerSecond, maxSessions)
}

// showColumns are the columns of `show channels`.
func showColumns() []string {
	return []string{
		"uuid", "direction", "created", "created_epoch", "name", "state", "cid_name", "cid_num", "ip_addr", "dest",
		"application", "application_data", "dialplan", "context", "read_codec", "read_rate", "read_bit_rate", "write_codec",
		"write_rate", "write_bit_rate", "secure", "hostname", "presence_id", "presence_data", "accountcode", "callstate",
		"callee_name", "callee_num", "callee_direction", "call_uuid", "sent_callee_name", "sent_callee_num",
		"initial_cid_name", "initial_cid_num", "initial_ip_addr", "initial_dest", "initial_dialplan", "initial_context",
	}
}

// row is the channel's line of `show channels`.
func (ch *channel) row() map[string]string {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	first := ch.profile
	if n := len(ch.way.history); n > 0 {
		first = ch.way.history[n-1]
	}
	p := ch.profile
	r := map[string]string{
		"uuid": ch.uuid, "direction": ch.direction(), "created": first.times.created.Format(stampLayout),
		"created_epoch": strconv.FormatInt(first.times.created.Unix(), 10), "name": ch.name, "state": ch.running.String(),
		"cid_name": p.cidName, "cid_num": p.cidNumber, "ip_addr": p.networkAddr, "dest": p.destination,
		"dialplan": p.dialplan, "context": p.context, "hostname": ch.sw.hostname, "callstate": ch.callState,
		"callee_name": p.calleeName, "callee_num": p.calleeNum,
		"initial_cid_name": first.cidName, "initial_cid_num": first.cidNumber, "initial_ip_addr": first.networkAddr,
		"initial_dest": first.destination, "initial_dialplan": first.dialplan, "initial_context": first.context,
	}
	r["application"], _ = ch.vars.get("current_application")
	r["application_data"], _ = ch.vars.get("current_application_data")
	r["call_uuid"], _ = ch.vars.get("call_uuid")
	if ch.early {
		for _, c := range ch.codecs() {
			side := strings.ToLower(c.way)
			r[side+"_codec"], r[side+"_rate"], r[side+"_bit_rate"] = c.name, "8000", c.bitRate
		}
	}
	return r
}

// apiShow is `show channels [as json]`, `show channels count` and `show calls …` of the same channels.
func (sw *commands) apiShow(arg string) string {
	words := strings.Fields(arg)
	if slices.Equal(words, []string{"modules", "as", "json"}) {
		return showModules()
	}
	if len(words) == 0 || (words[0] != "channels" && words[0] != "calls") {
		return "-USAGE: codec|endpoint|application|api|dialplan|file|timer|calls [count]|channels [count|like <match string>]\n"
	}
	channels := sw.allChannels()
	if len(words) > 2 && words[1] == "like" {
		channels = slices.DeleteFunc(channels, func(ch *channel) bool {
			r := ch.row()
			return !strings.Contains(r["uuid"]+" "+r["name"]+" "+r["cid_num"]+" "+r["cid_name"]+" "+r["dest"], words[2])
		})
	}
	asJSON := slices.Contains(words, "json")
	switch {
	case slices.Contains(words, "count") && asJSON:
		return fmt.Sprintf("{\"row_count\":%d}\n", len(channels))
	case slices.Contains(words, "count"):
		return fmt.Sprintf("\n%d total.\n", len(channels))
	case asJSON:
		return showJSON(channels)
	}
	if len(channels) == 0 {
		return "\n0 total.\n"
	}
	var b strings.Builder
	b.WriteString(strings.Join(showColumns(), ",") + "\n")
	for _, ch := range channels {
		r := ch.row()
		cells := make([]string, 0, len(r))
		for _, c := range showColumns() {
			cells = append(cells, r[c])
		}
		b.WriteString(strings.Join(cells, ",") + "\n")
	}
	fmt.Fprintf(&b, "\n%d total.\n", len(channels))
	return b.String()
}

// showJSON has no `rows` when there are none (mod_commands.c).
func showJSON(channels []*channel) string {
	if len(channels) == 0 {
		return "{\"row_count\": 0}\n"
	}
	rows := make([][]byte, 0, len(channels))
	for _, ch := range channels {
		r := ch.row()
		var o object
		for _, c := range showColumns() {
			o.str(c, r[c])
		}
		rows = append(rows, o.bytes())
	}
	count, err := json.Marshal(len(rows))
	if err != nil {
		return "{\"row_count\": 0}\n"
	}
	var o object
	o.raw("row_count", count)
	o.raw("rows", array(rows))
	return string(o.bytes())
}

// apiHupAll is `hupall [cause] [variable value]`.
func (sw *commands) apiHupAll(arg string) string {
	args := splitArgs(arg)
	c := causeManagerRequest
	if len(args) > 0 {
		c = parseCause(args[0])
	}
	for _, ch := range sw.allChannels() {
		if len(args) >= 3 && ch.get(args[1]) != args[2] {
			continue
		}
		ch.hangup(c)
	}
	if len(args) >= 3 {
		return fmt.Sprintf("+OK hangup all channels matching [%s]=[%s] with cause: %s\n", args[1], args[2], c)
	}
	return "+OK hangup all channels with cause " + string(c) + "\n"
}

// apiSchedHangup is `sched_hangup [+]time uuid [cause]`.
func (sw *commands) apiSchedHangup(arg string) string {
	args := splitArgs(arg)
	if len(args) < 2 {
		return "-USAGE: [+]<time> <uuid> [<cause>]\n"
	}
	ch := sw.channel(args[1])
	if ch == nil {
		return noChannel
	}
	ch.app.schedHangup(append([]string{args[0]}, args[2:]...))
	return "+OK\n"
}
