package esl_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// serve runs a listener until the test ends, and gives a channel that is closed when Serve has returned.
func serve(ctx context.Context, t *testing.T, handle func(context.Context, *esl.Conn)) (*esl.Listener, <-chan struct{}) {
	t.Helper()
	l, err := esl.Listen(ctx, "127.0.0.1:0", nil)
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := l.Serve(ctx, esl.Options{}, handle); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		await(t, served, "Serve did not return")
	})
	return l, served
}

// channel answers connect with a channel's data, as the switch does, and then every command with +OK.
func channel(id string) func(*peer) {
	return func(p *peer) {
		for r := p.request(); r != nil; r = p.request() {
			if r.Line != "connect" {
				p.message(esl.NewReply("+OK"))
				continue
			}
			e := esl.NewEvent("CHANNEL_DATA")
			e.Set("Unique-ID", id)
			e.Set("variable_rm_call_id", "call of "+id)
			e.Set("Content-Type", esl.TypeReply)
			e.Set("Reply-Text", "+OK\n")
			e.Set("Socket-Mode", "async")
			e.Set("Control", "full")
			p.send(string(e.EncodePlain()))
		}
	}
}

func TestOutboundConnect(t *testing.T) {
	t.Parallel()
	got := make(chan *esl.Event, 1)
	l, _ := serve(t.Context(), t, func(ctx context.Context, c *esl.Conn) {
		e, err := c.Connect(ctx)
		if err == nil {
			err = c.Execute(ctx, esl.ExecuteRequest{App: "answer"})
		}
		if err != nil {
			t.Error(err)
		}
		got <- e
	})
	await(t, attach(t, l, channel("u-1")), "the connection was not closed when its handler returned")
	e := <-got
	require.Equal(t, "CHANNEL_DATA", e.Name())
	require.Equal(t, "u-1", e.UUID())
	require.Equal(t, "call of u-1", e.Var("rm_call_id"))
	require.Equal(t, "full", e.Get("Control"))
}

func TestOutboundConnectionsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	type shaken struct {
		channel string
		order   uint64
	}
	first, got := make(chan struct{}), make(chan shaken, 2)
	l, _ := serve(t.Context(), t, func(ctx context.Context, c *esl.Conn) {
		if c.Order() == 1 {
			<-first // it is overtaken
		}
		e, err := c.Connect(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		got <- shaken{e.UUID(), c.Order()}
	})
	one, two := attach(t, l, channel("u-1")), attach(t, l, channel("u-2"))
	require.Equal(t, shaken{"u-2", 2}, <-got)
	close(first)
	require.Equal(t, shaken{"u-1", 1}, <-got)
	await(t, one, "the first connection was not closed")
	await(t, two, "the second connection was not closed")
}

func TestOutboundConnectRefused(t *testing.T) {
	t.Parallel()
	result := make(chan error, 1)
	l, _ := serve(t.Context(), t, func(ctx context.Context, c *esl.Conn) {
		_, err := c.Connect(ctx)
		result <- err
	})
	<-attach(t, l, script(map[string]string{}))
	var refused *esl.ReplyError
	require.ErrorAs(t, <-result, &refused)
	require.Equal(t, "connect", refused.Op)
}

// TestListenerCloseLetsConnectionsGoOn closes the port, and the connection that lives still works.
func TestListenerCloseLetsConnectionsGoOn(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	l, served := serve(t.Context(), t, func(ctx context.Context, c *esl.Conn) {
		close(entered)
		<-release
		_, err := c.Connect(ctx)
		result <- err
	})
	ended := attach(t, l, channel("u-1"))
	await(t, entered, "the handler did not start")
	require.NoError(t, l.Close())
	require.NoError(t, l.Close(), "Close is idempotent")
	select {
	case <-served:
		require.Fail(t, "Serve returned before its connection ended")
	default:
	}
	close(release)
	require.NoError(t, <-result)
	await(t, served, "Serve did not return")
	await(t, ended, "the connection was not closed")
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan struct{})
	var cause error
	l, served := serve(ctx, t, func(_ context.Context, c *esl.Conn) {
		close(entered)
		<-c.Done()
		cause = c.Err()
	})
	attach(t, l, channel("u-1"))
	await(t, entered, "the handler did not start")
	cancel()
	await(t, served, "Serve did not return")
	require.ErrorIs(t, cause, esl.ErrClosed)
	_, err := esl.Listen(t.Context(), "127.0.0.1:none", nil)
	require.Error(t, err)
}

// TestListenerRefusesStrangers closes the connection of a peer that isn't allowed before anything is read from it or sent.
func TestListenerRefusesStrangers(t *testing.T) {
	t.Parallel()
	l, err := esl.Listen(t.Context(), "127.0.0.1:0", func(peer string) bool { return strings.HasPrefix(peer, "127.0.0.2:") })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served, taken := make(chan struct{}), make(chan string, 2)
	go func() {
		defer close(served)
		if err := l.Serve(ctx, esl.Options{}, func(_ context.Context, c *esl.Conn) { taken <- "taken" }); err != nil {
			t.Error(err)
		}
	}()
	dial := func(from string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	read, err := dial("127.0.0.1").Read(make([]byte, 1))
	require.Zero(t, read)
	require.Error(t, err)
	require.Empty(t, taken)
	dial("127.0.0.2")
	require.Equal(t, "taken", <-taken)
	cancel()
	<-served
}

func TestListenTwiceOnOnePort(t *testing.T) {
	t.Parallel()
	l, _ := serve(t.Context(), t, func(context.Context, *esl.Conn) {})
	_, err := esl.Listen(t.Context(), l.Addr().String(), nil)
	require.ErrorContains(t, err, "listen for outbound event sockets")
}

// TestOutboundEventsOfOneConnection sets a handler on one connection, which events of the others do not reach.
func TestOutboundEventsOfOneConnection(t *testing.T) {
	t.Parallel()
	const calls = 20
	var mixed, total atomic.Int64
	l, _ := serve(t.Context(), t, func(ctx context.Context, c *esl.Conn) {
		var id string
		c.Handle(func(e *esl.Event) {
			total.Add(1)
			if e.UUID() != id {
				mixed.Add(1)
			}
		})
		e, err := c.Connect(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		id = e.UUID()
		if _, err = c.Command(ctx, "myevents plain"); err != nil {
			t.Error(err)
		}
		<-c.Done()
	})
	for n := range calls {
		id := "u-" + string(rune('a'+n))
		attach(t, l, func(p *peer) {
			p.request()
			e := esl.NewEvent("CHANNEL_DATA")
			e.Set("Unique-ID", id)
			e.Set("Content-Type", esl.TypeReply)
			p.send(string(e.EncodePlain()))
			p.request()
			p.message(esl.NewReply("+OK Events Enabled"))
			for range 5 {
				e := esl.NewEvent("CHANNEL_EXECUTE")
				e.Set("Unique-ID", id)
				p.message(esl.NewEventMessage(e, false))
			}
			p.message(esl.NewMessage(esl.TypeDisconnect, "Disconnected.\n"))
		})
	}
	require.Eventually(t, func() bool { return total.Load() == 5*calls }, limit, 1e6)
	require.Zero(t, mixed.Load())
}

// TestServeStartStop starts and stops listeners with calls in all stages.
func TestServeStartStop(t *testing.T) {
	t.Parallel()
	for n := range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		l, err := esl.Listen(ctx, "127.0.0.1:0", nil)
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() {
			served <- l.Serve(ctx, esl.Options{OnEvent: func(*esl.Event) {}}, func(ctx context.Context, c *esl.Conn) {
				if _, err := c.Connect(ctx); err == nil {
					<-c.Done()
				}
			})
		}()
		for range n % 4 {
			attach(t, l, channel("u-1"))
		}
		if n%2 == 0 {
			cancel()
		}
		require.NoError(t, l.Close())
		cancel()
		require.NoError(t, <-served)
	}
}
