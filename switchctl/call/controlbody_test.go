package call

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
)

// TestCommandFrameIsAnsweredAsTheControlEndpoint: a command's status and code are those of the endpoint, whose tests have the
// same bodies, and the detail speaks to its reader.
func TestCommandFrameIsAnsweredAsTheControlEndpoint(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		status int
		code   string
		detail string
	}{
		`null`:                           {400, "invalid_json", "must be a JSON object"},
		`["hangup"]`:                     {400, "invalid_json", "must be a JSON object"},
		`{}`:                             {400, "bad_request", "event must be the name of a verb"},
		`{"event":1}`:                    {400, "bad_request", "event must be the name of a verb"},
		`{"EVENT":"hangup"}`:             {400, "bad_request", "event must be the name of a verb"},
		`{"event":"explode"}`:            {400, "unknown_verb", "event is no known verb"},
		`{"event":"barge"}`:              {400, "bad_request", "target_call_id must be the id of a call"},
		`{"event":"log","metadata":[1]}`: {400, "bad_request", "metadata must be an object"},
		`{"event":"transfer","destination_type":"moon"}`:             {400, "bad_request", "destination_type must be one of"},
		`{"event":"transfer","destination":""}`:                      {400, "bad_request", "destination must be a string"},
		`{"event":"transfer","metadata":{"announce_url":"ftp://a"}}`: {400, "bad_request", "metadata.announce_url must be an http"},
		`{"event":"send_dtmf"}`:                                      {400, "bad_request", ": digits must be 1 to 99"},
		`{"event":"send_dtmf","digits":12}`:                          {400, "bad_request", ": digits must be 1 to 99"},
		`{"event":"recording_pause","reason":5}`:                     {400, "bad_request", "reason must be a string"},
		`{"event":"monitor_stop","target_call_id":"5"}`:              {400, "bad_request", "target_call_id must be the id of a call"},
		`{"event":"monitor_start","target_call_id":"","mode":null}`:  {400, "bad_request", "target_call_id must be the id of a call"},
	} {
		_, err := ParseControl([]byte(body))
		r, known := fault.Of(err)
		require.True(t, known, body)
		require.Equal(t, want.status, r.Kind.Status(), body)
		require.Equal(t, want.code, r.Code, body)
		require.Contains(t, r.Detail, want.detail, body)
		require.NotContains(t, r.Detail, "switchctl", body)
		require.LessOrEqual(t, strings.Count(r.Detail, "digits"), 1, r.Detail)
	}
	req, err := ParseControl([]byte(`{"event":"log","metadata":{"a":1},"destination":5}`))
	require.NoError(t, err)
	require.Equal(t, switchctl.ControlRequest{Event: VerbLog, Metadata: json.RawMessage(`{"a":1}`), Source: "api"}, req)
	r, known := fault.Of(switchctl.ErrDTMFQueueFull)
	require.True(t, known)
	require.Equal(t, 429, r.Kind.Status())
	require.Positive(t, r.Retry())
	r, known = fault.Of(errors.New("secret of the house"))
	require.False(t, known)
	require.Equal(t, 500, r.Kind.Status())
	require.NotContains(t, r.Detail, "secret")
}
