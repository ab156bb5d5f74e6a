package esl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/percipia/eslgo"
	"github.com/percipia/eslgo/command"
	"github.com/percipia/eslgo/command/call"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// benchServerVariable makes the test binary the server of one transport, in a process of its own, so that getrusage tells
// what the transport costs and nothing of the switch that calls it.
const benchServerVariable = "RINGMASTER_ESL_BENCH_SERVER"

// What one call consists of.
const (
	benchBurst    = 10 // events after myevents
	benchCallers  = 2  // goroutines that send executes at the same time
	benchExecutes = 4  // of each, answered by a reply and two events
	benchEvents   = benchBurst + 2*benchCallers*benchExecutes
	benchTimeout  = 5 * time.Second // for a reply, and for the last event
)

// benchResult is what a server tells at its end.
type benchResult struct {
	CPUSeconds float64
	Done       int64 // calls set up: all replies and all events came
	Broken     int64
	Events     int64
	Inverted   int64 // events that came after a later one
	Replies    int64
	Mixed      int64 // replies that were another command's, or did not come
}

// benchTally counts over all calls.
type benchTally struct{ done, broken, events, inverted, replies, mixed atomic.Int64 }

// benchCall checks the events of one call. Its lock is eslgo's need, which calls it on a goroutine per event.
type benchCall struct {
	tally *benchTally
	mu    sync.Mutex
	last  int
	seen  int
	all   chan struct{} // closed at the last event
}

func newBenchCall(t *benchTally) *benchCall {
	return &benchCall{tally: t, last: -1, all: make(chan struct{})}
}

func (c *benchCall) event(name, sequence, id string) {
	n, err := strconv.Atoi(sequence)
	if err != nil || name == "" || id == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.events.Add(1)
	if n < c.last {
		c.tally.inverted.Add(1)
	}
	c.last = max(c.last, n)
	if c.seen++; c.seen == benchEvents {
		close(c.all)
	}
}

// run sets the call up: subscribe, then executes of several callers.
func (c *benchCall) run(ctx context.Context, send func(context.Context, command.Command) (string, error)) {
	ctx, cancel := context.WithTimeout(ctx, benchTimeout)
	defer cancel()
	for _, cmd := range []command.Command{command.Linger{Enabled: true, Seconds: 5}, command.MyEvents{Format: "plain"}} {
		if _, err := send(ctx, cmd); err != nil {
			c.tally.broken.Add(1)
			return
		}
	}
	var wg sync.WaitGroup
	for caller := range benchCallers {
		wg.Go(func() {
			for i := range benchExecutes {
				tag := fmt.Sprintf("e-%d-%d", caller, i)
				text, err := send(ctx, &call.Execute{AppName: "playback", AppArgs: "/tmp/a.wav", AppUUID: tag, Sync: true})
				c.tally.replies.Add(1)
				if err != nil || text != "+OK "+tag {
					c.tally.mixed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	select {
	case <-c.all:
		c.tally.done.Add(1)
	case <-ctx.Done():
		c.tally.broken.Add(1)
	}
}

func serveOurs(addr string, tally *benchTally) error {
	ctx := context.Background()
	l, err := esl.Listen(ctx, addr, nil)
	if err != nil {
		return err
	}
	return l.Serve(ctx, esl.Options{}, func(ctx context.Context, conn *esl.Conn) {
		c := newBenchCall(tally)
		conn.Handle(func(e *esl.Event) { c.event(e.Name(), e.Get("Event-Sequence"), e.UUID()) })
		if _, err := conn.Connect(ctx); err != nil {
			return // the probe for the open port; a call that ends here is missed in the count
		}
		c.run(ctx, func(ctx context.Context, cmd command.Command) (string, error) {
			r, err := conn.Send(ctx, cmd)
			return r.Text, err
		})
	})
}

func serveEslgo(addr string, tally *benchTally) error {
	options := eslgo.DefaultOutboundOptions
	options.Logger = eslgo.NilLogger{}
	return options.ListenAndServe(addr, func(ctx context.Context, conn *eslgo.Conn, _ *eslgo.RawResponse) {
		c := newBenchCall(tally)
		conn.RegisterEventListener(eslgo.EventListenAll, func(e *eslgo.Event) {
			c.event(e.GetName(), e.GetHeader("Event-Sequence"), e.GetHeader("Unique-ID"))
		})
		c.run(ctx, func(ctx context.Context, cmd command.Command) (string, error) {
			r, err := conn.SendCommand(ctx, cmd)
			if err != nil {
				return "", err
			}
			return r.GetReply(), nil
		})
	})
}

// runBenchServer tells its address, serves until its standard input ends, and tells its result.
func runBenchServer(transport string) int {
	// eslgo does not tell the port that it takes, so one is chosen here.
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		return 1
	}
	serve := serveOurs
	if transport == "eslgo" {
		serve = serveEslgo
	}
	tally := &benchTally{}
	go func() { _ = serve(addr, tally) }()
	before := cpuSeconds()
	_, _ = fmt.Fprintln(os.Stdout, addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
	result := benchResult{
		CPUSeconds: cpuSeconds() - before, Done: tally.done.Load(), Broken: tally.broken.Load(), Events: tally.events.Load(),
		Inverted: tally.inverted.Load(), Replies: tally.replies.Load(), Mixed: tally.mixed.Load(),
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		return 1
	}
	return 0
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
