package devpg

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// install makes a directory with programs that answer --version.
func install(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version)
	for _, name := range []string{"initdb", "postgres"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	return dir
}

func TestFindBinaries(t *testing.T) {
	t.Parallel()
	old, recent, beta := install(t, "13.11"), install(t, "15.4 (Debian 15.4-1)"), install(t, "19beta1")
	halfDir := t.TempDir()
	require.NoError(t, os.Link(filepath.Join(recent, "postgres"), filepath.Join(halfDir, "postgres")))
	found, err := findBinaries(t.Context(), []string{"/nonexistent", halfDir, old, recent, beta})
	require.NoError(t, err)
	require.Equal(t, recent, found.dir)
	found, err = findBinaries(t.Context(), []string{beta})
	require.NoError(t, err)
	require.Equal(t, beta, found.dir)
	for _, dirs := range [][]string{nil, {"/nonexistent"}, {halfDir}, {old}, {install(t, "")}} {
		_, err = findBinaries(t.Context(), dirs)
		require.ErrorIs(t, err, ErrNoBinaries)
	}
	require.ErrorContains(t, ErrNoBinaries, "install it")
}

func TestMajorInPath(t *testing.T) {
	t.Parallel()
	require.Equal(t, 15, majorInPath("/usr/lib/postgresql/15/bin"))
	require.Equal(t, 9, majorInPath("/usr/pgsql-9.6/bin"))
	require.Zero(t, majorInPath("/usr/local/bin"))
}
