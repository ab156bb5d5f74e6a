package esl_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/percipia/eslgo/command"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

func TestDialRefusals(t *testing.T) {
	t.Parallel()
	addr := startSwitch(t, (*peer).login)
	_, err := esl.Dial(t.Context(), addr, "wrong", esl.Options{})
	require.ErrorIs(t, err, esl.ErrAuth)
	require.NotContains(t, err.Error(), "wrong")

	addr = startSwitch(t, func(p *peer) {
		p.send("Content-Type: text/rude-rejection\nContent-Length: 24\n\nAccess Denied, go away.\n")
	})
	_, err = esl.Dial(t.Context(), addr, password, esl.Options{})
	require.ErrorIs(t, err, esl.ErrRejected)

	addr = startSwitch(t, func(p *peer) { p.send("SSH-2.0-OpenSSH\n\n") })
	_, err = esl.Dial(t.Context(), addr, password, esl.Options{})
	var malformed *esl.ProtocolError
	require.ErrorAs(t, err, &malformed)

	addr = startSwitch(t, func(*peer) {})
	_, err = esl.Dial(t.Context(), addr, password, esl.Options{})
	require.ErrorIs(t, err, io.EOF)

	_, err = esl.Dial(t.Context(), addr, "a\n\napi shutdown", esl.Options{})
	require.ErrorIs(t, err, esl.ErrInvalidCommand)
}

func TestDialTimesOut(t *testing.T) {
	t.Parallel()
	addr := startSwitch(t, (*peer).drain)
	_, err := esl.Dial(t.Context(), addr, password, esl.Options{CommandTimeout: 2 * time.Second})
	var late *esl.TimeoutError
	require.ErrorAs(t, err, &late)
	require.Equal(t, "auth", late.Op)

	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = esl.Dial(ctx, addr, password, esl.Options{})
	require.ErrorIs(t, err, context.Canceled)
}

// script answers commands with whole frames, by their first line.
func script(answers map[string]string) func(*peer) {
	return func(p *peer) {
		for r := p.request(); r != nil; r = p.request() {
			answer, ok := answers[r.Line]
			if !ok {
				answer = string(esl.NewReply("-ERR command not found: " + r.Line).Encode())
			}
			p.send(answer)
		}
	}
}

func TestCommandsAndReplies(t *testing.T) {
	t.Parallel()
	c := dial(t, esl.Options{}, script(map[string]string{
		"api uuid_exists u-1":             "Content-Type: api/response\nContent-Length: 4\n\ntrue",
		"api status":                      "Content-Type: api/response\nContent-Length: 7\n\nUP 0 y\n",
		"api uuid_kill u-2":               "Content-Type: api/response\nContent-Length: 23\n\n-ERR No such channel!\n\n\n",
		"api originate":                   "Content-Type: api/response\nContent-Length: 22\n\n-USAGE: originate <u>\n",
		"event plain ALL":                 "Content-Type: command/reply\nReply-Text: +OK event listener enabled plain\n\n",
		"filter Unique-ID u-1":            "Content-Type: command/reply\nReply-Text: +OK filter added. [Unique-ID]=[u-1]\n\n",
		"sendmsg u-1":                     "Content-Type: command/reply\nReply-Text: -ERR invalid session id [u-1]\n\n",
		"bgapi originate sofia/x &park()": "Content-Type: command/reply\nReply-Text: +OK Job-UUID: j-1\nJob-UUID: j-1\n\n",
	}))
	ctx := t.Context()

	out, err := c.API(ctx, "uuid_exists u-1")
	require.NoError(t, err)
	require.Equal(t, "true", out)
	out, err = c.API(ctx, "status")
	require.NoError(t, err)
	require.Equal(t, "UP 0 y\n", out)

	var refused *esl.ReplyError
	_, err = c.API(ctx, "uuid_kill u-2")
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "api uuid_kill", refused.Op)
	require.Equal(t, "No such channel!", refused.Cause())
	_, err = c.API(ctx, "originate")
	require.ErrorAs(t, err, &refused)

	r, err := c.Command(ctx, "event plain ALL")
	require.NoError(t, err)
	require.True(t, r.OK())
	require.NoError(t, r.Err())
	r, err = c.Send(ctx, command.Filter{EventHeader: "Unique-ID", FilterValue: "u-1"})
	require.NoError(t, err)
	require.Equal(t, "+OK filter added. [Unique-ID]=[u-1]", r.Text)
	_, err = c.Command(ctx, "unheard")
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "unheard", refused.Op)

	require.NoError(t, c.BgAPI(ctx, "originate sofia/x &park()", "j-1"))
	err = c.Execute(ctx, esl.ExecuteRequest{App: "park", UUID: "u-1"})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "execute park", refused.Op)
	require.NoError(t, c.Err(), "a refusal leaves the connection as it is")
}

// TestLongReplies: "show channels" of 7,000 calls is longer than any event; output beyond all bounds fails its command, and not the connection.
func TestLongReplies(t *testing.T) {
	t.Parallel()
	c := dial(t, esl.Options{}, func(p *peer) {
		for r := p.request(); r != nil; r = p.request() {
			size := map[string]int{"api long": 20 << 20, "api endless": esl.MaxReply + 1, "api status": 3}[r.Line]
			p.send("Content-Type: api/response\nContent-Length: " + strconv.Itoa(size) + "\n\n")
			for block := strings.Repeat("x", 1<<20); size > 0; size -= len(block) {
				p.send(block[:min(len(block), size)])
			}
		}
	})
	text, err := c.API(t.Context(), "long")
	require.NoError(t, err)
	require.Len(t, text, 20<<20)
	var tooLong *esl.ReplyLengthError
	_, err = c.API(t.Context(), "endless")
	require.ErrorAs(t, err, &tooLong)
	require.Equal(t, esl.MaxReply+1, tooLong.Length)
	text, err = c.API(t.Context(), "status")
	require.NoError(t, err)
	require.Equal(t, "xxx", text)
}

// TestLongEvents: an event is as long as what strangers have sent makes it; one beyond all bounds is passed over, and the next is read.
func TestLongEvents(t *testing.T) {
	t.Parallel()
	got := make(chan int, 3)
	dial(t, esl.Options{OnEvent: func(ev *esl.Event) { got <- len(ev.Var("x")) }}, func(p *peer) {
		for _, size := range []int{20 << 20, esl.MaxReply, 3} {
			const begin, end = "Event-Name: CUSTOM\nvariable_x: ", "\n\n"
			p.send("Content-Type: text/event-plain\nContent-Length: " + strconv.Itoa(len(begin)+size+len(end)) + "\n\n" + begin)
			for block := strings.Repeat("x", 1<<20); size > 0; size -= len(block) {
				p.send(block[:min(len(block), size)])
			}
			p.send(end)
		}
		for p.request() != nil {
		}
	})
	require.Equal(t, 20<<20, <-got)
	require.Equal(t, 3, <-got)
}

func TestCommandWire(t *testing.T) {
	t.Parallel()
	got := make(chan *esl.Request, 8)
	c := dial(t, esl.Options{}, func(p *peer) {
		for r := p.request(); r != nil; r = p.request() {
			got <- r
			p.message(esl.NewReply("+OK"))
		}
	})
	ctx := t.Context()
	require.NoError(t, c.Execute(ctx, esl.ExecuteRequest{App: "playback", Arg: "/a b.wav", EventUUID: "e-1", Lock: true}))
	r := <-got
	require.Equal(t, "sendmsg", r.Line)
	require.Equal(t, "execute", r.Header.Get("call-command"))
	require.Equal(t, "playback", r.Header.Get("execute-app-name"))
	require.Equal(t, "/a b.wav", r.Header.Get("execute-app-arg"))
	require.Equal(t, "e-1", r.Header.Get("Event-UUID"))
	require.Equal(t, "true", r.Header.Get("event-lock"))

	require.NoError(t, c.Execute(ctx, esl.ExecuteRequest{App: "set", Arg: "a=1\n\napi shutdown", UUID: "u-1"}))
	r = <-got
	require.Equal(t, "sendmsg u-1", r.Line)
	require.Equal(t, "a=1\n\napi shutdown", r.Body, "a line break stays inside the argument")
	require.Empty(t, r.Header.Get("execute-app-arg"))

	require.NoError(t, c.BgAPI(ctx, "uuid_kill u-1", "j-9"))
	r = <-got
	require.Equal(t, "bgapi uuid_kill u-1", r.Line)
	require.Equal(t, "j-9", r.Header.Get("Job-UUID"))

	_, err := c.Command(ctx, "sendevent CUSTOM", esl.Field{Name: "Event-Subclass", Value: "rm::x"})
	require.NoError(t, err)
	r = <-got
	require.Equal(t, "sendevent CUSTOM", r.Line)
	require.Equal(t, "rm::x", r.Header.Get("Event-Subclass"))

	require.NoError(t, c.SendEvent(ctx, "SEND_INFO", [][2]string{{"unique-id", "u-1"}, {"eavesdrop-command", "3"}}, ""))
	r = <-got
	require.Equal(t, "sendevent SEND_INFO", r.Line)
	require.Equal(t, "u-1", r.Header.Get("unique-id"))
	require.Equal(t, "3", r.Header.Get("eavesdrop-command"))
	require.Empty(t, r.Body)

	require.NoError(t, c.SendEvent(ctx, "NOTIFY", [][2]string{{"uuid", "u-1"}}, "SIP/2.0 403 No\r\n"))
	r = <-got
	require.Equal(t, "sendevent NOTIFY", r.Line)
	require.Equal(t, "u-1", r.Header.Get("uuid"))
	require.Equal(t, "SIP/2.0 403 No\r\n", string(r.Body))

	for _, err := range []error{
		c.SendEvent(ctx, "SEND_INFO\nx: y", nil, ""),
		c.SendEvent(ctx, "SEND_INFO", [][2]string{{"unique-id", "u-1\r\nx: y"}}, ""),
		c.SendEvent(ctx, "SEND_INFO", [][2]string{{"unique-id: u-2\nx", "y"}}, ""),
		c.Execute(ctx, esl.ExecuteRequest{App: "park\nx: y"}),
		c.Execute(ctx, esl.ExecuteRequest{App: "park", UUID: "u\n"}),
		c.BgAPI(ctx, "status\n\napi shutdown", "j"),
		c.BgAPI(ctx, "status", "j\r\n"),
		second(c.API(ctx, "status\n\napi shutdown")),
		second(c.Command(ctx, "exit\n")),
		second(c.Command(ctx, "sendevent A", esl.Field{Name: "a", Value: "b\nc"})),
	} {
		require.ErrorIs(t, err, esl.ErrInvalidCommand)
	}
	require.Empty(t, got, "a refused command must not reach the switch")
}

func second[T any](_ T, err error) error { return err }

// TestRepliesMatchFirstInFirstOut has many callers at once, with events between the replies.
func TestRepliesMatchFirstInFirstOut(t *testing.T) {
	t.Parallel()
	const callers, each = 16, 250
	var order []int // the handler's
	events := 0     // the switch's
	o := esl.Options{OnEvent: func(e *esl.Event) {
		n, err := strconv.Atoi(e.Get("Event-Sequence"))
		if err == nil {
			order = append(order, n)
		}
	}}
	c := dial(t, o, func(p *peer) {
		for r := p.request(); r != nil; r = p.request() {
			if r.Line == "exit" {
				p.message(esl.NewReply("+OK bye"))
				p.message(esl.NewMessage(esl.TypeDisconnect, "Disconnected, goodbye.\n"))
				return
			}
			for range len(r.Line) % 3 {
				e := esl.NewEvent("HEARTBEAT")
				e.Set("Event-Sequence", strconv.Itoa(events))
				p.message(esl.NewEventMessage(e, events%2 == 0))
				events++
			}
			if name, ok := strings.CutPrefix(r.Line, "api echo "); ok {
				p.message(esl.NewMessage(esl.TypeAPIResponse, name))
			} else {
				p.message(esl.NewReply("+OK " + r.Line))
			}
		}
	})
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("%d-%d", caller, i)
				var got, want string
				var err error
				if i%2 == 0 {
					want = name
					got, err = c.API(t.Context(), "echo "+name)
				} else {
					var r esl.Reply
					want = "+OK filter " + name
					r, err = c.Command(t.Context(), "filter "+name)
					got = r.Text
				}
				if err != nil || got != want {
					t.Errorf("reply %q, %v; want %q", got, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	r, err := c.Send(t.Context(), command.Exit{})
	require.NoError(t, err)
	require.Equal(t, "+OK bye", r.Text)
	awaitDone(t, c)
	require.ErrorIs(t, c.Err(), esl.ErrDisconnected)
	require.NotEmpty(t, order)
	for i, n := range order {
		require.Equal(t, i, n)
	}
}

func TestCommandTimeoutCloses(t *testing.T) {
	t.Parallel()
	log := &logs{}
	c := dial(t, esl.Options{CommandTimeout: 3 * time.Second, Logger: slog.New(log)}, (*peer).drain)
	_, err := c.API(t.Context(), "uuid_kill secret-id")
	var late *esl.TimeoutError
	require.ErrorAs(t, err, &late)
	require.Equal(t, "api uuid_kill", late.Op)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Contains(t, err.Error(), "api uuid_kill")
	require.NotContains(t, err.Error(), "secret-id")
	awaitDone(t, c)
	require.ErrorAs(t, c.Err(), &late)
	_, err = c.API(t.Context(), "status")
	require.ErrorAs(t, err, &late, "later commands learn why")
	require.Len(t, log.all(), 1)
	require.Contains(t, log.all()[0], "op=api uuid_kill")
}

// TestCallersDeadlineLeavesTheConnection: a caller who waits no longer costs nobody else the link, and nobody gets its reply.
func TestCallersDeadlineLeavesTheConnection(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c := dial(t, esl.Options{}, func(p *peer) {
		p.request()
		<-release
		p.message(esl.NewReply("+OK first"))
		script(map[string]string{"second": "Content-Type: command/reply\nReply-Text: +OK second\n\n"})(p)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Command(ctx, "first")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "reply to first")
	require.NoError(t, c.Err(), "the connection lives")
	close(release)
	r, err := c.Command(t.Context(), "second")
	require.NoError(t, err)
	require.Equal(t, "+OK second", r.Text)
}

// TestCancelledCallerLeavesTheOrder drops one caller's reply, and the next ones still get their own.
func TestCancelledCallerLeavesTheOrder(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	c := dial(t, esl.Options{}, func(p *peer) {
		p.request()
		close(asked)
		<-release
		p.message(esl.NewReply("+OK first"))
		script(map[string]string{"second": "Content-Type: command/reply\nReply-Text: +OK second\n\n"})(p)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := c.Command(ctx, "first")
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	r, err := c.Command(t.Context(), "second")
	require.NoError(t, err)
	require.Equal(t, "+OK second", r.Text)
	_, err = c.Command(ctx, "third")
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, c.Err())
}

func TestCommandsEndWithTheConnection(t *testing.T) {
	t.Parallel()
	c := dial(t, esl.Options{}, func(p *peer) { p.request() })
	_, err := c.API(t.Context(), "status")
	require.Error(t, err)
	awaitDone(t, c)
	require.ErrorIs(t, c.Err(), io.EOF)

	asked := make(chan struct{})
	c = dial(t, esl.Options{}, func(p *peer) {
		p.request()
		close(asked)
		p.drain()
	})
	go func() {
		<-asked
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = c.API(t.Context(), "status")
	require.ErrorIs(t, err, esl.ErrClosed)
	require.NoError(t, c.Close(), "Close is idempotent")
	awaitDone(t, c)
	require.ErrorIs(t, c.Err(), esl.ErrClosed)
}
