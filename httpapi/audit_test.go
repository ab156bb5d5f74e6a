package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// changes lists the newest rows of the tenant's audit, the newest first.
func (b *bundle) changes(t *testing.T) []db.Audit {
	t.Helper()
	var rows []db.Audit
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) (err error) {
		rows, err = tx.Q.AuditList(t.Context(), db.AuditListParams{TenantID: b.tenant, Before: uuid.Max, PageLimit: 1000})
		return err
	}))
	return rows
}

// What an administrator changes is in the audit: who, what, which, from where, before and after.
func TestAdministratorsChangesAreAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := newStaff(t, b)
	c := s.admin.With("X-Request-Id", "change-1")
	c.JSON(t, http.MethodPatch, "/api/users/"+s.agentID, object{"role": "supervisor", "password": "battery staple"}, http.StatusOK, nil)
	row := b.changes(t)[0]
	require.Equal(t, "user.updated", row.Action)
	require.Equal(t, "user:"+s.adminID, row.Actor)
	require.Equal(t, "admin", *row.Role)
	require.Equal(t, s.agentID, *row.ObjectID)
	require.Equal(t, "127.0.0.1", *row.RemoteAddr)
	require.Equal(t, "change-1", *row.RequestID)
	require.Contains(t, string(row.Before), `"role": "agent"`)
	require.Contains(t, string(row.After), `"role": "supervisor"`)
	require.Contains(t, string(row.After), `"password_hash": "••••"`)
	require.NotContains(t, string(row.After), "battery")

	b.api.JSON(t, http.MethodPost, "/api/v1/campaigns", object{"name": "c", "dial_mode": "preview"}, http.StatusCreated, nil)
	row = b.changes(t)[0]
	require.Equal(t, "campaign.created", row.Action)
	require.Regexp(t, "^api_key:", row.Actor)

	n := len(b.changes(t))
	s.admin.JSON(t, http.MethodGet, "/api/users", nil, http.StatusOK, nil)
	require.Len(t, b.changes(t), n, "reading writes nothing")
}
