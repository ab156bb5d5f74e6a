package call

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/hostlink"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// eslPeer is the switch's side of the inbound event socket.
type eslPeer struct {
	ln net.Listener

	mu       sync.Mutex
	conns    []net.Conn
	commands []string
	deaf     bool // commands get no replies
	away     bool // connections are closed at once
	core     string
	// stall names commands that don't end: an api one holds its connection up, a bgapi one tells of no end.
	stall map[string]bool
	// channels are those that uuid_exists knows. Set before use.
	channels map[string]bool
	held     int // commands, pings apart, that the events of their connection had to wait for
	wg       sync.WaitGroup
}

func newESLPeer(t *testing.T) *eslPeer {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &eslPeer{ln: ln}
	p.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			away := p.away
			if !away {
				p.conns = append(p.conns, conn)
			}
			p.mu.Unlock()
			if away {
				_ = conn.Close()
				continue
			}
			p.wg.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		p.hangUp()
		p.wg.Wait()
	})
	return p
}

// hangUp ends all connections, as a switch that dies does.
func (p *eslPeer) hangUp() { p.set(func() {}) }

// set changes the switch, and ends all connections to what it was.
func (p *eslPeer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *eslPeer) send(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_, _ = c.Write([]byte(text))
	}
}

func (p *eslPeer) sendEvent(ev *esl.Event) {
	body := string(ev.EncodePlain())
	p.send("Content-Length: " + strconv.Itoa(len(body)) + "\nContent-Type: text/event-plain\n\n" + body)
}

func (p *eslPeer) seen(prefix string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, c := range p.commands {
		if strings.HasPrefix(c, prefix) {
			count++
		}
	}
	return count
}

func (p *eslPeer) serve(conn net.Conn) {
	_, _ = conn.Write([]byte("Content-Type: auth/request\n\n"))
	in := bufio.NewScanner(conn)
	in.Split(splitCommands)
	subscribed := false
	for in.Scan() {
		line, rest, _ := strings.Cut(strings.TrimSpace(in.Text()), "\n")
		line = strings.TrimSpace(line)
		p.mu.Lock()
		p.commands = append(p.commands, line)
		deaf, core, words := p.deaf, p.core, append(strings.Fields(line), "", "")
		stalled := p.stall[words[1]]
		subscribed = subscribed || strings.HasPrefix(line, "event ")
		if subscribed && strings.HasPrefix(line, "api ") && !strings.HasPrefix(line, "api uuid_exists ") {
			p.held++
		}
		p.mu.Unlock()
		switch {
		case words[0] == "api" && stalled:
			return
		case deaf && !strings.HasPrefix(line, "auth"):
		case strings.HasPrefix(line, "api "):
			body := strconv.FormatBool(words[1] == "uuid_exists" && p.channels[words[2]])
			switch words[1] {
			case "show":
				body = `{"row_count":0}`
			case "global_getvar":
				body = core
			case "uuid_dump":
				body = "-ERR No such channel!\n"
			}
			_, _ = conn.Write([]byte("Content-Type: api/response\nContent-Length: " + strconv.Itoa(len(body)) + "\n\n" + body))
		case strings.HasPrefix(line, "bgapi "):
			_, job, _ := strings.Cut(rest, "Job-UUID: ")
			if job == "" {
				_, job, _ = strings.Cut(rest, "Job-Uuid: ")
			}
			_, _ = conn.Write([]byte("Content-Type: command/reply\nReply-Text: +OK Job-UUID: " + strings.TrimSpace(job) + "\n\n"))
			ev := esl.NewEvent(fs.BackgroundJob)
			ev.Set("Job-UUID", strings.TrimSpace(job))
			ev.SetBody("-ERR USER_BUSY\n")
			if !strings.Contains(line, "silent") && !stalled {
				p.sendEvent(ev)
			}
		default:
			_, _ = conn.Write([]byte("Content-Type: command/reply\nReply-Text: +OK accepted\n\n"))
		}
	}
}

func splitCommands(data []byte, atEOF bool) (int, []byte, error) {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	if i := strings.Index(text, "\n\n"); i >= 0 {
		used := len(text[:i+2])
		// Count the carriage returns that the replacement has swallowed.
		n := 0
		for n < len(data) && used > 0 {
			if data[n] != '\r' {
				used--
			}
			n++
		}
		return n, []byte(text[:i]), nil
	}
	if atEOF {
		return len(data), nil, bufio.ErrFinalToken
	}
	return 0, nil, nil
}

// startLink runs a host link to the peer until the test ends.
func startLink(t *testing.T, p *eslPeer, onEvent func(*esl.Event), onUp func(context.Context)) *hostlink.Link {
	t.Helper()
	l := hostlink.New(hostlink.Options{
		Addr: p.ln.Addr().String(), Password: "secret", Log: slog.New(slog.DiscardHandler), Clock: rt.SystemClock{}, Metrics: hostlink.NewMetrics(),
		OnEvent: onEvent, OnUp: onUp, Sight: hostlink.NewSight(""),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return l
}

func TestLinkRoutesEventsAndBackgroundReplies(t *testing.T) {
	t.Parallel()
	p := newESLPeer(t)
	events := make(chan string, 8)
	ups := make(chan struct{}, 8)
	l := startLink(t, p, func(ev *esl.Event) { events <- ev.Name() }, func(context.Context) { ups <- struct{}{} })
	<-ups
	require.Equal(t, uint64(1), l.Generation())
	require.Equal(t, 1, p.seen("event plain CHANNEL_CREATE"))

	reply := make(chan string, 1)
	require.NoError(t, l.BgAPI(t.Context(), fs.Ask("originate x"), func(body string, err error) {
		require.NoError(t, err)
		reply <- body
	}))
	require.Equal(t, "-ERR USER_BUSY\n", <-reply)

	p.sendEvent(esl.NewEvent(fs.ChannelAnswer))
	require.Equal(t, fs.ChannelAnswer, <-events)
}

func TestLinkFailsPendingRepliesAndDialsAgain(t *testing.T) {
	t.Parallel()
	p := newESLPeer(t)
	ups := make(chan struct{}, 8)
	l := startLink(t, p, func(*esl.Event) {}, func(context.Context) { ups <- struct{}{} })
	<-ups
	lost := make(chan error, 1)
	require.NoError(t, l.BgAPI(t.Context(), fs.Ask("originate silent"), func(_ string, err error) { lost <- err }))
	p.hangUp()
	require.ErrorIs(t, <-lost, hostlink.ErrLost)
	<-ups
	require.Equal(t, uint64(2), l.Generation())
	require.Equal(t, 2, p.seen("event plain"), "a new connection subscribes anew")
}

// TestLinkKeepsEventsClearOfCommands: the switch sends no events on a connection whose api command still runs.
func TestLinkKeepsEventsClearOfCommands(t *testing.T) {
	t.Parallel()
	p := newESLPeer(t)
	ups := make(chan struct{}, 8)
	l := startLink(t, p, func(*esl.Event) {}, func(context.Context) { ups <- struct{}{} })
	<-ups
	_, err := l.API(t.Context(), fs.PlayInto("x", "tone"))
	require.NoError(t, err)
	reply := make(chan string, 1)
	require.NoError(t, l.BgAPI(t.Context(), fs.Kill("x", ledger.CauseNormalClearing), func(body string, _ error) { reply <- body }))
	<-reply
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Zero(t, p.held)
}

// TestSlowCommandsLeaveTheLink: a login's commands, and those of a recording on a disk that stalls, run beside the two connections:
// others get their replies meanwhile, and a caller who gives up takes nothing down.
func TestSlowCommandsLeaveTheLink(t *testing.T) {
	t.Parallel()
	p := newESLPeer(t)
	p.stall = map[string]bool{"sofia": true, "uuid_record": true, "xml_flush_cache": true}
	b := newBench(t)
	c := listening(t, b, p, "127.0.0.1:0")
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
	require.Eventually(t, func() bool { return c.Ready(t.Context()) == nil }, 30*time.Second, 5*time.Millisecond)
	generation := c.link.Generation()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.ForgetPhone(ctx, "1001", "127.0.0.1"), context.DeadlineExceeded)
	require.ErrorIs(t, c.ForgetAccount(ctx, "1001", "127.0.0.1"), context.DeadlineExceeded)
	stopped, stop := context.WithCancel(t.Context())
	defer stop()
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		_, err := fs.Run(stopped, c.link, fs.Record("x", "/stalled/x.wav", 0))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("recording's command: %v", err)
		}
	}()
	require.Eventually(t, func() bool { return p.seen("bgapi uuid_record") == 1 }, 30*time.Second, time.Millisecond)
	_, err := c.link.API(t.Context(), fs.Exists("x"))
	require.NoError(t, err, "other commands don't wait")
	require.Equal(t, generation, c.link.Generation(), "the link is the one that it was")
	stop()
	<-waiting
}

// TestLinkIsBothConnections: whichever of the two ends, the link is dialed again as a whole.
func TestLinkIsBothConnections(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]int{"events": 0, "commands": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newESLPeer(t)
			ups := make(chan struct{}, 8)
			l := startLink(t, p, func(*esl.Event) {}, func(context.Context) { ups <- struct{}{} })
			<-ups
			p.mu.Lock()
			require.Len(t, p.conns, 2)
			require.NoError(t, p.conns[which].Close())
			p.mu.Unlock()
			<-ups
			require.Equal(t, uint64(2), l.Generation())
			_, err := l.API(t.Context(), fs.Channels())
			require.NoError(t, err)
		})
	}
}

func TestLinkThatIsDownSaysSo(t *testing.T) {
	t.Parallel()
	p := newESLPeer(t)
	require.NoError(t, p.ln.Close())
	l := startLink(t, p, func(*esl.Event) {}, func(context.Context) {})
	require.Zero(t, l.Generation())
	require.ErrorIs(t, l.BgAPI(t.Context(), fs.Ask("originate x"), func(string, error) { t.Error("nothing was sent") }), switchctl.ErrLinkDown)
	_, err := l.API(t.Context(), fs.Ask("status"))
	require.ErrorIs(t, err, switchctl.ErrLinkDown)
}

func TestControllerStartsAndStopsOverAndOver(t *testing.T) {
	t.Parallel()
	p := newESLPeer(t)
	b := newBench(t)
	for range 5 {
		c := listening(t, b, p, "127.0.0.1:0")
		require.NoError(t, c.Start(t.Context()))
		require.Eventually(t, func() bool { return c.Ready(t.Context()) == nil }, 30*time.Second, 5*time.Millisecond)
		require.Error(t, c.Start(t.Context()), "twice")

		second := listening(t, b, p, c.OutboundAddr().String())
		require.Error(t, second.Start(t.Context()), "two controllers on one port")
		require.NoError(t, second.Close(t.Context()))

		require.NoError(t, c.Drain(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, c.Close(t.Context()))
	}
	require.NoError(t, listening(t, b, p, "127.0.0.1:0").Close(t.Context()), "before start")
}

// listening is a controller with real sockets on both sides.
func listening(t *testing.T, b *bench, p *eslPeer, addr string) *Controller {
	t.Helper()
	cfg := b.c.cfg
	cfg.OutboundListen = addr
	c, err := build(cfg, b.gate, b.handler)
	require.NoError(t, err)
	link := hostlink.New(hostlink.Options{
		Addr: p.ln.Addr().String(), Password: "secret", Log: c.log, Clock: c.clock, Metrics: c.metrics.link, OnEvent: c.dispatch,
		OnUp: c.resync, Sight: c.sight,
	})
	c.runLink = link.Run
	c.wire(b.ledger, b.media, link)
	return c
}

// TestOutboundSockets plays the switch towards the outbound listener: an inbound call is admitted, answered and led to the
// voice agent; a foreign number is refused with 404's cause; a drained controller closes the socket without a word.
func TestOutboundSockets(t *testing.T) {
	t.Parallel()
	p := newESLPeer(t)
	foreignID, strangerID, inboundID, laterID := uuid.NewString(), uuid.NewString(), uuid.NewString(), uuid.NewString()
	p.channels = map[string]bool{foreignID: true, strangerID: true, inboundID: true, laterID: true}
	b := newBench(t)
	c := listening(t, b, p, "127.0.0.1:0")
	callers := make(chan string, 10)
	b.handler.route = func(in switchctl.Inbound) (db.Call, error) {
		callers <- in.From
		return b.routeInbound(in)
	}
	require.NoError(t, c.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) })
	require.Eventually(t, func() bool { return c.Ready(t.Context()) == nil }, 30*time.Second, 5*time.Millisecond)

	foreign := dialOutbound(t, c, map[string]string{"Unique-ID": foreignID, "Call-Direction": "inbound", "Caller-Destination-Number": "404"})
	require.Equal(t, "hangup UNALLOCATED_NUMBER", <-foreign)
	stranger := dialOutbound(t, c, map[string]string{"Unique-ID": strangerID, "variable_rm_call_id": "0193a000-0000-7000-8000-000000000009"})
	require.Equal(t, "hangup NORMAL_TEMPORARY_FAILURE", <-stranger)

	for _, id := range []string{uuid.NewString(), "no id", ""} {
		made := dialOutbound(t, c, map[string]string{"Unique-ID": id, "Call-Direction": "inbound", "Caller-Destination-Number": "9180000001"})
		_, open := <-made
		require.False(t, open, "a channel that the switch doesn't have is refused: %q", id)
	}
	require.Zero(t, c.Live())

	inbound := dialOutbound(t, c, map[string]string{
		"Unique-ID": inboundID, "Call-Direction": "inbound", "Caller-Destination-Number": "9180000001", "Caller-Caller-ID-Number": "987654\t3210" + strings.Repeat("9", 600),
	})
	require.Equal(t, "answer ", <-inbound)
	require.Empty(t, <-callers, "the foreign number's caller")
	require.Equal(t, "9876543210"+strings.Repeat("9", 54), <-callers)
	require.Equal(t, 1, p.seen("api uuid_setvar_multi "+inboundID+" rm_call_id="))
	answer := esl.NewEvent(fs.ChannelAnswer)
	answer.Set("Unique-ID", inboundID)
	answer.Set("Caller-Channel-Answered-Time", micros(time.Now()))
	p.sendEvent(answer)
	require.Contains(t, <-inbound, "bridge {")
	require.Equal(t, 1, c.Live())
	again := dialOutbound(t, c, map[string]string{"Unique-ID": inboundID, "Call-Direction": "inbound", "Caller-Destination-Number": "9180000001"})
	require.Contains(t, <-again, "bridge {")
	require.Equal(t, 1, p.seen("api uuid_exists "+inboundID), "the switch has shown it meanwhile")
	end := esl.NewEvent(fs.ChannelHangupComplete)
	end.Set("Unique-ID", inboundID)
	end.Set("Hangup-Cause", "NORMAL_CLEARING")
	end.Set("Caller-Channel-Answered-Time", micros(time.Now()))
	p.sendEvent(end)
	require.NoError(t, c.Drain(t.Context()))
	require.Zero(t, b.ledger.unitCount())

	refused := dialOutbound(t, c, map[string]string{"Unique-ID": laterID, "Call-Direction": "inbound", "Caller-Destination-Number": "9180000001"})
	_, open := <-refused
	require.False(t, open, "a drained controller closes the socket, so that the dialplan answers 503")
}
