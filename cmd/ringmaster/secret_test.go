package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// installed gives the environment of a configuration with a database and a master key's file of its own.
func installed(t *testing.T) (environ []string, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	keyFile = filepath.Join(dir, "master.key")
	require.NoError(t, os.WriteFile(keyFile, []byte(strings.Repeat("0f", 32)+"\n"), 0o600))
	return []string{
		"RINGMASTER_DATABASE__URL=" + storetest.NewURL(t), "RINGMASTER_SECURITY__MASTER_KEY_FILE=" + keyFile,
		"RINGMASTER_SWITCH__ESL_PASSWORD=x", "RINGMASTER_SWITCH__CDR_DIR=/", "RINGMASTER_DIALING__DNC_PATH=/",
	}, keyFile
}

func TestSecretCommands(t *testing.T) {
	t.Parallel()
	environ, keyFile := installed(t)
	code, out, errs := runCLI(t, environ, "secret", "status")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "phone index")
	code, out, errs = runCLI(t, environ, "secret", "renew", "sessions")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "key 2 of sessions signs from now on; what earlier keys signed stays valid for 12h0m0s more")
	code, out, errs = runCLI(t, environ, "secret", "renew", "recording-urls", "--end")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "key 2 of recording URLs")
	code, out, errs = runCLI(t, environ, "secret", "renew", "sip-accounts")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "what earlier keys signed ends within seconds\nagents and supervisors must log in again")
	code, out, errs = runCLI(t, environ, "secret", "renew", "switch-directory")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "stays valid for 24h0m0s more\nrender the switch's configuration again")
	code, _, _ = runCLI(t, environ, "secret", "renew", "numbers")
	require.Equal(t, exitUsage, code)
	code, out, errs = runCLI(t, environ, "secret", "withdraw")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "no master key but the configured one")

	open := filepath.Join(t.TempDir(), "new.key")
	require.NoError(t, os.WriteFile(open, []byte(strings.Repeat("1f", 32)), 0o600))
	require.NoError(t, os.Chmod(open, 0o644)) //nolint:gosec // what is refused
	code, _, errs = runCLI(t, environ, "secret", "rotate", "--new-key-file", open)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "chmod o= "+open)

	require.NoError(t, os.WriteFile(keyFile, []byte(strings.Repeat("2f", 32)), 0o600))
	for _, command := range [][]string{{"secret", "status"}, {"tenant", "list"}, {"serve"}} {
		code, _, errs = runCLI(t, environ, command...)
		require.Equal(t, exitFailed, code)
		require.Contains(t, errs, "is not this database's", command)
	}
}
