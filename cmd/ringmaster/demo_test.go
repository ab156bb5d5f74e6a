package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/demo"
)

// The demo leaves no recordings behind that nobody asked for, and says of each call that it has one all the same.
func TestDemoRecordings(t *testing.T) {
	dir, remove, err := demoCmd{}.folder()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1.wav"), nil, 0o600))
	require.NoError(t, remove())
	require.NoDirExists(t, dir)
	own := filepath.Join(t.TempDir(), "kept")
	dir, remove, err = demoCmd{Recordings: own}.folder()
	require.NoError(t, err)
	require.Equal(t, own, dir)
	require.NoError(t, remove())
	require.DirExists(t, own)

	var out strings.Builder
	kept := filepath.Join(own, "3.wav")
	require.NoError(t, demoCmd{}.show(&out, demo.Summary{OK: true, Leads: 3, Calls: []demo.Call{
		{To: "1"}, {To: "2", Recorded: true, Stereo: true}, {To: "3", Recorded: true, Recording: &kept},
	}}))
	lines := strings.Split(out.String(), "\n")
	require.Regexp(t, ` -$`, lines[1])
	require.Regexp(t, ` stereo$`, lines[2])
	require.True(t, strings.HasSuffix(lines[3], " mono "+kept), lines[3])
}
