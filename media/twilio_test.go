package media

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

const (
	account = "AC00000000000000000000000000000001"
	callSID = "CA00000000000000000000000000000002"
	stream  = "MZ00000000000000000000000000000003"
)

// twilioRig is a port whose voice agent speaks Twilio Media Streams.
type twilioRig struct{ *portRig }

func twilioSpec() SessionSpec {
	return SessionSpec{
		ID: "rig", URL: "ws://127.0.0.1:1", Transport: TransportTwilio, ReconnectFor: 1 << 40,
		Twilio:   TwilioStream{AccountSID: account, CallSID: callSID, StreamSID: stream},
		Metadata: json.RawMessage(`{"from_number":"+919876543210","to_number":"+918000000001"}`),
	}
}

func newTwilioRig(t *testing.T) twilioRig {
	t.Helper()
	r := twilioRig{newSpecRig(t, twilioSpec())}
	r.connect()
	return r
}

func (r twilioRig) say(ulaw []byte) {
	r.send(aiText(`{"event":"media","streamSid":"` + stream + `","media":{"payload":"` + base64.StdEncoding.EncodeToString(ulaw) + `"}}`))
}

func (r twilioRig) mark(name string) {
	r.send(aiText(`{"event":"mark","streamSid":"` + stream + `","mark":{"name":"` + name + `"}}`))
}

func (r twilioRig) clear() { r.send(aiText(`{"event":"clear","streamSid":"` + stream + `"}`)) }

// frames takes what the AI has got, decoded.
func (r twilioRig) frames() (all []twilioGot) {
	r.aiReads()
	for _, s := range r.texts {
		var f twilioGot
		require.NoError(r.t, json.Unmarshal([]byte(s), &f), s)
		all = append(all, f)
	}
	r.texts = nil
	return all
}

// twilioGot is any frame of ours.
type twilioGot struct {
	Event          string
	SequenceNumber string
	StreamSid      string
	Media          struct{ Track, Chunk, Timestamp, Payload string }
	Mark           struct{ Name string }
	DTMF           struct{ Track, Digit string }
	Start          struct{ CustomParameters map[string]string }
}

// markNames are the names of the marks among frames, in order.
func markNames(frames []twilioGot) (names []string) {
	for _, f := range frames {
		if f.Event == "mark" {
			names = append(names, f.Mark.Name)
		}
	}
	return names
}

// TestTwilioPassThrough proves that μ-law is not transcoded on Twilio's transport, whatever the length of a message, and that its frames are numbered
// without a gap, 20 ms each.
func TestTwilioPassThrough(t *testing.T) {
	t.Parallel()
	r := newTwilioRig(t)
	r.callLaw(0)
	down, up := allCodes(1), allCodes(2)
	r.say(down[:1])
	r.say(down[1:1001])
	r.say(down[1001:])
	long := bytes.Repeat(down, 20) // 69 kB in base64: decoded apart, and longer than a plain text may be
	r.say(long)
	var heard, got []byte
	var frames []twilioGot
	h := pion.Header{Version: 2, SSRC: 7}
	for rest := up; len(heard) < 23*len(down); r.turn() {
		if len(rest) > 0 {
			r.packet(h, rest[:dsp.FrameSamples])
			h.SequenceNumber, h.Timestamp, rest = h.SequenceNumber+1, h.Timestamp+dsp.FrameSamples, rest[dsp.FrameSamples:]
		}
		frames = append(frames, r.frames()...)
		for _, pk := range r.packets() {
			heard = append(heard, pk.p...)
		}
	}
	require.True(t, bytes.Contains(heard, append(bytes.Clone(down), long...)), "the caller did not get the AI's bytes")
	require.Equal(t, "connected", frames[0].Event)
	require.Equal(t, "start", frames[1].Event)
	last := int64(-1)
	for i, f := range frames[2:] {
		require.Equal(t, "media", f.Event)
		require.Equal(t, strconv.Itoa(i+2), f.SequenceNumber)
		require.Equal(t, strconv.Itoa(i+1), f.Media.Chunk)
		require.Equal(t, stream, f.StreamSid)
		ms, err := strconv.ParseInt(f.Media.Timestamp, 10, 64)
		require.NoError(t, err)
		if last >= 0 {
			require.EqualValues(t, 20, ms-last)
		}
		last = ms
		audio, err := base64.StdEncoding.DecodeString(f.Media.Payload)
		require.NoError(t, err)
		require.Len(t, audio, dsp.FrameSamples)
		got = append(got, audio...)
	}
	require.True(t, bytes.Contains(got, up), "the AI did not get the caller's bytes")
	require.Zero(t, r.p.stats.BadFrames)
}

// TestTwilioMarks proves that marks are those of the playout, and that a clear answers all that wait at once, in order.
func TestTwilioMarks(t *testing.T) {
	t.Parallel()
	r := newTwilioRig(t)
	r.callLaw(0)
	r.frames()
	tone := bytes.Repeat([]byte{0x90}, 3*dsp.FrameSamples)
	r.mark("before all audio")
	r.turn()
	require.Equal(t, []string{"before all audio"}, markNames(r.frames()))
	r.say(tone)
	r.mark("60 ms")
	for range 3 {
		r.turn()
		require.Empty(t, markNames(r.frames()), "the audio is still to be played")
	}
	r.turn()
	require.Equal(t, []string{"60 ms"}, markNames(r.frames()))

	var want []string
	for i := range 300 {
		r.say(tone)
		want = append(want, "m"+strconv.Itoa(i))
		r.mark(want[i])
	}
	r.turn()
	r.frames()
	r.clear()
	require.Equal(t, want, markNames(r.frames()), "before another tick, and before the next audio")
	r.heard()
	r.turn()
	r.turn()
	require.LessOrEqual(t, loudTail(r.heard()), 5*dsp.SampleRate/1000, "what is heard behind a clear is the fade")
}

// TestTwilioManyMarks: as many marks as may wait are answered in order, by a clear or by the audio before them, however slowly the AI reads: its socket
// is not closed over them, and what comes behind them is numbered on.
func TestTwilioManyMarks(t *testing.T) {
	t.Parallel()
	for name, audio := range map[string]bool{"cleared": true, "played at once": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTwilioRig(t)
			r.callLaw(0)
			r.frames()
			r.say(make([]byte, dsp.FrameSamples))
			var want []string
			for i := range playout.MaxMarks {
				if audio {
					r.say(make([]byte, dsp.FrameSamples))
				}
				want = append(want, strings.Repeat("m", 200)+strconv.Itoa(i))
				r.mark(want[i])
			}
			if audio {
				r.clear()
			}
			for range 10 { // nobody reads
				r.turn()
				require.NotNil(t, r.p.ai.sock)
				require.LessOrEqual(t, r.p.ai.sock.texts, markQueue)
			}
			require.NotEmpty(t, r.p.marks.owed, "the connection doesn't take them all")
			r.mark("behind them")
			var frames []twilioGot
			for range 20 {
				frames = append(frames, r.frames()...)
				r.turn()
			}
			require.NotNil(t, r.p.ai.sock)
			require.Equal(t, append(want, "behind them"), markNames(frames))
			last := 0
			for _, f := range frames {
				n, err := strconv.Atoi(f.SequenceNumber)
				require.NoError(t, err)
				require.Greater(t, n, last)
				last = n
			}
			require.Empty(t, r.p.marks.owed)
		})
	}
}

// loudTail is where the last sample lies that is not silence.
func loudTail(pcm []int16) int {
	for i := len(pcm); i > 0; i-- {
		if pcm[i-1] > 8 || pcm[i-1] < -8 {
			return i
		}
	}
	return 0
}

// TestTwilioDigitsAndEnd: a digit is a dtmf frame, texts of our own protocol are not sent, and the last frame is stop.
func TestTwilioDigitsAndEnd(t *testing.T) {
	t.Parallel()
	r := newTwilioRig(t)
	r.callLaw(eventPT)
	r.p.toAI.sendText("call_state", map[string]string{"state": "answered"})
	r.p.keys.reportKey(keyPress{digit: '#', dur: 100e6}, 0, r.now)
	r.p.ai.shutdown(ws.CloseNormal, CloseHangup, r.now)
	frames := r.frames()
	require.Len(t, frames, 4)
	require.Equal(t, "dtmf", frames[2].Event)
	require.Equal(t, "#", frames[2].DTMF.Digit)
	require.Equal(t, "inbound_track", frames[2].DTMF.Track)
	require.Equal(t, "stop", frames[3].Event)
	require.Equal(t, "3", frames[3].SequenceNumber)
	require.Equal(t, []int{ws.CloseNormal}, r.closes)
}

// TestTwilioReconnects: a socket that is dialed again begins a stream anew, and hears of the digits that were pressed meanwhile.
func TestTwilioReconnects(t *testing.T) {
	t.Parallel()
	r := newTwilioRig(t)
	r.callLaw(0)
	r.frames()
	r.say(bytes.Repeat([]byte{0x90}, dsp.FrameSamples))
	r.mark("lost with its stream")
	r.hangUp()
	r.turn()
	require.True(t, r.p.ai.reconnecting)
	r.p.keys.reportKey(keyPress{digit: '7', dur: 100e6}, 0, r.now)
	r.turn()
	r.turn()
	r.connectWith(r.p.s.meta(true))
	frames := r.frames()
	require.Len(t, frames, 3)
	require.Equal(t, "connected", frames[0].Event)
	require.Equal(t, "1", frames[1].SequenceNumber)
	require.Equal(t, "true", frames[1].Start.CustomParameters["reconnect"])
	require.Equal(t, "+919876543210", frames[1].Start.CustomParameters["from_number"])
	require.Equal(t, "7", frames[2].DTMF.Digit)
}

// TestTwilioBadInput: whatever is wrong is counted, and costs nothing but itself.
func TestTwilioBadInput(t *testing.T) {
	t.Parallel()
	r := newTwilioRig(t)
	r.callLaw(0)
	bad := []string{
		``, `hello`, `[1]`, `{"event":"media"}`, `{"event":"media","streamSid":"MZ1","media":{"payload":"AAAA"}}`,
		`{"event":"media","streamSid":"` + stream + `","media":{"payload":"***"}}`,
		`{"event":"media","streamSid":"` + stream + `","media":{"payload":"` + strings.Repeat("*", 100<<10) + `"}}`,
		`{"event":"mark","streamSid":"` + stream + `","mark":{}}`, strings.Repeat("x", 100<<10),
		`{"type":"killAudio"}`,
	}
	for _, msg := range bad {
		r.send(aiText(msg))
	}
	r.send(wstest.Frame(0x82, make([]byte, 320)))
	require.EqualValues(t, len(bad)+1, r.p.stats.BadFrames)
	r.send(aiText(`{"event":"speak","streamSid":"` + stream + `"}`))
	require.EqualValues(t, 1, r.p.stats.UnknownTexts)
	require.NotNil(t, r.p.ai.sock)
	r.say(bytes.Repeat([]byte{0x90}, dsp.FrameSamples))
	r.heard()
	r.turn()
	require.NotZero(t, loudTail(r.heard()), "the call goes on")
}

// TestTwilioNames: a frame that can't be read is logged by its name on the wire.
func TestTwilioNames(t *testing.T) {
	t.Parallel()
	for event, msg := range map[string]string{
		"media": `{"event":"media","streamSid":"` + stream + `","media":{"payload":"***"}}`,
		"clear": `{"event":"clear","streamSid":"MZ1"}`,
		"mark":  `{"event":"mark","streamSid":"` + stream + `","mark":{}}`,
	} {
		r := newTwilioRig(t)
		out := r.log()
		r.send(aiText(msg))
		require.Contains(t, out.String(), "type="+event+" ")
	}
}

// TestTwilioWideLeg: a leg at 16 kHz hears the AI's μ-law in tune, from short messages and from a long one.
func TestTwilioWideLeg(t *testing.T) {
	t.Parallel()
	r := newTwilioRig(t)
	r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.L16, Rate: 16000, PT: l16PT, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
	r.p.leg.speakAt = 0
	tone := make([]byte, 20*dsp.SampleRate)
	dsp.EncodeULaw(tone, dsptest.Tone(440, dsp.SampleRate, len(tone)))
	r.say(tone[:dsp.SampleRate/2])
	r.say(tone[dsp.SampleRate/2:])
	var heard []int16
	for range 100 {
		r.turn()
		heard = append(heard, r.heard()...)
	}
	for _, at := range []int{4000, 20000} { // of the first message, and of the second
		require.InDelta(t, -12, dsptest.Power(heard[at:at+3200], 440, 16000), 1)
	}
}

// TestTwilioHandshake: the socket is dialed as Twilio does, and begins with connected and start.
func TestTwilioHandshake(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ai.protocols() // a server that knows of no subprotocol
	spec := twilioSpec()
	spec.URL, spec.AuthToken = r.ai.url(), "12345"
	_, ai := r.open(spec)
	ai.waitText(t, `"event":"start"`)
	texts := ai.allTexts()
	require.JSONEq(t, `{"event":"connected","protocol":"Call","version":"1.0.0"}`, texts[0])
	require.Contains(t, texts[1], `"customParameters":{"from_number":"+919876543210","to_number":"+918000000001"}`)
	r.ai.mu.Lock()
	head := r.ai.heads[0]
	r.ai.mu.Unlock()
	require.Equal(t, twilio.Signature(r.ai.url(), "12345"), head.Get(twilio.SignatureHeader))
	require.Empty(t, head.Values("Sec-Websocket-Protocol"))
	require.Empty(t, head.Get("Authorization"), "the token is a key")
	require.NotContains(t, head, http.CanonicalHeaderKey("Cookie"))
}

// TestTwilioAllocations holds a frame of audio to no allocation in either direction, socket and tick included.
func TestTwilioAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	r := newTwilioRig(t)
	r.callLaw(0)
	ulaw := bytes.Repeat([]byte{0x90}, dsp.FrameSamples)
	frame := aiText(`{"event":"media","streamSid":"` + stream + `","media":{"payload":"` + base64.StdEncoding.EncodeToString(ulaw) + `"}}`)
	r.allocatesNothing(ulaw, frame)
}
