package dialer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// TestFlowsAreReadOnce: a flow is parsed once for each of its versions, whoever asks, and gone when it is deleted.
func TestFlowsAreReadOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f := b.saved(t, flowNodes(`{"id":"a","type":"hangup"}`))
	read := func() (plan *flows.Plan, err error) {
		err = b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			plan, err = b.svc.Flows.Stored(t.Context(), tx, b.tenant, f.ID)
			return err
		})
		return plan, err
	}
	first, err := read()
	require.NoError(t, err)
	again, err := read()
	require.NoError(t, err)
	require.Same(t, first.Graph, again.Graph)
	_, err = b.svc.Flows.PatchFlow(t.Context(), b.tenant, f.ID, flows.Input{Nodes: input.Some(flowNodes(`{"id":"a","type":"hangup","data":{"cause":"USER_BUSY"}}`))})
	require.NoError(t, err)
	changed, err := read()
	require.NoError(t, err)
	require.NotSame(t, first.Graph, changed.Graph)
	require.Greater(t, changed.Version, first.Version)
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM flows WHERE id = $1", f.ID)
	var missing *fault.Error
	_, err = read()
	require.ErrorAs(t, err, &missing)
}
