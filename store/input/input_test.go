package input_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/input"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	var name, other json.RawMessage
	into := map[string]json.Unmarshaler{"name": &name, "other": &other}
	require.NoError(t, input.Members([]byte(` {"name": "Asha", "Name": "Ravi", "unknown": 1}`), into))
	require.JSONEq(t, `"Asha"`, string(name), "by exact name")
	require.Nil(t, other, "not sent")
	for _, bad := range []string{"", "  ", "null", "[]", `"x"`} {
		require.ErrorIs(t, input.Members([]byte(bad), into), input.ErrNotObject, bad)
	}
	var syntax *json.SyntaxError
	require.ErrorAs(t, input.Members([]byte(`{"name": }`), into), &syntax)
}

// A socket's URL with credentials is refused when it is stored, not on each call: it can't be dialed.
func TestAddress(t *testing.T) {
	t.Parallel()
	for raw, message := range map[string]string{
		"wss://ai.example/x?token=1": "",
		"ws://u@ai.example":          "must have no user name or password",
		"wss://u:p@ai.example/x":     "must have no user name or password",
		"https://u:p@ai.example/x":   "must be a URL that starts with ws:// or wss://",
	} {
		var f input.Form
		require.Equal(t, message == "", f.Address(context.Background(), nil, "ws_url", raw, "ws", "wss"), raw)
		if err := f.Err(); message != "" {
			require.ErrorContains(t, err, message, raw)
		} else {
			require.NoError(t, err)
		}
	}
	var f input.Form
	require.True(t, f.Address(context.Background(), nil, "connect_url", "https://u:p@ai.example/x", "http", "https"))
}
