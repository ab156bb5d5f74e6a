package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// The life of a partner's application on the command line.
func TestOAuthClientCommands(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	config := adminConfig(t, url)
	run := func(args ...string) (int, string, string) {
		t.Helper()
		if args[0] == "oauth-client" {
			args = append(args, "--tenant", "acme")
		}
		return runCLI(t, nil, append(args, "--config", config)...)
	}
	cli := func(args ...string) string {
		t.Helper()
		code, text, errs := run(args...)
		require.Equal(t, exitDone, code, "%q: %s", args, errs)
		return text
	}
	object := func(args ...string) (out map[string]any) {
		t.Helper()
		require.NoError(t, json.Unmarshal([]byte(cli(append(args, "--json")...)), &out))
		return out
	}
	pair, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&pair.PublicKey)
	require.NoError(t, err)
	dir := t.TempDir()
	public, private := filepath.Join(dir, "public.pem"), filepath.Join(dir, "private.pem")
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	require.NoError(t, os.WriteFile(public, publicPEM, 0o600))
	require.NoError(t, os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(pair)}), 0o600))
	cli("tenant", "create", "acme")
	require.Equal(t, "none\n", cli("oauth-client", "list"))

	for _, wrong := range []struct {
		says string
		args []string
	}{
		{"redirect_uris must have at least one", []string{"create", "CRM", "--scope", "openid"}},
		{"allowed_scopes is required", []string{"create", "CRM", "--redirect-uri", "https://crm.example/cb"}},
		{"must be an https URI", []string{"create", "CRM", "--scope", "openid", "--redirect-uri", "http://crm.example/cb"}},
		{"make a new pair", []string{"create", "CRM", "--scope", "openid", "--public-key-file", private, "--jwt-issuer", "i"}},
		{"no such file", []string{"create", "CRM", "--scope", "openid", "--public-key-file", filepath.Join(dir, "none.pem"), "--jwt-issuer", "i"}},
		{"not found", []string{"show", storetest.NewID(t).String()}},
		{"is not a UUID", []string{"delete", "CRM"}},
	} {
		code, _, errs := run(append([]string{"oauth-client"}, wrong.args...)...)
		require.Equal(t, exitFailed, code, wrong.args)
		require.Contains(t, errs, wrong.says)
	}
	code, _, errs := run("oauth-client", "create")
	require.Equal(t, exitUsage, code, errs)

	made := object("oauth-client", "create", "CRM", "--redirect-uri", "https://crm.example/cb?a=1,2", "--redirect-uri", "http://localhost:3000/", "--scope", "openid", "--scope", "calls:read")
	id, ok := made["client_id"].(string)
	require.True(t, ok)
	require.Regexp(t, "^svc_oauth_", made["client_secret"])
	require.Equal(t, []any{"https://crm.example/cb?a=1,2", "http://localhost:3000/"}, made["redirect_uris"])
	require.Contains(t, cli("oauth-client", "list"), "CRM")
	require.NotContains(t, cli("oauth-client", "list", "--json"), "client_secret")

	code, _, errs = run("oauth-client", "edit", id)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "nothing to change")
	code, _, errs = run("oauth-client", "edit", id, "--enable", "--disable")
	require.Equal(t, exitUsage, code, errs)
	edited := object("oauth-client", "edit", id, "--name", "Other", "--disable", "--public-key-file", public, "--jwt-issuer", "https://crm.example")
	require.Equal(t, "Other", edited["name"])
	require.Equal(t, false, edited["is_active"])
	require.Equal(t, made["redirect_uris"], edited["redirect_uris"])
	require.Equal(t, string(publicPEM), object("oauth-client", "show", id)["public_key_pem"])
	require.Contains(t, cli("oauth-client", "show", id), string(publicPEM))
	code, _, errs = run("oauth-client", "edit", id, "--no-public-key", "--jwt-issuer", "x")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "don't combine them")
	edited = object("oauth-client", "edit", id, "--no-public-key", "--enable")
	require.Equal(t, true, edited["is_active"])
	require.Nil(t, object("oauth-client", "show", id)["public_key_pem"])

	rotated := object("oauth-client", "rotate-secret", id)
	require.NotEqual(t, made["client_secret"], rotated["client_secret"])
	require.NotNil(t, rotated["previous_secret_until"])
	require.Nil(t, object("oauth-client", "rotate-secret", id, "--overlap-hours", "0")["previous_secret_until"])
	code, _, errs = run("oauth-client", "rotate-secret", id, "--overlap-hours", "169")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "overlap_hours must be an integer from 0 to 168")
	require.Equal(t, "OAuth client "+id+" is deleted\n", cli("oauth-client", "delete", id))
	require.Equal(t, "none\n", cli("oauth-client", "list"))

	st := storetest.Open(t, url)
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM audit WHERE action = 'oauth_client.deleted' AND actor LIKE 'operator:%'"))
	require.Equal(t, 2, storetest.Count(t, st, "SELECT count(*) FROM audit WHERE action = 'oauth_client.secret_rotated' AND actor LIKE 'operator:%'"))
}
