package twilio_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/twilio"
)

// TestPipecatReadsUs holds our frames to what Pipecat reads (src/pipecat/runner/utils.py and serializers/twilio.py): it takes exactly the first two
// texts of a socket, tells Twilio by three members of start, takes identifiers and body from there, base64 with padding from media.payload, and digits
// of a keypad from dtmf.digit.
func TestPipecatReadsUs(t *testing.T) {
	t.Parallel()
	s := stream()
	object := func(b []byte) map[string]any {
		var m map[string]any
		require.NoError(t, json.Unmarshal(b, &m))
		return m
	}
	in := func(m map[string]any, name string) map[string]any {
		v, ok := m[name].(map[string]any)
		require.True(t, ok, name)
		return v
	}
	first, second := object(s.AppendConnected(nil)), object(s.AppendStart(nil, json.RawMessage(`{"from_number":"+918000000001"}`)))
	require.Equal(t, "connected", first["event"])
	require.Equal(t, "start", second["event"])
	start := in(second, "start")
	for _, member := range []string{"streamSid", "callSid"} {
		require.IsType(t, "", start[member])
	}
	require.Equal(t, "+918000000001", in(start, "customParameters")["from_number"])

	media := object(s.AppendMedia(nil, 20, make([]byte, 160)))
	require.Equal(t, "media", media["event"])
	payload, ok := in(media, "media")["payload"].(string)
	require.True(t, ok)
	audio, err := base64.StdEncoding.Strict().DecodeString(payload)
	require.NoError(t, err)
	require.Len(t, audio, 160)
	for _, digit := range "0123456789*#" {
		f := object(s.AppendDTMF(nil, string(digit)))
		require.Equal(t, "dtmf", f["event"])
		require.Equal(t, string(digit), in(f, "dtmf")["digit"])
	}
}

// TestReadsPipecat takes what Pipecat's serializer writes, with Python's spaces behind colons and commas.
func TestReadsPipecat(t *testing.T) {
	t.Parallel()
	f, err := twilio.Read([]byte(`{"event": "media", "streamSid": "MZ1", "media": {"payload": "fn5+"}}`), "MZ1")
	require.NoError(t, err)
	require.Equal(t, "fn5+", string(f.Payload))
	f, err = twilio.Read([]byte(`{"event": "clear", "streamSid": "MZ1"}`), "MZ1")
	require.NoError(t, err)
	require.Equal(t, twilio.EventClear, string(f.Event))
}
