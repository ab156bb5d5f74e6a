package remote_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The floor as it is, and as it changes until the stream makes no sense.
func TestFloor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.stdin = "correct horse"
	_, _, err := b.run(t, "login", "--email", "admin@acme.example")
	require.NoError(t, err)
	golden(t, "floor", b.session(t, "floor", "floor --columns kpis.calls_live", "floor --follow --columns kpis"))
	for _, args := range [][]string{{"floor", "--follow"}, {"floor", "--follow", "--json"}} {
		b.Answer("supervisorFloorStream", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "retry: 2000\n\nid: a-1\nevent: floor\ndata: {\"agents\":[{\"extension\":\"2001\",\"status\":\"on_call\"}],\"kpis\":{\"calls_live\":3}}\n\n"+
				"id: a-2\nevent: change\ndata: {\"ai_calls\":[{\"call_id\":\""+anID+"\",\"escalation\":{\"reason\":\"angry\\u001b[31m\"}}]}\n\nid: a-3\nevent: stale\ndata: {}\n\nevent: change\ndata: nonsense\n\n")
		})
		stdout, _, err := b.run(t, args...)
		require.ErrorContains(t, err, "decode an event of the floor")
		if len(args) == 3 {
			require.Contains(t, stdout, `{"id":"a-3","stale":true}`)
			continue
		}
		require.Regexp(t, `^\S+  agent 2001  on_call\n\S+  live 3, today 0, agents available 0, on a call 0\n\S+  voice agent's call `+anID+
			`  asks for a supervisor: angry \[31m\n\S+  the floor can't be read just now\n$`, stdout)
	}
}
