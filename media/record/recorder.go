package record

import (
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
)

const (
	// CallerAdvance moves the caller's side of the recording ahead of its packets' arrival, so that both sides lie where the
	// carrier sent the one and heard the other. A packet's first sample was spoken one packet time before it was sent, and
	// the switch's hops there and back cost 0 to 40 ms, by the phase of its 20 ms timer (10 to 34 ms seen on FreeSWITCH): the
	// middle of that leaves 20 ms at most.
	CallerAdvance = 20 * time.Millisecond

	// windowSamples is how much of the recording is held back for audio that arrives late, in samples.
	windowSamples = 8 * blockSamples
	// blockSamples is how much is written at a time: 250 ms.
	blockSamples = dsp.SampleRate / 4
	// holdSamples is how far the newest written sample lies behind the clock.
	holdSamples = dsp.SampleRate / 4
)

// The channels of a recording.
const (
	Left  = 0 // the caller
	Right = 1 // the AI
)

// Sink takes the blocks of a recording, left and right in turn, for a place in it. Its error is the recording's end. A *File is one.
type Sink interface {
	Put(pos int64, pcm []int16) error
}

// Recorder lays both directions on one timeline of 8 kHz samples since Spec.Start. The shard puts audio at its
// place and lets the clock go on; what is old enough goes to the writer in blocks. It is owned by the shard; only the
// file is the writer's (writer.go).
type Recorder struct {
	out    Sink  // nil: nothing is kept
	Base   int64 // the first position in the window; all before it has been given to the writer
	window []int16
	head   int64 // where base lies in the window, which is a ring; whole blocks lead there
	failed error // set once: the recording has ended early

	clipped uint64 // samples that came too late for their place
	paused  bool   // what comes is left out, and its place stays silent
}

// NewRecorder begins at a position of the timeline.
func NewRecorder(out Sink, base int64, paused bool) *Recorder {
	return &Recorder{out: out, Base: base, window: make([]int16, 2*windowSamples), paused: paused}
}

// Pause leaves out what is put from now on, or takes it again.
func (r *Recorder) Pause(on bool) { r.paused = on }

// Paused tells which.
func (r *Recorder) Paused() bool { return r.paused }

// Late is how many samples came too late for their place.
func (r *Recorder) Late() uint64 { return r.clipped }

// Err tells why the recording has ended early, nil when it has not.
func (r *Recorder) Err() error { return r.failed }

// Put writes samples at a position of one channel.
func (r *Recorder) Put(ch int, pos int64, pcm []int16) {
	if r.paused {
		return
	}
	if late := r.Base - pos; late > 0 {
		n := min(late, int64(len(pcm)))
		r.clipped += uint64(n)
		pcm, pos = pcm[n:], pos+n
	}
	at := pos - r.Base
	if at < 0 || at >= windowSamples {
		r.clipped += uint64(len(pcm))
		return
	}
	pcm = pcm[:min(int64(len(pcm)), windowSamples-at)]
	at = (r.head + at) % windowSamples
	n := min(int64(len(pcm)), windowSamples-at)
	lay(r.window[2*at+int64(ch):], pcm[:n])
	lay(r.window[ch:], pcm[n:]) // round the end
}

// lay writes samples to every other place.
func lay(dst, pcm []int16) {
	if len(pcm) == 0 {
		return
	}
	dst = dst[:2*len(pcm)-1]
	for i, s := range pcm {
		dst[2*i] = s
	}
}

// Advance gives the writer all whole blocks that lie holdSamples before now.
func (r *Recorder) Advance(now int64) error {
	for r.Base+blockSamples+holdSamples <= now {
		if behind := now - r.Base; behind > 4*windowSamples {
			// Nothing was recorded for a while: the gap becomes silence in the file.
			for range windowSamples / blockSamples {
				if err := r.Flush(blockSamples); err != nil {
					return err
				}
			}
			r.Base = now - holdSamples - blockSamples
			continue
		}
		if err := r.Flush(blockSamples); err != nil {
			return err
		}
	}
	return nil
}

// Flush gives the writer the first n samples of the window: a block, or less at the very end.
func (r *Recorder) Flush(n int64) error {
	block := r.window[2*r.head : 2*(r.head+n)]
	if r.failed == nil && r.out != nil {
		r.failed = r.out.Put(r.Base, block)
	}
	clear(block)
	r.head = (r.head + n) % windowSamples
	r.Base += n
	return r.failed
}

// Finish writes what is left up to a position.
func (r *Recorder) Finish(end int64) {
	for r.Base < end && r.failed == nil {
		if r.Flush(min(blockSamples, end-r.Base)) != nil {
			break
		}
	}
	r.window = nil
}

// Spec says where a session records to.
type Spec struct {
	// Path of the WAV file.
	Path string
	// Start is the file's time zero, the moment of answer.
	Start time.Time
	// Append goes on in an existing file, in the encoding that it has; what lies between its end and now becomes silence.
	Append bool
	// Encoding is how samples are stored; zero means PCM.
	Encoding wav.Encoding
	// Paused begins with silence, until PauseRecording(false).
	Paused bool
}
