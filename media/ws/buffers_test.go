package ws

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// A buffer is used again for what fills three quarters of it, and by one at a time. A collection in between may take it.
func TestLongBuffersAreUsedAgain(t *testing.T) {
	t.Parallel()
	array := func(buf []byte) *byte { return &buf[:1][0] }
	var b Buffers
	require.Eventually(t, func() bool {
		first := b.get(1 << 20)
		b.Put(first)
		require.NotSame(t, array(first), array(b.get(1<<19)), "it is twice as large")
		again := b.get(1<<20 - 1)
		require.NotSame(t, array(again), array(b.get(1<<20)), "it is in use")
		return array(first) == array(again)
	}, 20*time.Second, time.Millisecond)
}

// A buffer that grows keeps its bytes.
func TestLongBuffersGrow(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*Buffers{"used again": {}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				msg := b.get(2 * MaxPlainText)
				require.Empty(t, msg)
				for i := range MaxText >> 12 {
					msg = b.grow(msg, 1<<12)
					piece := make([]byte, 1<<12)
					piece[0], piece[1] = byte(i), byte(i>>8)
					msg = append(msg, piece...)
				}
				for i := range MaxText >> 12 {
					require.Equal(t, []byte{byte(i), byte(i >> 8)}, msg[i<<12:i<<12+2])
				}
				require.LessOrEqual(t, cap(msg), MaxText)
				b.Put(msg)
			}
		})
	}
}

// returningSink gives the buffers of long texts back once it has read them, as the decoder does.
type returningSink struct {
	sinkLog
	buffers *Buffers
}

func (s *returningSink) Text(msg []byte) bool {
	s.sinkLog.Text(msg)
	if len(msg) > MaxPlainText {
		clear(msg)
		s.buffers.Put(msg)
	}
	return true
}

// Long texts that come one after the other, whole, in fragments and cut off, between short ones, hold what was sent.
func TestLongTextsInUsedBuffers(t *testing.T) {
	t.Parallel()
	sink := &returningSink{buffers: &Buffers{}}
	var sent []string
	for round := range 3 {
		r := Reader{Buffers: sink.buffers}
		var in []byte
		for i, size := range []int{10, 3 * MaxPlainText, 100, MaxPlainText + 1, 1 << 20, 7} {
			text := strings.Repeat(string(rune('a'+6*round+i)), size)
			sent = append(sent, text)
			if i%2 == 1 {
				in = append(in, wstest.Frame(0x81, []byte(text))...)
				continue
			}
			at := size / 3
			in = append(in, wstest.Frame(0x01, []byte(text[:at]))...)
			in = append(in, wstest.Frame(0x80, []byte(text[at:]))...)
		}
		cut := wstest.Frame(0x81, bytes.Repeat([]byte("z"), 3*MaxPlainText))
		in = append(in, cut[:2*MaxPlainText]...)
		for len(in) > 0 {
			n := min(len(in), 4093)
			used, err := r.Feed(in[:n], sink)
			require.NoError(t, err)
			require.Equal(t, n, used)
			in = in[n:]
		}
		require.True(t, r.long)
		r.Drop()
		require.False(t, r.long)
	}
	require.True(t, slices.Equal(sent, sink.texts))
}
