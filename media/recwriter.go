package media

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
)

const (
	// recFileBuffer bounds the audio of one recording that waits for the disk, in blocks: 11 s, so that a disk may stall for 10 s.
	// All recordings together may have that for each open one, and recBuffer (64 MiB) for those that are closing or being written.
	recBuffer     = 64 << 20 / (recBlock * wav.StereoBytes)
	recFileBuffer = 44
	// recPause lets blocks of many recordings come together, so that a worker wakes up for all of them at once, and two blocks
	// of one, so that they take one write and one new header. Opening and closing a file don't wait for it.
	recPause = 500 * time.Millisecond
	// recHelpAfter is how long a round of writing may take before another worker comes to its help; recWorkers is how many may
	// be at work, or be stuck in the disk.
	recHelpAfter = 100 * time.Millisecond
	recWorkers   = 16
)

// recBlockData is one block on its way to the disk.
type recBlockData struct {
	pos    int64 // of its first frame
	frames int
	pcm    [2 * recBlock]int16
}

// recWriter writes the recordings of all sessions, off the hot path. As a rule one worker does it all. When the disk is
// slow, or hangs in one file, others help, so that the recordings of other calls go on. What waits is bounded: audio that
// finds no room is left out, its place is silent, and the recording goes on.
//
// Nothing is synced to the disk while a call lives. A process that dies loses nothing that was written; a host that loses
// its power loses what the kernel has not yet written back, as a rule the last half minute. To sync several hundred files
// once a second would cost more disk than all the audio does.
type recWriter struct {
	metrics *metrics
	open    recOpen
	kick    chan struct{} // holds one
	hurry   chan struct{} // holds one: the pause ends
	quit    chan struct{}
	tasks   tasks // the workers, and the failures that are being logged

	mu      sync.Mutex
	ready   []*recFile
	free    []*recBlockData
	blocks  int  // in use and free, at most bound
	files   int  // open recordings
	waiting int  // in queues
	helpers int  // workers besides the first
	working bool // the first worker is in a round
	watch   *time.Timer
	closed  bool
}

func newRecWriter(m *metrics, open recOpen) *recWriter {
	w := &recWriter{metrics: m, open: open, kick: make(chan struct{}, 1), hurry: make(chan struct{}, 1), quit: make(chan struct{})}
	w.watch = time.AfterFunc(recHelpAfter, w.help)
	w.tasks.run(w.run)
	return w
}

// Add takes a new recording in; its file is opened by a worker.
func (w *recWriter) add(spec *RecordingSpec, log *slog.Logger) *recFile {
	f := &recFile{spec: *spec, log: log, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files++
	w.enqueue(f)
	signal(w.hurry)
	return f
}

// bound is how many blocks there may be. The caller holds mu.
func (w *recWriter) bound() int { return recBuffer + recFileBuffer*w.files }

// enqueue gives a file to the workers. The caller holds mu.
func (w *recWriter) enqueue(f *recFile) {
	if f.busy {
		return
	}
	f.busy = true
	w.ready = append(w.ready, f)
	signal(w.kick)
}

// signal fills a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put queues a copy of samples, left and right in turn, for a place in a file. Without room the place stays silent. Its error is the
// recording's end.
func (w *recWriter) put(f *recFile, pos int64, pcm []int16) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	var b *recBlockData
	if len(f.queue) < recFileBuffer {
		b = w.block()
	}
	if b == nil {
		w.skip(f, len(pcm)/2)
		return nil
	}
	b.pos, b.frames = pos, copy(b.pcm[:], pcm)/2
	f.queue = append(f.queue, b)
	w.waiting++
	w.enqueue(f)
	if w.waiting >= w.bound()/4 {
		signal(w.hurry)
	}
	return nil
}

// skip counts audio that found no room, and logs a recording's first. The caller holds mu.
func (w *recWriter) skip(f *recFile, frames int) {
	w.metrics.recordingSkipped.Add(float64(frames) / dsp.SampleRate)
	if f.skipped {
		return
	}
	f.skipped = true
	w.tasks.run(func() { // a log may be slow, too
		f.log.LogAttrs(context.Background(), slog.LevelError, "recording has a gap of silence, the disk doesn't keep up",
			slog.Bool("alert", true), slog.String("reason", "disk_slow"), slog.String("path", f.spec.Path))
	})
}

// block gives a free block, nil when the bound is reached. The caller holds mu.
func (w *recWriter) block() *recBlockData {
	if n := len(w.free); n > 0 {
		b := w.free[n-1]
		w.free[n-1] = nil
		w.free = w.free[:n-1]
		return b
	}
	if w.blocks >= w.bound() {
		return nil
	}
	w.blocks++
	return new(recBlockData)
}

// release takes blocks back. What a stall needed above recBuffer is left to the garbage collector. The caller holds mu.
func (w *recWriter) release(blocks []*recBlockData) {
	keep := min(len(blocks), max(0, recBuffer-len(w.free)))
	w.free = append(w.free, blocks[:keep]...)
	w.blocks -= len(blocks) - keep
	clear(blocks)
}

// drop empties a file's queue. The caller holds mu.
func (w *recWriter) drop(f *recFile) {
	w.waiting -= len(f.queue)
	w.release(f.queue)
	f.queue = f.queue[:0]
}

// fail ends a recording early, once. The caller holds mu.
func (w *recWriter) fail(f *recFile, err error) {
	if f.err != nil {
		return
	}
	f.err = err
	w.drop(f)
	reason := recordingFailure(err)
	w.metrics.recordingFailures.WithLabelValues(reason).Inc()
	w.tasks.run(func() { // a log may be slow, too
		f.log.LogAttrs(context.Background(), slog.LevelError, "recording ended early, the call goes on",
			slog.Bool("alert", true), slog.String("reason", reason), slog.String("path", f.spec.Path), slog.Any("error", err))
	})
}

func (w *recWriter) failure(f *recFile) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.err
}

// closeFile has the file closed behind all its blocks.
func (w *recWriter) closeFile(f *recFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !f.closing {
		f.closing = true
		w.files--
	}
	w.enqueue(f)
	signal(w.hurry)
}

// abandon gives up a file whose disk hangs: nothing more is written to it.
func (w *recWriter) abandon(f *recFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(f, errRecorderBehind)
}

// Finish has a closed file cut to its call, and waits for that as long as ctx allows.
func (w *recWriter) finish(ctx context.Context, f *recFile, answered, ended time.Time) (wav.Recording, error) {
	job := &finishJob{ctx: ctx, answered: answered, ended: ended, reply: make(chan finishResult, 1)}
	w.mu.Lock()
	f.finish = job
	w.enqueue(f)
	signal(w.hurry)
	closed := w.closed
	w.mu.Unlock()
	if closed { // no worker is left
		w.round() //nolint:contextcheck // the log line of a failure has no deadline
	}
	select {
	case r := <-job.reply:
		return r.info, r.err
	case <-ctx.Done():
		w.abandon(f) //nolint:contextcheck // the log line of a failure has no deadline
		return wav.Recording{}, fmt.Errorf("finishing a recording: waiting for the disk: %w", context.Cause(ctx))
	}
}

// run is the first worker.
func (w *recWriter) run() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for quit := false; !quit; {
		select {
		case <-w.kick:
			pause.Reset(recPause)
			select {
			case <-pause.C:
			case <-w.hurry:
			case <-w.quit:
			}
		case <-w.quit:
			quit = true
		}
		w.mu.Lock()
		w.working = true
		w.watch.Reset(recHelpAfter)
		w.mu.Unlock()
		w.round()
		w.mu.Lock()
		w.working = false
		w.watch.Stop()
		w.metrics.recordingQueue.Set(float64(w.waiting * recBlock * wav.StereoBytes))
		w.mu.Unlock()
	}
}

// help runs when a round takes long. It starts another worker for the files that wait.
func (w *recWriter) help() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.working {
		return
	}
	w.watch.Reset(recHelpAfter)
	w.metrics.recordingQueue.Set(float64(w.waiting * recBlock * wav.StereoBytes))
	if len(w.ready) == 0 || w.helpers >= recWorkers-1 {
		return
	}
	w.helpers++
	w.tasks.run(func() {
		w.round()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.helpers--
	})
}

// round serves the files that wait until none is left.
func (w *recWriter) round() {
	for {
		w.mu.Lock()
		if len(w.ready) == 0 {
			w.mu.Unlock()
			return
		}
		f := w.ready[0]
		w.ready = slices.Delete(w.ready, 0, 1)
		w.mu.Unlock()
		w.serve(f)
	}
}

// recStep is what a file needs next.
type recStep int

const (
	stepNone recStep = iota
	stepOpen
	stepWrite
	stepClose
	stepFinish
)

// next says what a file needs, and takes the blocks or the job for it. Without need the file leaves the worker.
func (w *recWriter) next(f *recFile, blocks []*recBlockData) (recStep, []*recBlockData, *finishJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release(blocks)
	blocks = blocks[:0]
	switch {
	case !f.closed && f.err == nil && f.disk == nil:
		return stepOpen, blocks, nil
	case len(f.queue) > 0:
		blocks, f.queue = f.queue, blocks
		w.waiting -= len(blocks)
		return stepWrite, blocks, nil
	case f.closing && !f.closed:
		return stepClose, blocks, nil
	case f.closed && f.finish != nil:
		job := f.finish
		f.finish = nil
		return stepFinish, blocks, job
	}
	f.busy, f.spare = false, blocks
	return stepNone, nil, nil
}

// serve does for a file what there is to do.
func (w *recWriter) serve(f *recFile) {
	blocks := f.spare
	for {
		var step recStep
		var job *finishJob
		step, blocks, job = w.next(f, blocks)
		var err error
		switch step {
		case stepNone:
			return
		case stepOpen:
			f.disk, f.lay, f.frames, err = w.open(&f.spec)
		case stepWrite:
			err = f.writeAll(blocks)
		case stepClose:
			err = f.closeDisk(w.failure(f) != nil)
		case stepFinish:
			length := job.ended.Sub(job.answered)
			info, err := wav.FinishSpan(job.ctx, f.spec.Path, job.answered.Sub(f.spec.Start), length, w.failure(f) != nil)
			job.reply <- finishResult{info, err}
		}
		w.did(f, step, err)
	}
}

// did keeps how a step went.
func (w *recWriter) did(f *recFile, step recStep, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.fail(f, err)
	}
	if step != stepClose {
		return
	}
	f.closed = true
	result := "ok"
	if f.err != nil {
		result = "failed"
	}
	w.metrics.recordings.WithLabelValues(result).Inc()
	close(f.done)
}

// close ends the workers when all that was queued is on disk, or when ctx is over: a disk that hangs keeps nobody here.
func (w *recWriter) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.quit)
	}
	w.mu.Unlock()
	w.tasks.wait(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil && w.working {
		return fmt.Errorf("writing what is left of the recordings: %d blocks wait: %w", w.waiting, context.Cause(ctx))
	}
	return nil
}
