package ws

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// sinkLog notes what a Reader finds.
type sinkLog struct {
	texts    []string
	bin      []byte
	messages int
	controls []string
	stop     bool
}

func (s *sinkLog) Binary(p []byte, end bool) {
	s.bin = append(s.bin, p...)
	if end {
		s.messages++
	}
}

func (s *sinkLog) Text(msg []byte) bool {
	s.texts = append(s.texts, string(msg))
	return !s.stop
}

func (s *sinkLog) Long([]byte, int) (bool, error) { return true, nil }
func (s *sinkLog) Spent() bool                    { return false }

func (s *sinkLog) Control(op byte, p []byte) {
	s.controls = append(s.controls, string(rune('a'+op))+string(p))
}

// TestFrameReader feeds the same frames whole and in random pieces.
func TestFrameReader(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("0123456789"), 7000)
	var in []byte
	in = append(in, wstest.Frame(0x01, []byte("hel"))...)
	in = append(in, wstest.Frame(0x89, []byte("ping"))...) // a control frame between the pieces of a message
	in = append(in, wstest.Frame(0x80, []byte("lo"))...)
	in = append(in, wstest.Frame(0x82, long)...)
	in = append(in, wstest.Frame(0x02, []byte("ab"))...)
	in = append(in, wstest.Frame(0x00, nil)...)
	in = append(in, wstest.Frame(0x80, bytes.Repeat([]byte("c"), 300))...)
	in = append(in, wstest.Frame(0x82, nil)...)
	in = append(in, wstest.Frame(0x81, []byte("bye"))...)
	in = append(in, wstest.Frame(0x88, ClosePayload(1000, "x"))...)
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		var r Reader
		var s sinkLog
		for rest := in; len(rest) > 0; {
			n := len(rest)
			if round > 0 {
				n = min(n, 1+rnd.IntN(1+rnd.IntN(5000)))
			}
			used, err := r.Feed(rest[:n], &s)
			require.NoError(t, err)
			require.Equal(t, n, used)
			rest = rest[n:]
		}
		require.Equal(t, []string{"hello", "bye"}, s.texts)
		require.Equal(t, string(long)+"ab"+strings.Repeat("c", 300), string(s.bin))
		require.Equal(t, 3, s.messages)
		require.Equal(t, []string{"jping", "i\x03\xe8x"}, s.controls)
	}
}

// TestFrameReaderStops leaves what follows a text frame unread when the sink asks for it.
func TestFrameReaderStops(t *testing.T) {
	t.Parallel()
	in := append(wstest.Frame(0x81, []byte("one")), wstest.Frame(0x81, []byte("two"))...)
	var r Reader
	s := sinkLog{stop: true}
	n, err := r.Feed(in, &s)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	_, err = r.Feed(in[n:], &s)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, s.texts)
}

func TestFrameErrors(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]byte{
		"reserved bits":    {0xc1, 0},
		"masked":           {0x81, 0x80},
		"unknown opcode":   {0x83, 0},
		"long ping":        {0x89, 126, 0, 200},
		"ping in pieces":   {0x09, 0},
		"continuation":     {0x80, 0},
		"nested message":   {0x01, 1, 'a', 0x81, 0},
		"negative length":  {0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0},
		"text beyond 16 M": {0x81, 127, 0, 0, 0, 0, 1, 0, 0, 1},
		"pieces beyond it": append(append([]byte{0x01, 127, 0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, MaxText)...), 0x80, 1),
	} {
		var r Reader
		_, err := r.Feed(in, &sinkLog{})
		var fe *FrameError
		require.ErrorAs(t, err, &fe, name)
	}
}

func TestAppendFrame(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 7, 8, 9, 125, 126, 65535, 65536} {
		payload := bytes.Repeat([]byte{0xa5}, n)
		f := AppendFrame(nil, OpBinary, payload)
		require.Equal(t, byte(0x82), f[0])
		require.NotZero(t, f[1]&0x80, "a client's frames are masked")
		head := 2
		switch f[1] & 0x7f {
		case 126:
			head = 4
		case 127:
			head = 10
		}
		key, body := f[head:head+4], f[head+4:]
		for i := range body {
			body[i] ^= key[i%4]
		}
		require.True(t, bytes.Equal(payload, body))
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(wstest.Frame(0x81, []byte("x")), uint8(1))
	f.Add(wstest.Frame(0x02, []byte("x")), uint8(3))
	f.Add([]byte{0x88, 2, 3, 0xe8}, uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		var whole, pieces Reader
		var a, c sinkLog
		_, errA := whole.Feed(b, &a)
		var errC error
		step := int(cut) + 1
		for i := 0; i < len(b) && errC == nil; i += step {
			_, errC = pieces.Feed(b[i:min(i+step, len(b))], &c)
		}
		require.Equal(t, errA == nil, errC == nil)
		require.Equal(t, a, c)
	})
}

// FuzzFrameSequence builds a server's stream from its input (messages of both kinds in random pieces, control frames between
// them), spoils it or not, and feeds it in random pieces: all messages come whole and in order, up to the spoiled frame.
func FuzzFrameSequence(f *testing.F) {
	f.Add([]byte{0, 5, 1, 9, 2, 200, 3, 4, 4}, uint8(3), uint8(0))
	f.Add([]byte{1, 40, 1, 40, 0, 0, 5, 2, 2, 2}, uint8(1), uint8(1))
	f.Add([]byte{2, 255, 0, 255, 2, 255}, uint8(255), uint8(2))
	f.Fuzz(func(t *testing.T, plan []byte, cut, spoil uint8) {
		var in []byte
		var texts, controls []string
		var bin []byte
		messages := 0
		for i := 0; i+1 < len(plan) && i < 200; i += 2 {
			n := int(plan[i+1]) * (1 + int(plan[i]>>4)*40)
			body := bytes.Repeat([]byte{'a' + plan[i+1]%26}, n)
			op := byte(OpText)
			if plan[i]&1 == 1 {
				op = OpBinary
			}
			pieces := 1 + int(plan[i]>>1&3)
			for k := range pieces {
				part := body[k*n/pieces : (k+1)*n/pieces]
				first := op
				if k > 0 {
					first = opContinuation
					ping := []byte{plan[i+1]}
					in = append(in, wstest.Frame(0x80|OpPing, ping)...)
					controls = append(controls, string(rune('a'+OpPing))+string(ping))
				}
				if k == pieces-1 {
					first |= 0x80
				}
				in = append(in, wstest.Frame(first, part)...)
			}
			if op == OpText {
				texts = append(texts, string(body))
			} else {
				bin = append(bin, body...)
				messages++
			}
		}
		bad := [][]byte{
			nil,
			{0xc1, 0},
			{0xa1, 0},
			{0x91, 0},
			{0x81, 0x80},
			{0x83, 0},
			{0x09, 0},
			{0x88, 126, 0, 200},
			{0x80, 0},
			{0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0},
			{0x81, 127, 0, 0, 0, 0, 1, 0, 0, 1},
		}[int(spoil)%11]
		in = append(in, bad...)
		var r Reader
		var got sinkLog
		var err error
		step := int(cut) + 1
		for i := 0; i < len(in) && err == nil; i += step {
			_, err = r.Feed(in[i:min(i+step, len(in))], &got)
		}
		if bad == nil {
			require.NoError(t, err)
		} else {
			var fe *FrameError
			require.ErrorAs(t, err, &fe)
		}
		require.Equal(t, texts, got.texts)
		require.Equal(t, string(bin), string(got.bin))
		require.Equal(t, messages, got.messages)
		require.Equal(t, controls, got.controls)
	})
}

// A text without leave to be long costs no more memory than one that needs none.
func TestLongTextWithoutLeave(t *testing.T) {
	t.Parallel()
	var r Reader
	sink := &refusingSink{}
	frame := wstest.Frame(0x81, bytes.Repeat([]byte("x"), MaxText))
	used, err := r.Feed(frame, sink)
	require.NoError(t, err)
	require.Equal(t, 10+MaxPlainText, used)
	require.LessOrEqual(t, cap(r.msg), 2*MaxPlainText)
	require.Equal(t, MaxText, sink.asked)
}

// refusingSink gives no text leave to be long.
type refusingSink struct {
	sinkLog
	asked int
}

func (s *refusingSink) Long(_ []byte, size int) (bool, error) {
	s.asked = size
	return false, nil
}

// TestTextIsUTF8 fails a connection whose text isn't UTF-8, wherever frames and reads cut it, and as soon as that is known.
func TestTextIsUTF8(t *testing.T) {
	t.Parallel()
	whole := "नमस्ते, \U0001F600 " + strings.Repeat("é", 40000)
	var in []byte
	in = append(in, wstest.Frame(0x01, []byte(whole[:1]))...) // within a character
	in = append(in, wstest.Frame(0x00, nil)...)
	in = append(in, wstest.Frame(0x00, []byte(whole[1:8]))...)
	in = append(in, wstest.Frame(0x80, []byte(whole[8:]))...)
	in = append(in, wstest.Frame(0x81, []byte("and more"))...)
	for _, step := range []int{1, 2, 3, 7, 1000, len(in)} {
		r, s := Reader{Buffers: &Buffers{}}, sinkLog{}
		for i := 0; i < len(in); i += step {
			_, err := r.Feed(in[i:min(i+step, len(in))], &s)
			require.NoError(t, err)
		}
		require.Equal(t, []string{whole, "and more"}, s.texts)
	}
	for name, bad := range map[string][]byte{
		"a byte that UTF-8 hasn't":        wstest.Frame(0x81, []byte("a\xffb")),
		"a character that doesn't end":    wstest.Frame(0x81, []byte("a\xe0\xa4")),
		"one that doesn't in pieces":      append(wstest.Frame(0x01, []byte("\xe0\xa4")), wstest.Frame(0x80, nil)...),
		"one that doesn't go on":          append(wstest.Frame(0x01, []byte("\xe0\xa4")), wstest.Frame(0x80, []byte("x"))...),
		"a surrogate":                     wstest.Frame(0x81, []byte("\xed\xa0\x80")),
		"a character written too long":    wstest.Frame(0x81, []byte("\xc0\xaf")),
		"the beginning of a long message": wstest.Frame(0x01, bytes.Repeat([]byte{0xff}, 10))[:3],
	} {
		for _, step := range []int{1, len(bad)} {
			r, s, err := Reader{}, sinkLog{}, error(nil)
			for i := 0; i < len(bad) && err == nil; i += step {
				_, err = r.Feed(bad[i:min(i+step, len(bad))], &s)
			}
			var fe *FrameError
			require.ErrorAs(t, err, &fe, name)
			require.Equal(t, CloseInvalid, fe.Code, name)
			require.Empty(t, s.texts, name)
		}
	}
	r, s := Reader{}, sinkLog{}
	_, err := r.Feed(wstest.Frame(0x82, []byte("\xff\xfe")), &s)
	require.NoError(t, err, "audio is none of it")
}

// BenchmarkReader reads 20 ms of audio as our own transport has it, as Twilio's and OpenAI's have it, and 30 s in one text.
func BenchmarkReader(b *testing.B) {
	for name, frame := range map[string][]byte{
		"binary":    wstest.Frame(0x82, make([]byte, 640)),
		"text":      wstest.Frame(0x81, bytes.Repeat([]byte("abcd"), 80)),
		"long text": wstest.Frame(0x81, bytes.Repeat([]byte("abcd"), 1280000/4)),
	} {
		b.Run(name, func(b *testing.B) {
			r, s := Reader{Buffers: &Buffers{}}, nullSink{}
			b.SetBytes(int64(len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				for in := frame; len(in) > 0; {
					used, err := r.Feed(in[:min(len(in), 64<<10)], s)
					if err != nil {
						b.Fatal(err)
					}
					in = in[used:]
				}
			}
		})
	}
}

// nullSink takes everything.
type nullSink struct{}

func (nullSink) Binary([]byte, bool)            {}
func (nullSink) Text([]byte) bool               { return true }
func (nullSink) Long([]byte, int) (bool, error) { return true, nil }
func (nullSink) Control(byte, []byte)           {}
func (nullSink) Spent() bool                    { return false }
