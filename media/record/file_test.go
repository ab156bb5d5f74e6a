package record

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/wav/wavtest"
)

// requireMarks checks that a recording holds marks from its begin to its end.
func requireMarks(t *testing.T, s wavtest.Strict, lay wav.Layout) {
	t.Helper()
	requireData(t, marks(lay, s.Frames), s)
}

// requireData compares a recording with the data that it should hold.
func requireData(t *testing.T, want []byte, s wavtest.Strict) {
	t.Helper()
	if bytes.Equal(want, s.Data) {
		return
	}
	require.Len(t, s.Data, len(want))
	for i := range want {
		if want[i] != s.Data[i] {
			require.Failf(t, "another sample", "%#x instead of %#x at byte %d of %d", s.Data[i], want[i], i, len(want))
		}
	}
}

// marks are the data of so many frames of marks.
func marks(lay wav.Layout, frames int) (data []byte) {
	for pos := 0; pos < frames; pos += wavtest.MarkRun {
		frame := lay.AppendSamples(nil, []int16{wavtest.MarkAt(int64(pos), 0), wavtest.MarkAt(int64(pos), 1)})
		data = append(data, bytes.Repeat(frame, min(wavtest.MarkRun, frames-pos))...)
	}
	return data
}

// putMarks records marks of 20 ms on both channels and lets the clock go on.
func putMarks(rec *testRecorder, pos int64) error {
	var pcm [dsp.FrameSamples]int16
	for ch := range 2 {
		wavtest.PutMarks(pcm[:], pos, ch)
		rec.Put(ch, pos, pcm[:])
	}
	return rec.Advance(pos + dsp.FrameSamples)
}

const (
	// testPause is short, so that a test which is faster than time has its rounds.
	testPause = 5 * time.Millisecond
	// testSpare is little enough for a test to use it up: 4 MiB.
	testSpare = maxBlocks / 16
)

func newTestWriter(t *testing.T, open opener) *Writer {
	t.Helper()
	w := newWriter(NewMetrics(), open, testPause, testSpare)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, w.Close(ctx))
	})
	return w
}

// testRecorder is a recorder and its file.
type testRecorder struct {
	*Recorder
	file *File
}

func newTestRecorder(w *Writer, spec Spec) *testRecorder {
	f := w.Add(&spec, slog.New(slog.DiscardHandler))
	return &testRecorder{Recorder: NewRecorder(f, 0, false), file: f}
}

func (w *Writer) backlog() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}

// breathe waits until the writer has caught up, so that a test which is faster than time does not end its recordings.
func (w *Writer) breathe(tb testing.TB, most int) {
	tb.Helper()
	require.True(tb, w.catchesUp(most), "the writer is stuck")
}

func (w *Writer) catchesUp(most int) bool {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(soon); w.backlog() > most; <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// TestRecordingIsValidAtEveryMoment reads a growing file again and again.
func TestRecordingIsValidAtEveryMoment(t *testing.T) {
	t.Parallel()
	for _, encoding := range wav.Encodings() {
		t.Run(string(encoding), func(t *testing.T) {
			t.Parallel()
			w := newTestWriter(t, openFile)
			path := filepath.Join(t.TempDir(), "grow.wav")
			lay, err := wav.LayoutOf(encoding)
			require.NoError(t, err)
			rec := newTestRecorder(w, Spec{Path: path, Encoding: encoding})
			written, turn := make(chan error, 1), make(chan struct{}) // a block for each read
			const length = 15 * dsp.SampleRate
			go func() {
				var err error
				for pos := int64(0); pos < length && err == nil; pos += dsp.FrameSamples {
					err = putMarks(rec, pos)
					if pos%blockSamples != 0 {
						continue
					}
					<-turn
					if !w.catchesUp(1) {
						err = errors.New("the writer is stuck")
					}
				}
				rec.Finish(length)
				rec.file.Close()
				written <- err
			}()
			reads, sizes := 0, map[int]bool{}
			often := time.NewTicker(500 * time.Microsecond) // the machine has other tests to run
			defer often.Stop()
			for done := false; !done; reads++ {
				<-often.C
				select {
				case err := <-written:
					require.NoError(t, err)
					<-rec.file.done
					done = true
				case turn <- struct{}{}:
				default:
				}
				b, err := os.ReadFile(path)
				if os.IsNotExist(err) && !done {
					continue // the worker has not yet opened it; what comes to this path has a header
				}
				require.NoError(t, err)
				s, err := wavtest.ParseStrict(b)
				require.NoError(t, err)
				if !sizes[s.Frames] {
					sizes[s.Frames] = true
					requireMarks(t, s, lay)
				}
			}
			s := wavtest.ReadStrict(t, path)
			require.Equal(t, length, s.Frames)
			wavtest.Soxi(t, path, length)
			require.Greater(t, len(sizes), 10)
			t.Logf("%d reads saw %d sizes", reads, len(sizes))
		})
	}
}

// recordEnv makes the test binary a process that records marks to the path that it names, in real time, until it is killed.
const recordEnv = "RINGMASTER_TEST_RECORD"

// TestMain runs the tests, or, in a process that a test has started, a recorder.
func TestMain(m *testing.M) {
	if spec := os.Getenv(recordEnv); spec != "" {
		os.Exit(recordMarks(spec, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

// recordMarks is that process. It records four seconds as fast as they are written, prints after each block what is in the file at least,
// and waits for its end.
func recordMarks(spec string, out io.Writer) int {
	encoding, path, _ := strings.Cut(spec, ":")
	w := newWriter(NewMetrics(), openFile, testPause, testSpare)
	rec := newTestRecorder(w, Spec{Path: path, Encoding: wav.Encoding(encoding)})
	written := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.waiting == 0 && !rec.file.busy
	}
	for pos := int64(0); pos < killedSamples; pos += dsp.FrameSamples {
		if putMarks(rec, pos) != nil {
			return 1
		}
		if pos%blockSamples != 0 {
			continue
		}
		for tick := time.NewTicker(time.Millisecond); !written(); <-tick.C {
		}
		if _, err := fmt.Fprintln(out, pos-blockSamples-holdSamples); err != nil {
			return 1
		}
	}
	select {}
}

const killedSamples = 4 * dsp.SampleRate

// TestKilledProcessLeavesItsRecording kills processes that record, at random moments. Each leaves a file that can be played
// and lacks no more than what isn't written yet by the clock: a block, and what may still be mixed.
func TestKilledProcessLeavesItsRecording(t *testing.T) {
	t.Parallel()
	for n, encoding := range []wav.Encoding{wav.PCM, wav.ULaw, wav.PCM, wav.ALaw} {
		t.Run(fmt.Sprintf("%d %s", n, encoding), func(t *testing.T) {
			t.Parallel()
			killRecording(t, encoding)
		})
	}
}

// killRecording kills a process that records and looks at its file.
func killRecording(t *testing.T, encoding wav.Encoding) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "killed.wav")
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), recordEnv+"="+string(encoding)+":"+path)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	until := int64(dsp.SampleRate) + rand.Int64N(2*dsp.SampleRate)
	var written int64
	lines := bufio.NewScanner(out)
	for written < until && lines.Scan() {
		written, err = strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err)
	}
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.GreaterOrEqual(t, written, until)
	s := wavtest.ReadStrict(t, path)
	wavtest.Soxi(t, path, s.Frames)
	lay, err := wav.LayoutOf(encoding)
	require.NoError(t, err)
	requireMarks(t, s, lay)
	require.GreaterOrEqual(t, int64(s.Frames), written)

	start := time.Unix(1000, 0)
	info, err := wav.Finish(t.Context(), path, start, start, start.Add(5*time.Second))
	require.NoError(t, err, "the next controller makes a whole recording of it")
	require.Equal(t, 5*time.Second, info.Duration)
	wavtest.Soxi(t, path, 5*dsp.SampleRate)
}

// TestAppendKeepsTheEncoding goes on in a file of another encoding than is configured now; the gap is that one's silence.
func TestAppendKeepsTheEncoding(t *testing.T) {
	t.Parallel()
	w := newTestWriter(t, openFile)
	path := filepath.Join(t.TempDir(), "a.wav")
	first := newTestRecorder(w, Spec{Path: path, Encoding: wav.ULaw})
	for pos := int64(0); pos < dsp.SampleRate; pos += dsp.FrameSamples {
		require.NoError(t, putMarks(first, pos))
	}
	first.Finish(dsp.SampleRate)
	first.file.Close()
	<-first.file.done
	crashed, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = crashed.Write([]byte{0xFF, 0xFF, 0xFF}) // audio that the header doesn't tell of, half a frame of it
	require.NoError(t, err)
	require.NoError(t, crashed.Close())

	again := newTestRecorder(w, Spec{Path: path, Encoding: wav.PCM, Append: true})
	again.Base = 3 * dsp.SampleRate
	for pos := again.Base; pos < 4*dsp.SampleRate; pos += dsp.FrameSamples {
		require.NoError(t, putMarks(again, pos))
	}
	again.Finish(4 * dsp.SampleRate)
	again.file.Close()
	<-again.file.done
	s := wavtest.ReadStrict(t, path)
	require.Equal(t, wav.FormatULaw, s.Format)
	require.Equal(t, 4*dsp.SampleRate, s.Frames)
	require.Equal(t, make([]int16, 2*dsp.SampleRate), s.Left[dsp.SampleRate:3*dsp.SampleRate], "the gap is silence")
	require.Equal(t, wavtest.MarkAt(3*dsp.SampleRate+5, 0), s.Left[3*dsp.SampleRate+5])
	require.Equal(t, wavtest.MarkAt(7, 1), s.Right[7])

	broken := filepath.Join(t.TempDir(), "broken.wav")
	require.NoError(t, os.WriteFile(broken, []byte("ID3"+strings.Repeat("x", 100)), 0o600))
	fresh := newTestRecorder(w, Spec{Path: broken, Append: true})
	fresh.file.Close()
	<-fresh.file.done
	require.Zero(t, wavtest.ReadStrict(t, broken).Frames, "what is no recording is begun anew")
}

// TestRecordingAcrossTheWindow puts frames that lie across the window's end, out of order and of odd sizes.
func TestRecordingAcrossTheWindow(t *testing.T) {
	t.Parallel()
	w := newTestWriter(t, openFile)
	path := filepath.Join(t.TempDir(), "ring.wav")
	rec := newTestRecorder(w, Spec{Path: path})
	const size, length = 331, 10 * dsp.SampleRate
	put := func(pos int64) {
		var pcm [size]int16
		for ch := range 2 {
			wavtest.PutMarks(pcm[:], pos, ch)
			rec.Put(ch, pos, pcm[:])
		}
	}
	for pos := int64(0); pos < length; pos += 2 * size {
		put(pos + size)
		put(pos)
		require.NoError(t, rec.Advance(pos))
		w.breathe(t, 8)
	}
	closed(t, w, rec, length)
	s := wavtest.ReadStrict(t, path)
	require.Equal(t, length, s.Frames)
	requireMarks(t, s, rec.file.lay)
	require.Zero(t, rec.clipped)
}

const (
	// soon bounds the wait for what comes at once on an idle machine, tick is how often one looks.
	soon = 30 * time.Second
	tick = 5 * time.Millisecond
)
