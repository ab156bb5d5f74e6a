package media

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
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
	recBlock = sampleRate / 4
	// recHold is how far the newest written sample lies behind the clock.
	recHold = sampleRate / 4

	leftChannel  = 0 // the caller
	rightChannel = 1 // the AI
)

// recorder lays both directions on one timeline of 8 kHz samples since RecordingSpec.Start. The shard puts audio at its
// place and lets the clock go on; what is old enough goes to the writer in blocks. It is owned by the shard; only the
// file is the writer's.
type recorder struct {
	out    *recWriter
	file   *recFile
	base   int64 // position of window[0]; all before it has been given to the writer
	window []int16
	failed error // set once: the recording has ended early

	clipped uint64 // samples that came too late for their place
}

// put writes samples at a position of one channel.
func (r *recorder) put(ch int, pos int64, pcm []int16) {
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
	w := r.window[2*at+int64(ch):]
	for i, s := range pcm {
		w[2*i] = s
	}
}

// advance gives the writer all whole blocks that lie recHold before now.
func (r *recorder) advance(now int64) error {
	for r.base+recBlock+recHold <= now {
		if behind := now - r.base; behind > 4*recWindow {
			// Nothing was recorded for a while: the gap stays a hole in the file, which reads as silence.
			if err := r.flush(recWindow); err != nil {
				return err
			}
			r.base = now - recHold - recBlock
			continue
		}
		if err := r.flush(recBlock); err != nil {
			return err
		}
	}
	return nil
}

// flush gives the writer the first n samples of the window.
func (r *recorder) flush(n int64) error {
	if r.failed == nil {
		blk := r.out.block()
		blk.file, blk.pos = r.file, r.base
		blk.data = slices.Grow(blk.data, int(stereoBytes*n))[:stereoBytes*n]
		putPCM(blk.data, r.window[:2*n])
		if !r.out.put(blk) {
			r.failed = errRecorderBehind
		} else if err := r.file.failure(); err != nil {
			r.failed = err
		}
	}
	m := copy(r.window, r.window[2*n:])
	clear(r.window[m:])
	r.base += n
	return r.failed
}

// finish writes what is left up to a position.
func (r *recorder) finish(end int64) {
	for r.base < end && r.failed == nil {
		if r.flush(min(recBlock, end-r.base)) != nil {
			break
		}
	}
	r.window = nil
}

// errRecorderBehind ends a recording whose disk doesn't keep up.
var errRecorderBehind = errors.New("recording: the disk doesn't keep up")

// recFile is one recording's file. The writer's goroutine owns it, but for the failure.
type recFile struct {
	f    *os.File
	size int64 // bytes of audio
	done chan struct{}

	mu  sync.Mutex
	err error // written by the writer, read by the shard
}

// openRecording opens a recording's file: a new one, or an existing one to go on with.
func openRecording(spec *RecordingSpec) (*recFile, error) {
	flags := os.O_RDWR | os.O_CREATE
	if !spec.Append {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(spec.Path, flags, 0o640)
	if err != nil {
		return nil, fmt.Errorf("opening a recording: %w", err)
	}
	r := &recFile{f: f, done: make(chan struct{})}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening a recording: %w", err), f.Close())
	}
	r.size = max(0, st.Size()-wavHeaderSize) &^ (stereoBytes - 1)
	if err := r.writeHeader(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening a recording: %w", err), f.Close())
	}
	return r, nil
}

func (f *recFile) writeHeader() error {
	h := wavHeader(f.size)
	_, err := f.f.WriteAt(h[:], 0)
	return err
}

func (f *recFile) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = fmt.Errorf("writing a recording: %w", err)
	}
}

func (f *recFile) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// recBlockData is one block on its way to the disk; without data it closes the file.
type recBlockData struct {
	file *recFile
	pos  int64
	data []byte
}

// recWriter writes the recordings of all sessions, off the hot path. Its queue is bounded: when it is full the
// recording ends and the call goes on.
type recWriter struct {
	queue chan *recBlockData
	pool  sync.Pool
	wg    sync.WaitGroup
}

// recQueue bounds the blocks that wait: 2,048 are 16 MiB, or one and a half seconds of 300 calls.
const recQueue = 2048

func newRecWriter() *recWriter {
	w := &recWriter{queue: make(chan *recBlockData, recQueue)}
	w.pool.New = func() any { return &recBlockData{data: make([]byte, 0, recWindow*stereoBytes)} }
	w.wg.Add(1)
	go w.run()
	return w
}

func (w *recWriter) block() *recBlockData {
	b, ok := w.pool.Get().(*recBlockData)
	if !ok {
		b = new(recBlockData)
	}
	b.data = b.data[:0]
	return b
}

func (w *recWriter) put(b *recBlockData) bool {
	select {
	case w.queue <- b:
		return true
	default:
		w.pool.Put(b)
		return false
	}
}

// closeFile closes the file behind all its blocks. It waits for room in the queue: it is called once per recording.
func (w *recWriter) closeFile(f *recFile) { w.queue <- &recBlockData{file: f} }

func (w *recWriter) run() {
	defer w.wg.Done()
	for b := range w.queue {
		if b.data == nil {
			if err := b.file.f.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
				b.file.fail(err)
			}
			close(b.file.done)
			continue
		}
		if b.file.failure() == nil {
			if err := b.file.write(b.pos, b.data); err != nil {
				b.file.fail(err)
			}
		}
		w.pool.Put(b)
	}
}

// write puts a block at its place and then makes the header tell the new size, so that the file can be played at any
// moment.
func (f *recFile) write(pos int64, data []byte) error {
	if pos < 0 {
		return nil
	}
	off := pos * stereoBytes
	if _, err := f.f.WriteAt(data, wavHeaderSize+off); err != nil {
		return err
	}
	f.size = max(f.size, off+int64(len(data)))
	return f.writeHeader()
}

// close ends the writer when all that was queued is on disk.
func (w *recWriter) close() {
	close(w.queue)
	w.wg.Wait()
}

// callerClock lays the caller's packets on the recording's timeline. The first packet anchors its timestamps to its
// arrival; later ones follow their timestamps, so that network jitter moves nothing. Where the clocks drift apart, the
// anchor follows by one millisecond at a time; a jump sets it anew.
type callerClock struct {
	anchored bool
	ts       uint32 // the newest packet's timestamp
	pos      int64  // its place, in samples
	best     int64  // the smallest lag of arrival behind pos in this round, in samples
	round    int    // packets of this round
}

const (
	// clockJump is how far arrival and timestamp may disagree, in samples: 100 ms.
	clockJump = 800
	// clockRound is how many packets are looked at before the anchor moves: 2 s.
	clockRound = 100
	// clockSlack is the disagreement that is left alone, in samples: 5 ms.
	clockSlack = 40
	// clockFar is the disagreement that is mended at once, in samples: 20 ms.
	clockFar = 160
	// clockStep is how far the anchor moves at a time.
	clockStep = 8
)

// place returns where a packet belongs that arrived when the clock stood at now.
func (c *callerClock) place(ts uint32, now int64) int64 {
	if c.anchored {
		pos := c.pos + int64(int32(ts-c.ts))
		lag := now - pos
		if lag <= clockJump && lag >= -clockJump {
			c.ts, c.pos = ts, pos
			c.follow(lag)
			return c.pos
		}
	}
	*c = callerClock{anchored: true, ts: ts, pos: now, best: clockJump}
	return now
}

func (c *callerClock) follow(lag int64) {
	c.best = min(c.best, lag)
	if c.round++; c.round < clockRound {
		return
	}
	switch {
	case max(c.best, -c.best) > clockFar: // the packet that anchored was itself late
		c.pos += c.best
	case c.best > clockSlack:
		c.pos += clockStep
	case c.best < -clockSlack:
		c.pos -= clockStep
	}
	c.best, c.round = clockJump, 0
}
