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
	require.Contains(t, names, "mod_json_cdr")
	require.Equal(t, "mod_sofia", names[len(names)-1], "when its profiles are up all others have been loaded, or not")

	list := filepath.Join(dir, "autoload_configs", "modules.xml")
	require.NoError(t, os.WriteFile(list, []byte("<configuration><modules>"), 0o600))
	_, err = modulesOf(dir)
	require.Error(t, err)
	require.NoError(t, os.WriteFile(list, []byte("<configuration><modules/></configuration>"), 0o600))
	_, err = modulesOf(dir)
	require.ErrorContains(t, err, "empty")
	require.NoError(t, os.Remove(list))
	_, err = modulesOf(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}
