package esl_test

import (
	"bufio"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/percipia/eslgo/command"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// subscribe sends what starts the peer's events.
func subscribe(t *testing.T, c *esl.Conn) {
	t.Helper()
	_, err := c.Send(t.Context(), command.Event{Format: "plain", Listen: []string{"ALL"}})
	require.NoError(t, err)
}

// answerThen replies to the first command and goes on with what the test plays.
func answerThen(play func(*peer)) func(*peer) {
	return func(p *peer) {
		if p.request() == nil {
			return
		}
		p.message(esl.NewReply("+OK"))
		play(p)
	}
}

func numbered(name string, n int) *esl.Event {
	e := esl.NewEvent(name)
	e.Set("Event-Sequence", strconv.Itoa(n))
	return e
}

// TestHundredThousandEventsInOrder sends a burst through one connection, every 97th event in JSON, with commands and
// their replies in between.
func TestHundredThousandEventsInOrder(t *testing.T) {
	t.Parallel()
	const events = 100_000
	next, wrong := 0, 0
	o := esl.Options{EventQueue: events, CommandTimeout: time.Minute, OnEvent: func(e *esl.Event) {
		if e.Get("Event-Sequence") != strconv.Itoa(next) || e.Var("rm_call_id") != "call "+strconv.Itoa(next%300) {
			wrong++
		}
		next++
	}}
	c := dial(t, o, answerThen(func(p *peer) {
		out := bufio.NewWriterSize(p.nc, 1<<16)
		for n := range events {
			e := numbered("CHANNEL_STATE", n)
			e.Set("variable_rm_call_id", "call "+strconv.Itoa(n%300))
			_, _ = out.Write(esl.NewEventMessage(e, n%97 == 0).Encode())
			if n%1000 == 0 {
				_ = out.Flush()
				if r := p.request(); r != nil {
					_, _ = out.Write(esl.NewReply("+OK " + r.Line).Encode())
				}
			}
		}
		_, _ = out.Write(esl.NewMessage(esl.TypeDisconnect, "Disconnected, goodbye.\n").Encode())
		_ = out.Flush()
	}))
	subscribe(t, c)
	for n := range events / 1000 {
		r, err := c.Command(t.Context(), "command "+strconv.Itoa(n))
		require.NoError(t, err)
		require.Equal(t, "+OK command "+strconv.Itoa(n), r.Text)
	}
	await(t, c.Done(), "the burst did not end")
	require.ErrorIs(t, c.Err(), esl.ErrDisconnected)
	require.Equal(t, events, next, "every event is handed over before Done")
	require.Zero(t, wrong)
}

func TestEventsWithoutHandlerAreDropped(t *testing.T) {
	t.Parallel()
	c := dial(t, esl.Options{EventQueue: 1}, answerThen(func(p *peer) {
		for n := range 100 {
			p.message(esl.NewEventMessage(numbered("HEARTBEAT", n), false))
		}
		script(map[string]string{"last": "Content-Type: command/reply\nReply-Text: +OK\n\n"})(p)
	}))
	subscribe(t, c)
	_, err := c.Command(t.Context(), "last")
	require.NoError(t, err)
}

func TestOverflowCloses(t *testing.T) {
	t.Parallel()
	log := &logs{}
	entered, release := make(chan struct{}), make(chan struct{})
	handled := 0
	o := esl.Options{EventQueue: 10, Logger: slog.New(log), OnEvent: func(*esl.Event) {
		if handled++; handled == 1 {
			close(entered)
		}
		<-release
	}}
	c := dial(t, o, answerThen(func(p *peer) {
		for n := range 11 {
			p.message(esl.NewEventMessage(numbered("HEARTBEAT", n), false))
			if n == 0 {
				<-entered
			}
		}
		p.drain()
	}))
	subscribe(t, c)
	require.Eventually(t, func() bool { return c.Err() != nil }, limit, time.Millisecond)
	require.ErrorIs(t, c.Err(), esl.ErrOverflow)
	select {
	case <-c.Done():
		require.Fail(t, "done while the handler still runs")
	default:
	}
	close(release)
	awaitDone(t, c)
	require.Equal(t, 1, handled, "what was queued is stale and dropped")
	require.Len(t, log.all(), 1)
}

func TestMalformedInputCloses(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{
		"header":           "this is no header\n\n",
		"event":            "Content-Type: text/event-plain\nContent-Length: 9\n\nno event\n",
		"JSON event":       "Content-Type: text/event-json\nContent-Length: 9\n\n{\"a\":\"b\"\n",
		"empty event":      "Content-Type: text/event-plain\n\n",
		"length":           "Content-Type: text/event-plain\nContent-Length: 9999999999\n\n",
		"unasked reply":    "Content-Type: command/reply\nReply-Text: +OK\n\n",
		"unasked response": "Content-Type: api/response\nContent-Length: 1\n\nx",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logs{}
			var names []string
			o := esl.Options{Logger: slog.New(log), OnEvent: func(e *esl.Event) { names = append(names, e.Name()) }}
			c := dial(t, o, answerThen(func(p *peer) {
				p.message(esl.NewEventMessage(esl.NewEvent("HEARTBEAT"), false))
				p.send(input)
				p.drain()
			}))
			subscribe(t, c)
			awaitDone(t, c)
			var malformed *esl.ProtocolError
			require.ErrorAs(t, c.Err(), &malformed)
			require.Len(t, log.all(), 1)
			require.Contains(t, log.all()[0], "malformed event socket input")
			require.Equal(t, []string{"HEARTBEAT"}, names, "what came before is handed over")
		})
	}
}

func TestUnknownFramesAreSkipped(t *testing.T) {
	t.Parallel()
	log := &logs{}
	c := dial(t, esl.Options{Logger: slog.New(log)}, answerThen(func(p *peer) {
		for range 3 {
			p.send("Content-Type: log/data\nContent-Length: 26\nLog-Level: 7\n\nContent-Type: auth/request")
		}
		p.request()
		p.send("Content-Type: command%2Freply\nReply-Text: %2BOK%20escaped%0A\n\n")
		p.drain()
	}))
	subscribe(t, c)
	r, err := c.Command(t.Context(), "next")
	require.NoError(t, err)
	require.Equal(t, "+OK escaped", r.Text)
	require.Len(t, log.all(), 1, "logged once")
}

func TestDisconnectNotice(t *testing.T) {
	t.Parallel()
	var names []string
	c := dial(t, esl.Options{OnEvent: func(e *esl.Event) { names = append(names, e.Name()) }}, answerThen(func(p *peer) {
		p.message(esl.NewEventMessage(esl.NewEvent("CHANNEL_HANGUP"), false))
		p.send("Content-Type: text/disconnect-notice\nContent-Disposition: disconnect\nContent-Length: 8\n\nGoodbye\n")
		p.drain() // the switch may take its time to close
	}))
	subscribe(t, c)
	await(t, c.Disconnecting(), "no notice")
	awaitDone(t, c)
	require.ErrorIs(t, c.Err(), esl.ErrDisconnected)
	require.Equal(t, []string{"CHANNEL_HANGUP"}, names)
}

func TestDisconnectNoticeWithLinger(t *testing.T) {
	t.Parallel()
	var names []string
	gate := make(chan struct{})
	c := dial(t, esl.Options{OnEvent: func(e *esl.Event) { names = append(names, e.Name()) }}, answerThen(func(p *peer) {
		p.send("Content-Type: text/disconnect-notice\nContent-Disposition: linger\nChannel-Name: x\nLinger-Time: 5\n" +
			"Content-Length: 9\n\nlingering")
		<-gate
		p.message(esl.NewEventMessage(esl.NewEvent("CHANNEL_HANGUP_COMPLETE"), false))
		if p.request() != nil { // commands still work
			p.message(esl.NewReply("+OK"))
		}
	}))
	subscribe(t, c)
	await(t, c.Disconnecting(), "no notice")
	require.NoError(t, c.Err())
	close(gate)
	_, err := c.Command(t.Context(), "nolinger")
	require.NoError(t, err)
	awaitDone(t, c)
	require.ErrorIs(t, c.Err(), esl.ErrDisconnected)
	require.Equal(t, []string{"CHANNEL_HANGUP_COMPLETE"}, names)
}

// TestHandlerSendsAndCloses has a handler use the connection that it is called by.
func TestHandlerSendsAndCloses(t *testing.T) {
	t.Parallel()
	var c *esl.Conn
	ready := make(chan struct{})
	var out string
	var err error
	o := esl.Options{OnEvent: func(*esl.Event) {
		<-ready
		out, err = c.API(t.Context(), "uuid_exists u-1")
		if closeErr := c.Close(); closeErr != nil {
			err = closeErr
		}
	}}
	c = dial(t, o, answerThen(func(p *peer) {
		for range 3 {
			p.message(esl.NewEventMessage(esl.NewEvent("CHANNEL_PARK"), true))
		}
		script(map[string]string{"api uuid_exists u-1": "Content-Type: api/response\nContent-Length: 4\n\ntrue"})(p)
	}))
	close(ready)
	subscribe(t, c)
	awaitDone(t, c)
	require.NoError(t, err)
	require.Equal(t, "true", out)
}

func TestLargeEvent(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("a b", 1<<18)
	got := make(chan string, 1)
	c := dial(t, esl.Options{OnEvent: func(e *esl.Event) { got <- e.Get("Large") }}, answerThen(func(p *peer) {
		e := esl.NewEvent("CUSTOM")
		e.Set("Large", value)
		p.message(esl.NewEventMessage(e, false))
		p.drain()
	}))
	subscribe(t, c)
	select {
	case large := <-got:
		require.Equal(t, value, large)
	case <-time.After(limit):
		require.Fail(t, "no event")
	}
}
