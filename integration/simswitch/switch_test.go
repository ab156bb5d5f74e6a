package simswitch

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// sipgo answers a retransmission that comes while its listener closes from a new socket, which it then never closes.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}

// bundle is one switch with a controller and a peer.
type bundle struct {
	t    *testing.T
	sw   *Switch // nil for a real one
	esl  *client
	peer *peer
	l    *net.TCPListener // where the dialplan's socket calls
	cdr  string
}

// setup starts a switch. Its configuration may be changed before.
func setup(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	b := &bundle{t: t, peer: newPeer(t), cdr: t.TempDir(), l: listen(t)}
	cfg := Config{
		ESLAddr: "127.0.0.1:0", ExternalSIPAddr: "127.0.0.1:0", InternalSIPAddr: "127.0.0.1:0",
		SocketAddr: b.l.Addr().String(), CDRDir: b.cdr, RecordDir: t.TempDir(),
		Gateways: []Gateway{{Name: "carrier", Proxy: b.peer.addr}},
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	b.sw, err = New(cfg)
	require.NoError(t, err)
	require.NoError(t, b.sw.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() { require.NoError(t, b.sw.Close()) })
	b.peer.mu.Lock()
	b.peer.taken = b.rang
	b.peer.mu.Unlock()
	b.esl = b.connect()
	return b
}

// rang waits until the leg with that Call-ID has told CHANNEL_PROGRESS. It runs beside the test.
func (b *bundle) rang(callID string) {
	assert.Eventually(b.t, func() bool {
		return slices.ContainsFunc(b.sw.allChannels(), func(ch *channel) bool {
			return ch.leg.callID == callID && ch.way.dialStatus().progress
		})
	}, 20*time.Second, time.Millisecond, "the switch has not taken the 180")
}

// connect opens an inbound connection that hears every event.
func (b *bundle) connect() *client {
	b.t.Helper()
	return b.connectTo(b.sw.Addrs().ESL)
}

func (b *bundle) connectTo(addr string) *client {
	b.t.Helper()
	c := newClient(b.t, dialTCP(b.t, addr))
	require.Equal(b.t, "auth/request", c.nextReply().head["content-type"])
	require.Equal(b.t, "+OK accepted", c.cmd("auth ClueCon"))
	require.Equal(b.t, "+OK event listener enabled plain", c.cmd("event plain ALL"))
	return c
}

func dialTCP(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	return conn
}

// accept waits for the dialplan's socket and sends connect.
func (b *bundle) accept() (*client, ev) {
	b.t.Helper()
	require.NoError(b.t, b.l.SetDeadline(time.Now().Add(30*time.Second)))
	conn, err := b.l.Accept()
	require.NoError(b.t, err)
	c := newClient(b.t, conn)
	c.write("connect\n\n")
	m := c.nextReply()
	return c, ev(m.head)
}

// originate rings a user of the peer and returns the job's result.
func (b *bundle) originate(vars, user, app string) string {
	b.t.Helper()
	return b.esl.bgapi("originate {ignore_early_media=true" + vars + "}sofia/external/" + user + "@" + b.peer.addr + " " + app)
}

// msg is what came over an event socket.
type msg struct {
	head map[string]string
	body string
}

// ev is an event's headers by lower-case name.
type ev map[string]string

func (e ev) get(name string) string { return e[strings.ToLower(name)] }
func (e ev) v(name string) string   { return e["variable_"+strings.ToLower(name)] }

// client is a controller of the tests: a plain reader, independent of Ringmaster's own transport.
type client struct {
	t       *testing.T
	conn    net.Conn
	replies chan msg
	closed  chan struct{}

	mu     sync.Mutex
	events []ev
	notice []msg
}

func newClient(t *testing.T, conn net.Conn) *client {
	t.Helper()
	c := &client{t: t, conn: conn, replies: make(chan msg, 1000), closed: make(chan struct{})}
	go c.read()
	t.Cleanup(func() { _ = conn.Close(); <-c.closed })
	return c
}

func (c *client) read() {
	defer close(c.closed)
	r := bufio.NewReader(c.conn)
	for {
		m, err := readMsg(r)
		if err != nil {
			return
		}
		switch m.head["content-type"] {
		case "text/event-plain":
			c.push(parseEvent(m.body))
		case "text/event-json":
			e := ev{}
			raw := map[string]string{}
			_ = json.Unmarshal([]byte(m.body), &raw)
			for k, v := range raw {
				e[strings.ToLower(k)] = v
			}
			c.push(e)
		case "text/disconnect-notice":
			c.mu.Lock()
			c.notice = append(c.notice, m)
			c.mu.Unlock()
		default:
			c.replies <- m
		}
	}
}

func (c *client) push(e ev) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

func readMsg(r *bufio.Reader) (msg, error) {
	m := msg{head: map[string]string{}}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return m, err
		}
		line = strings.TrimRight(line, "\n")
		if line == "" {
			break
		}
		k, v, _ := strings.Cut(line, ":")
		u, err := url.PathUnescape(strings.TrimPrefix(v, " "))
		if err != nil {
			u = v
		}
		if _, dup := m.head[strings.ToLower(k)]; !dup {
			m.head[strings.ToLower(k)] = u
		}
	}
	if n, _ := strconv.Atoi(m.head["content-length"]); n > 0 {
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return m, err
		}
		m.body = string(b)
	}
	return m, nil
}

func parseEvent(body string) ev {
	m, err := readMsg(bufio.NewReader(strings.NewReader(body)))
	if err != nil {
		return nil
	}
	m.head["_body"] = m.body
	return m.head
}

func (c *client) write(s string) {
	c.t.Helper()
	_, err := c.conn.Write([]byte(s))
	require.NoError(c.t, err)
}

func (c *client) nextReply() msg {
	c.t.Helper()
	select {
	case m := <-c.replies:
		return m
	case <-time.After(30 * time.Second):
		require.Fail(c.t, "no reply")
		return msg{}
	}
}

// cmd sends a command and returns its Reply-Text, or the body of an api reply.
func (c *client) cmd(line string) string {
	c.t.Helper()
	c.write(line + "\n\n")
	m := c.nextReply()
	if m.head["content-type"] == "api/response" {
		return m.body
	}
	return m.head["reply-text"]
}

func (c *client) api(line string) string { c.t.Helper(); return c.cmd("api " + line) }

// bgapi runs a job and returns its result.
func (c *client) bgapi(line string) string {
	c.t.Helper()
	job := "job-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	require.Equal(c.t, "+OK Job-UUID: "+job, c.cmd("bgapi "+line+"\nJob-UUID: "+job))
	return c.wait(func(e ev) bool { return e.get("Event-Name") == "BACKGROUND_JOB" && e.get("Job-UUID") == job }).get("_body")
}

// execute runs an application over an outbound socket.
func (c *client) execute(app, arg string, more ...string) {
	c.t.Helper()
	lines := append([]string{"sendmsg", "call-command: execute", "execute-app-name: " + app, "execute-app-arg: " + arg}, more...)
	require.Equal(c.t, "+OK", c.cmd(strings.Join(lines, "\n")))
}

// all returns the events of a channel so far.
func (c *client) all(uuid string) []ev {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []ev
	for _, e := range c.events {
		if uuid == "" || e.get("Unique-ID") == uuid {
			out = append(out, e)
		}
	}
	return out
}

// wait waits for an event, whether it came already or not.
func (c *client) wait(match func(ev) bool) ev {
	c.t.Helper()
	var found ev
	require.Eventually(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.events {
			if match(e) {
				found = e
				return true
			}
		}
		return false
	}, 30*time.Second, 5*time.Millisecond, "the event didn't come; seen: %v", names(c.all("")))
	return found
}

// event waits for an event of a channel.
func (c *client) event(uuid, name string) ev {
	c.t.Helper()
	return c.wait(func(e ev) bool { return e.get("Unique-ID") == uuid && e.get("Event-Name") == name })
}

// app waits for the end of an application on a channel.
func (c *client) app(uuid, name string) ev {
	c.t.Helper()
	return c.wait(func(e ev) bool {
		return e.get("Unique-ID") == uuid && e.get("Event-Name") == "CHANNEL_EXECUTE_COMPLETE" && e.get("Application") == name
	})
}

func (c *client) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = nil
}

func names(events []ev) []string {
	var out []string
	for _, e := range events {
		n := e.get("Event-Name")
		if a := e.get("Application"); a != "" {
			n += " " + a
		}
		out = append(out, n)
	}
	return out
}

// order is names without what FreeSWITCH tells in between.
func order(events []ev) []string {
	var out []string
	for _, e := range events {
		switch e.get("Event-Name") {
		case "CHANNEL_STATE", "CHANNEL_CALLSTATE", "PLAYBACK_START", "PLAYBACK_STOP":
		default:
			out = append(out, names([]ev{e})[0])
		}
	}
	return out
}

// record reads a leg's call record.
func (b *bundle) record(uuid string) map[string]any {
	b.t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.cdr, uuid+".cdr.json"))
	require.NoError(b.t, err)
	var out map[string]any
	require.NoError(b.t, json.Unmarshal(raw, &out))
	return out
}
