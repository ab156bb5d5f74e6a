package netio

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// SleepUntil blocks the thread until the monotonic clock (in nanoseconds) reaches deadline. An absolute deadline doesn't
// drift, and the thread's own sleep costs no goroutine switch.
func SleepUntil(deadline int64) {
	ts := unix.NsecToTimespec(deadline)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == unix.EINTR {
		continue
	}
}

const (
	// threadNice is the priority of the tick threads: 20 ms deadlines come before the rest of the process.
	threadNice = -15
	// threadSlice is how much time they ask for at once. From Linux 6.12 on whoever asks for less is scheduled sooner after they wake
	// (EEVDF, sched_setattr(2)); earlier kernels take no notice. It needs no capability.
	threadSlice = 100 * time.Microsecond
	// threadSlack is how late they may be woken, the kernel's own default: a thread has that of whoever has started it, which may be given more.
	threadSlack = 50 * time.Microsecond
)

// RaisePriority gives the calling thread threadSlack and threadSlice, and threadNice, which needs CAP_SYS_NICE.
func RaisePriority() error {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(threadSlack), 0, 0, 0) // it can't fail
	if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_NORMAL {
		attr.Runtime = uint64(threadSlice)
		_ = unix.SchedSetAttr(0, attr, 0) // it is a request
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), threadNice); err != nil {
		return fmt.Errorf("raising a thread's priority: %w", err)
	}
	return nil
}

// Monotonic reads the clock that SleepUntil waits for.
func Monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // can't fail for this clock
	return ts.Nano()
}
