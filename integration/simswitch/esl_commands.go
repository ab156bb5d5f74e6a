package simswitch

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// dispatch runs one command. False ends the connection.
func (c *eslConn) dispatch(cmd command) bool {
	verb, arg, _ := strings.Cut(cmd.line, " ")
	verb, arg = strings.ToLower(verb), strings.TrimSpace(arg)
	if strings.HasPrefix(verb, "exit") || strings.HasPrefix(verb, "...") {
		c.reply("+OK bye")
		return false
	}
	if !c.isAuthed() {
		return c.authenticate(verb, arg)
	}
	if c.ch != nil && c.channelCommand(verb, arg) {
		return true
	}
	switch verb {
	case "filter":
		c.filter(arg)
	case "myevents":
		c.myEventsOf(arg)
	case "divert_events":
		c.divert(arg)
	case "sendmsg":
		c.sendMsg(cmd, arg)
	default:
		if c.ch != nil && !c.full {
			c.reply("-ERR command not found")
			return true
		}
		c.fullCommand(cmd, verb, arg)
	}
	return true
}

func (c *eslConn) isAuthed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.authed
}

func (c *eslConn) authenticate(verb, arg string) bool {
	if verb != "auth" {
		c.reply("-ERR command not found")
		return true
	}
	if arg != c.sw.cfg.ESLPassword {
		c.reply("-ERR invalid")
		return false
	}
	c.mu.Lock()
	c.authed = true
	c.mu.Unlock()
	c.reply("+OK accepted")
	return true
}

// fullCommand runs what only an inbound connection or a full outbound one may do.
func (c *eslConn) fullCommand(cmd command, verb, arg string) {
	switch verb {
	case "api":
		c.api(arg)
	case "bgapi":
		c.bgapi(cmd, arg)
	case "event":
		c.subscribe(arg)
	case "nixevent":
		c.unsubscribe(arg)
	case "noevents":
		c.noEvents()
	case "linger":
		c.setLinger(arg)
	case "nolinger":
		if c.ch == nil {
			c.reply("-ERR not controlling a session")
			return
		}
		c.mu.Lock()
		c.linger = false
		c.mu.Unlock()
		c.reply("+OK will not linger")
	case "log":
		c.reply("+OK log level " + arg + " [7]")
	case "nolog":
		c.reply("-ERR not loging")
	case "sendevent":
		c.sendEvent(cmd, arg)
	default:
		c.reply("-ERR command not found")
	}
}

// api runs a command in the listener's thread: events queue behind it.
func (c *eslConn) api(line string) {
	c.hold(true)
	out := c.sw.commands.api(line)
	if out == "" {
		out = "-ERR no reply\n"
	}
	c.mu.Lock()
	c.held = false
	// Ahead of the events that came meanwhile, behind the replies that wait to be sent.
	at := 0
	for i, it := range c.queue {
		if it.event == nil {
			at = i + 1
		}
	}
	c.queue = slices.Insert(c.queue, at, outItem{
		raw: []byte("Content-Type: api/response\nContent-Length: " + strconv.Itoa(len(out)) + "\n\n" + out),
	})
	c.signal()
	c.mu.Unlock()
}

// bgapi runs a command beside the connection; BACKGROUND_JOB tells the end.
func (c *eslConn) bgapi(cmd command, line string) {
	job := cmd.get("Job-UUID")
	if job == "" {
		job = uuid.NewString()
	}
	name, arg, _ := strings.Cut(line, " ")
	owner := ""
	if c.ch != nil {
		owner = c.ch.uuid
	}
	c.send("Content-Type: command/reply\nReply-Text: +OK Job-UUID: " + job + "\nJob-UUID: " + job + "\n\n")
	c.sw.goFunc(func() {
		out := c.sw.commands.api(line)
		if out == "" {
			out = "-ERR no reply\n"
		}
		e := c.sw.newEvent("BACKGROUND_JOB")
		e.add("Job-UUID", job)
		e.addSet("Job-Owner-UUID", owner)
		e.add("Job-Command", name)
		e.addSet("Job-Command-Arg", arg)
		e.body = out
		c.sw.bus.fire(e)
	})
}

// subscribe is `event [plain|json] NAMES… [CUSTOM SUBCLASSES…]`.
func (c *eslConn) subscribe(arg string) {
	c.mu.Lock()
	words := strings.Fields(arg)
	if len(words) > 0 {
		switch f := strings.ToLower(words[0]); f {
		case "plain", "json":
			c.format = format(f)
			words = words[1:]
		case "xml":
			c.mu.Unlock()
			c.reply("-ERR no keywords supplied")
			return
		}
	}
	keys, custom := 0, false
	for _, w := range words {
		switch name := strings.ToUpper(w); {
		case custom:
			c.custom[w] = true
		case name == "ALL":
			c.all = true
			keys++
		case knownEvent(name):
			c.names[name] = true
			keys++
			custom = name == "CUSTOM"
		}
	}
	if keys > 0 {
		c.listening = true
	}
	f := c.format
	c.mu.Unlock()
	if keys == 0 {
		c.reply("-ERR no keywords supplied")
		return
	}
	c.reply("+OK event listener enabled " + string(f))
}

// knownEvents are FreeSWITCH's.
func knownEvents() []string {
	return strings.Fields(`CUSTOM HEARTBEAT BACKGROUND_JOB DTMF API MESSAGE TALK NOTALK CODEC SHUTDOWN STARTUP RELOADXML RECV_INFO RECV_MESSAGE
		RECORD_START RECORD_STOP PLAYBACK_START PLAYBACK_STOP CALL_UPDATE CALL_SECURE CALL_DETAIL SESSION_HEARTBEAT SESSION_CRASH
		DETECTED_SPEECH DETECTED_TONE MEDIA_BUG_START MEDIA_BUG_STOP PRIVATE_COMMAND MODULE_LOAD MODULE_UNLOAD ADD_SCHEDULE DEL_SCHEDULE
		EXE_SCHEDULE RE_SCHEDULE PRESENCE_IN PRESENCE_OUT ROSTER LOG COMMAND TRAP CLONE GENERAL NAT FAILURE NOTIFY TEXT MESSAGE_WAITING
		MESSAGE_QUERY RECV_RTCP_MESSAGE SEND_RTCP_MESSAGE CONFERENCE_DATA CALL_SETUP_REQ CALL_SETUP_RESULT SEND_MESSAGE SEND_INFO
		REQUEST_PARAMS SOCKET_DATA PUBLISH UNPUBLISH PRESENCE_PROBE PHONE_FEATURE PHONE_FEATURE_SUBSCRIBE
		CHANNEL_CREATE CHANNEL_DESTROY CHANNEL_STATE CHANNEL_CALLSTATE CHANNEL_ANSWER CHANNEL_HANGUP CHANNEL_HANGUP_COMPLETE
		CHANNEL_EXECUTE CHANNEL_EXECUTE_COMPLETE CHANNEL_HOLD CHANNEL_UNHOLD CHANNEL_BRIDGE CHANNEL_UNBRIDGE CHANNEL_PROGRESS
		CHANNEL_PROGRESS_MEDIA CHANNEL_OUTGOING CHANNEL_PARK CHANNEL_UNPARK CHANNEL_APPLICATION CHANNEL_ORIGINATE CHANNEL_UUID CHANNEL_DATA`)
}

func knownEvent(name string) bool { return slices.Contains(knownEvents(), name) }

func (c *eslConn) unsubscribe(arg string) {
	c.mu.Lock()
	keys, custom := 0, false
	for w := range strings.FieldsSeq(arg) {
		switch name := strings.ToUpper(w); {
		case custom:
			delete(c.custom, w)
		case name == "ALL":
			c.all = false
			clear(c.names)
			keys++
		case knownEvent(name):
			if c.all {
				c.all = false
				c.nameAll()
			}
			delete(c.names, name)
			keys++
			custom = name == "CUSTOM"
		}
	}
	c.mu.Unlock()
	if keys == 0 {
		c.reply("-ERR no keywords supplied")
		return
	}
	c.reply("+OK events nixed")
}

// nameAll subscribes to every event by its name, so that one can be taken out. The caller holds mu.
func (c *eslConn) nameAll() {
	for _, n := range knownEvents() {
		c.names[n] = true
	}
}

func (c *eslConn) noEvents() {
	c.mu.Lock()
	was := c.listening
	c.listening, c.all = false, false
	clear(c.names)
	clear(c.custom)
	c.mu.Unlock()
	if !was {
		c.reply("-ERR not listening for events")
		return
	}
	c.reply("+OK no longer listening for events")
}

func (c *eslConn) filter(arg string) {
	name, value, ok := strings.Cut(arg, " ")
	switch {
	case strings.EqualFold(name, "delete") && ok:
		name, value, _ = strings.Cut(value, " ")
		c.mu.Lock()
		c.filters = slices.DeleteFunc(c.filters, func(h header) bool {
			return strings.EqualFold(name, "all") || strings.EqualFold(h.name, name) && (value == "" || h.value == value)
		})
		c.mu.Unlock()
		c.reply("+OK filter deleted. [" + name + "][" + value + "]")
	case ok && value != "":
		if strings.EqualFold(name, "add") {
			name, value, _ = strings.Cut(value, " ")
		}
		c.mu.Lock()
		c.filters = append(c.filters, header{name, value})
		c.mu.Unlock()
		c.reply("+OK filter added. [" + name + "]=[" + value + "]")
	default:
		c.reply("-ERR invalid syntax")
	}
}

// sendEvent fires a controller's own event. One that names a channel goes to what that channel runs, and to no listener.
func (c *eslConn) sendEvent(cmd command, name string) {
	id := uuid.NewString()
	if ch := c.sw.channel(cmd.get("unique-id")); ch != nil {
		ch.control.command(cmd.get("eavesdrop-command"))
		c.reply("+OK " + id)
		return
	}
	if ch := c.sw.channel(cmd.get("uuid")); ch != nil && strings.EqualFold(name, "NOTIFY") {
		ch.leg.notify(cmd.get("event-string"), cmd.get("content-type"), cmd.body)
	}
	e := c.sw.newEvent(strings.ToUpper(name))
	for _, h := range cmd.headers {
		if !strings.EqualFold(h.name, "Content-Length") {
			e.add(h.name, h.value)
		}
	}
	e.add("Event-UUID", id)
	e.subclass, _ = e.get("Event-Subclass")
	e.body = cmd.body
	c.sw.bus.fire(e)
	c.reply("+OK " + id)
}

// sendMsg queues an execute or a hang-up for a channel.
func (c *eslConn) sendMsg(cmd command, id string) {
	if id == "" {
		id = cmd.get("session-id")
	}
	ch := c.ch
	if ch == nil || (id != "" && id != ch.uuid) {
		if ch = c.sw.channel(id); ch == nil {
			c.reply("-ERR invalid session id [" + id + "]")
			return
		}
	}
	m := message{
		command: strings.ToLower(cmd.get("call-command")), app: cmd.get("execute-app-name"), arg: cmd.get("execute-app-arg"),
		eventUUID: cmd.get("Event-UUID"), cause: cmd.get("hangup-cause"), lock: isTrue(cmd.get("event-lock")),
	}
	if m.arg == "" {
		m.arg = cmd.body
	}
	m.loops, _ = strconv.Atoi(cmd.get("loops"))
	c.reply("+OK") // before the message can end the connection
	ch.control.post(m)
}

func (c *eslConn) setLinger(arg string) {
	if c.ch == nil {
		c.reply("-ERR not controlling a session")
		return
	}
	c.mu.Lock()
	c.linger, c.lingerFor = true, -1
	n, err := strconv.Atoi(arg)
	if err == nil {
		c.lingerFor = time.Duration(n) * time.Second
	}
	c.mu.Unlock()
	if err == nil {
		c.reply("+OK will linger " + strconv.Itoa(n) + " seconds")
		return
	}
	c.reply("+OK will linger")
}
