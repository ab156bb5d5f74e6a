package simswitch

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestInboundCommands is a golden session on the inbound socket.
func TestInboundCommands(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, step := range []struct{ cmd, want string }{
		{"api uuid_exists x", "false"},
		{"api uuid_kill x", "-ERR No such channel!\n"},
		{"api uuid_dump x", "-ERR No such channel!\n"},
		{"api uuid_getvar x y", "-ERR No such channel!\n"},
		{"api uuid_setvar x y z", "-ERR No such channel!\n"},
		{"api uuid_record x start /tmp/x.wav", "-ERR Cannot locate session!\n"},
		{"api uuid_broadcast x y", "-ERR invalid uuid\n"},
		{"api sched_hangup +1 x", "-ERR No such channel!\n"},
		{"api module_exists mod_sofia", "true"},
		{"api module_exists mod_none", "false"},
		{"api show channels as json", "{\"row_count\": 0}\n"},
		{"api show channels", "\n0 total.\n"},
		{"api global_getvar hostname", b.sw.hostname},
		{"api global_getvar none", "-ERR no reply\n"},
		{"api foo bar", "-ERR foo Command not found!\n"},
		{"foo", "-ERR command not found"},
		{"event", "-ERR no keywords supplied"},
		{"event plain FOO", "-ERR no keywords supplied"},
		{"event json HEARTBEAT CUSTOM a::b", "+OK event listener enabled json"},
		{"filter Unique-ID abc", "+OK filter added. [Unique-ID]=[abc]"},
		{"filter delete all", "+OK filter deleted. [all][]"},
		{"filter", "-ERR command not found"},
		{"nixevent HEARTBEAT", "+OK events nixed"},
		{"noevents", "+OK no longer listening for events"},
		{"noevents", "-ERR not listening for events"},
		{"linger", "-ERR not controlling a session"},
		{"divert_events on", "-ERR not controlling a session."},
		{"myevents", "-ERR command not found"},
		{"myevents nope", "-ERR invalid uuid"},
		{"sendmsg abc\ncall-command: hangup", "-ERR invalid session id [abc]"},
	} {
		if step.cmd == "filter" {
			step.want = "-ERR invalid syntax"
		}
		require.Equal(t, step.want, b.esl.cmd(step.cmd), step.cmd)
	}
	require.Contains(t, b.esl.api("status"), "is ready\n")
	require.True(t, strings.HasPrefix(b.esl.api("version"), "FreeSWITCH Version "))
	require.Len(t, b.esl.api("create_uuid"), 36)
	require.Equal(t, "+OK bye", b.esl.cmd("exit"))
	<-b.esl.closed
	require.Len(t, b.esl.notice, 1)
	require.Equal(t, disconnectMsg, b.esl.notice[0].body)
}

// TestAuth refuses a wrong password and commands before it.
func TestAuth(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := newClient(t, dialTCP(t, b.sw.Addrs().ESL))
	require.Equal(t, "auth/request", c.nextReply().head["content-type"])
	require.Equal(t, "-ERR command not found", c.cmd("api status"))
	require.Equal(t, "-ERR invalid", c.cmd("auth wrong"))
	<-c.closed
}

// TestOutboundSession is a golden session on the outbound socket.
func TestOutboundSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.NewString()
	require.Contains(t, b.originate(",origination_uuid="+id+",rm_call_id=c1,origination_caller_id_number=+915", "answer-400", "rm_call XML ringmaster"), "+OK")
	ctl, conn := b.accept()
	require.Equal(t, "CHANNEL_DATA", conn.get("Event-Name"))
	require.Equal(t, "async", conn.get("Socket-Mode"))
	require.Equal(t, "full", conn.get("Control"))
	require.Equal(t, "c1", conn.v("rm_call_id"))
	require.Equal(t, "rm_call", conn.get("Channel-Destination-Number"))
	require.Equal(t, "+915", conn.get("Caller-Orig-Caller-ID-Number"))
	require.Equal(t, "answered", conn.get("Answer-State"))
	require.NotEmpty(t, conn.v("sip_call_id"))
	require.Equal(t, "c1", ctl.cmd("getvar rm_call_id"))
	require.Equal(t, "+OK Events Enabled", ctl.cmd("myevents"))
	require.Equal(t, "-ERR aready enabled.", ctl.cmd("myevents")) //nolint:misspell // mod_event_socket spells it so
	require.Equal(t, "+OK will linger 1 seconds", ctl.cmd("linger 1"))
	require.Contains(t, ctl.cmd("api status"), "is ready")

	// Locked messages wait for each other; Event-UUID comes back as Application-UUID.
	ctl.execute("playback", "silence_stream://200", "event-lock: true", "Event-UUID: p1")
	ctl.execute("set", "note=after", "event-lock: true", "Event-UUID: s1")
	e := ctl.app(id, "set")
	require.Equal(t, "s1", e.get("Application-UUID"))
	p := ctl.app(id, "playback")
	require.Equal(t, "p1", p.get("Application-UUID"))
	require.Equal(t, "FILE PLAYED", p.get("Application-Response"))
	require.Equal(t, []string{"CHANNEL_EXECUTE playback", "CHANNEL_EXECUTE_COMPLETE playback", "CHANNEL_EXECUTE set", "CHANNEL_EXECUTE_COMPLETE set"},
		only(order(ctl.all(id)), "playback", "set"))

	// Without a lock a message runs inside of the application before it.
	ctl.forget()
	ctl.execute("sleep", "2500", "Event-UUID: p2")
	ctl.execute("set", "note=inside", "Event-UUID: s2")
	ctl.app(id, "sleep")
	require.Equal(t, []string{"CHANNEL_EXECUTE sleep", "CHANNEL_EXECUTE set", "CHANNEL_EXECUTE_COMPLETE set", "CHANNEL_EXECUTE_COMPLETE sleep"},
		only(order(ctl.all(id)), "sleep", "set"))

	require.Equal(t, "+OK", ctl.cmd("sendmsg\ncall-command: hangup\nhangup-cause: USER_BUSY"))
	require.Equal(t, "USER_BUSY", ctl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
	<-ctl.closed
	require.Len(t, ctl.notice, 2)
	require.Equal(t, "linger", ctl.notice[0].head["content-disposition"])
	require.Equal(t, "disconnect", ctl.notice[1].head["content-disposition"])
	b.esl.event(id, "CHANNEL_DESTROY")
}

// only keeps the lines about those applications.
func only(lines []string, apps ...string) []string {
	var out []string
	for _, l := range lines {
		for _, a := range apps {
			if strings.HasSuffix(l, " "+a) {
				out = append(out, l)
			}
		}
	}
	return out
}

// TestUnknownApplication hangs the channel up without CHANNEL_EXECUTE_COMPLETE.
func TestUnknownApplication(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.NewString()
	require.Contains(t, b.originate(",origination_uuid="+id, "answer-400", "rm_call XML ringmaster"), "+OK")
	ctl, _ := b.accept()
	ctl.cmd("myevents")
	ctl.execute("no_such_app", "x", "Event-UUID: u1")
	require.Equal(t, "DESTINATION_OUT_OF_ORDER", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
	for _, e := range b.esl.all(id) {
		require.NotEqual(t, "u1", e.get("Application-UUID"))
	}
	<-ctl.closed
}

// TestSocketFailover tries the hosts in turn, the port of one carried over to the next.
func TestSocketFailover(t *testing.T) {
	t.Parallel()
	dead, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	b := setup(t, func(c *Config) { c.SocketAddr = dead.Addr().String() + "|" + c.SocketAddr })
	require.Contains(t, b.originate("", "answer-400", "rm_call XML ringmaster"), "+OK")
	_, conn := b.accept()
	require.Equal(t, "rm_call", conn.get("Channel-Destination-Number"))
}

// TestPlaybackAndBreak plays tones, and breaks them off; a parked leg is sent nothing.
func TestPlaybackAndBreak(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.NewString()
	require.Contains(t, b.originate(",origination_uuid="+id, "answer-400", "rm_call XML ringmaster"), "+OK")
	call := b.peer.next()
	ctl, _ := b.accept()
	ctl.cmd("myevents")
	ctl.execute("playback", "tone_stream://%(1000,0,620);loops=-1", "Event-UUID: tone")
	call.hears(620)
	require.Equal(t, "+OK\n", b.esl.api("uuid_break "+id+" all"))
	ctl.app(id, "playback")
	settles(t, 5*frameDuration, call.count) // what was played may still be on its way to the call
	call.forget()
	ctl.execute("playback", "/nowhere/at/all.wav", "Event-UUID: missing")
	require.Equal(t, "FILE NOT FOUND", ctl.wait(func(e ev) bool {
		return e.get("Application-UUID") == "missing" && e.get("Event-Name") == "CHANNEL_EXECUTE_COMPLETE"
	}).get("Application-Response"))
	require.Zero(t, call.count(), "a parked leg hears nothing")
	require.Equal(t, "+OK Message sent\n", b.esl.api("uuid_broadcast "+id+" tone_stream://%(1000,0,900);loops=-1 aleg"))
	call.hears(900)
	require.Equal(t, "+OK\n", b.esl.api("uuid_break "+id+" all"))
	ctl.execute("echo", "")
	call.hears(400)
}

// TestInboundCall gives an unanswered call to the controller, which answers it.
func TestInboundCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type result struct {
		call   *peerCall
		status int
	}
	done := make(chan result, 1)
	go func() {
		c, status := b.peer.dial("9180000001@"+b.sw.Addrs().External, "caller-500", sip.NewHeader("X-Test", "yes"))
		done <- result{c, status}
	}()
	ctl, conn := b.accept()
	id := conn.get("Unique-ID")
	require.Equal(t, "inbound", conn.get("Call-Direction"))
	require.Equal(t, "ringing", conn.get("Answer-State"))
	require.Equal(t, "9180000001", conn.get("Caller-Destination-Number"))
	require.Equal(t, "+911234567890", conn.get("Caller-Caller-ID-Number"))
	require.Equal(t, "9180000001", conn.v("sip_to_user"))
	require.Equal(t, "yes", conn.v("sip_h_x-test"))
	require.Equal(t, "external", conn.v("sip_profile_name"))
	ctl.cmd("myevents")
	ctl.execute("ring_ready", "")
	ctl.execute("answer", "")
	r := <-done
	require.Equal(t, 200, r.status)
	ctl.execute("playback", "tone_stream://%(1000,0,800);loops=-1")
	r.call.hears(800)
	r.call.hangup()
	h := b.esl.event(id, "CHANNEL_HANGUP_COMPLETE")
	require.Equal(t, "recv_bye", h.v("sip_hangup_disposition"))
	require.NotEqual(t, "0", h.get("Caller-Channel-Progress-Time"))
}

// TestInboundRefused holds what the caller gets: the controller's status, 503 without a controller, 487 after CANCEL.
func TestInboundRefused(t *testing.T) {
	t.Parallel()
	t.Run("respond", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		status := make(chan int, 1)
		go func() { _, s := b.peer.dial("100@"+b.sw.Addrs().External, "x"); status <- s }()
		ctl, conn := b.accept()
		ctl.execute("respond", "404")
		require.Equal(t, 404, <-status)
		h := b.esl.event(conn.get("Unique-ID"), "CHANNEL_HANGUP_COMPLETE")
		require.Equal(t, "UNALLOCATED_NUMBER", h.get("Hangup-Cause"))
		require.Equal(t, "send_refuse", h.v("sip_hangup_disposition"))
	})
	t.Run("hangup", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		status := make(chan int, 1)
		go func() { _, s := b.peer.dial("100@"+b.sw.Addrs().External, "x"); status <- s }()
		ctl, _ := b.accept()
		ctl.execute("hangup", "USER_BUSY")
		require.Equal(t, 486, <-status)
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, status := b.peer.dial("nobody@"+b.sw.Addrs().External, "x")
		require.Equal(t, 404, status)
		_, status = b.peer.dial("100@"+b.sw.Addrs().Internal, "x")
		require.Equal(t, 403, status)
	})
	t.Run("no controller", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		require.NoError(t, b.l.Close())
		_, status := b.peer.dial("100@"+b.sw.Addrs().External, "x")
		require.Equal(t, 503, status)
	})
	t.Run("controller leaves", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		status := make(chan int, 1)
		go func() { _, s := b.peer.dial("100@"+b.sw.Addrs().External, "x"); status <- s }()
		ctl, _ := b.accept()
		require.NoError(t, ctl.conn.Close())
		require.Equal(t, 503, <-status)
	})
	t.Run("controller leaves an answered call", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		status := make(chan int, 1)
		go func() { _, s := b.peer.dial("100@"+b.sw.Addrs().External, "caller-500"); status <- s }()
		ctl, conn := b.accept()
		ctl.cmd("myevents")
		ctl.execute("answer", "")
		require.Equal(t, 200, <-status)
		require.NoError(t, ctl.conn.Close())
		b.esl.wait(func(e ev) bool {
			return e.get("Unique-ID") == conn.get("Unique-ID") && e.get("Event-Name") == "CHANNEL_EXECUTE" && e.get("Application") == "park"
		})
	})
}

// TestEventFormats compares a JSON event with a plain one, and the filter.
func TestEventFormats(t *testing.T) {
	t.Parallel()
	b := setup(t)
	js := b.connect()
	require.Equal(t, "+OK event listener enabled json", js.cmd("event json ALL"))
	filtered := b.connect()
	id := uuid.NewString()
	require.Contains(t, filtered.cmd("filter Unique-ID "+id), "+OK")
	require.Contains(t, b.originate(",origination_uuid="+id+",tricky='a%b c:d'", "answer-400", "rm_park XML ringmaster"), "+OK")
	plain, obj := b.esl.event(id, "CHANNEL_PARK"), js.event(id, "CHANNEL_PARK")
	require.Equal(t, "a%b c:d", plain.v("tricky"))
	require.Equal(t, plain.v("tricky"), obj.v("tricky"))
	require.Equal(t, plain.get("Event-Sequence"), obj.get("Event-Sequence"))
	job := js.wait(func(e ev) bool { return e.get("Event-Name") == "BACKGROUND_JOB" })
	require.Equal(t, "+OK "+id+"\n", job.get("_body"))
	filtered.event(id, "CHANNEL_PARK")
	for _, e := range filtered.all("") {
		require.NotEqual(t, "BACKGROUND_JOB", e.get("Event-Name"), "a Unique-ID filter hides BACKGROUND_JOB")
	}
	require.Equal(t, "+OK\n", b.esl.api("sched_hangup +1 "+id+" CALL_REJECTED"))
	require.Equal(t, "CALL_REJECTED", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
}

// TestGarbage feeds both sockets with nonsense; the switch goes on.
func TestGarbage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, junk := range []string{
		"\n\n\n\n", strings.Repeat("x", 2<<20), "auth ClueCon\nContent-Length: 99999999999\n\n", "auth ClueCon\nContent-Length: -5\n\n",
		"auth ClueCon\n\nsendmsg\n\nevent\x00\xff\n\nbgapi\n\napi\n\nbgapi originate {a=b\n\nbgapi originate {{{}}} &\n\nexit\n\n",
	} {
		conn := dialTCP(t, b.sw.Addrs().ESL)
		_, _ = conn.Write([]byte(junk))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		_, _ = bufio.NewReader(conn).ReadString(0)
		require.NoError(t, conn.Close())
	}
	for _, addr := range []string{b.sw.Addrs().External, b.sw.Addrs().Internal} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "udp", addr)
		require.NoError(t, err)
		for _, junk := range []string{
			"\x00\x01\x02", "INVITE\r\n\r\n", "INVITE sip:x SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bKx\r\nCSeq: 1 INVITE\r\n\r\n",
			"BYE sip:x@y SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:9;branch=z9hG4bKy\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>;tag=2\r\nCall-ID: z\r\nCSeq: 1 BYE\r\n\r\n",
		} {
			_, err = conn.Write([]byte(junk))
			require.NoError(t, err)
		}
		require.NoError(t, conn.Close())
	}
	require.Contains(t, b.esl.api("status"), "is ready")
	require.Contains(t, b.originate("", "answer-400", "rm_park XML ringmaster"), "+OK")
	require.Contains(t, b.originate("", "video", "rm_park XML ringmaster"), "-ERR INCOMPATIBLE_DESTINATION")
}

// TestStartStop starts and stops switches with calls in every state.
func TestStartStop(t *testing.T) {
	t.Parallel()
	for range 3 {
		b := setup(t)
		require.Contains(t, b.originate("", "answer-400", "rm_park XML ringmaster"), "+OK")
		require.Contains(t, b.esl.cmd("bgapi originate sofia/external/ring@"+b.peer.addr+" &park"), "+OK")
		b.peer.next()
		call := b.peer.next()
		require.NoError(t, b.sw.Close())
		require.NoError(t, b.sw.Close())
		require.Zero(t, b.sw.Live())
		select {
		case <-call.cancel:
		case <-call.bye:
		case <-time.After(20 * time.Second):
			require.Fail(t, "the call wasn't ended")
		}
	}
	_, err := New(Config{RTPPortMin: 5, RTPPortMax: 1, Gateways: []Gateway{{Name: "a"}, {Name: "a", Proxy: "x"}}})
	require.ErrorContains(t, err, "no range")
	require.ErrorContains(t, err, "twice")
	require.NotErrorIs(t, err, ErrClosed)
}
