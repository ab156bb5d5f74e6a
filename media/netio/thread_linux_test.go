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

func TestSleeper(t *testing.T) {
	t.Parallel()
	var s Sleeper
	require.False(t, s.Until(Monotonic()-1), "over already")
	begin := Monotonic()
	require.False(t, s.Until(begin+int64(2*time.Millisecond)))
	require.GreaterOrEqual(t, Monotonic(), begin+int64(2*time.Millisecond))
	far := Monotonic() + int64(time.Hour)
	s.Wake()
	s.Wake()
	require.True(t, s.Until(far), "woken before it slept")
	require.False(t, s.Until(Monotonic()), "once")
	for range 100 {
		go s.Wake()
		require.True(t, s.Until(far))
	}
}
