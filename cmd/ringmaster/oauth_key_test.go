package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOAuthKeyCommands(t *testing.T) {
	t.Parallel()
	environ, _ := installed(t)
	code, out, errs := runCLI(t, environ, "oauth-key", "list")
	require.Equal(t, exitDone, code, errs)
	require.Equal(t, "none\n", out)
	code, out, errs = runCLI(t, environ, "oauth-key", "rotate")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "it signs from ")
	code, _, errs = runCLI(t, environ, "oauth-key", "rotate")
	require.Equal(t, exitDone, code, errs)
	list := func() (keys []struct {
		Kid     string
		Signs   bool
		SignsAt time.Time  `json:"signs_at"`
		EndsAt  *time.Time `json:"ends_at"`
	},
	) {
		code, out, errs := runCLI(t, environ, "oauth-key", "list", "--json")
		require.Equal(t, exitDone, code, errs)
		require.NoError(t, json.Unmarshal([]byte(out), &keys))
		return keys
	}
	keys := list()
	require.Len(t, keys, 2)
	require.True(t, keys[0].Signs, "the first of all signs at once")
	require.False(t, keys[1].Signs)
	require.True(t, keys[0].EndsAt.After(keys[1].SignsAt.Add(time.Hour)))
	require.Nil(t, keys[1].EndsAt)
	code, out, errs = runCLI(t, environ, "oauth-key", "rotate", "--now")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "what earlier keys signed is no longer valid")
	for _, k := range list() {
		require.Equal(t, k.EndsAt == nil, k.Signs)
		require.True(t, k.Signs || !k.EndsAt.After(time.Now()))
	}
}
