package twilio_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/twilio"
)

func stream() *twilio.Stream {
	return &twilio.Stream{
		AccountSID: "AC00112233445566778899aabbccddeeff",
		CallSID:    "CA0192a1b2c3d4e5f60718293a4b5c6d7e",
		StreamSID:  "MZ0192a1b2c3d4e5f60718293a4b5c6d7f",
	}
}

// sameBytes compares frames to the letter, the order of their members too.
func sameBytes(t *testing.T, want, got string) {
	t.Helper()
	if got != want {
		t.Fatalf("frame is %s\nwant %s", got, want)
	}
}

// TestGoldenFrames holds each frame to the letter of the documentation's examples: the order of members, and numbers that are strings.
func TestGoldenFrames(t *testing.T) {
	t.Parallel()
	s := stream()
	for range 2 { // the second connection's numbers begin anew
		sameBytes(t, `{"event":"connected","protocol":"Call","version":"1.0.0"}`, string(s.AppendConnected(nil)))
		sameBytes(t, `{"event":"start","sequenceNumber":"1","start":{"accountSid":"AC00112233445566778899aabbccddeeff",`+
			`"streamSid":"MZ0192a1b2c3d4e5f60718293a4b5c6d7f","callSid":"CA0192a1b2c3d4e5f60718293a4b5c6d7e","tracks":["inbound"],`+
			`"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1},"customParameters":{"FirstName":"Jane"}},`+
			`"streamSid":"MZ0192a1b2c3d4e5f60718293a4b5c6d7f"}`, string(s.AppendStart(nil, json.RawMessage(`{"FirstName":"Jane"}`))))
		sameBytes(t, `{"event":"media","sequenceNumber":"2","media":{"track":"inbound","chunk":"1","timestamp":"5","payload":"no+JhoaJjg=="},`+
			`"streamSid":"MZ0192a1b2c3d4e5f60718293a4b5c6d7f"}`, string(s.AppendMedia(nil, 5, []byte("\x9e\x8f\x89\x86\x86\x89\x8e"))))
		sameBytes(t, `{"event":"dtmf","sequenceNumber":"3","dtmf":{"track":"inbound_track","digit":"1"},`+
			`"streamSid":"MZ0192a1b2c3d4e5f60718293a4b5c6d7f"}`, string(s.AppendDTMF(nil, "1")))
		sameBytes(t, `{"event":"mark","sequenceNumber":"4","mark":{"name":"my label"},`+
			`"streamSid":"MZ0192a1b2c3d4e5f60718293a4b5c6d7f"}`, string(s.AppendMark(nil, "my label")))
		sameBytes(t, `{"event":"media","sequenceNumber":"5","media":{"track":"inbound","chunk":"2","timestamp":"25","payload":"/w=="},`+
			`"streamSid":"MZ0192a1b2c3d4e5f60718293a4b5c6d7f"}`, string(s.AppendMedia(nil, 25, []byte{0xff})))
		sameBytes(t, `{"event":"stop","sequenceNumber":"6","stop":{"accountSid":"AC00112233445566778899aabbccddeeff",`+
			`"callSid":"CA0192a1b2c3d4e5f60718293a4b5c6d7e"},"streamSid":"MZ0192a1b2c3d4e5f60718293a4b5c6d7f"}`, string(s.AppendStop(nil)))
	}
	require.Contains(t, string(s.AppendStart(nil, nil)), `"customParameters":{}`)
	for _, name := range []string{`a"b\c`, "नमस्ते", "line\nbreak", "</script>", ""} {
		var f struct{ Mark struct{ Name string } }
		require.NoError(t, json.Unmarshal(s.AppendMark(nil, name), &f))
		require.Equal(t, name, f.Mark.Name)
	}
}

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	id := [16]byte{0: 0x01, 1: 0x92, 15: 0xff}
	require.Equal(t, "CA019200000000000000000000000000ff", twilio.SID(twilio.CallPrefix, id))
	require.Regexp(t, `^MZ[0-9a-f]{32}$`, twilio.SID(twilio.StreamPrefix, id))
	// Computed with: printf %s URL | openssl dgst -sha1 -hmac TOKEN -binary | base64
	require.Equal(t, "7PR3qMkpDyEJtMrVOY/LDyNq8J8=", twilio.Signature("wss://example.com/media", "12345"))
	address, err := twilio.WithBody("https://a.example/connect?x=1&y=%20", []byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, "https://a.example/connect?x=1&y=%20&bodySHA256=44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", address)
}

func TestReadsFrames(t *testing.T) {
	t.Parallel()
	const sid = "MZ1"
	for msg, want := range map[string]twilio.Frame{
		`{"event":"media","streamSid":"MZ1","media":{"payload":"AAEC"}}`: {Event: []byte("media"), Payload: []byte("AAEC")},
		" {\n\"media\" : { \"track\":\"outbound\", \"more\":[1,{\"a\":null}], \"payload\" :\t\"AA==\" } , \"streamSid\":\"MZ1\",\"x\":-1.5e3,\"y\":[],\"z\":{},\"event\":\"media\" } ": {
			Event: []byte("media"), Payload: []byte("AA=="),
		},
		`{"event":"media","streamSid":"MZ1","media":{"payload":"AA\/C"}}`:         {Event: []byte("media"), Payload: []byte("AA/C")},
		`{"event":"mark","streamSid":"MZ1","mark":{"name":"my label"}}`:           {Event: []byte("mark"), Name: []byte("my label")},
		`{"event":"mark","streamSid":"MZ1","mark":{"name":"\u0928\"\n"}}`:         {Event: []byte("mark"), Name: []byte("न\"\n")},
		`{"event":"mark","streamSid":"MZ1","mark":{"name":"न"}}`:                  {Event: []byte("mark"), Name: []byte("न")},
		"{\"event\":\"mark\",\"streamSid\":\"MZ1\",\"mark\":{\"name\":\"\xff\"}}": {Event: []byte("mark"), Name: []byte("\uFFFD")},
		`{"event":"clear","streamSid":"MZ1"}`:                                     {Event: []byte("clear")},
		`{"event":"mark","event":"clear","streamSid":"MZ1","media":null}`:         {Event: []byte("clear")},
	} {
		want.StreamSID = []byte(sid)
		got, err := twilio.Read([]byte(msg), sid)
		require.NoError(t, err, msg)
		require.Equal(t, want, got, msg)
	}
	long := strings.Repeat("न", twilio.MaxName)
	_, err := twilio.Read([]byte(`{"event":"mark","streamSid":"MZ1","mark":{"name":"`+long+`"}}`), sid)
	require.NoError(t, err)
	for msg, want := range map[string]error{
		`hello`:                     twilio.ErrNotJSON,
		`[]`:                        twilio.ErrNotJSON,
		``:                          twilio.ErrNotJSON,
		`{"event":"clear"`:          twilio.ErrNotJSON,
		`{"event":"clear"}}`:        twilio.ErrNotJSON,
		`{"event":"clear","x":nil}`: twilio.ErrNotJSON,
		"{\"event\":\"cl\near\"}":   twilio.ErrNotJSON,
		`{"event":"\u00"}`:          twilio.ErrNotJSON,
		`{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`: twilio.ErrNotJSON,
		`{}`:                                  twilio.ErrNoEvent,
		`{"event":7}`:                         twilio.ErrNoEvent,
		`{"event":"start"}`:                   twilio.ErrUnknownEvent,
		`{"type":"playAudio"}`:                twilio.ErrNoEvent,
		`{"event":"clear"}`:                   twilio.ErrNoStream,
		`{"event":"clear","streamSid":"MZ2"}`: twilio.ErrOtherStream,
		`{"event":"media","streamSid":"MZ1"}`: twilio.ErrNoPayload,
		`{"event":"media","streamSid":"MZ1","media":{"payload":""}}`:         twilio.ErrNoPayload,
		`{"event":"media","streamSid":"MZ1","media":{"payload":5}}`:          twilio.ErrNoPayload,
		`{"event":"media","streamSid":"MZ1","media":"AAAA"}`:                 twilio.ErrNoPayload,
		`{"event":"mark","streamSid":"MZ1","mark":{}}`:                       twilio.ErrNoName,
		`{"event":"mark","streamSid":"MZ1","mark":{"name":"` + long + `x"}}`: twilio.ErrLongName,
	} {
		_, err := twilio.Read([]byte(msg), sid)
		require.ErrorIs(t, err, want, msg)
	}
	for _, bad := range []string{"AA*A", "A", "AAA\nA", "AA=A"} {
		_, err := twilio.Audio(nil, []byte(bad))
		require.ErrorIs(t, err, twilio.ErrPayload, bad)
	}
	got, err := twilio.Audio(make([]byte, 0, 8), []byte("AAE"))
	require.NoError(t, err)
	require.Equal(t, []byte{0, 1}, got)
}

// FuzzRead compares the scanner with encoding/json: what one takes, the other takes, with the same members.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"event":"media","streamSid":"MZ1","media":{"payload":"AAEC"}}`, `{"event":"mark","streamSid":"MZ1","mark":{"name":"\u0928"}}`,
		`{"event":"clear","streamSid":"MZ1","x":[1,2.5e-3,{"y":null}]}`, `{"\u0065vent":"m\u0061rk","streamSid":"MZ1","mark":{"name":"\ud83d\ude00\ud83d\/\"x"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		got, err := twilio.Read(bytes.Clone(msg), "MZ1")
		if err != nil {
			return
		}
		var env map[string]json.RawMessage
		if err := json.Unmarshal(msg, &env); err != nil {
			require.ErrorContains(t, err, "invalid character", "only what lies in a long string may be other than JSON")
			require.Greater(t, len(msg), twilio.MaxName)
			return
		}
		var event, sid string
		require.NoError(t, json.Unmarshal(env["event"], &event))
		require.NoError(t, json.Unmarshal(env["streamSid"], &sid))
		require.Equal(t, event, string(got.Event))
		require.Equal(t, "MZ1", sid)
		if event == twilio.EventMark {
			require.NotContains(t, string(got.Name), "\x00\x01")
			var m struct{ Name string }
			var part map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(env["mark"], &part))
			require.NoError(t, json.Unmarshal(part["name"], &m.Name))
			require.Equal(t, m.Name, string(got.Name))
		}
	})
}

// TestEscapes compares what a scanner makes of strings, valid or not, with encoding/json.
func TestEscapes(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	parts := []string{
		`\u0041`, `\ud83d\ude00`, `\ud83d`, `\ude00`, `\uD83D\u0041`, `\/`, `\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u00e9`, `\uFFFF`, `\u0000`, "x", "न", "\xff",
		`\x`, `\u12`, `\u12g4`, "\n", `\`,
	}
	right := 0
	for range 20000 {
		valid := len(parts)
		if rnd.IntN(2) == 0 {
			valid -= 5
		}
		var text strings.Builder
		for range 1 + rnd.IntN(6) {
			text.WriteString(parts[rnd.IntN(valid)])
		}
		for _, v := range []string{text.String(), text.String() + strings.Repeat("y", 2000)} {
			msg := `{"event":"mark","streamSid":"M\u005a1","x":"` + v + `","m\u0061rk":{"name":"` + text.String() + `"}}`
			var want struct{ Mark struct{ Name string } }
			wrong := json.Unmarshal([]byte(msg), &want)
			got, err := twilio.Read([]byte(msg), "MZ1")
			if wrong != nil {
				require.Error(t, err, msg)
				continue
			}
			require.NoError(t, err, msg)
			require.Equal(t, want.Mark.Name, string(got.Name), msg)
			right++
		}
	}
	require.Greater(t, right, 10000)
}

// TestUnusualFramesCostTheirLength: escapes, wherever they are, and members in any number take no memory besides the message.
func TestUnusualFramesCostTheirLength(t *testing.T) {
	members := func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, `"\u0041%x":1,`, i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		msg   string
		audio int
	}{
		"a payload's slashes": {`{"event":"media","streamSid":"MZ1","media":{"payload":"` + strings.Repeat(`AA\/C`, 1<<19) + `"}}`, 3 << 19},
		"all of a payload":    {`{"event":"media","streamSid":"MZ1","media":{"payload":"` + strings.Repeat(`\u0041`, 1<<18) + `"}}`, 3 << 16},
		"many members":        {`{` + members(2<<20) + `"event":"clear","streamSid":"MZ1"}`, 0},
		"a deep array":        {`{"event":"clear","streamSid":"MZ1","x":"\u0041","y":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, 0},
	} {
		msg, audio := make([]byte, len(c.msg)), make([]byte, 0, c.audio+3)
		require.Zero(t, testing.AllocsPerRun(20, func() {
			copy(msg, c.msg)
			f, err := twilio.Read(msg, "MZ1")
			if err != nil {
				panic(name + ": " + err.Error())
			}
			if c.audio > 0 {
				if audio, err = twilio.Audio(audio, f.Payload); err != nil || len(audio) != c.audio {
					panic(name)
				}
			}
		}), name)
	}
}

// TestNoAllocations holds the frames of audio to no allocation, both ways.
func TestNoAllocations(t *testing.T) {
	s, buf := stream(), make([]byte, 0, 1024)
	ulaw := bytes.Repeat([]byte{0x9e}, 160)
	in := []byte(`{"event":"media","streamSid":"` + s.StreamSID + `","media":{"payload":"` + base64.StdEncoding.EncodeToString(ulaw) + `"}}`)
	audio := make([]byte, 0, 256)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		buf = s.AppendMedia(buf[:0], 12345, ulaw)
		f, err := twilio.Read(in, s.StreamSID)
		if err != nil {
			panic(err)
		}
		if audio, err = twilio.Audio(audio, f.Payload); err != nil || len(audio) != 160 {
			panic("no audio")
		}
	}))
}

func BenchmarkFrames(b *testing.B) {
	s, buf := stream(), make([]byte, 0, 1024)
	ulaw := bytes.Repeat([]byte{0x9e}, 160)
	in := []byte(`{"event":"media","streamSid":"` + s.StreamSID + `","media":{"payload":"` + base64.StdEncoding.EncodeToString(ulaw) + `"}}`)
	audio := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		buf = s.AppendMedia(buf[:0], 12345, ulaw)
		f, _ := twilio.Read(in, s.StreamSID)
		audio, _ = twilio.Audio(audio, f.Payload)
	}
}

// BenchmarkManyMembers reads the worst that is read on a tick thread: 15 KiB of members that don't matter.
func BenchmarkManyMembers(b *testing.B) {
	var m strings.Builder
	m.WriteString(`{"x":"\u0041",`)
	for i := 0; m.Len() < 15<<10; i++ {
		fmt.Fprintf(&m, `"%x":1,`, i)
	}
	m.WriteString(`"event":"clear","streamSid":"MZ1"}`)
	msg := make([]byte, m.Len())
	b.ReportAllocs()
	for b.Loop() {
		copy(msg, m.String())
		if _, err := twilio.Read(msg, "MZ1"); err != nil {
			b.Fatal(err)
		}
	}
}
