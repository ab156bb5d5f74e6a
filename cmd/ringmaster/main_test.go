package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func runCLI(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runCLIWith(t, "", environ, args...)
}

// runCLIWith gives the command something to read.
func runCLIWith(t *testing.T, input string, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, env{stdin: strings.NewReader(input), stdout: &out, stderr: &errs, environ: environ})
	return code, out.String(), errs.String()
}

// What was wrong with a command is answered with where its own help is.
func TestWrongUsageLeadsToTheCommandsHelp(t *testing.T) {
	t.Parallel()
	for line, help := range map[string]string{
		"":                       "ringmaster",
		"fly":                    "ringmaster",
		"campaigns":              "ringmaster campaigns",
		"campaigns create":       "ringmaster campaigns create",
		"campaigns get nobody":   "ringmaster campaigns get",
		"trunk create main":      "ringmaster trunk create",
		"demo --leads many":      "ringmaster demo",
		"serve --fast":           "ringmaster serve",
		"calls list --json --no": "ringmaster calls list",
	} {
		code, _, errs := runCLI(t, nil, strings.Fields(line)...)
		require.Equal(t, exitUsage, code, line)
		require.Contains(t, errs, "\nTry: "+help+" --help\n", line)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	code, out, _ := runCLI(t, nil, "version")
	require.Equal(t, exitDone, code)
	require.NotEmpty(t, out)
	code, out, _ = runCLI(t, nil, "--help")
	require.Equal(t, exitDone, code)
	for _, command := range []string{"serve", "dev", "demo", "bench", "migrate", "tenant", "user", "key", "trunk", "number", "dnc", "simulate", "version"} {
		require.Contains(t, out, command)
	}
	require.NotContains(t, out, "stand-in")
	code, out, _ = runCLI(t, nil, "--version")
	require.Equal(t, exitDone, code)
	require.Equal(t, version+"\n", out)
	for _, wrong := range [][]string{
		{},
		{"fly"},
		{"demo", "--leads", "many"},
		{"tenant", "create"},
		{"key", "create", "crm", "--tenant", "acme"},
		{"key", "create", "crm", "--tenant", "acme", "--all", "--scope", "calls:read"},
		{"user", "create", "a@b.test", "--tenant", "acme", "--password", "correct horse", "--password-stdin"},
		{"serve", "--fast"},
		{"demo", "--leads", "0"},
		{"bench", "calls", "--rate", "0"},
		{"bench", "calls", "--mix", "busy=10"},
		{"bench", "calls", "--mix", "ai=10;x=1"},
		{"bench", "calls", "--mix", "ai=10;busy=-1"},
		{"bench", "calls", "--history", "5"},
		{"bench", "media", "--calls", "0"},
		{"bench", "media", "--encoding", "opus"},
		{"bench", "media", "--rate", "123"},
		{"bench", "media", "--subprotocol", "x"},
		{"bench", "media", "--dir", "/nonexistent"},
		{"bench", "media", "--shards=-1"},
		{"bench", "media", "--find-limit", "--most", "0"},
	} {
		code, _, errs := runCLI(t, nil, wrong...)
		require.Equal(t, exitUsage, code, "%q: %s", wrong, errs)
		require.NotEmpty(t, errs)
	}
}

func TestServeReportsEveryFaultOfTheConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ringmaster.yaml")
	require.NoError(t, os.WriteFile(path, []byte("log: {level: loud}\nhttp: {addr: nowhere}\n"), 0o600))
	code, _, errs := runCLI(t, nil, "serve", "--config", path)
	require.Equal(t, exitFailed, code)
	for _, key := range []string{"log.level", "http.addr", "database.url", "switch.esl_password", "security.master_key"} {
		require.Contains(t, errs, key)
	}
}

// The switch's configuration is never mixed with another one.
func TestSwitchConfigRefusesAFolderThatIsNotEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "freeswitch.xml"), nil, 0o600))
	code, _, errs := runCLI(t, nil, "switch", "config", "--out", dir)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "is not empty")
}

// TestErrorsAreShownAsText: what a server says is printed without what a terminal would obey.
func TestErrorsAreShownAsText(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"code": "call_ended", "detail": "\u001b[2J\u009b2J\u202eover", "request_id": "r1"}`)
	}))
	t.Cleanup(server.Close)
	code, _, stderr := runCLI(t, []string{"RINGMASTER_API_KEY=svc_live_1"}, "calls", "hangup", "0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10", "--api-url", server.URL)
	require.Equal(t, exitFailed, code)
	require.Equal(t, "ringmaster: hangupCall: 409 call_ended:  [2J 2J over (request r1)\n", stderr)
}
