package netio

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A thread that was started by one that may be woken late isn't late itself.
func TestRaisePrioritySlack(t *testing.T) {
	t.Parallel()
	slack := make(chan int, 1)
	go func() {
		runtime.LockOSThread() // which ends with the goroutine
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(time.Millisecond), 0, 0, 0)
		_ = RaisePriority()
		got, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		slack <- got
	}()
	require.EqualValues(t, threadSlack, <-slack)
}
