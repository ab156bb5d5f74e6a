package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/stack"
)

// cli runs a command of ringmaster on the stack's configuration and decodes its JSON.
func (c *customer) cli(t *testing.T, into any, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, err := c.tryCLI(t, into != nil, args...)
	require.NoError(t, err, "%q: %s%s", args, stderr, stdout)
	if into != nil {
		require.NoError(t, json.Unmarshal([]byte(stdout), into), stdout)
	}
	return stdout
}

// tryCLI runs a command that may fail.
func (c *customer) tryCLI(t *testing.T, asJSON bool, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	args = append(args, "--config", filepath.Join(c.Dir(), "ringmaster.yaml"))
	if asJSON {
		args = append(args, "--json")
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), theSuite.binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// probe finds out that the trunk bears bypass, in a few tries: on a busy machine audio may take longer to come back than a probe waits.
func (c *customer) probe(t *testing.T, number string) (steps []json.RawMessage) {
	t.Helper()
	var told struct {
		Bypass bool              `json:"bypass"`
		Steps  []json.RawMessage `json:"steps"`
	}
	var stdout, stderr string
	for range 3 {
		var err error
		if stdout, stderr, err = c.tryCLI(t, true, "trunk", "probe", number, "--tenant", "acme"); err == nil {
			require.NoError(t, json.Unmarshal([]byte(stdout), &told), stdout)
			require.True(t, told.Bypass)
			return told.Steps
		}
	}
	require.FailNow(t, "the trunk's probe failed", "%s%s", stdout, stderr)
	return nil
}

// An engineer sets a tenant up on the command line; its key works on the API at once, and no more once it is revoked.
func TestAccountsOnTheCommandLine(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		var tenant, trunk, key struct{ ID, Key string }
		c.cli(t, &tenant, "tenant", "create", "initech")
		c.cli(t, &trunk, "trunk", "create", "main", "--tenant", "initech", "--host", "sip.example", "--username", "u", "--password", "p<w")
		c.cli(t, nil, "number", "create", "9180000777", "--tenant", tenant.ID)
		c.cli(t, nil, "user", "create", "boss@initech.test", "--role", "admin", "--tenant", "initech")
		c.cli(t, &key, "key", "create", "backend", "--tenant", "initech", "--scope", "campaigns:read")
		gateway := c.cli(t, nil, "trunk", "gateway", trunk.ID, "--tenant", "initech")
		require.NoError(t, xml.Unmarshal([]byte(gateway), new(struct{})))
		require.Contains(t, gateway, "p&lt;w")
		for _, list := range [][]string{{"user", "list"}, {"key", "list"}, {"trunk", "list"}, {"number", "list"}} {
			out := c.cli(t, nil, append(list, "--tenant", "initech")...)
			require.NotContains(t, out, "none", list)
			require.NotContains(t, out, key.Key, list)
			require.NotContains(t, out, "p<w", list)
		}
		api := c.api.As(key.Key)
		status, _, body := api.Do(t, "GET", "/api/v1/campaigns", nil)
		require.Equal(t, 200, status, "%s", body)
		require.JSONEq(t, "[]", string(body))
		status, _, _ = api.Do(t, "POST", "/api/v1/campaigns", map[string]any{"name": "x", "dial_mode": "preview"})
		require.Equal(t, 403, status)
		c.cli(t, nil, "key", "revoke", key.ID, "--tenant", "initech")
		require.Eventually(t, func() bool { // the controller is told of it once the command has committed
			status, _, _ = api.Do(t, "GET", "/api/v1/campaigns", nil)
			return status == 401
		}, 10*time.Second, time.Millisecond)
	})
}

// TestTheCommandLinesGuide types what the guide to the API says under "On the command line", from a machine that has nothing of the service's.
func TestTheCommandLinesGuide(t *testing.T) {
	for _, tool := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("*** SKIPPED: the guide's commands need %s ***", tool)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "httpapi", "README.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "## On the command line\n")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(section)
	require.NotNil(t, block)
	onEachSwitch(t, func(t *testing.T, c *customer) {
		dir := t.TempDir()
		require.NoError(t, os.Symlink(theSuite.binary, filepath.Join(dir, "ringmaster")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "leads.csv"), []byte("phone,name\n9876179171,Asha\n98,x\n"), 0o600))
		var admin stack.User
		for _, u := range c.tenant.Users {
			if u.Role == "admin" {
				admin = u
			}
		}
		script := strings.NewReplacer(
			"http://127.0.0.1:8080", c.Bootstrap.BaseURL, "svc_live_0123456789", c.tenant.LiveKey, "admin@acme.example", admin.Email,
		).Replace(block[1])
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // the guide's commands end by themselves
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
		cmd.WaitDelay = 5 * time.Second
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME=", "PATH="+dir+":"+os.Getenv("PATH"), "RINGMASTER_USER_PASSWORD="+admin.Password)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		require.NoError(t, cmd.Run(), "%s%s", out.String(), said.String())
		require.Contains(t, out.String(), "2 rows: 1 added, 0 duplicates, 1 invalid\n")
		require.Regexp(t, `(?m)^pacing\.waits_for +\S+$`, out.String())
		require.Regexp(t, `(?m)^key +svc_live_\S+$`, out.String())
		require.Regexp(t, `(?s)  dialing\n.*  completed\n.*signed in as `, said.String(), "the call was followed")
		audio, err := os.ReadFile(filepath.Join(dir, "call.wav"))
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(audio, []byte("RIFF")))
		leads, err := os.ReadFile(filepath.Join(dir, "after.csv"))
		require.NoError(t, err)
		require.Contains(t, string(leads), "9876179171,Asha,")
		profiles, err := os.Stat(filepath.Join(dir, ".config", "ringmaster", "profiles.json"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), profiles.Mode().Perm())
	})
}
