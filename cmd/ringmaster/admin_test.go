package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// The commands that administer need the database and the master key alone: no switch, no registry.
func TestAdministeringWithoutASwitch(t *testing.T) {
	t.Parallel()
	environ, _ := installed(t)
	environ = environ[:2] // what they need
	for _, command := range [][]string{{"migrate"}, {"tenant", "create", "acme"}, {"tenant", "list"}, {"secret", "status"}} {
		code, _, errs := runCLI(t, environ, command...)
		require.Equal(t, exitDone, code, "%q: %s", command, errs)
	}
	code, _, errs := runCLI(t, environ[:1], "migrate")
	require.Equal(t, exitDone, code, errs)
	code, _, errs = runCLI(t, environ, "serve")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "switch.esl_password")
}

// A password comes in by standard input, and an administrator who forgot theirs gets another.
func TestPasswordsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	config := adminConfig(t, url)
	st := storetest.Open(t, url)
	cli := func(input string, args ...string) (out map[string]string) {
		t.Helper()
		code, text, errs := runCLIWith(t, input, nil, append(args, "--json", "--config", config)...)
		require.Equal(t, exitDone, code, "%q: %s", args, errs)
		var members map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &members))
		out = map[string]string{}
		for name, v := range members {
			if s, ok := v.(string); ok {
				out[name] = s
			}
		}
		return out
	}
	opens := func(password string) bool {
		t.Helper()
		var hash string
		require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
			user, err := tx.Q.FindUserByEmail(t.Context(), "boss@acme.test")
			hash = user.User.PasswordHash
			return err
		}))
		good, err := account.VerifyPassword(hash, password)
		require.NoError(t, err)
		return good
	}
	cli("", "tenant", "create", "acme")
	made := cli("correct horse\r\nnext line", "user", "create", "boss@acme.test", "--tenant", "acme", "--role", "admin", "--password-stdin")
	require.NotContains(t, made, "password")
	require.True(t, opens("correct horse"))
	cli("battery staple", "user", "password", "Boss@acme.test", "--tenant", "acme", "--password-stdin")
	require.True(t, opens("battery staple"))
	shown := cli("", "user", "password", made["id"], "--tenant", "acme")
	require.True(t, opens(shown["password"]))
	for _, wrong := range []struct{ user, input, want string }{
		{"nobody@acme.test", "battery staple", "not found"}, {"boss@acme.test", "\n", "first line is empty"}, {"boss@acme.test", "short", "password"},
	} {
		code, _, errs := runCLIWith(t, wrong.input, nil, "user", "password", wrong.user, "--tenant", "acme", "--password-stdin", "--config", config)
		require.Equal(t, exitFailed, code)
		require.Contains(t, errs, wrong.want)
	}
	require.True(t, opens(shown["password"]))
	agent := cli("", "user", "create", "agent@acme.test", "--tenant", "acme")["id"]
	code, text, errs := runCLI(t, nil, "user", "disable", agent, "--tenant", "acme", "--config", config)
	require.Equal(t, exitDone, code, errs)
	require.Equal(t, "user "+agent+" is disabled", strings.TrimSpace(text))
}

// Each kind of thing is listed and changed by its own row of the tables.
func TestListsAndChanges(t *testing.T) {
	t.Parallel()
	config := adminConfig(t, storetest.NewURL(t))
	cli := func(args ...string) string {
		t.Helper()
		code, text, errs := runCLI(t, nil, append(args, "--config", config)...)
		require.Equal(t, exitDone, code, "%q: %s", args, errs)
		return text
	}
	cli("tenant", "create", "acme")
	require.Contains(t, cli("tenant", "list"), "acme")
	require.Equal(t, "none\n", cli("key", "list", "--tenant", "acme"))
	cli("key", "create", "backend", "--all", "--tenant", "acme")
	require.Contains(t, cli("key", "list", "--tenant", "acme"), "backend")
	for kind, create := range map[string][]string{
		"user": {"create", "anna@acme.test"}, "trunk": {"create", "main", "--host", "192.0.2.1"}, "number": {"create", "9180000001"},
	} {
		on := func(args ...string) string {
			return cli(append(append([]string{kind}, args...), "--tenant", "acme")...)
		}
		var made struct {
			ID       string `json:"id"`
			IsActive bool   `json:"is_active"`
		}
		require.NoError(t, json.Unmarshal([]byte(on(append(create, "--json")...)), &made))
		active := func() bool {
			var all []struct {
				ID       string `json:"id"`
				IsActive bool   `json:"is_active"`
			}
			require.NoError(t, json.Unmarshal([]byte(on("list", "--json")), &all))
			require.Len(t, all, 1, kind)
			require.Equal(t, made.ID, all[0].ID)
			return all[0].IsActive
		}
		require.True(t, active(), kind)
		require.Equal(t, kind+" "+made.ID+" is disabled\n", on("disable", made.ID))
		require.False(t, active(), kind)
		require.Equal(t, kind+" "+made.ID+" is enabled\n", on("enable", made.ID))
		require.True(t, active(), kind)
		if kind != "user" {
			require.Equal(t, kind+" "+made.ID+" is deleted\n", on("delete", made.ID))
			require.Equal(t, "none\n", on("list"))
		}
	}
}
