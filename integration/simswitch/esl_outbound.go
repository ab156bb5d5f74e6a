package simswitch

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// socketApp gives the channel to a controller: `host[:port][/path][|host…] [async] [full]`. When nobody listens, the dialplan
// goes on at once; when the connection closes, after what runs then.
func (ch *application) socketApp(arg string) {
	args := splitArgs(arg)
	if len(args) == 0 {
		return
	}
	c := ch.connectController(args[0])
	if c == nil {
		ch.sw.log.Warn("no controller reachable", "channel", ch.uuid, "hosts", args[0])
		return
	}
	c.mode = "static"
	c.full = false
	for _, a := range args[1:] {
		switch strings.ToLower(a) {
		case "async":
			c.mode = "async"
		case "full":
			c.full = true
		}
	}
	c.authed = true
	ch.mu.Lock()
	ch.control.controls = append(ch.control.controls, c)
	ch.mu.Unlock()
	if !ch.sw.goFunc(c.control) {
		c.cut()
		ch.dropController(c)
		return
	}
	if !ch.awaitConnect(c) {
		return
	}
	ch.events.emit("CHANNEL_PARK")
	for ch.pause(c.done, 0) == endBreak {
		continue
	}
	ch.events.emit("CHANNEL_UNPARK")
}

// awaitConnect waits for the controller's `connect`. Its further messages run after CHANNEL_PARK.
func (ch *application) awaitConnect(c *eslConn) bool {
	for {
		changed := ch.watch()
		if !ch.ready() {
			return false
		}
		select {
		case <-c.connected:
			return true
		case <-c.done:
			return false
		case <-changed:
		}
	}
}

// connectController tries the hosts in turn. A port given for one carries over to later ones without (mod_event_socket.c).
func (ch *application) connectController(hosts string) *eslConn {
	port := "8084"
	for host := range strings.SplitSeq(hosts, "|") {
		host, _, _ = strings.Cut(host, "/")
		if h, p, err := net.SplitHostPort(host); err == nil {
			host, port = h, p
		}
		ctx, cancel := context.WithTimeout(context.Background(), ch.sw.cfg.ConnectTimeout)
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, port))
		cancel()
		if err != nil {
			continue
		}
		ch.set("socket_host", host)
		c := newESLConn(ch.sw, conn)
		c.ch = ch.channel
		return c
	}
	return nil
}

func (ch *application) dropController(c *eslConn) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.control.controls = slices.DeleteFunc(ch.control.controls, func(o *eslConn) bool { return o == c })
}

// control runs an outbound connection; its first command must come in time.
func (c *eslConn) control() {
	_ = c.conn.SetReadDeadline(time.Now().Add(firstCommand))
	c.run()
	c.ch.mu.Lock()
	c.ch.control.divert = false
	c.ch.mu.Unlock()
	c.ch.app.dropController(c)
}

// channelCommand runs what an outbound connection does with its channel. False leaves the command to others.
func (c *eslConn) channelCommand(verb, arg string) bool {
	switch verb {
	case "connect":
		c.connect()
	case "getvar":
		c.reply(c.ch.get(arg))
	case "myevents":
		c.myEvents(arg)
	case "resume":
		c.ch.set("socket_resume", "true")
		c.reply("+OK")
	default:
		return false
	}
	return true
}

// connect answers with the whole channel.
func (c *eslConn) connect() {
	_ = c.conn.SetReadDeadline(time.Time{})
	e := c.sw.newEvent("CHANNEL_DATA")
	c.ch.mu.Lock()
	c.ch.profile.addTo(e, "Channel")
	c.ch.mu.Unlock()
	c.ch.events.describe(e, true)
	e.add("Content-Type", "command/reply")
	e.add("Reply-Text", "+OK\n")
	e.add("Socket-Mode", c.mode)
	control := "single-channel"
	if c.full {
		control = "full"
	}
	e.add("Control", control)
	c.send(string(e.plain()))
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.connected:
	default:
		close(c.connected)
	}
}

// myEvents subscribes to the fixed list of events of the connection's own channel.
func (c *eslConn) myEvents(arg string) {
	c.mu.Lock()
	if c.mine {
		c.mu.Unlock()
		c.reply("-ERR aready enabled.") //nolint:misspell // mod_event_socket spells it so
		return
	}
	c.mine, c.listening = true, true
	if strings.Contains(strings.ToLower(arg), "json") {
		c.format = formatJSON
	}
	for _, n := range []string{
		"ANSWER", "APPLICATION", "BRIDGE", "CREATE", "DATA", "DESTROY", "EXECUTE", "EXECUTE_COMPLETE", "HANGUP",
		"HANGUP_COMPLETE", "ORIGINATE", "UUID", "OUTGOING", "PARK", "PROGRESS", "PROGRESS_MEDIA", "STATE", "UNBRIDGE", "UNPARK",
	} {
		c.names["CHANNEL_"+n] = true
	}
	for _, n := range []string{"DETECTED_SPEECH", "DTMF", "NOTALK", "TALK"} {
		c.names[n] = true
	}
	c.mu.Unlock()
	c.reply("+OK Events Enabled")
}

// myEventsOf is `myevents <uuid>` on an inbound connection.
func (c *eslConn) myEventsOf(arg string) {
	id, rest, _ := strings.Cut(arg, " ")
	ch := c.sw.channel(id)
	if id == "" || ch == nil {
		if id == "" {
			c.reply("-ERR command not found")
			return
		}
		c.reply("-ERR invalid uuid")
		return
	}
	c.mu.Lock()
	c.ch = ch
	c.mu.Unlock()
	c.myEvents(rest)
}

// divert gives the channel's DTMF to this connection alone.
func (c *eslConn) divert(arg string) {
	switch {
	case c.ch == nil:
		c.reply("-ERR not controlling a session.")
	case arg == "":
		c.reply("-ERR missing value.")
	default:
		on := strings.EqualFold(arg, "on")
		c.ch.mu.Lock()
		c.ch.control.divert = on
		c.ch.mu.Unlock()
		if on {
			c.reply("+OK events diverted")
			return
		}
		c.reply("+OK events not diverted")
	}
}

func (c *eslConn) lingers() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.linger
}

// lingerNotice tells a lingering controller that the channel is down, and ends the connection when its time is over.
func (c *eslConn) lingerNotice() {
	c.mu.Lock()
	d := c.lingerFor
	linger := c.linger
	c.mu.Unlock()
	if !linger {
		c.shutdown()
		return
	}
	seconds := -1
	if d >= 0 {
		seconds = int(d.Seconds())
	}
	c.send("Content-Type: text/disconnect-notice\nControlled-Session-UUID: " + c.ch.uuid +
		"\nContent-Disposition: linger\nChannel-Name: " + c.ch.name + "\nLinger-Time: " + strconv.Itoa(seconds) +
		"\nContent-Length: 0\n\n")
	if d >= 0 {
		t := time.AfterFunc(d, c.shutdown)
		go func() { <-c.done; t.Stop() }()
	}
}
