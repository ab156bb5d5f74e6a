package record

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/tasks"
	"github.com/ringmaster/ringmaster/media/wav"
)

const (
	// maxFileBlocks bounds the audio of one recording that waits for the disk, in blocks: 11 s, so that a disk may stall for 10 s.
	// All recordings together may have that for each open one, and maxBlocks (64 MiB) for those that are closing or being written.
	maxBlocks     = 64 << 20 / (blockSamples * wav.StereoBytes)
	maxFileBlocks = 44
	// roundPause lets blocks of many recordings come together, so that a worker wakes up for all of them at once, and two blocks
	// of one, so that they take one write and one new header. Opening and closing a file don't wait for it.
	roundPause = 500 * time.Millisecond
	// helpAfter is how long a round of writing may take before another worker comes to its help; maxWorkers is how many may
	// be at work, or be stuck in the disk.
	helpAfter  = 100 * time.Millisecond
	maxWorkers = 16
)

// block is one block on its way to the disk.
type block struct {
	pos    int64 // of its first frame
	frames int
	pcm    [2 * blockSamples]int16
}

// Writer writes the recordings of all sessions, off the hot path. As a rule one worker does it all. When the disk is
// slow, or hangs in one file, others help, so that the recordings of other calls go on. What waits is bounded: audio that
// finds no room is left out, its place is silent, and the recording goes on.
//
// Nothing is synced to the disk while a call lives. A process that dies loses nothing that was written; a host that loses
// its power loses what the kernel has not yet written back, as a rule the last half minute. To sync several hundred files
// once a second would cost more disk than all the audio does.
type Writer struct {
	metrics Metrics
	open    opener
	pause   time.Duration // roundPause; a test's rounds are shorter
	spare   int           // maxBlocks; a test needs less
	kick    chan struct{} // holds one
	hurry   chan struct{} // holds one: the pause ends
	quit    chan struct{}
	tasks   tasks.Group // the workers, and the failures that are being logged

	mu      sync.Mutex
	ready   []*File
	free    []*block
	blocks  int  // in use and free, at most bound
	files   int  // open recordings
	waiting int  // in queues
	helpers int  // workers besides the first
	working bool // the first worker is in a round
	watch   *time.Timer
	closed  bool
}

// NewWriter starts a writer.
func NewWriter(m Metrics) *Writer { return newWriter(m, openFile, roundPause, maxBlocks) }

func newWriter(m Metrics, open opener, pause time.Duration, spare int) *Writer {
	w := &Writer{
		metrics: m, open: open, pause: pause, spare: spare,
		kick: make(chan struct{}, 1), hurry: make(chan struct{}, 1), quit: make(chan struct{}),
	}
	w.watch = time.AfterFunc(helpAfter, w.help)
	w.tasks.Run(w.run)
	return w
}

// Add takes a new recording in; its file is opened by a worker.
func (w *Writer) Add(spec *Spec, log *slog.Logger) *File {
	f := &File{w: w, spec: *spec, log: log, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files++
	w.enqueue(f)
	signal(w.hurry)
	return f
}

// bound is how many blocks there may be. The caller holds mu.
func (w *Writer) bound() int { return w.spare + maxFileBlocks*w.files }

// enqueue gives a file to the workers. The caller holds mu.
func (w *Writer) enqueue(f *File) {
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

// Put queues a copy of samples, left and right in turn, for a place in the file. Without room the place stays silent. Its error is the
// recording's end.
func (f *File) Put(pos int64, pcm []int16) error {
	w := f.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	var b *block
	if len(f.queue) < maxFileBlocks {
		b = w.takeBlock()
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
func (w *Writer) skip(f *File, frames int) {
	w.metrics.skipped.Add(float64(frames) / dsp.SampleRate)
	if f.skipped {
		return
	}
	f.skipped = true
	w.tasks.Run(func() { // a log may be slow, too
		f.log.LogAttrs(context.Background(), slog.LevelError, "recording has a gap: the disk is too slow",
			slog.Bool("alert", true), slog.String("reason", "disk_slow"), slog.String("path", f.spec.Path))
	})
}

// takeBlock gives a free block, nil when the bound is reached. The caller holds mu.
func (w *Writer) takeBlock() *block {
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
	return new(block)
}

// release takes blocks back. What a stall needed above spare is left to the garbage collector. The caller holds mu.
func (w *Writer) release(blocks []*block) {
	keep := min(len(blocks), max(0, w.spare-len(w.free)))
	w.free = append(w.free, blocks[:keep]...)
	w.blocks -= len(blocks) - keep
	clear(blocks)
}

// drop empties a file's queue. The caller holds mu.
func (w *Writer) drop(f *File) {
	w.waiting -= len(f.queue)
	w.release(f.queue)
	f.queue = f.queue[:0]
}

// fail ends a recording early, once. The caller holds mu.
func (w *Writer) fail(f *File, err error) {
	if f.err != nil {
		return
	}
	f.err = err
	w.drop(f)
	reason := failureReason(err)
	w.metrics.failures.WithLabelValues(reason).Inc()
	w.tasks.Run(func() { // a log may be slow, too
		f.log.LogAttrs(context.Background(), slog.LevelError, "recording ended early, the call goes on",
			slog.Bool("alert", true), slog.String("reason", reason), slog.String("path", f.spec.Path), slog.Any("error", err))
	})
}

func (w *Writer) failure(f *File) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.err
}

// Close has the file closed behind all its blocks.
func (f *File) Close() {
	w := f.w
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
func (w *Writer) abandon(f *File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(f, errBehind)
}

// Finish has a closed file cut to its call, and waits for that as long as ctx allows.
func (f *File) Finish(ctx context.Context, answered, ended time.Time) (wav.Recording, error) {
	w := f.w
	job := &finishJob{ctx: ctx, answered: answered, ended: ended, reply: make(chan finishResult, 1)}
	w.mu.Lock()
	f.finishing = job
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
func (w *Writer) run() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for quit := false; !quit; {
		select {
		case <-w.kick:
			pause.Reset(w.pause)
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
		w.watch.Reset(helpAfter)
		w.mu.Unlock()
		w.round()
		w.mu.Lock()
		w.working = false
		w.watch.Stop()
		w.metrics.queue.Set(float64(w.waiting * blockSamples * wav.StereoBytes))
		w.mu.Unlock()
	}
}

// help runs when a round takes long. It starts another worker for the files that wait.
func (w *Writer) help() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.working {
		return
	}
	w.watch.Reset(helpAfter)
	w.metrics.queue.Set(float64(w.waiting * blockSamples * wav.StereoBytes))
	if len(w.ready) == 0 || w.helpers >= maxWorkers-1 {
		return
	}
	w.helpers++
	w.tasks.Run(func() {
		w.round()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.helpers--
	})
}

// round serves the files that wait until none is left.
func (w *Writer) round() {
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

// step is what a file needs next.
type step int

const (
	stepNone step = iota
	stepOpen
	stepWrite
	stepClose
	stepFinish
)

// next says what a file needs, and takes the blocks or the job for it. Without need the file leaves the worker.
func (w *Writer) next(f *File, blocks []*block) (step, []*block, *finishJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release(blocks)
	blocks = blocks[:0]
	switch {
	case !f.closedFile && f.err == nil && f.disk == nil:
		return stepOpen, blocks, nil
	case len(f.queue) > 0:
		blocks, f.queue = f.queue, blocks
		w.waiting -= len(blocks)
		return stepWrite, blocks, nil
	case f.closing && !f.closedFile:
		return stepClose, blocks, nil
	case f.closedFile && f.finishing != nil:
		job := f.finishing
		f.finishing = nil
		return stepFinish, blocks, job
	}
	f.busy, f.spare = false, blocks
	return stepNone, nil, nil
}

// serve does for a file what there is to do.
func (w *Writer) serve(f *File) {
	blocks := f.spare
	for {
		var step step
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
func (w *Writer) did(f *File, step step, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.fail(f, err)
	}
	if step != stepClose {
		return
	}
	f.closedFile = true
	result := "ok"
	if f.err != nil {
		result = "failed"
	}
	w.metrics.files.WithLabelValues(result).Inc()
	close(f.done)
}

// Close ends the workers when all that was queued is on disk, or when ctx is over: a disk that hangs keeps nobody here.
func (w *Writer) Close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.quit)
	}
	w.mu.Unlock()
	w.tasks.Wait(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil && w.working {
		return fmt.Errorf("writing what is left of the recordings: %d blocks wait: %w", w.waiting, context.Cause(ctx))
	}
	return nil
}
