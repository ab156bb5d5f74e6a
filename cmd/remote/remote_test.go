package remote_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/cmd/remote"
	"github.com/ringmaster/ringmaster/httpapi/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files") //nolint:gochecknoglobals // a flag of the tests

// bench is a command line before a server of examples.
type bench struct {
	*apitest.Examples
	environ  []string
	stdin    string
	progress io.Writer
}

func setup(t *testing.T) *bench {
	t.Helper()
	x := apitest.NewExamples(t)
	x.Answer("login", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"access_token": "a.b.c", "expires_in": 43200, "user": {"email": "admin@acme.example", "role": "admin"}}`)
	})
	return &bench{Examples: x, environ: []string{"RINGMASTER_API_URL=" + x.URL, "RINGMASTER_API_KEY=svc_live_1", "HOME=" + t.TempDir()}}
}

// run runs a command.
func (b *bench) run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, faults bytes.Buffer
	parser := grammar(t, remote.Env{Stdin: strings.NewReader(b.stdin), Stdout: &out, Stderr: &faults, Environ: b.environ, Progress: b.progress})
	command, err := parser.Parse(args)
	require.NoError(t, err, "%v", args)
	command.BindTo(t.Context(), (*context.Context)(nil))
	err = command.Run()
	return out.String(), faults.String(), err
}

// session runs commands one after the other, and writes down what they asked for and printed.
func (b *bench) session(t *testing.T, commands ...string) string {
	t.Helper()
	var all strings.Builder
	b.Asked()
	for _, command := range commands {
		stdout, stderr, err := b.run(t, words(command)...)
		fmt.Fprintf(&all, "$ ringmaster %s\n", command)
		for _, asked := range b.Asked() {
			fmt.Fprintf(&all, "> %s\n", asked)
		}
		all.WriteString(stdout)
		if stderr != "" {
			fmt.Fprintf(&all, "! %s\n", strings.ReplaceAll(strings.TrimSpace(stderr), "\n", "\n! "))
		}
		if err != nil {
			fmt.Fprintf(&all, "failed: %v\n", err)
		}
		all.WriteString("\n")
	}
	return strings.ReplaceAll(all.String(), b.URL, "http://ringmaster.test")
}

// words takes a command apart; 'quotes' keep spaces.
func words(command string) (args []string) {
	for _, word := range regexp.MustCompile(`(?:[^\s']|'[^']*')+`).FindAllString(command, -1) {
		args = append(args, strings.ReplaceAll(word, "'", ""))
	}
	return args
}

// golden holds a session against what is kept.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

const anID = "0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10"

func TestCalls(t *testing.T) {
	t.Parallel()
	b := setup(t)
	golden(t, "calls", b.session(t,
		"calls list",
		"calls list --campaign "+anID+" --status answered --direction outbound --from 2026-11-01 --to 2026-12-01 --limit 2 --columns id,quality.inbound.mos",
		"calls list --columns id,nothing",
		"calls list --columns quality.inbound.loud",
		"calls list --columns id.x",
		"calls get "+anID+" --columns id,status,quality.inbound,flows",
		"calls start 9876543210 --from 9180000001 --category service --metadata {\"variables\":{\"name\":\"Asha\"}} --columns id",
		"calls start 9876543210 --metadata []",
		"calls hangup "+anID,
		"calls hangup "+anID+" --json",
		"calls control "+anID+" transfer destination_type=e164 'destination=+91 98'",
		"calls control "+anID+" send_dtmf digits=12 --json",
		"calls control "+anID+" send_dtmf destination",
		"calls control "+anID+" send_dtmf number=1",
		"calls control "+anID+" dance",
	))
}

// TestWatch follows a call to its end, and fails when it has failed.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	states := []string{`"dialing"`, `"dialing"`, `"ringing"`, `"failed", "end_time": "2026-11-25T09:01:16Z", "hangup_cause": "NO_ANSWER"`}
	b.Answer("getCall", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id": "`+anID+`", "status": `+states[0]+`}`)
		states = states[1:]
	})
	stdout, stderr, err := b.run(t, "calls", "get", anID, "--watch", "--every", "1ms")
	require.EqualError(t, err, "the call has failed: NO_ANSWER")
	require.Regexp(t, `^\S+  `+anID+`  dialing\n\S+  `+anID+`  ringing\n\S+  `+anID+`  failed\n$`, stderr)
	require.Contains(t, stdout, "NO_ANSWER")
}

// TestRefusals names the operation, the code and the request.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Answer("hangupCall", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"code": "call_ended", "detail": "The call has ended.", "request_id": "01J"}`)
	})
	_, _, err := b.run(t, "calls", "hangup", anID)
	require.EqualError(t, err, "hangupCall: 409 call_ended: The call has ended. (request 01J)")
}

// TestProfiles keeps credentials where nobody else can read them, and sends them nowhere else.
func TestProfiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	home := t.TempDir()
	b.environ = []string{"HOME=" + home}
	_, _, err := b.run(t, "calls", "list")
	require.ErrorContains(t, err, "no API address")
	b.environ = []string{"XDG_CONFIG_HOME=" + home}
	_, _, err = b.run(t, "calls", "list", "--api-url", b.URL)
	require.ErrorContains(t, err, "no API key: give")

	b.stdin = "svc_live_kept\n"
	_, stderr, err := b.run(t, "login", "--with-key", "--api-url", b.URL+"/")
	require.NoError(t, err)
	require.Equal(t, "the key is kept as profile default\n", stderr)
	_, _, err = b.run(t, "calls", "list")
	require.NoError(t, err)
	b.stdin = "correct horse"
	_, stderr, err = b.run(t, "login", "--email", "admin@acme.example")
	require.NoError(t, err)
	require.Contains(t, stderr, "signed in as admin@acme.example (admin) until ")
	require.NotContains(t, stderr, "horse")

	path := filepath.Join(home, "ringmaster", "profiles.json")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, _, err = b.run(t, "calls", "list", "--api-url", "http://127.0.0.1:1")
	require.ErrorContains(t, err, "no API key: give", "it is for another address")
	require.NoError(t, os.Chmod(path, 0o640)) //nolint:gosec // that is what is refused
	_, _, err = b.run(t, "calls", "list")
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Chmod(path, 0o600))

	b.Asked()
	_, _, err = b.run(t, "logout")
	require.NoError(t, err)
	require.Equal(t, []string{"POST /api/auth/logout"}, b.Asked())
	_, _, err = b.run(t, "calls", "list")
	require.ErrorContains(t, err, "no API address")

	b.Answer("getDefaultVoiceAgent", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"code": "invalid_credential", "detail": "It is not known."}`)
	})
	_, _, err = b.run(t, "login", "--with-key", "--api-url", b.URL)
	require.ErrorContains(t, err, "invalid_credential")
}

// grammar is that of the commands alone.
func grammar(t *testing.T, e remote.Env) *kong.Kong {
	t.Helper()
	var commands struct{ remote.Commands }
	parser, err := kong.New(&commands, kong.Name("ringmaster"), kong.Bind(e), kong.Writers(io.Discard, io.Discard))
	require.NoError(t, err)
	return parser
}

// TestExamplesAreCommands reads the example of every command's help by the grammar.
func TestExamplesAreCommands(t *testing.T) {
	t.Parallel()
	for _, leaf := range grammar(t, remote.Env{}).Model.Leaves(false) {
		_, shown, ok := strings.Cut(leaf.Detail, "Example:")
		require.True(t, ok, leaf.FullPath())
		for line := range strings.SplitSeq(strings.TrimSpace(shown), "\n") {
			line, _, _ = strings.Cut(line, " < ")
			command, err := grammar(t, remote.Env{}).Parse(words(strings.TrimPrefix(strings.TrimSpace(line), "ringmaster ")))
			require.NoError(t, err, line)
			require.Contains(t, "ringmaster "+command.Command(), leaf.FullPath())
		}
	}
}
