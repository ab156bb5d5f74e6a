package netio

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sleeper is where a thread sleeps until a moment, and others wake it before. Its zero value is ready; it must not be copied.
type Sleeper struct{ woken uint32 } // 1 from Wake until the thread has seen it

// operations of futex(2), whose numbers package unix doesn't have. The deadline is one of CLOCK_MONOTONIC.
const (
	futexWait  = 9 | 128 // FUTEX_WAIT_BITSET of this process alone
	futexWake  = 1 | 128 // FUTEX_WAKE
	futexAnyOf = 0xffffffff
)

// Until blocks the thread until the monotonic clock (in nanoseconds) reaches deadline, or until Wake, and reports which. Wake counts also before Until. As
// with [SleepUntil] the deadline is absolute, and the sleep the thread's own.
func (s *Sleeper) Until(deadline int64) (woken bool) {
	ts := unix.NsecToTimespec(deadline)
	for atomic.SwapUint32(&s.woken, 0) == 0 {
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.woken)), futexWait, 0, uintptr(unsafe.Pointer(&ts)), 0, futexAnyOf)
		if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR { // unix.ETIMEDOUT
			return atomic.SwapUint32(&s.woken, 0) != 0
		}
	}
	return true
}

// Wake ends the sleep, or the next one. Safe for concurrent use, also when nobody sleeps any more.
func (s *Sleeper) Wake() {
	if atomic.SwapUint32(&s.woken, 1) == 0 {
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&s.woken)), futexWake, 1, 0, 0, 0) // it can't fail
	}
}

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
