package webhook

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
