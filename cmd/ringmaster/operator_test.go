package main

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// adminConfig writes a configuration that the administering commands take.
func adminConfig(t *testing.T, databaseURL string) (path string) {
	t.Helper()
	dir, master := t.TempDir(), storetest.MasterKey()
	path = filepath.Join(dir, "ringmaster.yaml")
	require.NoError(t, os.WriteFile(path, []byte("database: {url: '"+databaseURL+"'}\n"+
		"security: {master_key: '"+hex.EncodeToString(master[:])+"'}\n"+
		"switch: {esl_password: x, cdr_dir: '"+dir+"', directory_secret: 0123456789abcdef0123456789abcdef}\n"+
		"dialing: {dnc_path: '"+dir+"'}\n"), 0o600))
	return path
}

// What the command line changes is in the audit, as the operator's.
func TestCommandsAreAudited(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	config := adminConfig(t, url)
	cli := func(args ...string) string {
		t.Helper()
		code, out, errs := runCLI(t, nil, append(args, "--config", config)...)
		require.Equal(t, exitDone, code, "%q: %s", args, errs)
		return out
	}
	cli("tenant", "create", "acme")
	cli("user", "create", "a@acme.test", "--role", "admin", "--tenant", "acme", "--password", "correct horse")
	require.Contains(t, cli("user", "password", "A@acme.test", "--tenant", "acme"), "PASSWORD")
	require.NotContains(t, cli("user", "password", "a@acme.test", "--tenant", "acme", "--password", "battery staple"), "battery")
	cli("tenant", "suspend", "acme", "--reason", "unpaid")
	cli("tenant", "resume", "acme")
	cli("key", "create", "crm", "--tenant", "acme", "--all")
	cli("number", "create", "9180000001", "--tenant", "acme")
	cli("trunk", "create", "main", "--host", "sip.example.net", "--tenant", "acme")
	st := storetest.Open(t, url)
	var rows []db.Audit
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		tenant, err := tx.Q.GetTenantByName(t.Context(), "acme")
		require.NoError(t, err)
		rows, err = tx.Q.AuditList(t.Context(), db.AuditListParams{TenantID: tenant.ID, Before: uuid.Max, PageLimit: 100})
		return err
	}))
	var actions []string
	for _, r := range rows {
		actions = append(actions, r.Action)
		require.Regexp(t, `^operator:.+@.+`, r.Actor)
		require.NotContains(t, string(r.After), "correct horse")
		require.NotContains(t, string(r.After), "argon2")
	}
	require.ElementsMatch(t, []string{
		"tenant.created", "user.created", "user.updated", "user.updated", "tenant.updated", "tenant.updated", "api_key.created", "number.created", "trunk.created",
	}, actions)
}
