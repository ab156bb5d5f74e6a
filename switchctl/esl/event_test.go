package esl_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
)

func TestParsePlainEvent(t *testing.T) {
	t.Parallel()
	e, err := esl.ParsePlainEvent([]byte("Event-Name: BACKGROUND_JOB\nJob-UUID: j-1\nunique-id: u-1\n" +
		"variable_rm_name: Asha%20%C3%A9%2b\nvariable_odd: 5%25 %zz%4\nEmpty:\n" +
		"Caller-Channel-Answered-Time: 1700000000123456\nCaller-Channel-Bridged-Time: 0\nContent-Length: 10\n\n+OK done!\nextra"))
	require.NoError(t, err)
	require.Equal(t, "BACKGROUND_JOB", e.Name())
	require.Equal(t, "u-1", e.UUID())
	require.Equal(t, "j-1", e.Get("job-uuid"))
	require.Equal(t, "Asha é+", e.Var("rm_name"))
	require.Equal(t, "5% %zz%4", e.Var("odd"), "what is no escape stays")
	value, ok := e.Lookup("Empty")
	require.True(t, ok)
	require.Empty(t, value)
	_, ok = e.Lookup("Absent")
	require.False(t, ok)
	require.Equal(t, "+OK done!\n", e.Body())
	require.Equal(t, time.UnixMicro(1700000000123456).UTC(), e.Micros("Caller-Channel-Answered-Time"))
	require.True(t, e.Micros("Caller-Channel-Bridged-Time").IsZero())
	require.True(t, e.Micros("Event-Name").IsZero())
}

func TestParsePlainEventMalformed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":          "",
		"only blank":     "\n",
		"no colon":       "Event-Name HEARTBEAT\n\n",
		"body too short": "Event-Name: A\nContent-Length: 9\n\nshort",
		"length broken":  "Event-Name: A\nContent-Length: x\n\nshort",
		"body unlimited": "Event-Name: A\n\nbody",
	} {
		_, err := esl.ParsePlainEvent([]byte(text))
		var malformed *esl.ProtocolError
		require.ErrorAs(t, err, &malformed, name)
	}
}

func TestParseJSONEvent(t *testing.T) {
	t.Parallel()
	e, err := esl.ParseJSONEvent([]byte(`{"Event-Name":"CUSTOM","Event-Subclass":"conference::maintenance","Unique-ID":"u%201",
		"variable_list":["a","b"],"Event-Sequence":7,"Flag":true,"None":null,"Content-Length":"5","_body":"he\n\"l"}`))
	require.NoError(t, err)
	require.Equal(t, "CUSTOM", e.Name())
	require.Equal(t, "conference::maintenance", e.Subclass())
	require.Equal(t, "u%201", e.UUID(), "JSON values are not percent-encoded")
	require.Equal(t, "ARRAY::a|:b", e.Var("list"))
	require.Equal(t, "7", e.Get("Event-Sequence"))
	require.Equal(t, "true", e.Get("Flag"))
	require.Equal(t, "he\n\"l", e.Body())
	for name, text := range map[string]string{
		"empty": "", "no object": `["a"]`, "no headers": `{}`, "cut": `{"Event-Name":"A"`, "nested": `{"A":{"b":"c"}}`,
		"array of objects": `{"A":[{"b":"c"}]}`, "trailing": `{"A":"b"}{"A":"b"}`, "nameless": `{"":"b"}`, "no value": `{"A"}`,
	} {
		_, err := esl.ParseJSONEvent([]byte(text))
		var malformed *esl.ProtocolError
		require.ErrorAs(t, err, &malformed, name)
	}
}

func TestEventRoundTrips(t *testing.T) {
	t.Parallel()
	e := esl.NewEvent("CHANNEL_HANGUP_COMPLETE")
	e.Set("Unique-ID", "u-1")
	e.Set("variable_text", "a: b\r\nC: 100% +1 é \x00\x7f")
	e.Set("variable_x", "old")
	e.Set("VARIABLE_X", "new")
	e.Set("Gone", "x")
	e.Del("gone")
	e.SetBody("body\n\nwith: lines\n")
	plain, err := esl.ParsePlainEvent(e.EncodePlain())
	require.NoError(t, err)
	fromJSON, err := esl.ParseJSONEvent(e.EncodeJSON())
	require.NoError(t, err)
	for _, got := range []*esl.Event{plain, fromJSON} {
		headers := maps.Collect(got.Headers())
		delete(headers, "Content-Length")
		require.Equal(t, maps.Collect(e.Headers()), headers)
		require.Equal(t, e.Body(), got.Body())
		require.Equal(t, "new", got.Var("x"))
	}
	require.True(t, json.Valid(e.EncodeJSON()))
	for _, asJSON := range []bool{false, true} {
		got, err := esl.NewEventMessage(e, asJSON).Event()
		require.NoError(t, err)
		require.Equal(t, e.Name(), got.Name())
	}
	_, err = esl.NewReply("+OK").Event()
	require.Error(t, err)
}

func TestEventCloneIsApart(t *testing.T) {
	t.Parallel()
	e, err := esl.ParsePlainEvent([]byte("Event-Name: A\nX: 1\nX: 2\n\n"))
	require.NoError(t, err)
	c := e.Clone()
	c.Set("X", "3")
	require.Equal(t, "1", e.Get("X"))
	require.Equal(t, 3, e.Len())
	require.Equal(t, "3", c.Get("X"))
	require.Equal(t, 2, c.Len(), "Set leaves one value")
}

func FuzzParsePlainEvent(f *testing.F) {
	f.Add([]byte("Event-Name: A\nX: %20%zz\n\n"))
	f.Add([]byte("Event-Name: A\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("A:b\nContent-Length: 0\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := esl.ParsePlainEvent(text)
		if err != nil {
			return
		}
		again, err := esl.ParsePlainEvent(e.EncodePlain())
		require.NoError(t, err)
		require.Equal(t, e.Body(), again.Body())
		require.Equal(t, fields(e), fields(again))
	})
}

func FuzzParseJSONEvent(f *testing.F) {
	f.Add([]byte(`{"Event-Name":"A","_body":"x"}`))
	f.Add([]byte(`{"A":["b","c"],"D":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := esl.ParseJSONEvent(text)
		if err != nil {
			return
		}
		again, err := esl.ParseJSONEvent(e.EncodeJSON())
		require.NoError(t, err)
		require.Equal(t, e.Body(), again.Body())
		require.Equal(t, fields(e), fields(again))
	})
}

// fields are an event's headers in order, without the length, which follows the body.
func fields(e *esl.Event) []esl.Field {
	var out []esl.Field
	for name, value := range e.Headers() {
		if !strings.EqualFold(name, "Content-Length") {
			out = append(out, esl.Field{Name: name, Value: value})
		}
	}
	return out
}
