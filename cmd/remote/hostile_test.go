package remote_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hostile is what somebody could have put into a name: colours, the end of a line, C1's own escape, a text that runs backwards.
const hostile = "\x1b[31ma\nb\u009b31m\u202ec\x7f"

// TestNothingForATerminalToObey holds for texts, for the names of members, and in JSON, which stays the same text.
func TestNothingForATerminalToObey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	raw, err := json.Marshal(map[string]any{"id": anID, "notes": hostile, "metadata": map[string]any{hostile: hostile}})
	require.NoError(t, err)
	b.Answer("getCall", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(raw) })
	for _, args := range [][]string{{"calls", "get", anID}, {"calls", "get", anID, "--json"}, {"calls", "get", anID, "--columns", "metadata"}} {
		stdout, _, err := b.run(t, args...)
		require.NoError(t, err)
		for _, r := range "\x1b\u009b\u202e\x7f" {
			require.NotContains(t, stdout, string(r), "%q", args)
		}
		if args[len(args)-1] == "--json" {
			var back struct{ Notes string }
			require.NoError(t, json.Unmarshal([]byte(stdout), &back))
			require.Equal(t, hostile, back.Notes)
		}
	}
}

// TestExportsComputeNothing has texts be texts to a spreadsheet; --raw has them as they are.
func TestExportsComputeNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Answer("listLeads", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"items": [{"id": %q, "name": "=HYPERLINK(1)", "email": "-1\u001b", "phone": "9876543210"}]}`, anID)
	})
	stdout, _, err := b.run(t, "leads", "export", anID, "--columns", "name,email,phone")
	require.NoError(t, err)
	require.Equal(t, "name,email,phone\n'=HYPERLINK(1),'-1 ,9876543210\n", stdout)
	stdout, _, err = b.run(t, "leads", "export", anID, "--columns", "name,email", "--raw")
	require.NoError(t, err)
	require.Equal(t, "name,email\n=HYPERLINK(1),-1\x1b\n", stdout)
}

// TestAddressesInClear are refused, unless they are this machine's or said to be meant.
func TestAddressesInClear(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.stdin = "svc_live_1"
	_, _, err := b.run(t, "login", "--with-key", "--api-url", "http://ringmaster.example")
	require.ErrorContains(t, err, "is not encrypted")
	_, _, err = b.run(t, "calls", "list", "--api-url", "http://ringmaster.example", "--api-key", "svc_live_1")
	require.ErrorContains(t, err, "is not encrypted")
}

// TestProfilesOfSeveralLogins are all kept, by files that nobody has prepared.
func TestProfilesOfSeveralLogins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	home := t.TempDir()
	b.environ = []string{"XDG_CONFIG_HOME=" + home}
	folder, victim := filepath.Join(home, "ringmaster"), filepath.Join(home, "victim")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.WriteFile(victim, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(folder, "profiles.json.new")))
	var group sync.WaitGroup
	const logins = 20
	for i := range logins {
		one := *b
		one.stdin = fmt.Sprintf("svc_live_%d\n", i)
		group.Go(func() {
			_, _, err := one.run(t, "login", "--with-key", "--api-url", b.URL, "--profile", strconv.Itoa(i))
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	text, err := os.ReadFile(filepath.Join(folder, "profiles.json"))
	require.NoError(t, err)
	var kept map[string]struct {
		APIKey string `json:"api_key"`
	}
	require.NoError(t, json.Unmarshal(text, &kept))
	require.Len(t, kept, logins)
	require.Equal(t, "svc_live_7", kept["7"].APIKey)
	text, err = os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	left, err := filepath.Glob(filepath.Join(folder, "profiles-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestPartsOfDownloads are gone on with when they are of the same audio and this user's own.
func TestPartsOfDownloads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	audio := strings.Repeat("0123456789", 100)
	var breaks, away atomic.Bool
	var asked atomic.Value
	b.Answer("streamRecording", func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Range") + " " + r.Header.Get("If-Range"))
		w.Header().Set("ETag", `"a"`)
		switch {
		case away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case breaks.CompareAndSwap(true, false):
			away.Store(true)
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, audio[:500])
			w.(http.Flusher).Flush() //nolint:forcetypeassert // the server's
			panic(http.ErrAbortHandler)
		default:
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(audio))
		}
	})
	path := filepath.Join(t.TempDir(), "call.wav")
	breaks.Store(true)
	_, _, err := b.run(t, "recordings", "download", anID, "-o", path)
	require.ErrorContains(t, err, "503")
	part, err := os.ReadFile(path + ".part")
	require.NoError(t, err)
	require.Equal(t, audio[:500], string(part))
	away.Store(false)
	_, _, err = b.run(t, "recordings", "download", anID, "-o", path)
	require.NoError(t, err)
	require.Equal(t, `bytes=500- "a"`, asked.Load())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, audio, string(got))
	require.NoFileExists(t, path+".part.etag")

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path+".part", []byte("of another"), 0o600))
	require.NoError(t, os.WriteFile(path+".part.etag", []byte(`"b"`), 0o600))
	_, _, err = b.run(t, "recordings", "download", anID, "-o", path)
	require.NoError(t, err)
	got, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, audio, string(got))

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(filepath.Join(filepath.Dir(path), "victim"), path+".part"))
	_, _, err = b.run(t, "recordings", "download", anID, "-o", path)
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(filepath.Dir(path), "victim"))
	require.NoError(t, os.Remove(path+".part"))
	require.NoError(t, os.WriteFile(path+".part", nil, 0o600))
	require.NoError(t, os.Chmod(path+".part", 0o666)) //nolint:gosec // that is what is refused
	_, _, err = b.run(t, "recordings", "download", anID, "-o", path)
	require.ErrorContains(t, err, "not a regular file that only you own")
}
