package media

import (
	"runtime"
)

// RaiseProcessors gives the scheduler of the process a processor for each tick thread and each job that computes, beside one for each
// that the machine has, and returns how many tick threads an endpoint should have. A tick thread sleeps in a system call and
// needs a processor of the scheduler's when it wakes: where goroutines that compute hold all of them, it waits its turn behind
// them, whatever its priority. With one to spare the kernel decides, which knows that priority. It is called once, at start.
func RaiseProcessors(jobs int) (shards int) {
	n := runtime.GOMAXPROCS(0)
	shards = defaultShards(n)
	runtime.GOMAXPROCS(n + shards + jobs)
	return shards
}

// defaultShards is one tick thread for every two processors.
func defaultShards(processors int) int { return max(1, processors/2) }
