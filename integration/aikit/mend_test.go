package aikit

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/ws"
)

// TestEncodingsAreTold: bytes of one encoding that are read as another are found, and those of the right one are not.
func TestEncodingsAreTold(t *testing.T) {
	t.Parallel()
	speech := append(append(tone.Babble(dsp.SampleRate, dsp.SampleRate, -12, 1), make([]int16, 4000)...), tone.Babble(2*dsp.SampleRate, dsp.SampleRate, -18, 2)...)
	var le, be []byte
	for _, v := range speech {
		le, be = append(le, byte(v), byte(v>>8)), append(be, byte(v>>8), byte(v))
	}
	ulaw, alaw := make([]byte, len(speech)), make([]byte, len(speech))
	dsp.EncodeULaw(ulaw, speech)
	dsp.EncodeALaw(alaw, speech)
	for _, c := range []struct {
		is    string
		bytes []byte
		right media.Encoding
	}{{"pcm", le, media.EncodingPCM}, {"swapped", be, ""}, {"pcmu", ulaw, media.EncodingPCMU}, {"pcma", alaw, media.EncodingPCMA}} {
		for _, said := range []media.Encoding{media.EncodingPCM, media.EncodingPCMU, media.EncodingPCMA} {
			w := &watch{k: &Kit{o: Options{Transport: media.TransportWebSocket}}, format: media.AudioFormat{Encoding: said, SampleRateHz: dsp.SampleRate, Channels: 1}}
			now := time.Unix(0, 0)
			for b := c.bytes; len(b) >= 320; b = b[320:] {
				w.hear(b[:320], w.format, now, &Shown{})
				now = now.Add(20 * time.Millisecond)
			}
			w.judgeSound()
			require.Equal(t, said != c.right, w.found.has("noise"), "%s read as %s: %+v", c.is, said, w.ear.readings)
		}
	}
}

// TestPausesAreNotSlow: sentences with pauses come at the pace of speech; what trickles in doesn't.
func TestPausesAreNotSlow(t *testing.T) {
	t.Parallel()
	var right, slow ear
	now := time.Unix(0, 0)
	frame := tone.Sine(160, dsp.SampleRate, 700, -12)
	for i := range 400 {
		if i%70 < 50 { // a second, and 0.4 s of pause
			right.hear(frame, dsp.SampleRate, now)
		}
		if i%2 == 0 {
			slow.hear(frame, dsp.SampleRate, now)
		}
		now = now.Add(20 * time.Millisecond)
	}
	require.Greater(t, right.slowest, slowPace)
	require.Less(t, slow.slowest, slowPace)
}

// TestOurOwnFrames: a frame of the endpoint that breaks its schema is a finding, and the rest is judged.
func TestOurOwnFrames(t *testing.T) {
	t.Parallel()
	k := kitFor(t, "ws://127.0.0.1:1/", media.TransportOpenAI)
	spec, err := k.spec()
	require.NoError(t, err)
	w := k.newWatch(spec, nil)
	w.frame(true, ws.OpText, []byte(`{"type":"conversation.item.truncate","item_id":"","content_index":0,"audio_end_ms":0}`), true)
	w.frame(false, ws.OpText, []byte(`no JSON`), true)
	require.Zero(t, w.queue.finish())
	require.True(t, w.found.has("endpoint_frame"))
	require.True(t, w.found.has("not_json"))
}

// TestReportsAreBounded: a server that makes up kinds, or sends much, gets a short report, in which nothing different is one.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	var fs findings
	for i := range 26 {
		fs.add(Finding{Rule: "unknown_frame", Expected: "a known one", Seen: strings.Repeat(string(rune('a'+i)), 5000)})
	}
	fs.add(Finding{Rule: "schema", Expected: "media is right", Seen: "at byte 1"})
	fs.add(Finding{Rule: "schema", Expected: "media is right", Seen: "at byte 207"})
	fs.add(Finding{Rule: "schema", Expected: "mark is right", Seen: "at byte 1"})
	require.Len(t, fs.list, mostOfARule+2)
	require.Equal(t, 26-mostOfARule, fs.more)
	require.Less(t, len(fs.list[0].Seen), 400)
	require.Equal(t, 2, fs.list[mostOfARule].Times)
	var out bytes.Buffer
	require.NoError(t, Outcome{Name: "connect", Ran: true, Findings: fs.list, More: fs.more}.Print(&out))
	require.Contains(t, out.String(), "and 16 more")
}

// TestAServersWordsStayInTheirPlace: no line is forged, and nothing moves a terminal's cursor or turns its text.
func TestAServersWordsStayInTheirPlace(t *testing.T) {
	t.Parallel()
	const evil = "x\nconnect ok\u2028\u2029\u202e\u009b\u007f\x1b[2J\U000e0001"
	var out bytes.Buffer
	require.NoError(t, Outcome{Name: "speech", Ran: true, Findings: []Finding{{Level: LevelError, Rule: "r", Expected: evil, Seen: evil, Frame: evil, See: evil}}}.Print(&out))
	require.Equal(t, 6, strings.Count(out.String(), "\n"))
	NewLines(&out, false).Add(Shown{Kind: evil, Name: evil, Violation: evil})
	require.Equal(t, 7, strings.Count(out.String(), "\n"))
	NewLines(&out, true).Add(Shown{Kind: evil, Name: evil})
	for _, r := range strings.ReplaceAll(out.String(), "\n", "") {
		require.False(t, unsafe(r), "%U", r)
	}
	require.Contains(t, out.String(), `\u202e`)
	require.Contains(t, out.String(), `\udb40\udc01`)
}

// TestALineEndsWhileItDials: a server that doesn't answer holds nobody up.
func TestALineEndsWhileItDials(t *testing.T) {
	t.Parallel()
	l, err := newLine(t.Context(), "ws://192.0.2.1:9/") // RFC 5737: nobody's
	require.NoError(t, err)
	began := time.Now()
	require.NoError(t, l.close())
	require.Less(t, time.Since(began), reachWithin)
}
