package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// TestCallsRowIsLockedBeforeItsUnits: whoever gives a call to an agent locks its row and then its units. A session that ends or begins
// meanwhile must not hold the units while it waits for the row: PostgreSQL would notice after a second, in which the caller waits.
func TestCallsRowIsLockedBeforeItsUnits(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(ctx context.Context, b *pgBench, g SessionGrant) error{
		"end": func(ctx context.Context, b *pgBench, g SessionGrant) error {
			return b.l.EndSession(ctx, b.call, SessionEnd{Session: g.Session.ID, Outcome: SessionTransferredAgent, At: time.Now().UTC()})
		},
		"start": func(ctx context.Context, b *pgBench, _ SessionGrant) error {
			token, err := callbacktoken.Mint(testKeys(), b.tenant, b.call.ID, time.Now(), callbacktoken.Life)
			if err != nil {
				return err
			}
			_, err = b.l.StartSession(ctx, SessionStart{Call: b.call, Agent: b.agent, ID: storetest.NewID(t), At: time.Now().UTC(), Token: token})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newPGBench(t)
			var g SessionGrant
			if name == "end" {
				g = b.startSession(t)
			} else {
				storetest.Exec(t, b.st, b.tenant, "UPDATE live_calls SET voice_agent_id = NULL")
			}
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET amd = true, answer_time = now()") // events wait for the verdict
			acted := make(chan error, 1)
			require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
				if _, err := tx.Pgx().Exec(t.Context(), "SELECT FROM calls WHERE id = $1 FOR NO KEY UPDATE", b.call.ID); err != nil {
					return err
				}
				var xid string
				if err := tx.Pgx().QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&xid); err != nil {
					return err
				}
				go func() { acted <- act(t.Context(), b, g) }()
				require.Eventually(t, func() bool {
					return storetest.Count(t, b.st, "SELECT count(*) FROM pg_locks WHERE NOT granted AND transactionid::text = $1", xid) == 1
				}, 30*time.Second, 5*time.Millisecond, "it waits for the call's row")
				_, err := tx.Pgx().Exec(t.Context(), "SELECT FROM live_calls WHERE call_id = $1 FOR UPDATE NOWAIT", b.call.ID)
				return err
			}))
			require.NoError(t, <-acted)
		})
	}
}
