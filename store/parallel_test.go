package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// A statement of calls starts no processes, however large the tables have grown: behind 400,000 calls the gate's look at the trunks took 130 ms by them.
func TestStatementsStartNoWorkers(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	var workers string
	require.NoError(t, st.Pool().QueryRow(t.Context(), "SHOW max_parallel_workers_per_gather").Scan(&workers))
	require.Equal(t, "0", workers)
}
