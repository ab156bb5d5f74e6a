package media

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/frames"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// openaiRig is a port whose voice agent is OpenAI's Realtime API. Whatever it is sent is held to the events' schema.
type openaiRig struct {
	*portRig

	valid *frames.Set
}

func openaiSpec(config string) SessionSpec {
	c, err := openai.ParseConfig(json.RawMessage(config))
	if err != nil {
		panic(err)
	}
	return SessionSpec{
		ID: "rig", URL: "ws://127.0.0.1:1", Transport: TransportOpenAI, ReconnectFor: 1 << 40,
		OpenAI: OpenAISession{Config: c}, Metadata: json.RawMessage(`{"from_number":"+919876543210"}`),
	}
}

// newOpenAIRig is a rig whose session has begun, with a caller; events of the session are kept where it doesn't break.
func newOpenAIRig(t *testing.T, config string) openaiRig {
	t.Helper()
	r := dialOpenAIRig(t, openaiSpec(config))
	r.event(`{"type":"session.created","session":{"type":"realtime"}}`)
	r.callLaw(0)
	r.p.s.closed, r.p.s.events = false, make(chan Event, eventQueue)
	return r
}

// dialOpenAIRig is a rig whose socket is open.
func dialOpenAIRig(t *testing.T, spec SessionSpec) openaiRig {
	t.Helper()
	r := openaiRig{newSpecRig(t, spec), frameSet(t, TransportOpenAI)}
	r.connect()
	return r
}

func (r openaiRig) event(format string, args ...any) { r.send(aiText(fmt.Sprintf(format, args...))) }

// say has the model speak in an item of a response.
func (r openaiRig) say(response, item string, g711 []byte) {
	r.event(`{"type":"response.output_audio.delta","event_id":"event_1","response_id":%q,"item_id":%q,"output_index":0,"content_index":0,"delta":%q}`,
		response, item, base64.StdEncoding.EncodeToString(g711))
}

// openaiGot is any event of ours.
type openaiGot struct {
	Type         string
	Audio        string
	ItemID       string `json:"item_id"`
	ContentIndex int    `json:"content_index"`
	AudioEndMS   int    `json:"audio_end_ms"`
	ResponseID   string `json:"response_id"`
	Response     struct{ Instructions string }
	Session      struct {
		Type  string
		Audio struct {
			Input  struct{ Format struct{ Type string } }
			Output struct {
				Format struct{ Type string }
				Voice  string
			}
		}
		Tools []struct{ Name string }
	}
	Item struct {
		Type, Role, Output string
		CallID             string `json:"call_id"`
		Content            []struct{ Text string }
	}
}

// got takes what the server has got.
func (r openaiRig) got() (all []openaiGot) {
	r.t.Helper()
	r.aiReads()
	for _, s := range r.texts {
		_, err := r.valid.Check(frames.ToAI, []byte(s))
		require.NoError(r.t, err, s)
		var e openaiGot
		require.NoError(r.t, json.Unmarshal([]byte(s), &e), s)
		all = append(all, e)
	}
	r.texts = nil
	return all
}

// said is what the server has got beside audio, by type.
func (r openaiRig) said() (types []string, all []openaiGot) {
	r.t.Helper()
	for _, e := range r.got() {
		if e.Type != "input_audio_buffer.append" {
			types, all = append(types, e.Type), append(all, e)
		}
	}
	return types, all
}

// command takes the command that a function call has become.
func (r openaiRig) command() Text {
	r.t.Helper()
	for len(r.p.s.events) > 0 {
		ev := <-r.p.s.events
		if _, ok := ev.(AgentError); ok {
			continue
		}
		text, ok := ev.(Text)
		require.True(r.t, ok, "%T", ev)
		require.Equal(r.t, textCommand, text.Type)
		return text
	}
	require.FailNow(r.t, "no command")
	return Text{}
}

// quiet asserts that no function call has become a command.
func (r openaiRig) quiet() {
	r.t.Helper()
	require.Empty(r.t, r.p.s.events)
}

// answer is the answer to a command.
func (r openaiRig) answer(c CommandResult) {
	r.t.Helper()
	require.NoError(r.t, r.p.s.SendCommandResult(c))
	(<-r.p.sh.inbox)()
}

func (r openaiRig) turns(n int) {
	for range n {
		r.turn()
	}
}

func callItem(id, name, args, status string) string {
	b, _ := json.Marshal(map[string]string{"id": "item_" + id, "type": "function_call", "status": status, "name": name, "call_id": id, "arguments": args})
	return string(b)
}

// TestOpenAIBegins: nothing is sent before session.created; then the session, what is known of the call, and the first words.
func TestOpenAIBegins(t *testing.T) {
	t.Parallel()
	r := dialOpenAIRig(t, openaiSpec(`{"session":{"instructions":"Be kind.","audio":{"output":{"voice":"marin","format":{"type":"audio/pcm","rate":24000}}},
		"tools":[{"type":"function","name":"weather"},{"type":"function","name":"hangup"},{"type":"mcp","server_label":"crm"}]},
		"functions":["hangup","transfer"],"first_message":"Hello!"}`))
	r.callLaw(0)
	h := r.talk(pion.Header{Version: 2, SSRC: 7}, dsptest.Tone(440, dsp.SampleRate, 1600))
	r.say("resp_0", "item_0", allCodes(1))
	require.EqualValues(t, 1, r.p.stats.BadFrames, "audio before the session")
	require.Zero(t, r.p.tx.queue.Backlog())
	require.Empty(t, r.got())
	r.event(`{"type":"session.created","event_id":"event_0","session":{"object":"realtime.session","instructions":"a \"default\""}}`)
	types, all := r.said()
	require.Equal(t, []string{"session.update", "conversation.item.create", "response.create"}, types)
	s := all[0].Session
	require.Equal(t, "realtime", s.Type)
	require.Equal(t, openai.FormatPCMU, s.Audio.Input.Format.Type)
	require.Equal(t, openai.FormatPCMU, s.Audio.Output.Format.Type)
	require.Equal(t, "marin", s.Audio.Output.Voice)
	require.Len(t, s.Tools, 4)
	require.Equal(t, []string{"weather", "", "hangup", "transfer"}, []string{s.Tools[0].Name, s.Tools[1].Name, s.Tools[2].Name, s.Tools[3].Name})
	require.Equal(t, "system", all[1].Item.Role)
	require.Contains(t, all[1].Item.Content[0].Text, "+919876543210")
	require.Contains(t, all[2].Response.Instructions, "Hello!")
	r.event(`{"type":"session.created"}`)
	r.talk(h, dsptest.Tone(440, dsp.SampleRate, 1600))
	for _, e := range r.got() {
		require.Equal(t, "input_audio_buffer.append", e.Type)
		audio, err := base64.StdEncoding.DecodeString(e.Audio)
		require.NoError(t, err)
		require.Len(t, audio, dsp.FrameSamples)
	}
	require.Zero(t, r.p.stats.UnknownTexts)
}

// TestOpenAIPassThrough proves that neither law is transcoded, by deltas of any length and under the older name of the event.
func TestOpenAIPassThrough(t *testing.T) {
	t.Parallel()
	for _, law := range []rtp.Codec{rtp.PCMU, rtp.PCMA} {
		spec := openaiSpec(`{}`)
		pt := uint8(0)
		if law == rtp.PCMA {
			spec.Audio.Encoding, pt = EncodingPCMA, 8
		}
		r := dialOpenAIRig(t, spec)
		r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: law, Rate: dsp.SampleRate, PT: pt, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
		r.p.leg.speakAt = 0
		r.event(`{"type":"session.created"}`)
		r.got()
		down, up := allCodes(1), allCodes(2)
		if law == rtp.PCMA { // it has no negative zero to keep
			down = bytes.ReplaceAll(down, []byte{0x7f}, []byte{0x55})
		}
		long := bytes.Repeat(down, 80) // decoded apart
		r.say("resp_1", "item_1", down[:1])
		r.say("resp_1", "item_1", down[1:1001])
		r.event(`{"delta":%q,"item_id":"item_1","type":"response.audio.delta"}`, strings.TrimRight(base64.StdEncoding.EncodeToString(down[1001:]), "="))
		r.say("resp_1", "item_1", long)
		var heard, got []byte
		h := pion.Header{Version: 2, SSRC: 7, PayloadType: pt}
		for rest := up; len(heard) < 83*len(down); r.turn() {
			if len(rest) > 0 {
				r.packet(h, rest[:dsp.FrameSamples])
				h.SequenceNumber, h.Timestamp, rest = h.SequenceNumber+1, h.Timestamp+dsp.FrameSamples, rest[dsp.FrameSamples:]
			}
			for _, e := range r.got() {
				audio, err := base64.StdEncoding.DecodeString(e.Audio)
				require.NoError(t, err)
				got = append(got, audio...)
			}
			for _, pk := range r.packets() {
				heard = append(heard, pk.p...)
			}
		}
		require.True(t, bytes.Contains(heard, append(bytes.Clone(down), long...)), "%v: the caller did not get the model's bytes", law)
		require.True(t, bytes.Contains(got, up), "%v: the model did not get the caller's bytes", law)
		require.Zero(t, r.p.stats.BadFrames)
	}
}

// TestOpenAITruncates: when the caller speaks, playout is cut, and the model forgets what was not played of its items, to the sample; what is still on its
// way is not played.
func TestOpenAITruncates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate    int
		session string
		want    []string
	}{
		{8000, `{}`, nil},
		{16000, `{"session":{"audio":{"input":{"turn_detection":{"type":"semantic_vad","interrupt_response":false}}}}}`, []string{"response.cancel"}},
		{48000, `{"session":{"audio":{"input":{"turn_detection":{"type":"server_vad"}}}}}`, nil},
	} {
		r := newOpenAIRig(t, c.session)
		if c.rate != dsp.SampleRate {
			r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.L16, Rate: c.rate, PT: l16PT, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
			r.turn()
		}
		r.said()
		r.event(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`)
		tone := make([]byte, dsp.SampleRate)
		dsp.EncodeULaw(tone, dsptest.Tone(440, dsp.SampleRate, len(tone)))
		r.say("resp_1", "item_1", tone[:1000]) // 125 ms
		r.say("resp_1", "item_2", tone)        // 1 s
		r.say("resp_1", "item_3", tone)
		r.heard()
		r.turns(13) // 260 ms: 125 ms of the first, 135 ms of the second
		loud := 0
		for _, v := range r.heard() {
			if v != 0 {
				loud++
			}
		}
		require.InDelta(t, 260*c.rate/1000, loud, float64(c.rate)/50)
		r.event(`{"type":"input_audio_buffer.speech_started","event_id":"event_2","audio_start_ms":1000,"item_id":"item_9"}`)
		types, all := r.said()
		require.Equal(t, append([]string{"conversation.item.truncate", "conversation.item.truncate"}, c.want...), types)
		require.Equal(t, "item_2", all[0].ItemID)
		require.InDelta(t, 135, all[0].AudioEndMS, 2)
		if c.rate == dsp.SampleRate {
			require.Equal(t, 135, all[0].AudioEndMS)
		}
		require.Equal(t, "item_3", all[1].ItemID)
		require.Zero(t, all[1].AudioEndMS)
		if c.want != nil {
			require.Equal(t, "resp_1", all[2].ResponseID)
		}
		require.Zero(t, r.p.tx.queue.Backlog())
		r.say("resp_1", "item_3", tone)
		require.Zero(t, r.p.tx.queue.Backlog(), "the response was cut")
		r.turns(2)
		r.heard()
		r.turn()
		require.Zero(t, loudTail(r.heard()))
		r.event(`{"type":"response.done","response":{"id":"resp_1","status":"cancelled","output":[%s]}}`, callItem("call_0", "hangup", "{}", "incomplete"))
		r.event(`{"type":"response.created","response":{"id":"resp_2"}}`)
		r.say("resp_2", "item_4", tone[:400])
		r.event(`{"type":"response.done","response":{"id":"resp_2","status":"completed"}}`)
		require.NotZero(t, r.p.tx.queue.Backlog())
		r.turns(10)
		r.event(`{"type":"input_audio_buffer.speech_started"}`)
		types, _ = r.said()
		require.Empty(t, types, "all has been heard")
	}
}

// TestOpenAIItemsWithoutAName: what the caller talked over is dropped, and a server that names no item is asked to truncate none.
func TestOpenAIItemsWithoutAName(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{}`)
	r.said()
	r.event(`{"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}`)
	tone := make([]byte, dsp.SampleRate)
	dsp.EncodeULaw(tone, dsptest.Tone(440, dsp.SampleRate, len(tone)))
	r.say("resp_1", "", tone)
	require.NotZero(t, r.p.tx.queue.Backlog())
	r.event(`{"type":"input_audio_buffer.speech_started"}`)
	types, _ := r.said()
	require.NotContains(t, types, "conversation.item.truncate")
	require.Zero(t, r.p.tx.queue.Backlog())
}

// TestOpenAIFunctions: function calls become commands by the allow-list, once each; the results go to the model, which then goes on.
func TestOpenAIFunctions(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{"functions":["set_disposition","send_dtmf","transfer","hangup"]}`)
	r.said()
	r.event(`{"type":"response.created","response":{"id":"resp_1"}}`)
	first, second := callItem("call_1", "set_disposition", `{"disposition":"interested","notes":""}`, "completed"), callItem("call_2", "send_dtmf", `{"digits":"12#"}`, "completed")
	r.event(`{"type":"response.function_call_arguments.done","response_id":"resp_1","item_id":"item_call_1","call_id":"call_1","name":"set_disposition","arguments":"{\"disposition\":\"interested\",\"notes\":\"\"}"}`)
	r.quiet()
	r.event(`{"type":"response.output_item.done","response_id":"resp_1","output_index":0,"item":%s}`, first)
	got := r.command()
	require.Equal(t, "call_1", got.ID)
	require.JSONEq(t, `{"event":"set_disposition","disposition":"interested"}`, string(got.Data))
	r.event(`{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[%s,%s]}}`, first, second)
	got = r.command()
	require.JSONEq(t, `{"event":"send_dtmf","digits":"12#"}`, string(got.Data))
	r.quiet()
	r.answer(CommandResult{ID: "call_1", OK: true, Status: 200})
	types, all := r.said()
	require.Equal(t, []string{"conversation.item.create"}, types, "another call waits for its result")
	require.Equal(t, "call_1", all[0].Item.CallID)
	require.JSONEq(t, `{"ok":true,"status":200}`, all[0].Item.Output)
	r.answer(CommandResult{ID: "call_2", Status: 409, Error: map[string]any{"code": "invalid_state", "detail": "no leg"}})
	types, all = r.said()
	require.Equal(t, []string{"conversation.item.create", "response.create"}, types)
	require.JSONEq(t, `{"ok":false,"status":409,"error":{"code":"invalid_state","detail":"no leg"}}`, all[0].Item.Output)

	for _, bad := range []string{
		callItem("call_3", "schedule_callback", `{"scheduled_at":"2026-11-27T10:00:00Z"}`, ""), // not allowed
		callItem("call_4", "weather", `{}`, ""),                                                // not ours
		callItem("call_5", "send_dtmf", `{"digits":5}`, ""),
		callItem("call_6", "send_dtmf", `{}`, ""),
		callItem("call_7", "transfer", `{"event":"hangup"}`, ""),
		callItem("call_8", "transfer", `{"destination_type":"moon"}`, ""),
		callItem("call_9", "set_disposition", `[]`, ""),
	} {
		r.event(`{"type":"response.created","response":{"id":"resp_2"}}`)
		r.event(`{"type":"response.output_item.done","item":%s}`, bad)
		r.event(`{"type":"response.done","response":{"id":"resp_2","status":"completed","output":[%s]}}`, bad)
		r.quiet()
		types, all = r.said()
		require.Equal(t, []string{"conversation.item.create", "response.create"}, types, bad)
		require.Contains(t, all[0].Item.Output, `"ok":false`)
	}
	r.answer(CommandResult{ID: "call_of_another_socket", OK: true})
	r.event(`{"type":"response.output_item.done","item":%s}`, callItem("call_10", "hangup", `{}`, "incomplete"))
	r.turns(20)
	r.quiet()
	types, _ = r.said()
	require.Empty(t, types)
	require.NoError(t, r.p.s.SendText(textTransferFailed, map[string]any{"destination": "+919876543210", "cause": "USER_BUSY"}))
	(<-r.p.sh.inbox)()
	r.event(`{"type":"response.done","response":{"id":"resp_2","status":"completed"}}`)
	types, all = r.said()
	require.Equal(t, []string{"conversation.item.create"}, types, "the response that was asked for last has not begun")
	require.Contains(t, all[0].Item.Content[0].Text, "USER_BUSY")
	require.NoError(t, r.p.s.SendText("call_state", map[string]any{"state": "held"}))
	r.event(`{"type":"response.created","response":{"id":"resp_3"}}`)
	r.event(`{"type":"response.done","response":{"id":"resp_3","status":"completed"}}`)
	types, _ = r.said()
	require.Equal(t, []string{"response.create"}, types)
}

// TestOpenAIGoodbye: a hangup waits until the goodbye was played, and is off when the caller interrupts it.
func TestOpenAIGoodbye(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{"functions":["hangup","transfer"]}`)
	r.said()
	goodbye := bytes.Repeat([]byte{0x90}, dsp.SampleRate) // 1 s
	leave := func(response, call, name string) {
		r.event(`{"type":"response.created","response":{"id":%q}}`, response)
		r.say(response, "item_"+call, goodbye)
		r.event(`{"type":"response.output_item.done","item":%s}`, callItem(call, name, `{}`, "completed"))
		r.event(`{"type":"response.done","response":{"id":%q,"status":"completed"}}`, response)
	}
	leave("resp_1", "call_1", "hangup")
	r.turns(25)
	r.event(`{"type":"input_audio_buffer.speech_started"}`)
	types, all := r.said()
	require.Equal(t, []string{"conversation.item.truncate", "conversation.item.create"}, types, "the model is to listen")
	require.Equal(t, 500, all[0].AudioEndMS)
	require.Contains(t, all[1].Item.Output, "interrupted")
	r.turns(30)
	r.quiet()

	leave("resp_2", "call_2", "transfer")
	r.turns(50 + heardTicks - 2)
	r.quiet()
	r.turns(3)
	got := r.command()
	require.JSONEq(t, `{"event":"transfer"}`, string(got.Data))
	r.answer(CommandResult{ID: got.ID, OK: true, Status: 200})
	types, _ = r.said()
	require.Equal(t, []string{"conversation.item.create"}, types, "the model is not to talk into the transfer")

	r.p.leg.endLeg() // nothing is played any more
	leave("resp_3", "call_3", "hangup")
	r.turns(heardTicks + 1)
	require.JSONEq(t, `{"event":"hangup"}`, string(r.command().Data))
}

// TestOpenAIKeys: what the caller presses is told in one message, which the model answers.
func TestOpenAIKeys(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, ``)
	r.said()
	for _, k := range "12" {
		r.p.keys.reportKey(keyPress{digit: byte(k), dur: 100e6}, 0, r.now)
		r.turns(10)
	}
	types, _ := r.said()
	require.Empty(t, types)
	r.turns(70)
	types, all := r.said()
	require.Equal(t, []string{"conversation.item.create", "response.create"}, types)
	require.Equal(t, "user", all[0].Item.Role)
	require.True(t, strings.HasSuffix(all[0].Item.Content[0].Text, ": 12"))
	r.event(`{"type":"response.created","response":{"id":"resp_1"}}`)
	r.event(`{"type":"response.done","response":{"id":"resp_1"}}`)
	r.p.keys.reportKey(keyPress{digit: '#', dur: 100e6}, 0, r.now)
	r.turns(2)
	types, _ = r.said()
	require.Len(t, types, 2, "# ends a row at once")
}

// TestOpenAIErrors: what is wrong is counted; only what ends the session ends the socket, for good when the session was refused.
func TestOpenAIErrors(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, ``)
	r.p.s.closed = true
	for _, msg := range []string{
		``, `[]`, `{}`, `{"type":5}`, `{"type":"response.output_audio.delta"}`, `{"type":"response.output_audio.delta","delta":"***"}`,
		`{"type":"response.output_audio.delta","delta":"` + strings.Repeat("*", 100<<10) + `"}`, `{"type":"response.done","response":7}`,
	} {
		r.send(aiText(msg))
	}
	r.send(wstest.Frame(0x82, make([]byte, 320)))
	require.EqualValues(t, 9, r.p.stats.BadFrames)
	r.event(`{"type":"response.output_audio_transcript.delta","delta":"A \"quote\""}`)
	r.event(`{"type":"rate_limits.updated","rate_limits":[]}`)
	r.event(`{"type":"conversation.item.done","item":{"content":[{"text":%q}]}}`, strings.Repeat("word ", 20<<10))
	require.Zero(t, r.p.stats.UnknownTexts)
	r.event(`{"type":"something.new"}`)
	require.EqualValues(t, 1, r.p.stats.UnknownTexts)
	r.event(`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_value","message":"audio_end_ms","event_id":null}}`)
	require.NotNil(t, r.p.ai.sock, "most errors can be lived with")
	r.event(`{"type":"error","error":{"type":"invalid_request_error","code":"session_expired","message":"60 minutes"}}`)
	require.Nil(t, r.p.ai.sock)
	require.True(t, r.p.ai.reconnecting)

	r.connectWith(r.p.s.meta(true))
	require.Empty(t, r.got())
	r.event(`{"type":"session.created"}`)
	types, all := r.said()
	require.Equal(t, []string{"session.update", "conversation.item.create"}, types)
	require.Contains(t, all[1].Item.Content[0].Text, `"reconnect":true`)
	r.event(`{"type":"error","error":{"type":"invalid_request_error","message":"voice","event_id":%q}}`, openai.UpdateID)
	require.True(t, r.p.ai.socketGone, "a session that was refused is not dialed again")
	require.False(t, r.p.ai.reconnecting)
}

// TestOpenAIGreetsOnce: a session that is dialed again doesn't greet, and one that doesn't begin is broken.
func TestOpenAIGreetsOnce(t *testing.T) {
	t.Parallel()
	r := dialOpenAIRig(t, openaiSpec(`{"greet":true}`))
	r.event(`{"type":"session.created"}`)
	types, _ := r.said()
	require.Contains(t, types, "response.create")
	r.hangUp()
	r.turn()
	require.True(t, r.p.ai.reconnecting)
	r.connectWith(r.p.s.meta(true))
	r.event(`{"type":"session.created"}`)
	types, _ = r.said()
	require.NotContains(t, types, "response.create")
	r.hangUp()
	r.turn()
	r.connectWith(r.p.s.meta(true))
	r.turns(249)
	require.NotNil(t, r.p.ai.sock)
	r.turns(2)
	require.Nil(t, r.p.ai.sock, "no session.created in 5 s")
}

// TestOpenAIHandshake: the key is a bearer token, and no subprotocol is asked for.
func TestOpenAIHandshake(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ai.protocols()
	spec := openaiSpec(`{}`)
	spec.URL, spec.AuthToken = r.ai.url()+"?model=gpt-realtime", "sk-1"
	s, _ := r.open(spec)
	r.ai.mu.Lock()
	head := r.ai.heads[0]
	r.ai.mu.Unlock()
	require.Equal(t, "Bearer sk-1", head.Get("Authorization"))
	require.Empty(t, head.Values("Sec-Websocket-Protocol"))
	s.Close(CloseHangup)
	require.ErrorIs(t, s.SendCommandResult(CommandResult{ID: "call_1"}), ErrSessionClosed)

	spec.Audio.Encoding = EncodingPCM
	_, err := r.srv.Open(t.Context(), spec)
	_, refused := errors.AsType[*SpecError](err)
	require.True(t, refused, "%v", err)
}

// TestOpenAIAllocations holds a frame of audio to no allocation in either direction, socket and tick included.
func TestOpenAIAllocations(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	r := dialOpenAIRig(t, openaiSpec(``))
	r.event(`{"type":"session.created"}`)
	r.callLaw(0)
	ulaw := bytes.Repeat([]byte{0x90}, dsp.FrameSamples)
	frame := aiText(`{"type":"response.output_audio.delta","event_id":"event_1","response_id":"resp_` + strings.Repeat("0", 60) + `","item_id":"item_` + strings.Repeat("1", 60) + `","output_index":0,"content_index":0,"delta":"` +
		base64.StdEncoding.EncodeToString(ulaw) + `"}`)
	r.allocatesNothing(ulaw, frame)
}
