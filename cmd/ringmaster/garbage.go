package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbageRoom is how much garbage the controller lets lie before it collects, in bytes. By itself the runtime collects when there is as much of it
// as there is in use, which beside few calls is every second or two.
const garbageRoom = 256 << 20

// lessCollecting has the runtime collect after garbageRoom, or when the heap has doubled where that is more. GOGC in the environment says otherwise.
func lessCollecting() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 100
	var follow func()
	follow = func() {
		metrics.Read(live)
		if percent := gcPercent(live[0].Value.Uint64()); percent > now+now/8 || percent < now-now/8 {
			now = percent
			debug.SetGCPercent(now)
		}
		type cycle struct{ _ *byte } // what nothing refers to is found at the end of the next collection
		runtime.SetFinalizer(new(cycle), func(*cycle) { follow() })
	}
	follow()
}

// gcPercent is the garbage in percent of what is in use, at which garbageRoom is reached: 100 at least.
func gcPercent(live uint64) int { return int(max(100, min(100*garbageRoom/max(live, 1), 2000))) }
