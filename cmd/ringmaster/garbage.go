package main

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// garbageRoom is how much garbage the controller lets lie before it collects, in bytes, and at most roomShare of the memory that it may use. By itself
// the runtime collects when there is as much of it as there is in use, which beside few calls is every second or two.
const (
	garbageRoom = 256 << 20
	roomShare   = 8 // one in so many
	// leastHeap is what the runtime takes for in use where less is, in bytes.
	leastHeap = 4 << 20
)

// lessCollecting has the runtime collect after garbageRoom, or when the heap has doubled where that is more. GOGC in the environment says otherwise.
func lessCollecting() {
	if os.Getenv("GOGC") != "" {
		return
	}
	room := min(garbageRoom, memoryLimit(os.DirFS("/"))/roomShare)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 100
	var follow func()
	follow = func() {
		metrics.Read(live)
		if percent := gcPercent(live[0].Value.Uint64(), room); percent > now+now/8 || percent < now-now/8 {
			now = percent
			debug.SetGCPercent(now)
		}
		type cycle struct{ _ *byte } // what nothing refers to is found at the end of the next collection
		runtime.SetFinalizer(new(cycle), func(*cycle) { follow() })
	}
	follow()
}

// gcPercent is the garbage in percent of what is in use, at which room is reached: 100 at least.
func gcPercent(live, room uint64) int {
	return int(max(100, min(100*room/max(live, leastHeap), 2000))) //nolint:gosec // bounded
}

// memoryLimit is what the process may use, in bytes: the least of its control groups' limits and those above them, as a container or systemd's MemoryMax
// sets them; math.MaxUint64 where there is none. root is the file system's.
func memoryLimit(root fs.FS) uint64 {
	limit := uint64(math.MaxUint64)
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		dir, file := "sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" { // of version 1
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) { // whose names may be another namespace's: then the root is the process's own
			raw, _ := fs.ReadFile(root, path.Join(dir, group, file))
			if n, err := strconv.ParseUint(strings.TrimSpace(string(raw)), 10, 64); err == nil {
				limit = min(limit, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return limit
}
