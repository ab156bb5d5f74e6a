package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The runtime's monitor is the one thread that sleeps by nanosleep(2), as long as anything goes on.
func TestSlackenMonitor(t *testing.T) {
	t.Parallel()
	if err := slackenMonitor(); err != nil {
		require.ErrorIs(t, err, os.ErrPermission)
		t.Skip("needs CAP_SYS_NICE")
	}
	tid, err := monitorThread()
	require.NoError(t, err)
	slack, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid))
	require.NoError(t, err)
	require.Equal(t, strconv.FormatInt(monitorSlack.Nanoseconds(), 10), strings.TrimSpace(string(slack)))
	for until := time.Now().Add(10 * time.Second); ; {
		call, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
		require.NoError(t, err)
		if strings.HasPrefix(string(call), fmt.Sprintf("%d ", unix.SYS_NANOSLEEP)) {
			return
		}
		require.True(t, time.Now().Before(until), "the thread doesn't sleep as the monitor does")
	}
}
