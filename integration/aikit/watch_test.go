package aikit

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/ws"
)

// TestFindingsNameTheirFrame by its number among what the server has sent, with what stands in it.
func TestFindingsNameTheirFrame(t *testing.T) {
	t.Parallel()
	k := kitFor(t, "ws://127.0.0.1:1/", media.TransportTwilio)
	spec, err := k.spec()
	require.NoError(t, err)
	var shown []Shown
	w := k.newWatch(spec, func(s Shown) { shown = append(shown, s) })
	w.frame(true, ws.OpText, []byte(`{"event":"connected","protocol":"Call","version":"1.0.0"}`), true)
	w.frame(false, ws.OpPong, nil, true)
	w.frame(false, ws.OpBinary, []byte{1}, false) // in two pieces
	w.frame(false, ws.OpBinary, []byte{1}, true)
	bad := `{"event":"media","streamSid":"` + w.stream + `","media":{"payload":"AA**"}}`
	w.frame(false, ws.OpText, []byte(bad), true)
	require.Zero(t, w.queue.finish())
	w.add(Finding{Rule: "no_audio"}) // of none
	numbers := map[string]int{}
	for _, f := range w.found.list {
		numbers[f.Rule] = f.Number
	}
	require.Equal(t, map[string]int{"binary_frame": 2, "base64": 3, "no_audio": 0}, numbers)
	require.Equal(t, bad, w.found.list[1].Frame)
	var out bytes.Buffer
	require.NoError(t, Outcome{Name: "speech", Ran: true, Findings: w.found.list}.Print(&out))
	require.Regexp(t, `error base64, at [0-9.]+ s, in frame 3\n`, out.String())

	require.JSONEq(t, `{"event":"connected","protocol":"Call","version":"1.0.0"}`, shown[0].Frame)
	require.Zero(t, shown[0].Number)
	require.Equal(t, 3, shown[len(shown)-1].Number)
	require.Equal(t, bad, shown[len(shown)-1].Frame)
}

// TestListenShowsFrames, but for audio, whose bytes tell nothing.
func TestListenShowsFrames(t *testing.T) {
	t.Parallel()
	k := kitFor(t, "ws://127.0.0.1:1/", media.TransportTwilio)
	spec, err := k.spec()
	require.NoError(t, err)
	var out bytes.Buffer
	w := k.newWatch(spec, NewLines(&out, true).Add)
	w.frame(true, ws.OpText, []byte(`{"event":"media","sequenceNumber":"2","streamSid":"`+w.stream+`","media":{"track":"inbound","chunk":"1","timestamp":"0","payload":"AAAA"}}`), true)
	w.frame(false, ws.OpText, []byte(`{"event":"media","streamSid":"`+w.stream+`","media":{"payload":"AAAA"}}`), true)
	w.frame(false, ws.OpText, []byte(`{"event":"mark","streamSid":"`+w.stream+`","mark":{"name":"end"}}`), true)
	require.Zero(t, w.queue.finish())
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	require.Len(t, lines, 3)
	require.NotContains(t, string(lines[0]), "AAAA")
	require.NotContains(t, string(lines[1]), "AAAA")
	var mark Shown
	require.NoError(t, json.Unmarshal(lines[2], &mark))
	require.JSONEq(t, `{"event":"mark","streamSid":"`+w.stream+`","mark":{"name":"end"}}`, mark.Frame)
}

// TestFunctionCalls that the service refuses are found, each once, whatever tells of it.
func TestFunctionCalls(t *testing.T) {
	t.Parallel()
	k := kitFor(t, "ws://127.0.0.1:1/", media.TransportOpenAI)
	k.config = openai.Config{Functions: []string{"send_dtmf", "hangup"}}
	spec, err := k.spec()
	require.NoError(t, err)
	w := k.newWatch(spec, nil)
	call := func(id, name, arguments string) string {
		b, err := json.Marshal(openai.Item{ID: "i" + id, Type: "function_call", CallID: id, Name: name, Arguments: arguments, Status: "completed"})
		require.NoError(t, err)
		return string(b)
	}
	for _, event := range []string{
		`{"type":"response.output_item.done","response_id":"r","item":` + call("1", "send_dtmf", `{"digits":"12"}`) + `}`,
		`{"type":"response.output_item.done","response_id":"r","item":` + call("2", "send_dtmf", `{"digits":`) + `}`,
		`{"type":"response.function_call_arguments.done","response_id":"r","item_id":"i","call_id":"3","name":"transfer","arguments":"{}"}`,
		`{"type":"response.done","response":{"id":"r","status":"completed","output":[` + call("2", "send_dtmf", `{"digits":`) + `,` + call("4", "send_dtmf", `{"digits":12}`) + `]}}`,
	} {
		w.frame(false, ws.OpText, []byte(event), true)
	}
	require.Zero(t, w.queue.finish())
	var seen []string
	for _, f := range w.found.list {
		require.Equal(t, "function_call", f.Rule, "%+v", f)
		require.Equal(t, 1, f.Times)
		seen = append(seen, f.Seen)
	}
	require.Equal(t, []string{
		`send_dtmf({"digits":): the arguments must be a JSON object`, `transfer({}): this function is not available`, `send_dtmf({"digits":12}): digits must be a string`,
	}, seen)
}

// TestReportCounts says one of one thing.
func TestReportCounts(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, Report{Transport: "twilio", Scenarios: make([]Outcome, 1), Errors: 1}.Print(&out))
	require.Equal(t, "1 scenario on transport twilio: 1 error, 0 warnings\n", out.String())
}
