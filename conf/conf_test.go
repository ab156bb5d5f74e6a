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
		ExternalPort: 5060, InternalPort: 5062, VoiceAgentsPort: 5064, RTPStart: 20000, RTPEnd: 29998, CarrierNets: []string{"127.0.0.0/8", "192.0.2.7/32"},
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
	text, err := os.ReadFile(filepath.Join(dir, "sip_profiles", "gateways", "rm_7.xml"))
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
	require.Len(t, profiles, 3)
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

// Whatever lies in the folder besides, only our files are loaded: each is named, none by a pattern but our own gateways.
func TestEveryFileIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, Render(dir, params(t)))
	included := map[string]bool{"freeswitch.xml": true}
	for _, from := range []string{"freeswitch.xml", "autoload_configs/sofia.conf.xml", "sip_profiles/external.xml"} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		require.NoError(t, err)
		for _, part := range strings.Split(string(text), `cmd="include" data="`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			path := filepath.Join(filepath.Dir(from), name)
			if strings.Contains(name, "*") {
				require.Equal(t, "sip_profiles/gateways/rm_*.xml", path)
				continue
			}
			included[path] = true
			require.FileExists(t, filepath.Join(dir, path))
		}
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, path)
		require.NoError(t, relErr)
		if err == nil && strings.HasSuffix(name, ".xml") {
			require.True(t, included[name], name)
			info, err := d.Info()
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o640), info.Mode().Perm(), name)
		}
		return err
	}))
	modules, err := Modules()
	require.NoError(t, err)
	require.Contains(t, modules, "mod_json_cdr")
	require.Equal(t, "mod_sofia", modules[len(modules)-1], "when its profiles are up all others have been loaded, or not")
}

// Values are escaped for XML; what the switch's preprocessor would change is refused, without showing it.
func TestValuesAreEscapedOrRefused(t *testing.T) {
	t.Parallel()
	dir, p := t.TempDir(), params(t)
	p.ESLPassword = `a&b<c>"d'`
	require.NoError(t, Render(dir, p))
	text, err := os.ReadFile(filepath.Join(dir, "vars.xml"))
	require.NoError(t, err)
	require.Contains(t, string(text), `data="rm_esl_password=a&amp;b&lt;c&gt;&#34;d&#39;"/>`)
	acl, err := os.ReadFile(filepath.Join(dir, "autoload_configs", "acl.conf.xml"))
	require.NoError(t, err)
	require.Contains(t, string(acl), `<node type="allow" cidr="192.0.2.7/32"/>`)
	for _, bad := range []string{"x$${rm_esl_password}", "line\nbreak", " space before", "nul\x00"} {
		p := params(t)
		p.ESLPassword = bad
		err := Render(t.TempDir(), p)
		require.ErrorIs(t, err, ErrValue)
		require.NotContains(t, err.Error(), bad)
		_, err = Gateway{Name: "rm_7", Host: "sip.example", Username: "u", Password: bad}.XML()
		require.ErrorIs(t, err, ErrGateway)
		require.NotContains(t, err.Error(), bad)
	}
	p = params(t)
	p.CarrierNets = []string{`0.0.0.0/0"/>`}
	require.ErrorContains(t, Render(t.TempDir(), p), "no CIDR block")
}
