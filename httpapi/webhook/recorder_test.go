package webhook

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// An outcome that the database refuses keeps no other from being written; its delivery stays in the queue.
func TestRefusedOutcomeKeepsNoOther(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	sub := r.subscribe(t)
	good, bad, other := r.queue(t, sub, nil), r.queue(t, sub, nil), r.queue(t, sub, nil)
	r.asked(t, sub)
	e := r.endpoints[sub]
	of := func(seq int64, text string) record {
		return record{endpoint: sub, item: e.held[seq], status: StatusDeadLettered, entry: Attempt{At: time.Now(), Error: &text}}
	}
	batch := []record{of(good, "refused"), of(bad, "a\x00b"), of(other, "refused")} // texts are cleaned: this one isn't
	r.troubles.write(t.Context(), batch, false)
	require.Equal(t, []bool{false, true, false}, []bool{batch[0].unwritten, batch[1].unwritten, batch[2].unwritten})
	require.Equal(t, []int64{bad}, storetest.Query[int64](t, r.st, r.tenant, "SELECT seq FROM webhook_queue"))
	r.written(context.WithoutCancel(t.Context()), batch)
	require.Equal(t, []int64{bad}, r.seqs(sub), "it keeps its place until it is read again")
	r.unpark(time.Now().Add(2 * parkFor))
	require.Empty(t, r.seqs(sub))
	r.asked(t, sub)
	require.Equal(t, []int64{bad}, r.seqs(sub))
}

// Plans that are made while the queue is all but empty, and VACUUM has given its pages back, read none of it in order: they are kept while it fills.
func TestSmallQueuePlansForALargeOne(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	sub := r.subscribe(t)
	waits := r.subscribe(t)
	fill := func(n int) {
		storetest.Exec(t, r.st, r.tenant, `INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, due_at)
			SELECT $1, $2, gen_random_uuid(), gen_random_uuid(), now() + interval '1 hour' FROM generate_series(1, $3::int)`, r.tenant, waits, n)
	}
	fill(3)
	_, err := r.st.Pool().Exec(t.Context(), "VACUUM ANALYZE webhook_queue")
	require.NoError(t, err)
	for range 3 {
		r.queue(t, sub, nil)
	}
	due := time.Now().Add(-time.Second)
	r.queue(t, sub, &due)
	fill(97)
	const scans = "SELECT coalesce(seq_scan, 0), coalesce(idx_tup_fetch, 0) FROM pg_stat_%s_tables WHERE relname = 'webhook_queue'"
	var inOrder, byIndex int64
	require.EventuallyWithT(t, func(c *assert.CollectT) { // a connection tells of what it has read a second later
		r.all(t)
		require.NoError(c, r.st.Pool().QueryRow(t.Context(), fmt.Sprintf(scans, "user")).Scan(&inOrder, &byIndex))
		require.Greater(c, byIndex, int64(3))
	}, 30*time.Second, 50*time.Millisecond)
	require.Zero(t, inOrder, "looks")
	require.Len(t, r.seqs(sub), 4)

	var batch []record
	for _, it := range r.endpoints[sub].held {
		status := StatusDelivered
		if len(batch)%2 == 1 {
			status = StatusPending
		}
		batch = append(batch, record{endpoint: sub, item: it, status: status, next: time.Now(), entry: Attempt{At: time.Now()}})
	}
	require.NoError(t, r.st.InSystem(t.Context(), func(tx *store.Tx) error {
		counts := func() (inOrder, byIndex int64) {
			require.NoError(t, tx.Pgx().QueryRow(t.Context(), fmt.Sprintf(scans, "xact_user")).Scan(&inOrder, &byIndex))
			return inOrder, byIndex
		}
		inOrder, byIndex := counts()
		require.NoError(t, r.successes.persist(t.Context(), tx, batch))
		inOrderNow, byIndexNow := counts()
		require.Equal(t, inOrder, inOrderNow, "records")
		require.LessOrEqual(t, byIndexNow-byIndex, 2*int64(len(batch)), "rows that records step over")
		return nil
	}))
	require.Equal(t, 2, storetest.Count(t, r.st, "SELECT count(*) FROM webhook_queue WHERE due_at IS NOT NULL AND made = 1"))
	require.Equal(t, 2+100, storetest.Count(t, r.st, "SELECT count(*) FROM webhook_queue"))
}
