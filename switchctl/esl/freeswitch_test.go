package esl_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/percipia/eslgo/command"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// freeswitchVariable names the real switch that the tests of this file run on; without it they are skipped.
const freeswitchVariable = "RINGMASTER_FREESWITCH"

const freeswitchConfig = `<?xml version="1.0"?>
<document type="freeswitch/xml">
<section name="configuration">
<configuration name="switch.conf"><settings><param name="loglevel" value="err"/><param name="max-sessions" value="500"/>
<param name="sessions-per-second" value="500"/></settings></configuration>
<configuration name="modules.conf"><modules><load module="mod_event_socket"/><load module="mod_commands"/>
<load module="mod_dptools"/><load module="mod_loopback"/><load module="mod_dialplan_xml"/><load module="mod_tone_stream"/>
</modules></configuration>
<configuration name="event_socket.conf"><settings><param name="listen-ip" value="127.0.0.1"/>
<param name="listen-port" value="%d"/><param name="password" value="ClueCon"/></settings></configuration>
</section>
<section name="dialplan"><context name="default"><extension name="call">
<condition field="destination_number" expression="^call$"><action application="socket" data="%s async full"/>
<action application="park"/></condition></extension></context></section>
</document>
`

// startFreeswitch runs a switch whose dialplan hands its calls to the listener. It gives the switch's event socket.
func startFreeswitch(t *testing.T, outbound string) string {
	t.Helper()
	binary := os.Getenv(freeswitchVariable)
	if binary == "" {
		t.Skip("NO REAL SWITCH: set " + freeswitchVariable + "=/path/to/freeswitch to run this")
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	require.NoError(t, ln.Close())

	dir := t.TempDir()
	config := fmt.Sprintf(freeswitchConfig, number, outbound)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "freeswitch.xml"), []byte(config), 0o600))
	args := []string{"-nonat", "-nf", "-nc", "-nosql", "-conf", dir}
	for _, kind := range []string{"log", "db", "run", "cache", "storage", "temp"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, kind), 0o700))
		args = append(args, "-"+kind, filepath.Join(dir, kind))
	}
	//nolint:gosec // the path is the tester's own
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		// The test's context has ended, and with it the switch.
		_ = cmd.Wait()
	})
	return addr
}

// dialFreeswitch connects as soon as the switch listens.
func dialFreeswitch(t *testing.T, addr string, o esl.Options) *esl.Conn {
	t.Helper()
	var c *esl.Conn
	require.Eventually(t, func() bool {
		var err error
		c, err = esl.Dial(t.Context(), addr, password, o)
		return err == nil
	}, limit, 50*time.Millisecond, "FreeSWITCH does not listen")
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		awaitDone(t, c)
	})
	return c
}

// hostLink collects what the inbound link tells of each channel.
type hostLink struct {
	mu       sync.Mutex
	last     map[string]int // channel → the last sequence number
	inverted int
	jobs     map[string]string // job → output
	hangups  int
	played   map[string]string // Application-UUID of a playback → Application-Response
}

func (h *hostLink) event(e *esl.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Name() == "CHANNEL_HANGUP_COMPLETE" {
		h.hangups++
	}
	if e.Name() == "BACKGROUND_JOB" {
		h.jobs[e.Get("Job-UUID")] = e.Body()
	}
	if id := e.Get("Application-UUID"); e.Name() == "CHANNEL_EXECUTE_COMPLETE" && strings.HasPrefix(id, "play-") {
		h.played[id] = e.Get("Application-Response")
	}
	if id := e.UUID(); id != "" {
		n, err := strconv.Atoi(e.Get("Event-Sequence"))
		if err != nil || n < h.last[id] {
			h.inverted++
		}
		h.last[id] = n
	}
}

// ended tells whether all calls were answered for, played to and ended.
func (h *hostLink) ended(calls int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.jobs) == calls && len(h.played) == calls && h.hangups >= calls
}

// TestFreeswitch sets calls up on a real switch: inbound link in plain or JSON, outbound sockets with executes and linger.
func TestFreeswitch(t *testing.T) {
	t.Parallel()
	const calls = 40
	var mu sync.Mutex
	hangups, failures := 0, []error{}
	l, _ := serve(t.Context(), t, func(ctx context.Context, c *esl.Conn) {
		err := freeswitchCall(ctx, c, func() {
			mu.Lock()
			defer mu.Unlock()
			hangups++
		})
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
		}
	})
	addr := startFreeswitch(t, l.Addr().String())
	links := map[string]*hostLink{}
	var control *esl.Conn
	for _, format := range []string{"plain", "json"} {
		h := &hostLink{last: map[string]int{}, jobs: map[string]string{}, played: map[string]string{}}
		links[format] = h
		control = dialFreeswitch(t, addr, esl.Options{OnEvent: h.event})
		_, err := control.Send(t.Context(), command.Event{Format: format, Listen: []string{"ALL"}})
		require.NoError(t, err)
	}
	_, err := esl.Dial(t.Context(), addr, "wrong", esl.Options{})
	require.ErrorIs(t, err, esl.ErrAuth)
	out, err := control.API(t.Context(), "uuid_exists none")
	require.NoError(t, err)
	require.Equal(t, "false", out)
	var refused *esl.ReplyError
	_, err = control.API(t.Context(), "uuid_kill none")
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "No such channel!", refused.Cause())

	for n := range calls {
		id := fmt.Sprintf("job-%d", n)
		require.NoError(t, control.BgAPI(t.Context(), fmt.Sprintf("originate {rm_call_id='call %d;é'}loopback/call/default &park()", n), id))
	}
	for format, h := range links {
		require.Eventually(t, func() bool { return h.ended(calls) }, limit, 10*time.Millisecond, format)
		h.mu.Lock()
		for n := range calls {
			require.Contains(t, h.jobs[fmt.Sprintf("job-%d", n)], "+OK", format)
		}
		for id, response := range h.played {
			require.Equal(t, "FILE PLAYED", response, id)
		}
		require.Zero(t, h.inverted, format)
		h.mu.Unlock()
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return hangups == calls || len(failures) > 0
	}, limit, 10*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	require.Empty(t, failures)
}

// freeswitchCall is one call: answer, play, hang up, and the final event while the socket lingers.
func freeswitchCall(ctx context.Context, c *esl.Conn, hungUp func()) error {
	played, hangup := make(chan struct{}, 1), make(chan struct{}, 1)
	var id string
	c.Handle(func(e *esl.Event) {
		switch e.Name() {
		case "CHANNEL_EXECUTE_COMPLETE":
			if e.Get("Application-UUID") == "play-"+id {
				played <- struct{}{}
			}
		case "CHANNEL_HANGUP_COMPLETE":
			hangup <- struct{}{}
		}
	})
	channel, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	id = channel.UUID()
	for _, cmd := range []string{"linger 10", "myevents plain"} {
		if _, err := c.Command(ctx, cmd); err != nil {
			return err
		}
	}
	if err := c.Execute(ctx, esl.ExecuteRequest{App: "answer", Lock: true}); err != nil {
		return err
	}
	play := esl.ExecuteRequest{App: "playback", Arg: "silence_stream://100", EventUUID: "play-" + id, Lock: true}
	if err := c.Execute(ctx, play); err != nil {
		return err
	}
	if err := receive(ctx, played); err != nil {
		return fmt.Errorf("wait for the playback's end: %w", err)
	}
	if err := c.Execute(ctx, esl.ExecuteRequest{App: "hangup"}); err != nil {
		return err
	}
	if err := receive(ctx, c.Disconnecting()); err != nil {
		return fmt.Errorf("wait for the disconnect notice: %w", err)
	}
	if err := receive(ctx, hangup); err != nil {
		return fmt.Errorf("wait for CHANNEL_HANGUP_COMPLETE: %w", err)
	}
	hungUp()
	return nil
}

func receive(ctx context.Context, ch <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
