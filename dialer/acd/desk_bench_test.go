package acd

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// BenchmarkMatch is one change of an agent while so many tenants with 50 agents each, all on calls, have 20 callers waiting each.
func BenchmarkMatch(b *testing.B) {
	for _, tenants := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d tenants", tenants), func(b *testing.B) {
			d, now := newDesk(), time.Now()
			var some uuid.UUID
			for range tenants {
				some = uuid.New()
				for range 50 {
					d.sit(db.Agent{TenantID: some, ID: uuid.New(), Status: string(OnCall), IdleSince: &now})
				}
				for range 20 {
					d.enter(&caller{call: uuid.New(), tenant: some, since: now, wake: make(chan struct{}, 1)})
				}
			}
			for b.Loop() {
				d.matchOf(some)
			}
		})
	}
}
