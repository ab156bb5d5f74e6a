package controller

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The unit's limits and folders fit the configuration's defaults: a drain is not cut off, and what is written may be.
func TestUnitFitsTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../conf/systemd/ringmaster.service")
	require.NoError(t, err)
	unit := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			unit[name] = strings.TrimSpace(unit[name] + " " + value)
		}
	}
	d := Defaults()
	seconds := func(name string) time.Duration {
		n, err := strconv.Atoi(unit[name])
		require.NoError(t, err, name)
		return time.Duration(n) * time.Second
	}
	require.Greater(t, seconds("TimeoutStopSec"), d.Drain.Timeout+httpCloseLimit+jobsCloseLimit+2*mediaCloseLimit)
	require.Greater(t, seconds("TimeoutStartSec"), d.Database.ConnectTimeout+registryWait)
	require.Equal(t, "notify", unit["Type"])
	require.Contains(t, unit["ExecStart"], " serve --config "+DefaultFile)
	require.Equal(t, "/var/lib/ringmaster", "/var/lib/"+unit["StateDirectory"])
	for _, path := range []string{d.Recordings.SpoolDir, d.Prompts.CacheDir, strings.TrimPrefix(d.Recordings.BlobURL, "file://")} {
		require.True(t, strings.HasPrefix(path, "/var/lib/ringmaster/"), path)
	}
	require.Contains(t, unit["ReadWritePaths"], d.Switch.CDRDir)
	require.Equal(t, "CAP_SYS_NICE", unit["CapabilityBoundingSet"], "threads of media have a priority of their own")
	require.Equal(t, unit["CapabilityBoundingSet"], unit["AmbientCapabilities"])
	require.Contains(t, unit["LoadCredential"], "master.key:")
	require.Equal(t, EnvPrefix+"SECURITY__MASTER_KEY_FILE=%d/master.key", unit["Environment"])
	require.Contains(t, allKeys(), "security.master_key_file")
}
