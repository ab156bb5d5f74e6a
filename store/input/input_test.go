package input_test

import (
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
