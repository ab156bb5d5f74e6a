package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRegistryCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	file("full_2026-11-01.csv", "phone,status\n9876543210,A\n9876543211,A\nx,A\n")
	code, out, errs := runCLI(t, nil, "dnc", "status", "--path", dir)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "none")
	require.NoFileExists(t, filepath.Join(dir, "registry.snapshot"))
	code, out, errs = runCLI(t, nil, "dnc", "import", "--path", dir, "--json")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, errs, "rows of a do-not-call file could not be read")
	var imported struct {
		Version string
		Numbers int
		BadRows int `json:"bad_rows"`
		Files   int
	}
	require.NoError(t, json.Unmarshal([]byte(out), &imported))
	require.Equal(t, []int{2, 1, 1}, []int{imported.Numbers, imported.BadRows, imported.Files})

	file("delta_2026-11-08.csv", "phone,status\n9876543210,D\n")
	var status struct {
		State, Version string
		Files          []struct {
			File, State string
			BadLines    []int `json:"bad_lines"`
		}
	}
	code, out, errs = runCLI(t, nil, "dnc", "status", "--path", dir, "--json")
	require.Equal(t, exitDone, code, errs)
	require.NoError(t, json.Unmarshal([]byte(out), &status))
	require.Equal(t, "behind", status.State)
	require.Equal(t, imported.Version, status.Version)
	require.Equal(t, "read", status.Files[0].State)
	require.Equal(t, []int{4}, status.Files[0].BadLines)
	require.Equal(t, "new", status.Files[1].State)

	code, out, errs = runCLI(t, nil, "dnc", "check", "--path", dir, "9876543210", "+919876543219")
	require.Equal(t, exitDone, code, errs)
	require.Regexp(t, `9876543210\s+false`, out, "the delta has taken it off")
	code, out, _ = runCLI(t, nil, "dnc", "check", "--path", dir, "9876543210", "09876543211")
	require.Equal(t, exitFailed, code)
	require.Regexp(t, `9876543211\s+true`, out)
	code, out, errs = runCLI(t, nil, "dnc", "status", "--path", filepath.Join(dir, "registry.snapshot"))
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "current")
	require.NoError(t, os.Remove(filepath.Join(dir, "delta_2026-11-08.csv")))
	_, out, _ = runCLI(t, nil, "dnc", "status", "--path", dir)
	require.Contains(t, out, "gone")

	for _, wrong := range [][]string{{"dnc", "check", "--path", dir, "12"}, {"dnc", "import", "--path", filepath.Join(dir, "none")}, {"dnc", "import"}} {
		code, _, errs = runCLI(t, nil, wrong...)
		require.Equal(t, exitFailed, code, wrong)
		require.NotEmpty(t, errs)
	}
}
