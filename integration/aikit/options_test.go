package aikit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
)

// A format that no voice agent may have is refused as the API refuses it, before a server is called.
func TestFormatsThatNoVoiceAgentMayHave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subprotocol string
		audio       media.AudioFormat
		want        string
	}{
		"G.711 at 16 kHz": {media.SubprotocolAlpha, media.AudioFormat{Encoding: media.EncodingPCMU, SampleRateHz: 16000}, "sample_rate_hz: must be 8000 for pcmu"},
		"a rate":          {media.SubprotocolAlpha, media.AudioFormat{SampleRateHz: 11025}, "sample_rate_hz: must be one of 8000, 16000, 24000, 32000, 44100, 48000"},
		"a frame":         {media.SubprotocolAlpha, media.AudioFormat{FrameMS: 30}, "frame_ms: must be one of 10, 20, 40, 60, 80, 100"},
		"beta with G.711": {media.SubprotocolBeta, media.AudioFormat{Encoding: media.EncodingPCMA}, "encoding: must be pcm_s16le with audio.beta.org"},
	} {
		_, err := New(t.Context(), Options{URL: "ws://127.0.0.1:1/", Transport: media.TransportWebSocket, Subprotocol: c.subprotocol, Audio: c.audio})
		var refused *OptionError
		require.ErrorAs(t, err, &refused, name)
		require.Contains(t, err.Error(), c.want, name)
	}
}
