package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// atOnce is how many tests run beside each other: they wait more than they work, and two processors serve so many in time. `go test -parallel` lets
// all of them in, and they take turns here, since it would begin the longest last as often as not, and then run it alone.
const atOnce = 10

// turns lets tests in: those that take long before all others. Safe for concurrent use.
type turns struct {
	mu          sync.Mutex
	free        int
	long, short []chan struct{} // of those who wait
}

// longest are the tests that take half a minute and more.
func longest() []string {
	return []string{
		"TestAnyHostServesAnyCall", "TestBecomingStrictHidesWhatWasBefore", "TestBypass", "TestBypassThatFails", "TestControllerTakesOver", "TestControllerYields",
		"TestEventsArriveThoughKilled", "TestPacedCampaign", "TestReadme", "TestStrictPrivacyHidesEveryNumber", "TestVanishedHost", "TestVerbsInRandomOrder",
	}
}

// take waits for a turn, which lasts until the test and what it cleans up are done.
func (u *turns) take(t *testing.T) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	long := slices.Contains(longest(), name)
	u.mu.Lock()
	if u.free > 0 {
		u.free--
		u.mu.Unlock()
	} else {
		mine := make(chan struct{})
		if long {
			u.long = append(u.long, mine)
		} else {
			u.short = append(u.short, mine)
		}
		u.mu.Unlock()
		began := time.Now()
		<-mine
		t.Logf("waited %s for its turn, which the time that it took has in it", time.Since(began).Round(time.Second))
	}
	t.Cleanup(u.give)
}

// give hands a turn on.
func (u *turns) give() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, waiting := range []*[]chan struct{}{&u.long, &u.short} {
		if len(*waiting) > 0 {
			close((*waiting)[0])
			*waiting = (*waiting)[1:]
			return
		}
	}
	u.free++
}

// besideOthers lets a test run beside others, when it is its turn.
func besideOthers(t *testing.T) {
	t.Helper()
	t.Parallel()
	theSuite.turns.take(t)
}
