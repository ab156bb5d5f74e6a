package e2e

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// cli runs a command of ringmaster on the stack's configuration and decodes its JSON.
func (c *customer) cli(t *testing.T, into any, args ...string) (stdout string) {
	t.Helper()
	args = append(args, "--config", filepath.Join(c.Dir(), "ringmaster.yaml"))
	if into != nil {
		args = append(args, "--json")
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), theSuite.binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%q: %s%s", args, errs.String(), out.String())
	if into != nil {
		require.NoError(t, json.Unmarshal(out.Bytes(), into), out.String())
	}
	return out.String()
}

// An engineer sets a tenant up on the command line; its key works on the API at once, and no more after it is revoked.
func TestAccountsOnTheCommandLine(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		var tenant, trunk, key struct{ ID, Key string }
		c.cli(t, &tenant, "tenant", "create", "initech")
		c.cli(t, &trunk, "trunk", "create", "main", "--tenant", "initech", "--host", "sip.example", "--username", "u", "--password", "p<w")
		c.cli(t, nil, "number", "create", "9180000777", "--tenant", tenant.ID)
		c.cli(t, nil, "user", "create", "boss@initech.test", "--role", "admin", "--tenant", "initech")
		c.cli(t, &key, "key", "create", "backend", "--tenant", "initech", "--scope", "campaigns:read")
		gateway := c.cli(t, nil, "trunk", "gateway", trunk.ID, "--tenant", "initech")
		require.NoError(t, xml.Unmarshal([]byte(gateway), new(struct{})))
		require.Contains(t, gateway, "p&lt;w")
		for _, list := range [][]string{{"user", "list"}, {"key", "list"}, {"trunk", "list"}, {"number", "list"}} {
			out := c.cli(t, nil, append(list, "--tenant", "initech")...)
			require.NotContains(t, out, "none", list)
			require.NotContains(t, out, key.Key, list)
			require.NotContains(t, out, "p<w", list)
		}
		api := c.api.As(key.Key)
		status, _, body := api.Do(t, "GET", "/api/v1/campaigns", nil)
		require.Equal(t, 200, status, "%s", body)
		require.JSONEq(t, "[]", string(body))
		status, _, _ = api.Do(t, "POST", "/api/v1/campaigns", map[string]any{"name": "x", "dial_mode": "preview"})
		require.Equal(t, 403, status)
		c.cli(t, nil, "key", "revoke", key.ID, "--tenant", "initech")
		status, _, _ = api.Do(t, "GET", "/api/v1/campaigns", nil)
		require.Equal(t, 401, status)
	})
}
