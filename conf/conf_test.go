package conf

import (
	"encoding/xml"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func params(t *testing.T) Params {
	t.Helper()
	return Params{
		ESLIP: "127.0.0.1", ESLPort: 8021, ESLPassword: "secret", SocketAddr: "127.0.0.1:8084", SIPIP: "127.0.0.1",
		ExternalPort: 5060, InternalPort: 5062, RTPStart: 20000, RTPEnd: 29998, CarrierNet: "127.0.0.0/8",
		CDRDir: filepath.Join(t.TempDir(), "cdr"), DirectoryURL: "http://127.0.0.1:8080/fs/directory",
	}
}

// Every variable that a file uses is set in vars.xml, every file is well-formed, and no template mark is left.
func TestRenderIsComplete(t *testing.T) {
	t.Parallel()
	dir, p := t.TempDir(), params(t)
	require.NoError(t, Render(dir, p))
	vars, err := os.ReadFile(filepath.Join(dir, "vars.xml"))
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".xml") {
			return err
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, xml.Unmarshal(text, new(struct{})), path)
		require.NotContains(t, string(text), "{{", path)
		for _, use := range strings.Split(string(text), "$${")[1:] {
			name, _, _ := strings.Cut(use, "}")
			require.Contains(t, string(vars), `"`+name+"=", path)
		}
		// The preprocessor drops a tag that shares its line with another one.
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "<X-PRE-PROCESS") {
				require.Equal(t, 1, strings.Count(line, "<"), "%s: %s", path, line)
			}
		}
		return nil
	}))
	require.DirExists(t, p.CDRDir)
}

func TestGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := Gateway{Name: "rm_7", Host: "sip.example", Port: 5061, Transport: "tcp", Username: "u&1", Password: `p"<`, Register: true}
	require.NoError(t, Render(dir, params(t), g))
	text, err := os.ReadFile(filepath.Join(dir, "sip_profiles", "external", "rm_7.xml"))
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(text, new(struct{})))
	require.Contains(t, string(text), `name="proxy" value="sip.example:5061"`)
	require.Contains(t, string(text), "u&amp;1")
	_, err = Gateway{Name: "../x", Host: "h"}.XML()
	require.ErrorIs(t, err, ErrGateway)
}

// No SIP profile leads to the controller's own extensions: a caller can't name them.
func TestNoProfileHasTheControllersContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, Render(dir, params(t)))
	profiles, err := filepath.Glob(filepath.Join(dir, "sip_profiles", "*.xml"))
	require.NoError(t, err)
	require.Len(t, profiles, 2)
	for _, path := range profiles {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(text), `value="ringmaster"`, path)
	}
	public, err := os.ReadFile(filepath.Join(dir, "dialplan", "public.xml"))
	require.NoError(t, err)
	require.NotContains(t, string(public), `application="park"`)
	require.NotContains(t, string(public), `application="answer"`)
}
