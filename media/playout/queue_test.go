package playout

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// TestPlayoutModel compares the queue with a plain list of samples and marks, over random operations: each mark is
// answered once, as played when all before it was played, as cleared when it was dropped.
func TestPlayoutModel(t *testing.T) {
	t.Parallel()
	ramp := make([]int16, 23000)
	for i := range ramp {
		ramp[i] = int16(1000 + i%20000)
	}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		q := New(new(Pool), []int{8000, 16000, 24000, 48000}[seed%4])
		var model []int16
		var marks []string
		at := map[string]int{} // samples that are still to be played before a mark
		next, name := 0, 0
		frame := make([]int16, q.Frame())
		for range 400 {
			switch rnd.IntN(10) {
			case 0, 1, 2:
				pcm := ramp[next:][:rnd.IntN(3000)]
				next = (next + len(pcm)) % 20000
				require.Zero(t, q.Push(pcm))
				model = append(model, pcm...)
			case 3:
				name++
				require.True(t, q.AddMark(strconv.Itoa(name)))
				marks = append(marks, strconv.Itoa(name))
				at[strconv.Itoa(name)] = len(model)
			case 4:
				if rnd.IntN(4) > 0 {
					continue
				}
				q.Clear()
				q.rest.n = 0 // the fade is TestPlayoutFades'
				got := q.DropMarks(nil)
				require.Len(t, got, len(marks))
				for i, m := range got {
					require.Equal(t, Answer{Name: marks[i], Cleared: true}, m)
				}
				model, marks = nil, nil
			default:
				got := q.Played(nil)
				n := 0
				for n < len(marks) && at[marks[n]] <= 0 {
					n++
				}
				require.Len(t, got, n)
				for _, name := range marks[:n] {
					delete(at, name)
				}
				marks = marks[n:]
				want := min(len(model), q.Frame())
				if n := q.Pull(frame); n != want || !slices.Equal(model[:want], frame[:want]) {
					require.FailNow(t, "another frame", "%d samples of %d", n, want)
				}
				model = model[want:]
				for k := range at {
					at[k] -= want
				}
			}
			if len(model) != q.Backlog() {
				require.Equal(t, len(model), q.Backlog())
			}
		}
	}
}

func TestPlayoutBounds(t *testing.T) {
	t.Parallel()
	q := New(new(Pool), dsp.SampleRate)
	require.Zero(t, q.Push(make([]int16, MaxQueued*dsp.SampleRate-10)))
	require.Equal(t, 90, q.Push(make([]int16, 100)))
	for range MaxMarks {
		require.True(t, q.AddMark("x"))
	}
	require.False(t, q.AddMark("x"))
}

func TestPlayoutFades(t *testing.T) {
	t.Parallel()
	q := New(new(Pool), dsp.SampleRate)
	q.Push([]int16{8000, 8000, 8000})
	frame := make([]int16, dsp.FrameSamples)
	require.Equal(t, 3, q.Pull(frame))
	require.Greater(t, frame[4], int16(7000))
	require.Zero(t, frame[3+FadeSamples])
	q.Push(dsptest.Tone(425, 8000, 400))
	q.Pull(frame)
	q.Clear()
	require.Equal(t, FadeSamples, q.Pull(frame))
	require.NotZero(t, frame[FadeSamples/2])
	require.Zero(t, frame[FadeSamples])
	require.Zero(t, q.Pull(frame))
	q.Push(dsptest.Tone(425, 8000, 400))
	q.Clear()
	require.Zero(t, q.Pull(frame), "nobody has begun to hear it")
}

// live plays a stream that comes in real time for some seconds, after a stall that has queued late samples.
func live(q *Queue, late, seconds int, audio func(n int) []int16) {
	q.Push(audio(late))
	frame := make([]int16, q.Frame())
	for range seconds * 50 {
		q.Push(audio(len(frame)))
		q.Pull(frame)
	}
}

// TestBacklogIsNotDelay proves that a stall's delay goes away, and that an AI which speaks ahead loses nothing.
func TestBacklogIsNotDelay(t *testing.T) {
	t.Parallel()
	quiet := func(n int) []int16 { return make([]int16, n) }
	loud := func(n int) []int16 { return dsptest.Tone(425, 8000, n) }

	for _, rate := range []int{8000, 16000, 24000, 48000} {
		k := rate / dsp.SampleRate
		q := New(new(Pool), rate)
		live(&q, 4000*k, 4, quiet)
		require.LessOrEqual(t, q.Backlog(), 2*q.Frame(), "500 ms of silence")

		q = New(new(Pool), rate)
		live(&q, 4000*k, 4, loud)
		require.Equal(t, 4000*k, q.Backlog(), "half a second of speech is not worth a cut")

		q = New(new(Pool), rate)
		live(&q, 16000*k, 14, loud)
		require.Less(t, q.Backlog(), rate+q.Frame(), "two seconds are")

		q = New(new(Pool), rate)
		q.Push(quiet(10 * rate))
		frame := make([]int16, q.Frame())
		for range 200 {
			q.Pull(frame)
		}
		require.Equal(t, 6*rate, q.Backlog(), "an AI that speaks ahead")
	}
}
