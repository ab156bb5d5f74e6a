package simswitch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media/wav"
)

const (
	sampleRate = 8000
	// recordSlack is how long samples wait for those of the other side before they are written.
	recordSlack = 200 * time.Millisecond
	// recordDrift is how far a frame's timestamp may lie from its arrival before the stream is placed anew (in samples), recordStale how many frames in
	// a row may come when their place is written.
	recordDrift = 2 * sampleRate
	recordStale = 50
	// recordHeld is how much a recording holds back before any of it reaches the file: FreeSWITCH's RECORD_PRE_BUFFER_FRAMES (in
	// samples).
	recordHeld = 25 * frameSamples
)

// track is one direction of a recording on the recording's timeline. Frames lie where their RTP timestamps say, so that
// jitter leaves no trace; the first frame of a stream lies where it arrived.
type track struct {
	base    int // sample index of samples[0]
	samples []int16
	begun   bool
	ssrc    uint32
	anchor  uint32 // timestamp that lies at index place
	place   int
	stale   int // frames in a row that came too late
}

// put places a frame that arrived at sample index at.
func (t *track) put(pcm []int16, ts, ssrc uint32, at int) {
	pos := t.place + int(int32(ts-t.anchor))
	if d := at - len(pcm) - pos; !t.begun || ssrc != t.ssrc || d > recordDrift || d < -recordDrift || t.stale > recordStale {
		pos = max(at-len(pcm), 0)
		t.begun, t.ssrc, t.anchor, t.place, t.stale = true, ssrc, ts, pos, 0
	}
	if late := t.base - pos; late > 0 {
		if late >= len(pcm) {
			t.stale++
			return
		}
		pcm, pos = pcm[late:], t.base
	}
	t.stale = 0
	if need := pos + len(pcm) - t.base; need > len(t.samples) {
		t.samples = append(t.samples, make([]int16, need-len(t.samples))...)
	}
	copy(t.samples[pos-t.base:], pcm)
}

// take cuts n samples off the front, silence where there are none.
func (t *track) take(n int, dst []int16) []int16 {
	have := min(n, len(t.samples))
	dst = append(dst, t.samples[:have]...)
	dst = append(dst, make([]int16, n-have)...)
	t.samples = slices.Delete(t.samples, 0, have)
	t.base += n
	return dst
}

// recorder writes a channel's audio into a WAV file: left what the party says, right what it hears; or both mixed. As in FreeSWITCH
// nothing is written at first (switch_core_media_bug_read), and what ends, or comes into a bridge or out of one, while that is so has a
// frame of silence in place of what was held back.
type recorder struct {
	path   string
	stereo bool
	layout wav.Layout
	order  int // among the port's recorders and spies; under its mu

	mu      sync.Mutex // guards all below
	start   time.Time  // when sample 0 was; later than it was where audio was dropped
	file    *os.File
	in, out track
	written int // samples per channel
	held    int // sample index from which on frames were held back last
	flushed time.Time
	waits   time.Time // when what came while the machine stood still has been read
	masked  bool
	deaf    bool // nothing comes yet: see bugAdded
	buf     []byte
	l, r    []int16
	mix     []int16 // as the file has them
	failed  bool
}

// newRecorder creates the file. The header is right from the start and made final on close.
func newRecorder(path string, stereo bool) (*recorder, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create the recording's directory: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create the recording: %w", err)
	}
	layout, err := wav.LayoutOf(wav.PCM)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !stereo {
		layout = layout.Mono()
	}
	r := &recorder{path: path, stereo: stereo, layout: layout, start: time.Now(), file: f}
	if _, err := f.Write(r.header()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write the recording: %w", err)
	}
	return r, nil
}

// header is a WAV header for what is written. The caller holds mu or owns r.
func (r *recorder) header() []byte { return r.layout.AppendHeader(nil, int64(r.written)) }

func (r *recorder) index(now time.Time) int {
	return int(now.Sub(r.start).Microseconds() * sampleRate / 1_000_000)
}

// read takes what the party said.
func (r *recorder) read(pcm []int16, ts, ssrc uint32, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.masked && !r.deaf {
		r.in.put(pcm, ts, ssrc, r.index(now))
	}
}

// write takes what the party hears.
func (r *recorder) write(pcm []int16, ts uint32, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.masked && !r.deaf {
		r.out.put(pcm, ts, 0, r.index(now))
	}
}

// mask replaces what follows by silence.
func (r *recorder) mask(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.masked = on
}

// hear ends that nothing comes: the recording begins here.
func (r *recorder) hear(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deaf {
		r.deaf, r.start = false, now
	}
}

// holds says whether what comes is held back. The caller holds mu.
func (r *recorder) holds(now time.Time) bool { return r.index(now) < r.held+recordHeld }

// settle writes what there is to the file; what is held back is lost but for its first frame, which is silence. The caller holds mu.
func (r *recorder) settle(now time.Time) {
	if r.deaf {
		return
	}
	if !r.holds(now) {
		r.writeTo(r.index(now))
		return
	}
	r.in.samples, r.out.samples = r.in.samples[:0], r.out.samples[:0]
	if r.index(now) >= r.held+frameSamples {
		r.writeTo(r.held + frameSamples)
	}
}

// retrain holds frames back anew: the channel came into a bridge, or out of one.
func (r *recorder) retrain(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(now)
	r.start = r.start.Add(now.Sub(r.start) - time.Duration(r.written)*time.Second/sampleRate)
	r.in, r.out, r.held = track{base: r.written}, track{base: r.written}, r.written
}

// flush writes what is older than the slack.
func (r *recorder) flush(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.flushed) > recordSlack/2 && !r.flushed.IsZero() {
		r.waits = now.Add(recordSlack)
	}
	r.flushed = now
	if r.deaf || r.holds(now) || now.Before(r.waits) {
		return
	}
	if upTo := r.index(now.Add(-recordSlack)); upTo >= r.written+sampleRate/10 {
		r.writeTo(upTo)
	}
}

// writeTo extends the file to a sample index. The caller holds mu.
func (r *recorder) writeTo(upTo int) {
	n := upTo - r.written
	if n <= 0 || r.failed {
		return
	}
	r.l, r.r = r.in.take(n, r.l[:0]), r.out.take(n, r.r[:0])
	r.mix = r.mix[:0]
	for i := range n {
		if r.stereo {
			r.mix = append(r.mix, r.l[i], r.r[i])
		} else {
			r.mix = append(r.mix, mixed(r.l[i], r.r[i]))
		}
	}
	r.buf = r.layout.AppendSamples(r.buf[:0], r.mix)
	if _, err := r.file.Write(r.buf); err != nil {
		r.failed = true
		return
	}
	r.written = upTo
}

// close writes the rest and the final header, and tells how many samples there are. A file without any is deleted.
func (r *recorder) close(now time.Time) (samples, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(now)
	_, _ = r.file.WriteAt(r.header(), 0)
	_ = r.file.Close()
	if r.written == 0 {
		_ = os.Remove(r.path)
	}
	return r.written, int(r.layout.Offset(int64(r.written)))
}

// recordPath makes a recording's path absolute.
func (sw *Switch) recordPath(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(sw.cfg.RecordDir, path)
}

// startRecording begins a recording of the channel.
func (ch *recording) startRecording(path string) error {
	if ch.media == nil || !ch.up() {
		return ErrClosed
	}
	path = ch.sw.recordPath(path)
	ch.media.mu.Lock()
	running := slices.ContainsFunc(ch.media.recorders, func(r *recorder) bool { return r.path == path })
	ch.media.mu.Unlock()
	if running {
		return nil
	}
	r, err := newRecorder(path, isTrue(ch.get("RECORD_STEREO")))
	if err != nil {
		return err
	}
	ch.media.mu.Lock()
	ch.media.bugAdded(false)
	r.order, r.deaf = ch.media.bugs, ch.media.tapOnly
	ch.media.recorders = append(ch.media.recorders, r)
	ch.media.mu.Unlock()
	ch.events.emit("RECORD_START", header{"Record-File-Path", path})
	return nil
}

// stopRecording ends a recording, or all of them by the path "all".
func (ch *recording) stopRecording(path, why string) bool {
	if ch.media == nil {
		return false
	}
	full := ch.sw.recordPath(path)
	var ended []*recorder
	ch.media.mu.Lock()
	ch.media.recorders = slices.DeleteFunc(ch.media.recorders, func(r *recorder) bool {
		if path == "all" || r.path == full {
			ended = append(ended, r)
			return true
		}
		return false
	})
	if len(ended) > 0 {
		ch.media.bugRemoved()
	}
	ch.media.mu.Unlock()
	for _, r := range ended {
		samples, size := r.close(time.Now())
		why := why
		if samples == 0 {
			why = "empty-file"
			ch.set("RECORD_DISCARDED", "true")
		}
		ch.setAll([]header{
			{"record_file_size", strconv.Itoa(size)},
			{"record_samples", strconv.Itoa(samples)},
			{"record_seconds", strconv.Itoa(samples / sampleRate)},
			{"record_ms", strconv.Itoa(samples / 8)},
			{"record_completion_cause", why},
		})
		ch.events.emit("RECORD_STOP", header{"Record-File-Path", r.path}, header{"Record-Completion-Cause", why})
	}
	return len(ended) > 0
}

func (ch *recording) stopRecordings(why string) { ch.stopRecording("all", why) }

// retrainRecordings tells the channel's recordings of a bridge that began or ended.
func (ch *recording) retrainRecordings() {
	if ch.media == nil || !ch.up() {
		return
	}
	now := time.Now()
	ch.media.mu.Lock()
	defer ch.media.mu.Unlock()
	for _, r := range ch.media.recorders {
		r.retrain(now)
	}
}

// maskRecording silences a recording, or lets it hear again.
func (ch *recording) maskRecording(path string, on bool) bool {
	if ch.media == nil {
		return false
	}
	full := ch.sw.recordPath(path)
	ch.media.mu.Lock()
	recorders := slices.Clone(ch.media.recorders)
	ch.media.mu.Unlock()
	for _, r := range recorders {
		if r.path == full {
			r.mask(on)
			return true
		}
	}
	return false
}

func (ch *application) recordSessionApp(arg string) {
	path, _, _ := cutArg(arg)
	if err := ch.rec.startRecording(path); err != nil {
		ch.sw.log.Warn("recording not started", "channel", ch.uuid, "error", err)
	}
}
