package mediabench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/metrics"

	"golang.org/x/sys/unix"
)

// Part names one of the processes of a measurement.
type Part string

// The parts.
const (
	PartCallers  Part = "callers"
	PartAI       Part = "ai"
	PartEndpoint Part = "endpoint"
	PartHostile  Part = "hostile" // only where hostile agents are asked for
)

// Parts lists them in the order in which they start.
func Parts() []Part { return []Part{PartAI, PartEndpoint, PartCallers} }

// verb is what the parent asks of a part.
type verb string

const (
	doOpen   verb = "open"   // endpoint: open the sessions
	doCall   verb = "call"   // callers: place the calls and send
	doBegin  verb = "begin"  // all: the measured time begins
	doEnd    verb = "end"    // all: it ends
	doQuiet  verb = "quiet"  // callers: send no more, report
	doAttack verb = "attack" // endpoint: take hostile agents in, and compute beside
	doFinish verb = "finish" // endpoint: close the sessions, report
)

// command is one line to a part.
type command struct {
	Do      verb    `json:"do"`
	Options Options `json:"options"`
	// URL is the AI's, Target the endpoint's SIP address.
	URL    string `json:"url,omitempty"`
	Target string `json:"target,omitempty"`
}

// reply is one line from a part: what it was asked for, or why not.
type reply struct {
	Error    string        `json:"error,omitempty"`
	Addr     string        `json:"addr,omitempty"` // in the first line, which says that the part serves
	Usage    usage         `json:"usage"`
	Heard    *heard        `json:"heard,omitempty"`
	Endpoint *endpointSums `json:"endpoint,omitempty"`
}

// ErrPart says that a part could not do what it was asked for.
var ErrPart = errors.New("part of the measurement failed")

// worker is what a part does.
type worker interface {
	// addr is where it serves, "" when nowhere.
	addr() string
	do(ctx context.Context, c command) (reply, error)
	close() error
}

// RunPart serves one part: it announces itself, then answers commands until in ends.
func RunPart(ctx context.Context, p Part, in io.Reader, out io.Writer, log *slog.Logger) (err error) {
	var w worker
	switch p {
	case PartCallers:
		w, err = newCallers(ctx, log)
	case PartAI:
		w, err = newEcho(ctx)
	case PartEndpoint:
		w = &endpoint{log: log}
	case PartHostile:
		w, err = newHostile(ctx)
	default:
		err = fmt.Errorf("%w: no part %q", ErrPart, p)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	enc := json.NewEncoder(out)
	if err := enc.Encode(reply{Addr: w.addr()}); err != nil {
		return fmt.Errorf("announce the %s: %w", p, err)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		r, err := w.do(ctx, c)
		if err != nil {
			r.Error = err.Error()
		}
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("answer a command: %w", err)
		}
	}
	return lines.Err()
}

// usage is what a process has used so far.
type usage struct {
	AtNS       int64  `json:"at_ns"` // monotonic
	UserNS     int64  `json:"user_ns"`
	SystemNS   int64  `json:"system_ns"`
	Switches   int64  `json:"switches"`    // context switches, voluntary ones
	Preempted  int64  `json:"preempted"`   // involuntary ones
	Objects    uint64 `json:"objects"`     // allocated on the heap
	Bytes      uint64 `json:"bytes"`       // allocated on the heap
	Collection uint64 `json:"collections"` // of garbage
}

// sampleUsage samples the process.
func sampleUsage() (usage, error) {
	// Allocations first: reading them allocates nothing, what follows may.
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(s)
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return usage{}, fmt.Errorf("read the process's use of the machine: %w", err)
	}
	return usage{
		AtNS: monotonic(), UserNS: ru.Utime.Nano(), SystemNS: ru.Stime.Nano(), Switches: ru.Nvcsw, Preempted: ru.Nivcsw,
		Objects: s[0].Value.Uint64(), Bytes: s[1].Value.Uint64(), Collection: s[2].Value.Uint64(),
	}, nil
}

// heapBytes is what the heap holds, what is still to be collected included.
func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// sampled is the reply to doBegin and doEnd.
func sampled() (reply, error) {
	u, err := sampleUsage()
	return reply{Usage: u}, err
}

// monotonic is the clock that sleepUntil waits for, in nanoseconds.
func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // can't fail for this clock
	return ts.Nano()
}

// sleepUntil blocks the thread.
func sleepUntil(deadline int64) {
	ts := unix.NsecToTimespec(deadline)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == unix.EINTR {
		continue
	}
}

// nice is the priority of the generators' threads, that of the endpoint's own: a carrier and an AI are not slowed down by
// what else runs on our machine.
const nice = -15

// prioritize gives the calling goroutine a thread of its own, which ends with it, and raises that as far as it may.
func prioritize() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice) // needs CAP_SYS_NICE
}

// unexpected refuses a command that a part doesn't know.
func unexpected(c command) (reply, error) {
	return reply{}, fmt.Errorf("%w: no command %q", ErrPart, c.Do)
}
