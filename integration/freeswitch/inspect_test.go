package freeswitch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/integration/freeswitch"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// A switch that runs our configuration alone gives nothing to warn of; what is loaded besides, or doesn't run, is named.
func TestInspectARealSwitch(t *testing.T) {
	t.Parallel()
	binary := realSwitch(t)
	dir := t.TempDir()
	sw, err := freeswitch.Start(t.Context(), freeswitch.Config{Binary: binary, Dir: dir, Params: conf.Params{
		ESLPassword: "secret", SocketAddr: "127.0.0.1:9", CDRDir: filepath.Join(dir, "cdr"), DirectoryURL: "http://127.0.0.1:9/",
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sw.Stop()) })
	conn, err := esl.Dial(t.Context(), sw.ESLAddr(), sw.Params.ESLPassword, esl.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	found, err := conf.Inspect(t.Context(), conn.API)
	require.NoError(t, err)
	require.Empty(t, found)

	// As an engineer does who adds a profile of a tutorial's.
	sofia := filepath.Join(dir, "conf", "autoload_configs", "sofia.conf.xml")
	text, err := os.ReadFile(sofia)
	require.NoError(t, err)
	more := strings.Replace(string(text), "</profiles>", `<profile name="extra"><settings><param name="sip-ip" value="127.0.0.1"/>`+
		`<param name="rtp-ip" value="127.0.0.1"/><param name="sip-port" value="18931"/><param name="context" value="public"/></settings></profile></profiles>`, 1)
	require.NoError(t, os.WriteFile(sofia, []byte(more), 0o600))
	for _, command := range []string{"reloadxml", "sofia profile extra start", "unload mod_hash"} {
		_, err = conn.API(t.Context(), command)
		require.NoError(t, err, command)
	}
	require.Eventually(t, func() bool {
		found, err = conf.Inspect(t.Context(), conn.API)
		return err == nil && len(found) == 2
	}, soon, 50*time.Millisecond)
	require.Contains(t, found[0], "SIP profile extra at sip:mod_sofia@127.0.0.1:18931 is none of Ringmaster's")
	require.Equal(t, "module mod_hash is not loaded", found[1])
}
