package media

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
)

// log has what the port logs.
func (r *portRig) log() *bytes.Buffer {
	var out bytes.Buffer
	r.p.log = slog.New(slog.NewTextHandler(&out, nil))
	return &out
}

// TestOpenAIFailuresAreLoggedOnce: a server that fails each other response writes no more lines than its errors may, and the end is told.
func TestOpenAIFailuresAreLoggedOnce(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{}`)
	out := r.log()
	const failed = `{"type":"response.done","response":{"id":"resp_1","status":"failed","status_details":{"error":{"code":"server_error","message":"m"}}}}`
	for range 20 {
		r.event(failed)
		r.event(`{"type":"response.done","response":{"id":"resp_2","status":"completed"}}`)
	}
	require.NotNil(t, r.p.ai.sock)
	require.Equal(t, maxErrorsLogged, strings.Count(out.String(), "\n"), out.String())
	r.event(failed)
	r.event(failed)
	require.Nil(t, r.p.ai.sock)
	require.Contains(t, out.String(), "failures=2")
}

// TestOpenAIFloodOfCalls: a response with as many function calls as there may be in one is a socket's share of a slot.
func TestOpenAIFloodOfCalls(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{}`)
	r.said()
	var frames []byte
	for response := range 8 {
		var calls []string
		for i := range 64 {
			calls = append(calls, fmt.Sprintf(`{"type":"function_call","call_id":"%d_%d","name":"x"}`, response, i))
		}
		frames = append(frames, aiText(`{"type":"response.done","response":{"output":[`+strings.Join(calls, ",")+`]}}`)...)
	}
	_, err := unix.Write(r.ai, frames)
	require.NoError(t, err)
	r.p.ai.readSocket(r.now)
	require.True(t, r.p.ai.sock.hot)
	types, _ := r.said()
	require.Len(t, slices.DeleteFunc(types, func(typ string) bool { return typ != "conversation.item.create" }), 64)
}

// TestOpenAITalkedOver: a function call that the model completes behind the caller's interruption is not carried out, whoever ends the response.
func TestOpenAITalkedOver(t *testing.T) {
	t.Parallel()
	done := `{"type":"response.done","response":{"id":"resp_1","status":"cancelled"}}`
	const untold = "the server doesn't tell that responses begin"
	for name, c := range map[string]struct {
		session, event, done string
		want                 []string
	}{
		"the server ends it": {`{}`, `{"type":"response.output_item.done","response_id":"resp_1","item":%s}`, done, nil},
		"no id":              {`{}`, `{"type":"response.output_item.done","item":%s}`, done, nil},
		"we end it": {
			`{"audio":{"input":{"turn_detection":{"type":"server_vad","interrupt_response":false,"create_response":false}}}}`,
			`{"type":"response.output_item.done","response_id":"resp_1","item":%s}`, done,
			[]string{"response.create"},
		},
		untold: {`{}`, `{"type":"response.output_item.done","response_id":"resp_1","item":%s}`, done, nil},
		"another is cut": {
			`{}`, `{"type":"response.created","response":{"id":"resp_2"}}` + "\n" + `{"type":"input_audio_buffer.speech_started"}` + "\n" +
				`{"type":"response.output_item.done","response_id":"resp_1","item":%s}`, done, nil,
		},
		"it is complete": {`{}`, `{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[%s]}}`, `{"type":"rate_limits.updated"}`, nil},
	} {
		for _, call := range []string{callItem("call_1", "hangup", `{}`, "completed"), callItem("call_1", "send_dtmf", `{"digits":"1"}`, "completed")} {
			r := newOpenAIRig(t, `{"functions":["hangup","send_dtmf"],"session":`+c.session+`}`)
			if name != untold {
				r.event(`{"type":"response.created","response":{"id":"resp_1"}}`)
			}
			r.say("resp_1", "item_1", make([]byte, dsp.SampleRate))
			r.turns(5)
			r.event(`{"type":"input_audio_buffer.speech_started"}`)
			r.said()
			for event := range strings.SplitSeq(c.event, "\n") {
				r.event("%s", strings.Replace(event, "%s", call, 1))
			}
			r.event(`%s`, c.done)
			r.turns(heardTicks + 5)
			r.quiet()
			types, all := r.said()
			require.Equal(t, append([]string{"conversation.item.create"}, c.want...), types, name)
			require.Contains(t, all[0].Item.Output, "interrupted")
		}
	}
}

// TestOpenAINeverBegins: a server that accepts each socket and begins no session is dialed for no longer than ReconnectFor.
func TestOpenAINeverBegins(t *testing.T) {
	t.Parallel()
	spec := openaiSpec(`{}`)
	spec.ReconnectFor = 5 * time.Second
	r := dialOpenAIRig(t, spec)
	r.p.s.closed = true
	for dials := 1; !r.p.ai.socketGone; dials++ {
		require.LessOrEqual(t, dials, 2)
		r.turns(251)
		require.Nil(t, r.p.ai.sock)
		if r.p.ai.reconnecting {
			r.connectWith(r.p.s.meta(true))
		}
	}
	r = dialOpenAIRig(t, spec)
	r.p.s.closed = true
	for range 3 { // one that lives earns all the time again
		r.event(`{"type":"session.created"}`)
		r.turns(260)
		r.event(`{"type":"error","error":{"code":"session_expired"}}`)
		require.True(t, r.p.ai.reconnecting)
		r.connectWith(r.p.s.meta(true))
	}
}

// TestOpenAIOnce: a function call that was answered is not carried out again, whatever tells of it.
func TestOpenAIOnce(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{"functions":["send_dtmf"]}`)
	call := callItem("call_1", "send_dtmf", `{"digits":"1"}`, "completed")
	for _, begin := range []string{"", `{"type":"response.created","response":{"id":"resp_1"}}`} {
		if begin != "" {
			r.event(`%s`, begin)
			r.event(`{"type":"response.created","response":{"id":"resp_other"}}`)
			call = callItem("call_2", "send_dtmf", `{"digits":"1"}`, "completed")
		}
		r.event(`{"type":"response.output_item.done","response_id":"resp_1","item":%s}`, call)
		c := r.command()
		r.event(`{"type":"response.done","response":{"id":"resp_other","status":"completed"}}`)
		r.answer(CommandResult{ID: c.ID, OK: true, Status: 200})
		r.event(`{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[%s]}}`, call)
		r.quiet()
	}
	for i := range 3 * maxKnown {
		r.event(`{"type":"response.output_item.done","item":%s}`, callItem(fmt.Sprintf("refused_%d", i), "hangup", `{}`, ""))
		r.got()
	}
	d := r.p.toAI.dialect.(*openaiDialect) //nolint:forcetypeassert // it is
	require.Len(t, d.known, maxKnown)
	require.Empty(t, d.running)
	require.True(t, d.knows(fmt.Sprintf("refused_%d", 3*maxKnown-1)))
}

// TestOpenAIFailedResponse: a response that the server could not make is asked for again after a pause; when that fails as well, or can't help, the voice
// agent is broken for good.
func TestOpenAIFailedResponse(t *testing.T) {
	t.Parallel()
	failed := func(response, code string) string {
		return fmt.Sprintf(`{"type":"response.done","response":{"id":%q,"status":"failed","status_details":{"type":"failed","error":{"type":"server_error","code":%q,"message":%q}}}}`,
			response, code, strings.Repeat("m", 5000))
	}
	r := newOpenAIRig(t, `{}`)
	out := r.log()
	for range 2 { // one that works in between begins anew
		r.event(`{"type":"response.created","response":{"id":"resp_1"}}`)
		r.event(`%s`, failed("resp_1", "rate_limit_exceeded"))
		r.said()
		r.turns(99)
		types, _ := r.said()
		require.Empty(t, types)
		r.turns(2)
		types, _ = r.said()
		require.Equal(t, []string{"response.create"}, types)
		r.event(`{"type":"response.created","response":{"id":"resp_2"}}`)
		r.event(`{"type":"response.done","response":{"id":"resp_2","status":"completed"}}`)
	}
	require.Contains(t, out.String(), "rate_limit_exceeded")
	require.Less(t, out.Len(), 2000)
	require.InDelta(t, 2, testutil.ToFloat64(r.p.sh.srv.metrics.responsesFailed), 0)
	r.p.s.closed = true
	r.event(`%s`, failed("resp_3", "server_error"))
	r.turns(101)
	require.NotNil(t, r.p.ai.sock)
	r.event(`{"type":"response.done","response":{"id":"resp_4","status":"failed","status_details":"odd"}}`)
	require.True(t, r.p.ai.socketGone)

	r = newOpenAIRig(t, `{}`)
	r.p.s.closed = true
	r.event(`%s`, failed("resp_1", "insufficient_quota"))
	require.True(t, r.p.ai.socketGone, "it won't be better in 2 s")
}

// TestOpenAIRefusedResponse: a response that was asked for while the server began one by itself is asked for behind it, with its own words where they have
// not been said; other errors have nothing to do with it.
func TestOpenAIRefusedResponse(t *testing.T) {
	t.Parallel()
	r := dialOpenAIRig(t, openaiSpec(`{"functions":["send_dtmf"],"first_message":"Hello!"}`))
	r.event(`{"type":"session.created"}`)
	r.callLaw(0)
	r.p.s.closed, r.p.s.events = false, make(chan Event, eventQueue)
	r.said()
	refused := `{"type":"error","error":{"type":"invalid_request_error","code":"conversation_already_has_active_response","message":"m","event_id":"ringmaster_response"}}`
	r.event(`{"type":"error","error":{"type":"server_error","code":"server_error","message":"m","event_id":"ringmaster_response"}}`)
	r.turns(101)
	types, all := r.said()
	require.Equal(t, []string{"response.create"}, types)
	require.Contains(t, all[0].Response.Instructions, "Hello!")
	r.event(`{"type":"response.created","response":{"id":"resp_1"}}`)
	r.event(`{"type":"response.output_item.done","response_id":"resp_1","item":%s}`, callItem("call_1", "send_dtmf", `{"digits":"1"}`, "completed"))
	r.event(`{"type":"response.done","response":{"id":"resp_1","status":"completed"}}`)
	r.answer(CommandResult{ID: r.command().ID, OK: true, Status: 200})
	types, all = r.said()
	require.Equal(t, []string{"conversation.item.create", "response.create"}, types)
	require.Empty(t, all[1].Response.Instructions, "it was said")
	r.event(`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_value","message":"audio_end_ms","event_id":null}}`)
	r.event(`{"type":"response.created","response":{"id":"resp_2"}}`)
	r.event(`%s`, refused)
	r.turns(5)
	types, _ = r.said()
	require.Empty(t, types)
	r.event(`{"type":"response.done","response":{"id":"resp_2","status":"completed"}}`)
	types, _ = r.said()
	require.Equal(t, []string{"response.create"}, types)
	r.event(`%s`, refused) // the other one is over by now
	r.turns(101)
	types, _ = r.said()
	require.Equal(t, []string{"response.create"}, types)
	r.turns(501)
	require.NoError(t, r.p.s.SendText(textTransferFailed, nil))
	(<-r.p.sh.inbox)()
	types, _ = r.said()
	require.Equal(t, []string{"conversation.item.create", "response.create"}, types, "it doesn't wait for ever for response.created")
}

// TestOpenAIReports: what the session goes on with is reported, so often at the most; that a response is under way is no failure.
func TestOpenAIReports(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{}`)
	r.event(`{"type":"error","error":{"code":"conversation_already_has_active_response","message":"m"}}`)
	r.event(`{"type":"response.done","response":{"id":"resp_1","status":"failed","status_details":{"error":{"code":"rate_limit_exceeded","message":"m"}}}}`)
	for range 2 * maxAgentErrors {
		r.event(`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_value","message":"voice"}}`)
	}
	require.NotNil(t, r.p.ai.sock)
	var codes []string
	for len(r.p.s.events) > 0 {
		if ev, ok := (<-r.p.s.events).(AgentError); ok {
			codes = append(codes, Tell(ev.Err, "").Code)
		}
	}
	require.Equal(t, append([]string{"rate_limit_exceeded"}, slices.Repeat([]string{"invalid_value"}, maxAgentErrors-1)...), codes)
}

// TestOpenAIErrorLog: what the server complains of may be long, but not in the log.
func TestOpenAIErrorLog(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{}`)
	out := r.log()
	r.p.s.closed = true
	r.event(`{"type":"error","error":{"code":%q,"message":%q}}`, "session_expired", strings.Repeat("m", 60<<10))
	require.Nil(t, r.p.ai.sock)
	require.Contains(t, out.String(), "session_expired")
	require.Less(t, out.Len(), 1500)
}

// TestOpenAIBounds: what a server says is bounded in bytes and in work, whatever its length.
func TestOpenAIBounds(t *testing.T) {
	t.Parallel()
	r := newOpenAIRig(t, `{"functions":["set_disposition"]}`)
	d := r.p.toAI.dialect.(*openaiDialect) //nolint:forcetypeassert // it is
	r.said()
	long := strings.Repeat("x", 300)
	r.say("resp_1", long, make([]byte, 160))
	r.say(long, "item_1", make([]byte, 160))
	r.say("resp_1", strings.Repeat(long, 200), make([]byte, 160))
	r.event(`{"type":"response.created","response":{"id":%q}}`, long)
	r.event(`{"type":"response.output_item.done","item":%s}`, callItem(long, "set_disposition", `{}`, ""))
	r.event(`{"type":"response.function_call_arguments.done","call_id":%q}`, long)
	require.EqualValues(t, 6, r.p.stats.BadFrames)
	require.Empty(t, d.spoken)
	require.Empty(t, d.response)

	for i := range 3 * maxNoted {
		r.event(`{"type":"response.function_call_arguments.done","call_id":"note_%d","name":"n","arguments":%q}`, i, strings.Repeat("y", 100<<10))
		r.turns(10)
	}
	require.Len(t, d.noted, maxNoted)
	require.True(t, d.noted[0].TooLong)
	require.Empty(t, d.noted[0].Arguments)
	d.noted = nil

	items := make([]string, 200)
	for i := range items {
		items[i] = callItem(fmt.Sprint("many_", i), "x", "", "")
	}
	r.event(`{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[%s]}}`, strings.Join(items, ","))
	_, all := r.said()
	require.Len(t, all, 65, "the rest of 200 is left out")

	members := make([]string, 40_000)
	for i := range members {
		members[i] = fmt.Sprintf(`"%d":1`, i)
	}
	for id, args := range map[string]string{"long": "{" + strings.Join(members, ",") + "}", "many": "{" + strings.Join(members[:4000], ",") + "}"} {
		r.event(`{"type":"response.output_item.done","item":%s}`, callItem(id, "set_disposition", args, ""))
		r.quiet()
		types, all := r.said()
		require.Equal(t, "conversation.item.create", types[0])
		require.Contains(t, all[0].Item.Output, "argument")
	}
	calls := make([]string, 20)
	for i := range calls {
		calls[i] = callItem(fmt.Sprint("together_", i), "set_disposition", `{"notes":"`+strings.Repeat("z", 10_000)+`"}`, "")
	}
	r.event(`{"type":"response.done","response":{"id":"resp_2","status":"completed","output":[%s]}}`, strings.Join(calls, ","))
	_, all = r.said()
	require.Len(t, all, 20)
	for i := range all {
		require.Equal(t, i >= 6, strings.Contains(all[i].Item.Output, "those of a response"), "%d: %s", i, all[i].Item.Output)
	}
	r.event(`{"type":"response.output_item.done","item":%s}`, callItem("notes", "set_disposition", `{"disposition":"busy","notes":"`+strings.Repeat("नम", 5000)+`"}`, ""))
	require.Equal(t, "notes", r.command().ID)
}

// TestOpenAILongEvents: only audio may be longer than 1 MiB, and it is converted apart, as much as there is room for.
func TestOpenAILongEvents(t *testing.T) {
	t.Parallel()
	for _, msg := range []string{
		`{"type":"response.done","response":{"id":"resp_1","x":"` + strings.Repeat("x", 1<<20) + `"}}`,
		`{"x":"` + strings.Repeat("x", 1<<20) + `","type":"response.done"}`,
		`{"delta":"` + strings.Repeat("x", 1<<20) + `","type":"response.output_text.delta"}`,
	} {
		r := newOpenAIRig(t, ``)
		r.p.s.closed = true
		for b := aiText(msg); r.p.ai.sock != nil && len(b) > 0; b = b[min(len(b), 64<<10):] {
			r.send(b[:min(len(b), 64<<10)])
		}
		require.Nil(t, r.p.ai.sock, "%.40s", msg)
		require.True(t, r.p.ai.socketGone)
	}
	r := newOpenAIRig(t, ``)
	r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.L16, Rate: 48000, PT: l16PT, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
	r.turn()
	tone := make([]byte, 310*dsp.SampleRate)
	dsp.EncodeULaw(tone, dsptest.Tone(440, dsp.SampleRate, len(tone)))
	r.said()
	r.say("resp_1", "item_1", tone)
	require.True(t, r.p.tx.texted, "it was converted by the decoder")
	require.Zero(t, r.p.tx.queue.Room())
	require.Positive(t, r.p.stats.PlayoutDropped)
	r.turns(50)
	r.event(`{"type":"input_audio_buffer.speech_started"}`)
	_, all := r.said()
	require.InDelta(t, 1000, all[0].AudioEndMS, 25)
}

// TestOpenAITap: a monitor's model makes no responses and has no tools, unless what it says is heard.
func TestOpenAITap(t *testing.T) {
	t.Parallel()
	spec := openaiSpec(`{"session":{"tools":[{"type":"mcp","server_label":"crm"}]}}`)
	spec.tap = &tapRole{side: TapMixed, socket: true}
	r := dialOpenAIRig(t, spec)
	r.event(`{"type":"session.created"}`)
	for _, speaks := range []bool{false, true, false} {
		if speaks != r.p.s.spec.tap.speaks {
			r.p.s.Speak(speaks)
			(<-r.p.sh.inbox)()
		}
		r.aiReads()
		require.Equal(t, !speaks, strings.Contains(r.texts[0], `"create_response":false`), r.texts[0])
		require.Equal(t, speaks, strings.Contains(r.texts[0], "crm"))
		r.texts = nil
	}
}

// TestOpenAIHeard: what was held, muted, or lost with a leg was not heard, and an item that alternates with another one is known as a whole.
func TestOpenAIHeard(t *testing.T) {
	t.Parallel()
	second := make([]byte, dsp.SampleRate)
	for name, c := range map[string]struct {
		between func(r openaiRig)
		want    map[string]int
	}{
		"held": {func(r openaiRig) {
			r.p.tx.extra.setHold(true, nil)
			r.turns(50)
			r.p.tx.extra.setHold(false, nil)
			r.turns(5)
		}, map[string]int{"item_1": 200}},
		"muted to its end": {func(r openaiRig) {
			r.p.tx.muted[FromAgent] = true
			r.turns(150)
			r.p.tx.muted[FromAgent] = false
			r.event(`{"type":"response.created","response":{"id":"resp_2"}}`)
		}, map[string]int{"item_1": 200}},
		"a leg between": {func(r openaiRig) {
			r.p.leg.endLeg()
			r.say("resp_1", "item_2", second)
			r.callLaw(0)
			r.say("resp_1", "item_3", second)
			r.turns(5)
		}, map[string]int{"item_1": 200, "item_2": 0, "item_3": 100}},
		"in turns": {func(r openaiRig) {
			r.turns(95)
			for range 5 {
				r.say("resp_1", "item_2", second[:800])
				r.say("resp_1", "item_3", second[:800])
			}
			r.turns(25)
		}, map[string]int{"item_2": 300, "item_3": 200}},
		"heard": {func(r openaiRig) { r.turns(100) }, map[string]int{}},
	} {
		r := newOpenAIRig(t, `{}`)
		r.said()
		r.event(`{"type":"response.created","response":{"id":"resp_1"}}`)
		r.say("resp_1", "item_1", second)
		r.say("resp_1", "item_1", second)
		r.turns(10)
		c.between(r)
		r.event(`{"type":"input_audio_buffer.speech_started"}`)
		_, all := r.said()
		got := map[string]int{}
		for _, e := range all {
			if e.Type == "conversation.item.truncate" {
				got[e.ItemID] = e.AudioEndMS
			}
		}
		require.Len(t, got, len(c.want), "%s: %v", name, got)
		for item, ms := range c.want {
			require.InDelta(t, ms, got[item], 6, "%s: %v", name, got) // a fade takes 5 ms of the first frame
		}
	}
}
