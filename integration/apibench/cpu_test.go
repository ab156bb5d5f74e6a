package apibench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// tick is the unit of CPU times in /proc.
const tick = 10 * time.Millisecond

// times are what a process and its children that have ended have used (proc(5), stat fields 4 and 14 to 17).
type times struct {
	parent      int
	own, waited time.Duration
}

func timesOf(pid string) (times, bool) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return times{}, false // it has ended
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	number := func(i int) int {
		n, _ := strconv.Atoi(fields[i])
		return n
	}
	ticks := func(i int) time.Duration { return time.Duration(number(i)+number(i+1)) * tick }
	return times{parent: number(1), own: ticks(11), waited: ticks(13)}, true
}

// cpuOf is the CPU time that a process has used.
func cpuOf(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	of, lives := timesOf(strconv.Itoa(pid))
	require.True(tb, lives)
	return of.own
}

// serverCPU is the CPU time that a PostgreSQL server has used, with all its processes, those that have ended among them.
func serverCPU(tb testing.TB, postmaster int) time.Duration {
	tb.Helper()
	of, lives := timesOf(strconv.Itoa(postmaster))
	require.True(tb, lives)
	sum := of.own + of.waited
	entries, err := os.ReadDir("/proc")
	require.NoError(tb, err)
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		if child, lives := timesOf(entry.Name()); lives && child.parent == postmaster {
			sum += child.own
		}
	}
	return sum
}

// postmasterOf is the process that a database's sessions are children of.
func postmasterOf(tb testing.TB, url string) int {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, conn.Close(context.WithoutCancel(tb.Context()))) }()
	var pid int
	require.NoError(tb, conn.QueryRow(tb.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	of, lives := timesOf(strconv.Itoa(pid))
	require.True(tb, lives)
	return of.parent
}
