package record

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/wav/wavtest"
)

// alerts keeps the log records that ask for somebody's attention.
type alerts struct {
	mu   sync.Mutex
	seen []string
}

func (a *alerts) Enabled(context.Context, slog.Level) bool { return true }
func (a *alerts) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a *alerts) WithGroup(string) slog.Handler            { return a }

// Handle implements slog.Handler.
func (a *alerts) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "reason" {
			a.seen = append(a.seen, attr.Value.String())
		}
		return true
	})
	return nil
}

func (a *alerts) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

func (w *Writer) failures(reason string) float64 {
	return testutil.ToFloat64(w.metrics.failures.WithLabelValues(reason))
}

// tinyDisk mounts a file system of so many kilobytes, and skips the test where that is not allowed.
func tinyDisk(t *testing.T, kilobytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kilobytes)); err != nil {
		t.Skipf("NOT TESTED: a full disk; a small file system can't be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill records marks until a position, or until the recording fails, and tells the error.
func fill(t *testing.T, w *Writer, rec *testRecorder, from, to int64) error {
	t.Helper()
	for pos := from; pos < to; pos += dsp.FrameSamples {
		if err := putMarks(rec, pos); err != nil {
			return err
		}
		if pos%blockSamples == 0 {
			w.breathe(t, 4)
		}
	}
	w.breathe(t, 0)
	return nil
}

// closed ends a recording and waits for its file.
func closed(t *testing.T, w *Writer, rec *testRecorder, end int64) {
	t.Helper()
	rec.Finish(end)
	rec.file.Close()
	select {
	case <-rec.file.done:
	case <-time.After(soon):
		require.FailNow(t, "the file was not closed")
	}
}

// TestDiskFull fills a real disk: the recording there ends and keeps what was written, with its true length; one on another
// disk goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for _, encoding := range wav.Encodings() {
		t.Run(string(encoding), func(t *testing.T) {
			t.Parallel()
			full := tinyDisk(t, 128)
			w := newTestWriter(t, openFile)
			log := &alerts{}
			path := filepath.Join(full, "a.wav")
			rec := newTestRecorder(w, Spec{Path: path, Encoding: encoding, Start: time.Unix(1000, 0)})
			rec.file.log = slog.New(log)
			other := newTestRecorder(w, Spec{Path: filepath.Join(t.TempDir(), "b.wav"), Encoding: encoding})

			const length = 30 * dsp.SampleRate
			err := fill(t, w, rec, 0, length)
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.ErrorIs(t, putMarks(rec, length), syscall.ENOSPC, "it has ended for good")
			require.NoError(t, fill(t, w, other, 0, length))
			closed(t, w, rec, length)
			closed(t, w, other, length)

			require.InDelta(t, 1, w.failures("disk_full"), 0)
			require.Eventually(t, func() bool { return len(log.all()) == 1 }, soon, tick)
			require.Equal(t, []string{"disk_full"}, log.all())
			require.InDelta(t, 1, testutil.ToFloat64(w.metrics.files.WithLabelValues("failed")), 0)
			require.InDelta(t, 1, testutil.ToFloat64(w.metrics.files.WithLabelValues("ok")), 0)

			start := time.Unix(1000, 0)
			info, err := rec.file.Finish(t.Context(), start, start.Add(30*time.Second))
			require.NoError(t, err)
			require.True(t, info.Partial)
			s := wavtest.ReadStrict(t, path)
			require.EqualValues(t, int64(s.Frames)*dsp.SampleNS, info.Duration)
			require.Greater(t, s.Frames, 2*dsp.SampleRate)
			requireMarks(t, s, rec.file.lay)
			wavtest.Soxi(t, path, s.Frames)
			require.Equal(t, length, wavtest.ReadStrict(t, other.file.spec.Path).Frames)
		})
	}
}

// TestNoRoomForTheSilence finishes a file whose end can't be padded.
func TestNoRoomForTheSilence(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tinyDisk(t, 64), "a.wav")
	lay, err := wav.LayoutOf(wav.ULaw)
	require.NoError(t, err)
	b := lay.AppendSamples(lay.AppendHeader(nil, dsp.SampleRate), make([]int16, 2*dsp.SampleRate))
	require.NoError(t, os.WriteFile(path, b, 0o600))
	start := time.Unix(1000, 0)
	info, err := wav.Finish(t.Context(), path, start, start, start.Add(time.Minute))
	require.NoError(t, err)
	require.True(t, info.Partial)
	require.Equal(t, time.Second, info.Duration)
	require.Equal(t, dsp.SampleRate, wavtest.ReadStrict(t, path).Frames)
}

// gatedDisk hangs in its writes while its gate is shut.
type gatedDisk struct {
	disk
	gate <-chan struct{}
}

// WriteAt implements io.WriterAt.
func (d gatedDisk) WriteAt(b []byte, at int64) (int, error) {
	<-d.gate
	return d.disk.WriteAt(b, at)
}

// gated opens recordings whose name contains "hung" on a disk that hangs.
func gated(gate <-chan struct{}) opener {
	return func(spec *Spec) (disk, wav.Layout, int64, error) {
		disk, lay, frames, err := openFile(spec)
		if err == nil && strings.Contains(spec.Path, "hung") {
			disk = gatedDisk{disk, gate}
		}
		return disk, lay, frames, err
	}
}

// TestOneFileHangs lets the disk hang in one file: that recording gets a gap, the others go on; one whose disk never returns is not
// waited for.
func TestOneFileHangs(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newTestWriter(t, gated(gate))
	dir := t.TempDir()
	hung := newTestRecorder(w, Spec{Path: filepath.Join(dir, "hung.wav")})
	others := make([]*testRecorder, 5)
	for i := range others {
		others[i] = newTestRecorder(w, Spec{Path: filepath.Join(dir, strconv.Itoa(i)+".wav")})
	}
	const length = 15 * dsp.SampleRate
	for pos := int64(0); pos < length; pos += dsp.FrameSamples {
		require.NoError(t, putMarks(hung, pos))
		for _, rec := range others {
			require.NoError(t, putMarks(rec, pos))
		}
		if pos%blockSamples == 0 {
			w.breathe(t, maxFileBlocks+8) // the hung one's own may wait
		}
	}
	require.InDelta(t, 0, w.failures("disk_slow"), 0)
	require.Positive(t, testutil.ToFloat64(w.metrics.skipped))
	for _, rec := range others {
		closed(t, w, rec, length)
		require.Equal(t, length, wavtest.ReadStrict(t, rec.file.spec.Path).Frames)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	hung.file.Close()
	_, err := hung.file.Finish(ctx, time.Time{}, time.Time{}.Add(15*time.Second))
	require.ErrorIs(t, err, context.DeadlineExceeded, "nobody waits for good")
	require.InDelta(t, 1, w.failures("disk_slow"), 0)
	close(gate)
	closed(t, w, hung, length)
	wavtest.ReadStrict(t, hung.file.spec.Path)
}

// stall records for so long on many recordings at once while the disk hangs, and tells how many blocks waited at most.
func stall(t *testing.T, w *Writer, recs []*testRecorder, from, to int64) (most int) {
	t.Helper()
	for pos := from; pos < to; pos += blockSamples {
		for _, rec := range recs {
			rec.Put(Left, pos, []int16{1000})
			require.NoError(t, rec.Flush(blockSamples))
		}
		most = max(most, w.backlog())
	}
	return most
}

// hungRecordings are many recordings on a disk whose gate is shut.
func hungRecordings(t *testing.T, w *Writer, n int) []*testRecorder {
	t.Helper()
	dir := t.TempDir()
	recs := make([]*testRecorder, n)
	for i := range recs {
		recs[i] = newTestRecorder(w, Spec{Path: filepath.Join(dir, "hung"+strconv.Itoa(i)+".wav")})
	}
	return recs
}

// TestDiskStalls lets the disk stall for 10 s under more recordings than the spare memory suffices for: nothing is missing.
func TestDiskStalls(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newTestWriter(t, gated(gate))
	recs := hungRecordings(t, w, 40)
	const length = 10 * dsp.SampleRate
	most := stall(t, w, recs, 0, length)
	require.Greater(t, most, testSpare, "the spare memory alone would not do")
	close(gate)
	for _, rec := range recs {
		closed(t, w, rec, length)
	}
	require.Zero(t, testutil.ToFloat64(w.metrics.skipped))
	require.Equal(t, length, wavtest.ReadStrict(t, recs[0].file.spec.Path).Frames)
	w.mu.Lock()
	defer w.mu.Unlock()
	require.LessOrEqual(t, w.blocks, testSpare, "the memory is given back")
	require.Len(t, w.free, w.blocks)
}

// TestDiskStallsLong lets the disk stall for 20 s: what found no room is silence, and what follows lies at its time.
func TestDiskStallsLong(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newTestWriter(t, gated(gate))
	recs := hungRecordings(t, w, 1)
	stall(t, w, recs, 0, blockSamples)
	w.breathe(t, 0) // the disk hangs in the first block
	stall(t, w, recs, blockSamples, 20*dsp.SampleRate)
	close(gate)
	w.breathe(t, 0)
	stall(t, w, recs, 20*dsp.SampleRate, 21*dsp.SampleRate)
	closed(t, w, recs[0], 21*dsp.SampleRate)
	s := wavtest.ReadStrict(t, recs[0].file.spec.Path)
	require.Equal(t, 21*dsp.SampleRate, s.Frames)
	require.NotZero(t, s.Left[9*dsp.SampleRate], "10 s are kept")
	require.Zero(t, s.Left[19*dsp.SampleRate])
	require.NotZero(t, s.Left[20*dsp.SampleRate], "it goes on at its time")
	require.InDelta(t, 8.5, testutil.ToFloat64(w.metrics.skipped), 1)
}

// TestRoundsBeginEarly has a quarter of the bound end the writer's pause.
func TestRoundsBeginEarly(t *testing.T) {
	t.Parallel()
	w := &Writer{metrics: NewMetrics(), spare: testSpare, kick: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	files := make([]*File, 1+testSpare/4/maxFileBlocks)
	for i := range files {
		files[i] = &File{w: w, busy: true}
	}
	for n := range w.bound() / 4 {
		require.Empty(t, w.hurry, n)
		require.NoError(t, files[n/maxFileBlocks].Put(0, make([]int16, 2)))
	}
	require.Len(t, w.hurry, 1)
}

// TestDiskHangs lets the whole disk hang: what waits is bounded, nobody is held up, and the writer can be closed.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newWriter(NewMetrics(), gated(gate), testPause, testSpare)
	recs := hungRecordings(t, w, 2*maxWorkers)
	most := stall(t, w, recs, 0, 20*dsp.SampleRate)
	w.mu.Lock()
	made, helpers, bound := w.blocks, w.helpers, w.bound()
	w.mu.Unlock()
	require.LessOrEqual(t, most, maxFileBlocks*len(recs))
	require.LessOrEqual(t, made, bound, "the memory is bounded")
	require.Less(t, helpers, maxWorkers)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.Close(ctx), context.DeadlineExceeded)
	close(gate)
	require.NoError(t, w.Close(t.Context()))
}

// TestFolderVanishes deletes the folder of recordings under a call, and another's before it begins.
func TestFolderVanishes(t *testing.T) {
	t.Parallel()
	w := newTestWriter(t, openFile)
	dir := filepath.Join(t.TempDir(), "spool")
	require.NoError(t, os.Mkdir(dir, 0o750))
	path := filepath.Join(dir, "a.wav")
	rec := newTestRecorder(w, Spec{Path: path})
	require.NoError(t, fill(t, w, rec, 0, 2*dsp.SampleRate))
	require.NoError(t, os.RemoveAll(dir))
	require.ErrorIs(t, fill(t, w, rec, 2*dsp.SampleRate, 30*dsp.SampleRate), fs.ErrNotExist)
	closed(t, w, rec, 30*dsp.SampleRate)
	require.InDelta(t, 1, w.failures("missing"), 0)
	s := wavtest.ReadStrict(t, path)
	require.GreaterOrEqual(t, s.Frames, 2*dsp.SampleRate-blockSamples-holdSamples, "what was recorded is brought back")
	requireMarks(t, s, rec.file.lay)

	short := newTestRecorder(w, Spec{Path: filepath.Join(dir, "short.wav")})
	require.NoError(t, fill(t, w, short, 0, dsp.SampleRate))
	require.NoError(t, os.RemoveAll(dir))
	closed(t, w, short, dsp.SampleRate)
	require.InDelta(t, 2, w.failures("missing"), 0, "it is noticed at the end, too")

	replaced := newTestRecorder(w, Spec{Path: path})
	require.NoError(t, fill(t, w, replaced, 0, dsp.SampleRate))
	require.NoError(t, os.WriteFile(path+".other", []byte("somebody else's"), 0o600))
	require.NoError(t, os.Rename(path+".other", path))
	closed(t, w, replaced, dsp.SampleRate)
	require.ErrorIs(t, w.failure(replaced.file), errGone)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "somebody else's", string(b))

	none := newTestRecorder(w, Spec{Path: filepath.Join(dir, "no", "such", "folder.wav")})
	require.ErrorIs(t, fill(t, w, none, 0, 30*dsp.SampleRate), fs.ErrNotExist)
	closed(t, w, none, 30*dsp.SampleRate)
}

// TestFailureReasons names what ends a recording.
func TestFailureReasons(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"permission": &fs.PathError{Op: "open", Err: syscall.EACCES}, "io": syscall.EIO, "disk_full": syscall.EDQUOT,
	} {
		w := newTestWriter(t, func(*Spec) (disk, wav.Layout, int64, error) { return nil, wav.Layout{}, 0, err })
		rec := newTestRecorder(w, Spec{Path: "x"})
		require.ErrorIs(t, fill(t, w, rec, 0, 30*dsp.SampleRate), err)
		require.InDelta(t, 1, w.failures(want), 0, want)
		closed(t, w, rec, 30*dsp.SampleRate)
	}
	require.Equal(t, "permission", failureReason(syscall.EROFS))
}

// TestPauseRecording leaves out what is said while paused, to the sample: the rest lies where it was said.
func TestPauseRecording(t *testing.T) {
	t.Parallel()
	for _, encoding := range wav.Encodings() {
		w := newTestWriter(t, openFile)
		path := filepath.Join(t.TempDir(), "pause.wav")
		rec := newTestRecorder(w, Spec{Path: path, Encoding: encoding})
		const second = int64(dsp.SampleRate)
		require.NoError(t, fill(t, w, rec, 0, second))
		rec.Pause(true)
		require.NoError(t, fill(t, w, rec, second, 3*second))
		rec.Pause(false)
		require.NoError(t, fill(t, w, rec, 3*second, 4*second))
		closed(t, w, rec, 4*second)
		s := wavtest.ReadStrict(t, path)
		require.EqualValues(t, 4*second, s.Frames, "the time goes on")
		lay := rec.file.lay
		frame := lay.AppendSamples(nil, []int16{0, 0})
		want := marks(lay, s.Frames)
		copy(want[int(second)*len(frame):], bytes.Repeat(frame, int(2*second)))
		requireData(t, want, s)
	}
}
