package frames

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheckNames: what is wrong with a frame is said by its kind, its part, and the definition that it was held to.
func TestCheckNames(t *testing.T) {
	t.Parallel()
	s, err := Load("twilio")
	require.NoError(t, err)
	kind, err := s.Check(FromAI, []byte(`{"event":"media","streamSid":"MZ00000000000000000000000000000003","media":{"payload":7}}`))
	require.Equal(t, "media", kind)
	var invalid *InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, InvalidError{"media", "twilio.json#/$defs/fromAI/oneOf/0", "/media/payload", "got number, want string"}, *invalid)

	kind, err = s.Check(FromAI, []byte(`{"event":"killAudio"}`))
	require.Equal(t, "killAudio", kind)
	var unknown *UnknownError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, []string{"clear", "mark", "media"}, unknown.Known)

	for _, text := range []string{`[]`, `{`, `null`, ``} {
		_, err = s.Check(FromAI, []byte(text))
		require.ErrorIs(t, err, ErrNotJSON, text)
	}
	_, err = Load("sip")
	require.ErrorContains(t, err, "websocket, twilio, openai_realtime")
}
