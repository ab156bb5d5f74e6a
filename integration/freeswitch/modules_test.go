package freeswitch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/conf"
)

// TestModulesOf reads the list that every switch of ours loads, and refuses one that can't be read.
func TestModulesOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, conf.Render(dir, conf.Params{ESLIP: "127.0.0.1", ESLPassword: "secret", SIPIP: "127.0.0.1", CDRDir: filepath.Join(dir, "cdr")}))
	names, err := modulesOf(dir)
	require.NoError(t, err)
	require.Contains(t, names, "mod_sofia")
	require.Contains(t, names, "mod_json_cdr")

	list := filepath.Join(dir, "autoload_configs", "modules.xml")
	require.NoError(t, os.WriteFile(list, []byte("<configuration><modules>"), 0o600))
	_, err = modulesOf(dir)
	require.Error(t, err)
	require.NoError(t, os.Remove(list))
	_, err = modulesOf(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}
