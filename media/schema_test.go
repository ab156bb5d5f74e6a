package media

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/frames"
	"github.com/ringmaster/ringmaster/media/ws"
)

// frameSet is a transport's schema.
func frameSet(t *testing.T, transport Transport) *frames.Set {
	t.Helper()
	s, err := frames.Load(string(transport))
	require.NoError(t, err)
	return s
}

// sampleMetadata is a first frame.
const sampleMetadata = `{"call_id":"0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10","tenant_id":"0197a3f2-0000-7000-8000-000000000001",
"voice_agent_id":"0197a3f2-0000-7000-8000-000000000002","external_agent_id":null,"direction":"outbound","from":"+918000000042","to":"+919876543210",
"campaign_id":null,"lead":null,"metadata":null,"variables":{},"service_callback_token":"svc_cb_01JZX3M8T4Q9V6W2Y7A5B0C1DE",
"control_url":"https://calls.example/control","protocol_version":"v1","callSid":"0197a3f2-5d3e-7c41-9a39-3c1f0f2a7b10","sampleRate":8000,"mixType":"mono",
"audio_format":{"encoding":"pcm_s16le","sample_rate_hz":8000,"channels":1,"frame_ms":20}}`

// schemaFrames is how many frames are held to their schema; make test has all of them checked without the race detector besides.
func schemaFrames() int {
	if raceEnabled {
		return 2_500
	}
	return 10_000
}

// TestOwnSchema holds 10,000 texts of our own transport to their schema: metadata, marks played and cleared, digits, detection, answers of commands, broken
// sockets, as what voice agents have sent comes or comes not.
func TestOwnSchema(t *testing.T) {
	t.Parallel()
	valid := frameSet(t, TransportWebSocket)
	r := newSpecRig(t, SessionSpec{
		ID: "rig", URL: "ws://127.0.0.1:1", Audio: eightKHz(), ReconnectFor: 1 << 40, Metadata: json.RawMessage(sampleMetadata), AMD: &amd.Config{},
	})
	r.connect()
	r.callLaw(0)
	rnd := rand.New(rand.NewPCG(3, 4))
	h := pion.Header{Version: 2, SSRC: 7}
	ulaw := make([]byte, dsp.FrameSamples)
	count := map[string]int{}
	total := 0
	check := func() {
		r.aiReads()
		for _, s := range r.texts {
			kind, err := valid.Check(frames.ToAI, []byte(s))
			require.NoError(t, err, s)
			total++
			count[kind]++
		}
		r.texts = nil
	}
	for i := 0; total < schemaFrames(); i++ {
		h.SequenceNumber, h.Timestamp = h.SequenceNumber+1, h.Timestamp+dsp.FrameSamples
		if rnd.IntN(20) > 0 {
			for k := range ulaw {
				ulaw[k] = byte(rnd.Uint32())
			}
			r.packet(h, ulaw)
		}
		switch rnd.IntN(12) {
		case 0, 1, 2:
			r.send(aiAudio(make([]int16, 1+rnd.IntN(100))))
		case 3, 4:
			for k := range 4 {
				r.send(aiMark([]string{"m", "नमस्ते", `quote\"`, "a b"}[k] + strconv.Itoa(i)))
			}
		case 5:
			r.send(aiText(`{"type":"killAudio"}`))
		case 6:
			r.p.keys.reportKey(keyPress{digit: "0123456789*#"[rnd.IntN(12)], dur: 100e6}, 0, r.now)
		case 7:
			r.send(aiText(`{"type":"command","id":"` + strings.Repeat("x", maxName+1) + `","data":{"event":"hold"}}`))
		case 8:
			r.p.toAI.sendText("command_result", CommandResult{ID: "7", OK: true, Status: 200, Result: map[string]any{}})
		}
		r.turn()
		r.heard()
		if i%1000 == 999 {
			check()
			r.hangUp()
			r.turn()
			r.connectWith(r.p.s.meta(true))
		}
		if i%100 == 0 {
			check()
		}
	}
	r.p.ai.shutdown(ws.CloseNormal, CloseHangup, r.now)
	check()
	for _, kind := range []string{"", textMark, "dtmf", textAMD, "command_result"} {
		require.Positive(t, count[kind], kind)
	}
	t.Logf("%d texts: %v", total, count)
}

// documented are frames as a voice agent may send them, and faulty are those that are refused.
func documented() map[Transport]documentedFrames {
	return map[Transport]documentedFrames{
		TransportWebSocket: {
			right: []string{
				`{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":8000,"audioContent":"AAABAA==","textContent":"Hello"}}`,
				`{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":"16000","audioContent":"AAABAA=="}}`,
				`{"type":"playAudio","data":{"audioContentType":"wav","audioContent":"` + wavBase64 + `"}}`,
				`{"type":"playAudio","data":{"audioContentType":"wave","audioContent":"` + wavBase64 + `"}}`,
				`{"type":"killAudio"}`, `{"type":"clearMarks"}`, `{"type":"mark","data":{"name":"a"}}`,
				`{"type":"transfer","data":{"destination":"+919876543210"}}`,
				`{"type":"transfer","data":{"destination_type":"agent_queue","destination":"default"}}`,
				`{"type":"disconnect"}`, `{"type":"json","data":{"score":0.5}}`,
				`{"type":"command","id":"7","data":{"event":"hold"}}`, `{"type":"command","id":7,"data":{"event":"send_dtmf","digits":"12"}}`,
			},
			faulty: []string{
				`{"type":"playAudio","data":{"audioContentType":"mp3","audioContent":"AAABAA=="}}`,
				`{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":"fast","audioContent":"AAABAA=="}}`,
				`{"type":"playAudio","data":{"audioContentType":"raw","audioContent":"not base64!"}}`,
				`{"type":"mark","data":{}}`, `{"type":"mark","data":{"name":"` + strings.Repeat("x", maxName+1) + `"}}`,
				`{"type":"stopAudio"}`, `{"event":"clear"}`, `[]`, `null`, `{"type":"mark"`,
			},
		},
		TransportTwilio: {
			right: []string{
				`{"event":"media","streamSid":"` + stream + `","media":{"payload":"/////w=="}}`,
				`{"event":"mark","streamSid":"` + stream + `","mark":{"name":"a"}}`,
				`{"event":"clear","streamSid":"` + stream + `"}`,
			},
			faulty: []string{
				`{"event":"media","media":{"payload":"/////w=="}}`, `{"event":"media","streamSid":"` + stream + `","media":{}}`,
				`{"event":"media","streamSid":"` + stream + `","payload":"/////w=="}`, `{"event":"mark","streamSid":"` + stream + `","mark":{}}`,
				`{"event":"clear","streamSid":"MZ1"}`, `{"event":"stop","streamSid":"` + stream + `"}`, `{"type":"killAudio"}`, `"clear"`,
			},
		},
		TransportOpenAI: {
			right: []string{
				`{"type":"session.created","session":{"type":"realtime"}}`, `{"type":"session.updated","session":{"type":"realtime"}}`,
				`{"type":"input_audio_buffer.speech_started","audio_start_ms":0,"item_id":"item_1"}`,
				`{"type":"response.created","response":{"id":"resp_1"}}`,
				`{"type":"response.output_audio.delta","response_id":"resp_1","item_id":"item_1","output_index":0,"content_index":0,"delta":"/////w=="}`,
				`{"type":"response.audio.delta","response_id":"resp_1","item_id":"item_1","output_index":0,"content_index":0,"delta":"/////w=="}`,
				`{"type":"response.output_item.done","response_id":"resp_1","item":{"id":"fc_1","type":"function_call","name":"hangup","call_id":"call_1","arguments":"{}"}}`,
				`{"type":"response.function_call_arguments.done","item_id":"fc_1","call_id":"call_1","name":"hangup","arguments":"{}"}`,
				`{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[]}}`,
				`{"type":"error","error":{"type":"invalid_request_error","code":"x","message":"no"}}`,
			},
			faulty: []string{
				`{"type":"response.output_audio.delta","item_id":"item_1","delta":""}`, `{"type":"response.output_audio.delta","item_id":"item_1","delta":"a b"}`,
				`{"session":{}}`, `[1]`,
				`{"type":"response.created","response":{"id":"` + strings.Repeat("x", 257) + `"}}`,
			},
		},
	}
}

type documentedFrames struct{ right, faulty []string }

// wavBase64 is a WAV file of two samples of 8 kHz.
const wavBase64 = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQQAAAAAAAEA"

// TestDocumentedFrames holds what the documentation says of voice agents' frames, the schema, and what the code takes, against each other: each takes what
// the others take, and every kind is there.
func TestDocumentedFrames(t *testing.T) {
	t.Parallel()
	for transport, of := range documented() {
		t.Run(string(transport), func(t *testing.T) {
			t.Parallel()
			valid := frameSet(t, transport)
			rig := func(faulty bool) *portRig {
				spec := SessionSpec{ID: "rig", URL: "ws://127.0.0.1:1", Audio: eightKHz(), ReconnectFor: 1 << 40, Metadata: json.RawMessage(sampleMetadata)}
				switch transport {
				case TransportTwilio:
					spec = twilioSpec()
				case TransportOpenAI:
					spec = openaiSpec(`{}`)
				case TransportWebSocket:
				}
				r := newSpecRig(t, spec)
				r.connect()
				r.callLaw(0)
				if faulty && transport == TransportOpenAI {
					r.send(aiText(`{"type":"session.created"}`))
				}
				return r
			}
			r := rig(false)
			missing := map[string]bool{}
			for _, name := range valid.Kinds(frames.FromAI) {
				missing[name] = true
			}
			for _, text := range of.right {
				kind, err := valid.Check(frames.FromAI, []byte(text))
				require.NoError(t, err, text)
				delete(missing, kind)
				r.send(aiText(text))
				r.turn()
				require.Zero(t, r.p.stats.BadFrames+r.p.stats.UnknownTexts, text)
			}
			require.Empty(t, missing, "documented, and not tried")
			for _, text := range of.faulty {
				r := rig(true)
				_, err := valid.Check(frames.FromAI, []byte(text))
				require.Error(t, err, "the schema takes %s", text)
				r.send(aiText(text))
				r.turn()
				require.Positive(t, r.p.stats.BadFrames+r.p.stats.UnknownTexts, "the code takes %s", text)
			}
		})
	}
}
