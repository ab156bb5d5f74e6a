package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/rest"
	"github.com/ringmaster/ringmaster/integration/stack"
)

const (
	// envRun is set by `make clients`: the generators come over the network, which no other test needs.
	envRun    = "RINGMASTER_CLIENTS"
	envBinary = "RINGMASTER_BINARY"
)

// Three generators make a client of what is served at /openapi.json; each compiles, places a call, sees it answered and hangs up.
func TestGeneratedClientsPlaceACall(t *testing.T) {
	if os.Getenv(envRun) == "" {
		t.Skipf("*** SKIPPED: the generators come over the network; run `make clients` ***")
	}
	s, err := stack.Start(t.Context(), stack.Config{Binary: os.Getenv(envBinary), Dir: t.TempDir(), InMemory: true, Stderr: io.Discard})
	require.NoError(t, err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, s.Close(context.Background()))
	})
	document := filepath.Join(t.TempDir(), "openapi.json")
	var raw []byte
	require.NoError(t, rest.Client{}.Do(t.Context(), http.MethodGet, s.Bootstrap.BaseURL+"/openapi.json", nil, &raw))
	require.NoError(t, os.WriteFile(document, raw, 0o600))

	npm := workspace(t, "npm")
	npm.install(t, "https://registry.npmjs.org", "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	t.Run("redocly has no warning", func(t *testing.T) {
		var report struct {
			Totals map[string]int `json:"totals"`
		}
		out := npm.run(t, "npx", "--no-install", "redocly", "lint", document, "--format=json")
		require.NoError(t, json.Unmarshal(out[bytes.IndexByte(out, '{'):], &report), "%s", out)
		require.Zero(t, report.Totals["errors"]+report.Totals["warnings"], "%s", out)
	})
	t.Run("openapi-typescript and @hey-api/openapi-ts", func(t *testing.T) {
		npm.run(t, "npx", "--no-install", "openapi-typescript", document, "-o", "gen/schema.ts")
		npm.run(t, "npx", "--no-install", "openapi-ts", "-i", document, "-o", "gen/hey", "--no-log-file")
		npm.run(t, "npx", "--no-install", "tsc", "-p", ".")
		npm.places(t, s, "9876178001", "node", "out/openapi-fetch.js")
		npm.places(t, s, "9876178002", "node", "out/hey-api.js")
	})
	t.Run("oapi-codegen", func(t *testing.T) {
		golang := workspace(t, "go")
		golang.install(t, "https://proxy.golang.org", "go", "mod", "download")
		require.NoError(t, os.Mkdir(filepath.Join(golang.dir, "api"), 0o700))
		golang.run(t, "go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "api", "-o", "api/api.go", document)
		golang.run(t, "go", "build", "-o", "place", ".")
		golang.places(t, s, "9876178003", "./place")
	})
}

// space is a folder in which a generator works.
type space struct{ dir string }

// workspace copies a folder of testdata.
func workspace(t *testing.T, name string) space {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
	return space{dir}
}

func (s space) command(t *testing.T, env []string, name string, args ...string) ([]byte, []byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), append(env, "GOFLAGS=", "NO_COLOR=1", "REDOCLY_TELEMETRY=off", "npm_config_update_notifier=false")...)
	var out, faults bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &faults
	err := cmd.Run()
	return out.Bytes(), faults.Bytes(), err
}

func (s space) run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	out, faults, err := s.command(t, nil, name, args...)
	require.NoError(t, err, "%s %v:\n%s%s", name, args, out, faults)
	return out
}

// install brings the generators; without their registry the test is skipped.
func (s space) install(t *testing.T, registry, name string, args ...string) {
	t.Helper()
	out, faults, err := s.command(t, nil, name, args...)
	if err == nil {
		return
	}
	req, bad := http.NewRequestWithContext(t.Context(), http.MethodHead, registry, nil)
	require.NoError(t, bad)
	if res, away := http.DefaultClient.Do(req); away != nil {
		t.Skipf("*** SKIPPED: %s can't be reached: %v ***", registry, away)
	} else {
		require.NoError(t, res.Body.Close())
	}
	require.NoError(t, err, "%s%s", out, faults)
}

// places runs a client, which must have placed a call that ended as completed.
func (s space) places(t *testing.T, st *stack.Stack, callee, name string, args ...string) {
	t.Helper()
	tenant := st.Bootstrap.Tenants[0]
	out, faults, err := s.command(t, []string{
		"BASE_URL=" + st.Bootstrap.BaseURL, "API_KEY=" + tenant.LiveKey, "VOICE_AGENT=" + tenant.VoiceAgentID.String(), "CALLEE=" + callee,
	}, name, args...)
	require.NoError(t, err, "%s%s", out, faults)
	id := strings.TrimSpace(string(out))
	var call struct {
		To         string  `json:"to"`
		AnswerTime *string `json:"answer_time"`
	}
	require.NoError(t, rest.Client{Token: tenant.LiveKey}.Do(t.Context(), http.MethodGet, st.Bootstrap.BaseURL+"/api/v1/calls/"+id, nil, &call))
	require.Equal(t, "+91"+callee, call.To)
	require.NotNil(t, call.AnswerTime)
}
