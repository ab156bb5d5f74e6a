package media

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
		q := newPlayout(new(chunkPool), []int{8000, 16000, 24000, 48000}[seed%4])
		var model []int16
		var marks []string
		at := map[string]int{} // samples that are still to be played before a mark
		next, name := 0, 0
		frame := make([]int16, q.frame())
		for range 400 {
			switch rnd.IntN(10) {
			case 0, 1, 2:
				pcm := ramp[next:][:rnd.IntN(3000)]
				next = (next + len(pcm)) % 20000
				require.Zero(t, q.push(pcm))
				model = append(model, pcm...)
			case 3:
				name++
				require.True(t, q.addMark(strconv.Itoa(name)))
				marks = append(marks, strconv.Itoa(name))
				at[strconv.Itoa(name)] = len(model)
			case 4:
				if rnd.IntN(4) > 0 {
					continue
				}
				q.clearAudio()
				got := q.dropMarks(nil)
				require.Len(t, got, len(marks))
				for i, m := range got {
					require.Equal(t, markAnswer{name: marks[i], cleared: true}, m)
				}
				model, marks = nil, nil
			default:
				got := q.played(nil)
				n := 0
				for n < len(marks) && at[marks[n]] <= 0 {
					n++
				}
				require.Len(t, got, n)
				for _, name := range marks[:n] {
					delete(at, name)
				}
				marks = marks[n:]
				want := min(len(model), q.frame())
				if n := q.pull(frame); n != want || !slices.Equal(model[:want], frame[:want]) {
					require.FailNow(t, "another frame", "%d samples of %d", n, want)
				}
				model = model[want:]
				for k := range at {
					at[k] -= want
				}
			}
			if len(model) != q.backlog() {
				require.Equal(t, len(model), q.backlog())
			}
		}
	}
}

func TestPlayoutBounds(t *testing.T) {
	t.Parallel()
	q := newPlayout(new(chunkPool), dsp.SampleRate)
	require.Zero(t, q.push(make([]int16, maxQueued*dsp.SampleRate-10)))
	require.Equal(t, 90, q.push(make([]int16, 100)))
	for range maxMarks {
		require.True(t, q.addMark("x"))
	}
	require.False(t, q.addMark("x"))
}

func TestPlayoutFades(t *testing.T) {
	t.Parallel()
	q := newPlayout(new(chunkPool), dsp.SampleRate)
	q.push([]int16{8000, 8000, 8000})
	frame := make([]int16, dsp.FrameSamples)
	require.Equal(t, 3, q.pull(frame))
	require.Greater(t, frame[4], int16(7000))
	require.Zero(t, frame[3+fadeSamples])
	q.push(dsptest.Tone(425, 8000, 400))
	q.pull(frame)
	q.clearAudio()
	require.Zero(t, q.pull(frame))
	require.Zero(t, frame[fadeSamples])
}

// live plays a stream that comes in real time for some seconds, after a stall that has queued late samples.
func live(q *playout, late, seconds int, audio func(n int) []int16) {
	q.push(audio(late))
	frame := make([]int16, q.frame())
	for range seconds * 50 {
		q.push(audio(len(frame)))
		q.pull(frame)
	}
}

// TestBacklogIsNotDelay proves that a stall's delay goes away, and that an AI which speaks ahead loses nothing.
func TestBacklogIsNotDelay(t *testing.T) {
	t.Parallel()
	quiet := func(n int) []int16 { return make([]int16, n) }
	loud := func(n int) []int16 { return dsptest.Tone(425, 8000, n) }

	for _, rate := range []int{8000, 16000, 24000, 48000} {
		k := rate / dsp.SampleRate
		q := newPlayout(new(chunkPool), rate)
		live(&q, 4000*k, 4, quiet)
		require.LessOrEqual(t, q.backlog(), 2*q.frame(), "500 ms of silence")

		q = newPlayout(new(chunkPool), rate)
		live(&q, 4000*k, 4, loud)
		require.Equal(t, 4000*k, q.backlog(), "half a second of speech is not worth a cut")

		q = newPlayout(new(chunkPool), rate)
		live(&q, 16000*k, 14, loud)
		require.Less(t, q.backlog(), rate+q.frame(), "two seconds are")

		q = newPlayout(new(chunkPool), rate)
		q.push(quiet(10 * rate))
		frame := make([]int16, q.frame())
		for range 200 {
			q.pull(frame)
		}
		require.Equal(t, 6*rate, q.backlog(), "an AI that speaks ahead")
	}
}

// TestPlayoutDropped tells audio that came too far ahead of time, once in the log, apart from frames that the AI did not get.
func TestPlayoutDropped(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	var log strings.Builder
	r.p.log = slog.New(slog.NewTextHandler(&log, nil))
	r.p.ai.enqueue(make([]int16, (maxQueued-1)*dsp.SampleRate), false)
	require.Zero(t, r.p.stats.PlayoutDropped)
	for range 3 {
		r.p.ai.enqueue(make([]int16, dsp.SampleRate), false)
	}
	st := r.p.snapshot()
	require.Equal(t, 2*time.Second, st.PlayoutDropped)
	require.Zero(t, st.FramesDropped)
	require.EqualValues(t, 2*dsp.SampleRate, r.p.sh.tally.unplayed)
	require.Zero(t, r.p.sh.tally.dropped)
	require.Equal(t, 1, strings.Count(log.String(), "too far ahead"))
}
