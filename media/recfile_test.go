package media

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// strict is a recording as a parser reads it that forgives nothing.
type strict struct {
	format, channels, bits int
	frames                 int
	left, right            []int16
}

// parseStrict reads a WAV file chunk by chunk. Every size must agree with every other; only what follows the RIFF chunk may
// be there without being told of, as a file has it whose newest block is on its way.
func parseStrict(b []byte) (strict, error) {
	var s strict
	le := binary.LittleEndian
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return s, fmt.Errorf("no RIFF header in %d bytes", len(b))
	}
	end := int(le.Uint32(b[4:])) + 8
	if end > len(b) {
		return s, fmt.Errorf("RIFF claims %d bytes of %d", end, len(b))
	}
	facts, rate := -1, 0
	for at := 12; at < end; {
		if at+8 > end {
			return s, fmt.Errorf("half a chunk at %d", at)
		}
		id, n := string(b[at:at+4]), int(le.Uint32(b[at+4:]))
		if at+8+n > end {
			return s, fmt.Errorf("chunk %q of %d bytes leads beyond the RIFF chunk", id, n)
		}
		body := b[at+8 : at+8+n]
		switch id {
		case "fmt ":
			s.format, s.channels, rate = int(le.Uint16(body)), int(le.Uint16(body[2:])), int(le.Uint32(body[4:]))
			s.bits = int(le.Uint16(body[14:]))
			frame := s.channels * s.bits / 8
			if int(le.Uint16(body[12:])) != frame || int(le.Uint32(body[8:])) != frame*rate {
				return s, fmt.Errorf("block of %d, %d bytes a second", le.Uint16(body[12:]), le.Uint32(body[8:]))
			}
			if s.format != wavPCM && (n < 18 || int(le.Uint16(body[16:])) != n-18) {
				return s, fmt.Errorf("format %d without its extension's size", s.format)
			}
		case "fact":
			facts = int(le.Uint32(body))
		case "data":
			if s.bits == 0 || rate != sampleRate || s.channels != 2 {
				return s, errors.New("data before a format of ours")
			}
			s.frames = n / (s.channels * s.bits / 8)
			if s.frames*s.channels*s.bits/8 != n || at+8+n != end {
				return s, fmt.Errorf("data of %d bytes in a RIFF chunk of %d", n, end)
			}
			s.read(body)
		default:
			return s, fmt.Errorf("chunk %q", id)
		}
		at += 8 + n
	}
	if s.format != wavPCM && facts != s.frames {
		return s, fmt.Errorf("fact says %d of %d frames", facts, s.frames)
	}
	return s, nil
}

func (s *strict) read(body []byte) {
	pcm := wavInfo{format: uint16(s.format)}.samples(nil, body)
	for i := 0; i+1 < len(pcm); i += 2 {
		s.left, s.right = append(s.left, pcm[i]), append(s.right, pcm[i+1])
	}
}

func readStrict(t *testing.T, path string) strict {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	s, err := parseStrict(b)
	require.NoError(t, err)
	return s
}

// soxi lets sox judge a file, where it is installed.
func soxi(t *testing.T, path string, frames int) {
	t.Helper()
	tool, err := exec.LookPath("soxi")
	if err != nil {
		return
	}
	out, err := exec.CommandContext(t.Context(), tool, "-s", path).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, strconv.Itoa(frames), strings.TrimSpace(string(out)), "samples by soxi, without a warning")
}

// markAt is the sample that belongs to a place: one that survives G.711 exactly.
func markAt(pos int64, ch int) int16 {
	var s [1]int16
	dsp.DecodeULaw(s[:], []byte{byte(pos/97*7+int64(ch)*31) & 0x7F})
	return s[0]
}

// requireMarks checks that a recording holds marks from its begin to its end.
func requireMarks(t *testing.T, s strict, lay wavLayout) {
	t.Helper()
	for i := range s.left {
		for ch, got := range []int16{s.left[i], s.right[i]} {
			want := markAt(int64(i), ch)
			if lay.format == wavALaw {
				var coded [1]int16
				dsp.DecodeALaw(coded[:], lay.appendSamples(nil, []int16{want}))
				want = coded[0]
			}
			if got != want {
				require.Equal(t, want, got, "sample %d of channel %d", i, ch)
			}
		}
	}
}

// putMarks records marks of 20 ms on both channels and lets the clock go on.
func putMarks(rec *recorder, pos int64) error {
	var pcm [frameSamples]int16
	for ch := range 2 {
		for i := range pcm {
			pcm[i] = markAt(pos+int64(i), ch)
		}
		rec.put(ch, pos, pcm[:])
	}
	return rec.advance(pos + frameSamples)
}

func testMetrics(tb testing.TB) *metrics {
	tb.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	require.NoError(tb, err)
	return m
}

func newTestWriter(t *testing.T, open recOpen) *recWriter {
	t.Helper()
	w := newRecWriter(testMetrics(t), open)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(t, w.close(ctx))
	})
	return w
}

func newTestRecorder(w *recWriter, spec RecordingSpec) *recorder {
	return &recorder{out: w, file: w.add(&spec, slog.New(slog.DiscardHandler)), window: make([]int16, 2*recWindow)}
}

func (w *recWriter) backlog() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting
}

// breathe waits until the writer has caught up, so that a test which is faster than time does not end its recordings.
func (w *recWriter) breathe(tb testing.TB, most int) {
	tb.Helper()
	require.True(tb, w.catchesUp(most), "the writer is stuck")
}

func (w *recWriter) catchesUp(most int) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(soon); w.backlog() > most; <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// TestRecordingIsValidAtEveryMoment reads a growing file again and again.
func TestRecordingIsValidAtEveryMoment(t *testing.T) {
	t.Parallel()
	for _, encoding := range RecordingEncodings() {
		t.Run(string(encoding), func(t *testing.T) {
			t.Parallel()
			w := newTestWriter(t, openRecFile)
			path := filepath.Join(t.TempDir(), "grow.wav")
			lay, err := layoutOf(encoding)
			require.NoError(t, err)
			rec := newTestRecorder(w, RecordingSpec{Path: path, Encoding: encoding})
			written := make(chan error, 1)
			const length = 15 * sampleRate
			go func() {
				var err error
				for pos := int64(0); pos < length && err == nil; pos += frameSamples {
					err = putMarks(rec, pos)
					if pos%recBlock == 0 && !w.catchesUp(1) {
						err = errors.New("the writer is stuck")
					}
				}
				rec.finish(length)
				w.closeFile(rec.file)
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
				default:
				}
				b, err := os.ReadFile(path)
				if os.IsNotExist(err) && !done {
					continue // the worker has not yet opened it; what comes to this path has a header
				}
				require.NoError(t, err)
				s, err := parseStrict(b)
				require.NoError(t, err)
				if !sizes[s.frames] {
					sizes[s.frames] = true
					requireMarks(t, s, lay)
				}
			}
			s := readStrict(t, path)
			require.Equal(t, length, s.frames)
			soxi(t, path, length)
			require.Greater(t, len(sizes), 10)
			t.Logf("%d reads saw %d sizes", reads, len(sizes))
		})
	}
}

// recordEnv makes the test binary a process that records marks to the path that it names, in real time, until it is killed.
const recordEnv = "RINGMASTER_TEST_RECORD"

// recordMarks is that process. It prints how far its clock is before each 20 ms.
func recordMarks(spec string, out io.Writer) int {
	encoding, path, _ := strings.Cut(spec, ":")
	m, err := newMetrics(nil)
	if err != nil {
		return 1
	}
	w := newRecWriter(m, openRecFile)
	rec := newTestRecorder(w, RecordingSpec{Path: path, Encoding: RecordingEncoding(encoding)})
	grid := time.NewTicker(20 * time.Millisecond)
	next := int64(0)
	for began := time.Now(); ; <-grid.C {
		now := samplesIn(time.Since(began))
		for ; next+frameSamples <= now; next += frameSamples {
			if putMarks(rec, next) != nil {
				return 1
			}
		}
		if _, err := fmt.Fprintln(out, now); err != nil {
			return 1
		}
	}
}

// TestKilledProcessLeavesItsRecording kills processes that record, at random moments. Each leaves a file that can be played
// and lacks less than a second.
func TestKilledProcessLeavesItsRecording(t *testing.T) {
	t.Parallel()
	for n, encoding := range []RecordingEncoding{RecordPCM, RecordULaw, RecordPCM, RecordALaw} {
		t.Run(fmt.Sprintf("%d %s", n, encoding), func(t *testing.T) {
			t.Parallel()
			// Of a few children the best counts: the others may have waited for this machine's disk or processor.
			lacking := int64(math.MaxInt64)
			for n := 0; n < 3 && lacking >= sampleRate; n++ {
				lacking = min(lacking, killRecording(t, encoding))
			}
			require.Less(t, lacking, int64(sampleRate))
		})
	}
}

// killRecording kills a process that records and looks at its file; it tells how many samples that lacks.
func killRecording(t *testing.T, encoding RecordingEncoding) (lacking int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "killed.wav")
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), recordEnv+"="+string(encoding)+":"+path)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	until := int64(sampleRate) + rand.Int64N(2*sampleRate)
	var clock int64
	lines := bufio.NewScanner(out)
	for clock < until && lines.Scan() {
		clock, err = strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err)
	}
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.GreaterOrEqual(t, clock, until)
	s := readStrict(t, path)
	soxi(t, path, s.frames)
	lay, err := layoutOf(encoding)
	require.NoError(t, err)
	requireMarks(t, s, lay)
	t.Logf("killed at %.2f s, %.2f s are there", float64(clock)/sampleRate, float64(s.frames)/sampleRate)

	start := time.Unix(1000, 0)
	info, err := FinishWAV(t.Context(), path, start, start, start.Add(5*time.Second))
	require.NoError(t, err, "the next controller makes a whole recording of it")
	require.Equal(t, 5*time.Second, info.Duration)
	soxi(t, path, 5*sampleRate)
	return clock - int64(s.frames)
}

// TestAppendKeepsTheEncoding goes on in a file of another encoding than is configured now; the gap is that one's silence.
func TestAppendKeepsTheEncoding(t *testing.T) {
	t.Parallel()
	w := newTestWriter(t, openRecFile)
	path := filepath.Join(t.TempDir(), "a.wav")
	first := newTestRecorder(w, RecordingSpec{Path: path, Encoding: RecordULaw})
	for pos := int64(0); pos < sampleRate; pos += frameSamples {
		require.NoError(t, putMarks(first, pos))
	}
	first.finish(sampleRate)
	w.closeFile(first.file)
	<-first.file.done
	crashed, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = crashed.Write([]byte{0xFF, 0xFF, 0xFF}) // audio that the header doesn't tell of, half a frame of it
	require.NoError(t, err)
	require.NoError(t, crashed.Close())

	again := newTestRecorder(w, RecordingSpec{Path: path, Encoding: RecordPCM, Append: true})
	again.base = 3 * sampleRate
	for pos := again.base; pos < 4*sampleRate; pos += frameSamples {
		require.NoError(t, putMarks(again, pos))
	}
	again.finish(4 * sampleRate)
	w.closeFile(again.file)
	<-again.file.done
	s := readStrict(t, path)
	require.Equal(t, wavULaw, s.format)
	require.Equal(t, 4*sampleRate, s.frames)
	require.Equal(t, make([]int16, 2*sampleRate), s.left[sampleRate:3*sampleRate], "the gap is silence")
	require.Equal(t, markAt(3*sampleRate+5, 0), s.left[3*sampleRate+5])
	require.Equal(t, markAt(7, 1), s.right[7])

	broken := filepath.Join(t.TempDir(), "broken.wav")
	require.NoError(t, os.WriteFile(broken, []byte("ID3"+strings.Repeat("x", 100)), 0o600))
	fresh := newTestRecorder(w, RecordingSpec{Path: broken, Append: true})
	w.closeFile(fresh.file)
	<-fresh.file.done
	require.Zero(t, readStrict(t, broken).frames, "what is no recording is begun anew")
}

// TestWAVHeaders compares our headers with what the format says, byte by byte.
func TestWAVHeaders(t *testing.T) {
	t.Parallel()
	lay, err := layoutOf(RecordULaw)
	require.NoError(t, err)
	h := lay.appendHeader(nil, 3)
	require.Equal(t, "RIFF\x38\x00\x00\x00WAVEfmt \x12\x00\x00\x00\x07\x00\x02\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x08\x00\x00\x00"+
		"fact\x04\x00\x00\x00\x03\x00\x00\x00data\x06\x00\x00\x00", string(h))
	_, err = layoutOf("opus")
	var bad *SpecError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "recording.encoding", bad.Field)
	pcm, err := layoutOf("")
	require.NoError(t, err)
	huge := pcm.appendHeader(nil, 1<<40)
	require.LessOrEqual(t, uint64(binary.LittleEndian.Uint32(huge[4:]))+8, uint64(1)<<32, "sizes that don't fit are the largest that do")
	require.True(t, bytes.HasPrefix(huge, []byte("RIFF")))
}

// TestRecordingAcrossTheWindow puts frames that lie across the window's end, out of order and of odd sizes.
func TestRecordingAcrossTheWindow(t *testing.T) {
	t.Parallel()
	w := newTestWriter(t, openRecFile)
	path := filepath.Join(t.TempDir(), "ring.wav")
	rec := newTestRecorder(w, RecordingSpec{Path: path})
	const size, length = 331, 10 * sampleRate
	put := func(pos int64) {
		var pcm [size]int16
		for ch := range 2 {
			for i := range pcm {
				pcm[i] = markAt(pos+int64(i), ch)
			}
			rec.put(ch, pos, pcm[:])
		}
	}
	for pos := int64(0); pos < length; pos += 2 * size {
		put(pos + size)
		put(pos)
		require.NoError(t, rec.advance(pos))
		w.breathe(t, 8)
	}
	closed(t, w, rec, length)
	s := readStrict(t, path)
	require.Equal(t, length, s.frames)
	requireMarks(t, s, rec.file.lay)
	require.Zero(t, rec.clipped)
}
