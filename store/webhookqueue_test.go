package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Events and deliveries are kept as long as their tenant says.
func TestSweepForgetsEvents(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	month, week := storetest.Tenant(t, st), storetest.Tenant(t, st)
	storetest.Exec(t, st, week, "UPDATE tenants SET webhook_retention_days = 7 WHERE id = $1", week)
	for _, tenant := range []struct {
		id   [16]byte
		days []int
	}{{month, []int{1, 8, 29, 31}}, {week, []int{1, 6, 8, 31}}} {
		sub := storetest.Subscription(t, st, tenant.id, nil, "call.*")
		for _, days := range tenant.days {
			for _, status := range []string{"delivered", "pending"} {
				event, delivery := store.IDFloor(time.Now().AddDate(0, 0, -days)), store.IDFloor(time.Now().AddDate(0, 0, -days))
				event[15], delivery[15] = status[0], status[0]
				storetest.Exec(t, st, tenant.id, "INSERT INTO events (tenant_id, id, type, data) VALUES ($1, $2, 'call.ended', '{}')", tenant.id, event)
				storetest.Exec(t, st, tenant.id, `INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, status)
					VALUES ($1, $2, $3, $4, 'call.ended', $5)`, tenant.id, delivery, sub, event, status)
			}
		}
	}
	done := sweepNow(t, st)
	require.Equal(t, store.Swept{WebhookEvents: 2 + 4, WebhookDeliveries: 2 + 4}, done)
	for tenant, left := range map[[16]byte]int{month: 6, week: 4} {
		require.Equal(t, left, storetest.Count(t, st, "SELECT count(*) FROM events WHERE tenant_id = $1", tenant))
		require.Equal(t, left, storetest.Count(t, st, "SELECT count(*) FROM webhook_deliveries WHERE tenant_id = $1", tenant))
	}
}
