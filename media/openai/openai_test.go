package openai_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/openai"
)

// TestFramesOut holds the events that we send to their golden form.
func TestFramesOut(t *testing.T) {
	t.Parallel()
	for want, got := range map[string][]byte{
		`{"type":"input_audio_buffer.append","audio":"f/9/"}`:                                                                       openai.AppendAudio(nil, []byte{0x7f, 0xff, 0x7f}),
		`{"type":"conversation.item.truncate","item_id":"item_\"1","content_index":1,"audio_end_ms":1500}`:                          openai.AppendTruncate(nil, `item_"1`, 1, 1500),
		`{"type":"response.create","event_id":"ringmaster_response"}`:                                                               openai.AppendRespond(nil, ""),
		`{"type":"response.create","event_id":"ringmaster_response","response":{"instructions":"Say \"hello\"."}}`:                  openai.AppendRespond(nil, `Say "hello".`),
		`{"type":"response.cancel","response_id":"resp_1"}`:                                                                         openai.AppendCancel(nil, "resp_1"),
		`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c1","output":"{\"ok\":true}"}}`:        openai.AppendOutput(nil, "c1", []byte(`{"ok":true}`)),
		`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}`: openai.AppendMessage(nil, openai.RoleUser, "hi"),
	} {
		require.Equal(t, want, string(got))
	}
	c, err := openai.ParseConfig(json.RawMessage(`{"session":{"instructions":"Be kind.","audio":{"input":{"turn_detection":null}}},"functions":["send_dtmf"]}`))
	require.NoError(t, err)
	frame, turns, err := c.Update(openai.FormatPCMA, false)
	require.NoError(t, err)
	require.Equal(t, openai.Turns{Interrupts: true, Responds: true}, turns)
	require.JSONEq(t, `{"type":"session.update","event_id":"ringmaster_session","session":{"type":"realtime","instructions":"Be kind.",
		"audio":{"input":{"turn_detection":null,"format":{"type":"audio/pcma"}},"output":{"format":{"type":"audio/pcma"}}},
		"tools":[{"type":"function","name":"send_dtmf","description":"Press keys of the telephone, to get through a menu.","parameters":{"type":"object","additionalProperties":false,
			"properties":{"digits":{"type":"string","description":"0 to 9, *, # and A to D; w is a pause of half a second, W of a second."}},"required":["digits"]}}]}}`, string(frame))
}

// TestFramesIn reads the server's events, as its reference shows them and as others write them.
func TestFramesIn(t *testing.T) {
	t.Parallel()
	e, err := openai.Read([]byte(`{"event_id":"event_4950","type":"response.output_audio.delta","response_id":"resp_001","item_id":"msg_008","output_index":0,"content_index":2,"delta":"f/9/"}`))
	require.NoError(t, err)
	require.True(t, e.Audio())
	require.Equal(t, []string{"resp_001", "msg_008"}, []string{string(e.ResponseID), string(e.ItemID)})
	require.Equal(t, 2, e.ContentIndex)
	audio, err := openai.Decode(nil, e.Delta)
	require.NoError(t, err)
	require.Equal(t, []byte{0x7f, 0xff, 0x7f}, audio)
	e, err = openai.Read([]byte(`{ "delta" : "f\/9\/", "content_index":-1, "type":"response.audio.delta" }`))
	require.NoError(t, err)
	require.True(t, e.Audio())
	require.Equal(t, "f/9/", string(e.Delta))
	require.Zero(t, e.ContentIndex)
	for msg, want := range map[string]error{
		``: openai.ErrNotJSON, `[]`: openai.ErrNotJSON, `{"type":"error"`: openai.ErrNotJSON, `{"type":"error"}{}`: openai.ErrNotJSON, `{"a":"\u00"}`: openai.ErrNotJSON,
		`{}`: openai.ErrNoType, `{"type":5}`: openai.ErrNoType, `{"type":"\u0000`: openai.ErrNotJSON,
	} {
		_, err := openai.Read([]byte(msg))
		require.ErrorIs(t, err, want, msg)
	}
	for _, delta := range []string{"", "=", "f", "***", "f/9\n/"} {
		_, err := openai.Decode(nil, []byte(delta))
		require.ErrorIs(t, err, openai.ErrDelta, "%q", delta)
	}
	d, err := openai.ReadDetail([]byte(`{"type":"response.done","response":{"id":"resp_1","status":"completed","output":[{"id":"fc_1","type":"function_call","status":"completed","name":"hangup","call_id":"call_1","arguments":"{}"},{"type":"message","content":[]}]}}`))
	require.NoError(t, err)
	require.True(t, d.Response.Completed())
	require.True(t, d.Response.Output[0].Called())
	require.False(t, d.Response.Output[1].Called())
}

// TestEscapes: an event whose strings have escapes costs no more memory than its own, and is read as any other; its ids are UTF-8.
func TestEscapes(t *testing.T) { //nolint:paralleltest // it counts what the whole process allocates
	short := []byte(`{"type":"response.output_audio.delta","item_\u0069d":"a\u00e9\"","response_id":"` + "\xff" + `","delta":"f\/9\/"}`)
	before := bytes.Clone(short)
	e, err := openai.Read(short)
	require.NoError(t, err)
	require.Equal(t, []string{`aé"`, "\uFFFD", "f/9/"}, []string{string(e.ItemID), string(e.ResponseID), string(e.Delta)})
	require.Equal(t, before, short, "what lies deeper is read from it later")

	long := []byte(`{"type":"response.output_audio.delta","delta":"f\/9\/"` + strings.Repeat(`,"x":[{"y":"z"}]`, 200_000) + `}`)
	var from, to runtime.MemStats
	runtime.ReadMemStats(&from)
	e, err = openai.Read(long)
	runtime.ReadMemStats(&to)
	require.NoError(t, err)
	require.Equal(t, "f/9/", string(e.Delta))
	require.Less(t, to.TotalAlloc-from.TotalAlloc, uint64(64<<10))
}

// TestDecodeInto decodes into memory that is there.
func TestDecodeInto(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	buf := make([]byte, 0, 400)
	msg := []byte(`{"type":"response.output_audio.delta","response_id":"r","item_id":"i","content_index":0,"delta":"` + base64.StdEncoding.EncodeToString(make([]byte, 160)) + `"}`)
	out := make([]byte, 0, 400)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		e, err := openai.Read(msg)
		if err != nil {
			panic(err)
		}
		if buf, err = openai.Decode(buf, e.Delta); err != nil {
			panic(err)
		}
		out = openai.AppendAudio(out[:0], buf)
	}))
	require.Contains(t, string(msg), string(out[len(out)-100:len(out)-2]))
}

// TestParseConfig refuses what can't be served, and says which member it is.
func TestParseConfig(t *testing.T) {
	t.Parallel()
	for raw, field := range map[string]string{
		`{"FUNCTIONS":["hangup"]}`: "", `{"Session":{}}`: "",
		`{"audio_format":null}`: "audio_format", `{"greet":null}`: "greet", `{"first_message":null}`: "first_message",
		`{"session":{"tools":[null]}}`:                                   "session.tools",
		`{"transfer_destinations":[""]}`:                                 "transfer_destinations",
		`{"transfer_destinations":["` + strings.Repeat("1", 513) + `"]}`: "transfer_destinations",
		`[]`: "", `5`: "", `{"sesion":{}}`: "", `{"greet":"yes"}`: "", `{"functions":"hangup"}`: "",
		`{"audio_format":"audio/pcm"}`:                                       "audio_format",
		`{"functions":["get_call_state"]}`:                                   "functions",
		`{"functions":["hangup","hangup"]}`:                                  "functions",
		`{"first_message":"` + strings.Repeat("ö", 2001) + `"}`:              "first_message",
		`{"session":[]}`:                                                     "session",
		`{"session":{"instructions":"` + strings.Repeat("x", 48<<10) + `"}}`: "session",
		`{"session":{"type":"transcription"}}`:                               "session.type",
		`{"session":{"audio":5}}`:                                            "session.audio",
		`{"session":{"audio":{"input":"x"}}}`:                                "session.audio.input",
		`{"session":{"audio":{"output":[]}}}`:                                "session.audio.output",
		`{"session":{"audio":{"input":{"turn_detection":5}}}}`:               "session.audio.input.turn_detection",
		`{"session":{"tools":{}}}`:                                           "session.tools",
		`{"session":{"tools":[{"type":"mcp","authorization":"x"}]}}`:         "session.tools",
		`{"session":{"tools":[{"type":"mcp","headers":{}}]}}`:                "session.tools",
		`{"session":{"tools":["hangup"]}}`:                                   "session.tools",
	} {
		_, err := openai.ParseConfig(json.RawMessage(raw))
		var refused *openai.ConfigError
		require.ErrorAs(t, err, &refused, raw)
		require.Equal(t, field, refused.Field, raw)
	}
	for _, raw := range []string{``, `null`, `{}`, ` {"session":null,"functions":[],"greet":true}`} {
		_, err := openai.ParseConfig(json.RawMessage(raw))
		require.NoError(t, err, raw)
	}
}

// TestListens: a session that only listens makes no responses, and has no tools.
func TestListens(t *testing.T) {
	t.Parallel()
	for raw, turns := range map[string]string{
		`{"functions":["hangup"]}`: `{"type":"server_vad","create_response":false}`,
		`{"session":{"tool_choice":"required","tools":[{"type":"mcp"}],"audio":{"input":{"turn_detection":{"type":"semantic_vad","create_response":true}}}}}`: `{"type":"semantic_vad","create_response":false}`,
		`{"session":{"audio":{"input":{"turn_detection":null}}}}`: `null`,
	} {
		c, err := openai.ParseConfig(json.RawMessage(raw))
		require.NoError(t, err)
		frame, _, err := c.Update(openai.FormatPCMU, true)
		require.NoError(t, err)
		require.JSONEq(t, `{"type":"session.update","event_id":"ringmaster_session","session":{"type":"realtime","tools":[],
			"audio":{"input":{"format":{"type":"audio/pcmu"},"turn_detection":`+turns+`},"output":{"format":{"type":"audio/pcmu"}}}}}`, string(frame))
	}
}

// An empty list of destinations lets a model name none; without a list it may name any.
func TestNoTransferDestinations(t *testing.T) {
	t.Parallel()
	for raw, may := range map[string]bool{``: true, `,"transfer_destinations":null`: true, `,"transfer_destinations":[]`: false} {
		c, err := openai.ParseConfig(json.RawMessage(`{"functions":["transfer"]` + raw + `}`))
		require.NoError(t, err)
		frame, _, err := c.Update(openai.FormatPCMU, false)
		require.NoError(t, err)
		require.Equal(t, may, strings.Contains(string(frame), `"destination":`), raw)
		_, err = c.Command(&openai.Item{Name: "transfer", Arguments: `{"destination":"+919876543210"}`})
		require.Equal(t, may, err == nil, raw)
		_, err = c.Command(&openai.Item{Name: "transfer", Arguments: `{}`})
		require.NoError(t, err, "transfer_destination is no choice of the model's")
		_, err = c.Command(&openai.Item{Name: "transfer", Arguments: `{"destination_type":"agent_queue"}`})
		require.Equal(t, may, err == nil, "the queue is a destination, too: %s", raw)
	}
}

// TestTransferDestinations: a model may name none but those of the list, which it is told.
func TestTransferDestinations(t *testing.T) {
	t.Parallel()
	c, err := openai.ParseConfig(json.RawMessage(`{"functions":["transfer"],"transfer_destinations":["support","+919876543210"]}`))
	require.NoError(t, err)
	frame, _, err := c.Update(openai.FormatPCMU, false)
	require.NoError(t, err)
	require.Contains(t, string(frame), `"enum":["support","+919876543210"]`)
	for args, ok := range map[string]bool{
		`{}`: true, `{"destination":"support"}`: true, `{"destination":"+919876543210","destination_type":"e164"}`: true,
		`{"destination_type":"e164"}`: true, `{"destination":"support","destination_type":"agent_queue"}`: true, `{"destination_type":"agent_queue"}`: false,
		`{"destination":"+8835100012345"}`: false, `{"destination":" support"}`: false, `{"destination":"support","destination":"x"}`: false,
	} {
		_, err := c.Command(&openai.Item{Name: "transfer", Arguments: args})
		require.Equal(t, ok, err == nil, "%s: %v", args, err)
	}
}
