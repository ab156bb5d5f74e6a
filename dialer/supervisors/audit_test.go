package supervisors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// The index of the list has the rows of all actions that are listed, without which none is used.
func TestAuditIndexHasTheActions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	index := storetest.Query[string](t, b.st, b.tenant, "SELECT pg_get_indexdef('audit_of_supervisors'::regclass)")
	require.Len(t, index, 1)
	for _, action := range auditedActions() {
		require.Contains(t, index[0], "'"+action+"'")
	}
}
