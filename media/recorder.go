package media

import (
	"github.com/ringmaster/ringmaster/media/dsp"
	"time"
)

const (
	// callerAdvance moves the caller's side of the recording ahead of its packets' arrival, so that both sides lie where the
	// carrier sent the one and heard the other. A packet's first sample was spoken one packet time before it was sent, and
	// the switch's hops there and back cost 0 to 40 ms, by the phase of its 20 ms timer (10 to 34 ms seen on FreeSWITCH): the
	// middle of that leaves 20 ms at most.
	callerAdvance = 20 * time.Millisecond

	// recWindow is how much of the recording is held back for audio that arrives late, in samples.
	recWindow = 8 * recBlock
	// recBlock is how much is written at a time: 250 ms.
	recBlock = dsp.SampleRate / 4
	// recHold is how far the newest written sample lies behind the clock.
	recHold = dsp.SampleRate / 4

	leftChannel  = 0 // the caller
	rightChannel = 1 // the AI
)

// recorder lays both directions on one timeline of 8 kHz samples since RecordingSpec.Start. The shard puts audio at its
// place and lets the clock go on; what is old enough goes to the writer in blocks. It is owned by the shard; only the
// file is the writer's (recwriter.go).
type recorder struct {
	out    *recWriter
	file   *recFile
	base   int64 // the first position in the window; all before it has been given to the writer
	window []int16
	head   int64 // where base lies in the window, which is a ring; whole blocks lead there
	failed error // set once: the recording has ended early

	clipped uint64 // Samples that came too late for their place
	paused  bool   // what comes is left out, and its place stays silent
}

// put writes samples at a position of one channel.
func (r *recorder) put(ch int, pos int64, pcm []int16) {
	if r.paused {
		return
	}
	if late := r.base - pos; late > 0 {
		n := min(late, int64(len(pcm)))
		r.clipped += uint64(n)
		pcm, pos = pcm[n:], pos+n
	}
	at := pos - r.base
	if at < 0 || at >= recWindow {
		r.clipped += uint64(len(pcm))
		return
	}
	pcm = pcm[:min(int64(len(pcm)), recWindow-at)]
	at = (r.head + at) % recWindow
	n := min(int64(len(pcm)), recWindow-at)
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

// pauseRecording leaves out what is put from now on, or takes it again.
func (rg *recording) pauseRecording(paused bool) {
	if rg.rec != nil {
		rg.rec.paused = paused
	}
}

// advance gives the writer all whole blocks that lie recHold before now.
func (r *recorder) advance(now int64) error {
	for r.base+recBlock+recHold <= now {
		if behind := now - r.base; behind > 4*recWindow {
			// Nothing was recorded for a while: the gap becomes silence in the file.
			for range recWindow / recBlock {
				if err := r.Flush(recBlock); err != nil {
					return err
				}
			}
			r.base = now - recHold - recBlock
			continue
		}
		if err := r.Flush(recBlock); err != nil {
			return err
		}
	}
	return nil
}

// flush gives the writer the first n samples of the window: a block, or less at the very end.
func (r *recorder) Flush(n int64) error {
	block := r.window[2*r.head : 2*(r.head+n)]
	if r.failed == nil {
		r.failed = r.out.put(r.file, r.base, block)
	}
	clear(block)
	r.head = (r.head + n) % recWindow
	r.base += n
	return r.failed
}

// Finish writes what is left up to a position.
func (r *recorder) finish(end int64) {
	for r.base < end && r.failed == nil {
		if r.Flush(min(recBlock, end-r.base)) != nil {
			break
		}
	}
	r.window = nil
}
