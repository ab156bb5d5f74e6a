package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// monitorSlack is how much later than asked for the runtime's monitor may be woken. It asks for 20 µs whenever something goes on and looks at every
// processor each time, which beside few calls is a sixth of what the controller uses. What it is for can wait: a processor is taken from a goroutine that
// is in a system call, or has run for 10 ms. With 2 ms a call costs 7% less still, but audio comes and goes a millisecond less even, and 3 ms later.
const monitorSlack = 500 * time.Microsecond

// slackenMonitor gives that thread monitorSlack (proc_pid_timerslack_ns(5)), which needs CAP_SYS_NICE.
func slackenMonitor() error {
	tid, err := monitorThread()
	if err != nil {
		return fmt.Errorf("find the runtime's monitor: %w", err)
	}
	slack := strconv.AppendInt(nil, monitorSlack.Nanoseconds(), 10)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid), slack, 0); err != nil {
		return fmt.Errorf("slacken the runtime's monitor: %w", err)
	}
	return nil
}

// monitorThread is the first one that the runtime starts (runtime.main): of the ids, which are given in turn and begin anew at the end, the first behind
// the process's.
func monitorThread() (int, error) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0, err
	}
	self, first := os.Getpid(), 0
	behind := func(tid int) uint32 { return uint32(tid - self) } //nolint:gosec // those below the process's id come last
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil && tid != self && (first == 0 || behind(tid) < behind(first)) {
			first = tid
		}
	}
	return first, nil
}
