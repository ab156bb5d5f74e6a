package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/wav"
)

// Why a recording ends before its call, besides the errors of its file.
var (
	// errBehind ends a recording whose disk hangs when it is to be finished.
	errBehind = errors.New("recording: the disk is too slow")
	// errGone ends a recording whose file was deleted, moved or replaced.
	errGone = fmt.Errorf("recording: the file is no longer at its path: %w", fs.ErrNotExist)
)

// failureReason names an error in the metrics.
func failureReason(err error) string {
	switch {
	case errors.Is(err, errBehind):
		return "disk_slow"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "disk_full"
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return "permission"
	}
	return "io"
}

// disk is an open recording. *os.File is one.
type disk interface {
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Close() error
}

// opener opens a recording's file: a new one with its header, or an existing one to go on with.
type opener func(spec *Spec) (disk, wav.Layout, int64, error)

// File is one recording's file on its way through the writer. What stands below `the writer's` is locked by the writer's
// mutex; the rest of the state belongs to the one worker that has taken the file, which is what busy says.
type File struct {
	w    *Writer
	spec Spec
	log  *slog.Logger
	done chan struct{} // closed when the file is closed, or given up

	disk       disk
	lay        wav.Layout
	frames     int64 // audio in the file
	looked     int64 // frames when the path was last looked at
	buf        []byte
	spare      []*block // empty; its memory is the queue's next
	closedFile bool

	// the writer's
	queue     []*block
	busy      bool // waits for a worker, or is with one
	closing   bool
	err       error // set once: the recording has ended early
	skipped   bool  // it has a gap that the disk's slowness made
	finishing *finishJob
}

// finishJob asks a worker to cut the closed file to its call.
type finishJob struct {
	ctx             context.Context //nolint:containedctx // of the caller who waits for the answer
	answered, ended time.Time
	reply           chan finishResult // holds one
}

type finishResult struct {
	info wav.Recording
	err  error
}

// openFile opens a recording on the disk. A new file comes to its path with its header in place, so that what stands
// there can be played from the first moment on; an existing one keeps its encoding.
func openFile(spec *Spec) (disk, wav.Layout, int64, error) {
	if spec.Append {
		f, lay, frames, err := reopenFile(spec.Path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, wav.ErrFormat) {
			return f, lay, frames, err
		}
	}
	lay, err := wav.LayoutOf(spec.Encoding)
	if err != nil {
		return nil, lay, 0, err
	}
	tmp := filepath.Join(filepath.Dir(spec.Path), "."+filepath.Base(spec.Path)+".new")
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return nil, lay, 0, err
	}
	if _, err = f.Write(lay.AppendHeader(nil, 0)); err == nil {
		err = os.Rename(tmp, spec.Path)
	}
	if err != nil {
		return nil, lay, 0, errors.Join(err, f.Close(), os.Remove(tmp))
	}
	return f, lay, 0, nil
}

// reopenFile opens the file that an earlier controller has begun. Audio that its header doesn't tell of yet counts.
func reopenFile(path string) (*os.File, wav.Layout, int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, wav.Layout{}, 0, err
	}
	lay, frames, err := wav.ScanOwn(f)
	if err != nil {
		return nil, lay, 0, errors.Join(err, f.Close())
	}
	return f, lay, frames, nil
}

const (
	// batchBlocks is how many blocks are written at once.
	batchBlocks = 8
	// lookEvery is how many frames are written between two looks at the path: 15 s.
	lookEvery = 15 * dsp.SampleRate
)

// writeAll writes what has come together, in as few writes as the gaps allow.
func (f *File) writeAll(blocks []*block) error {
	for len(blocks) > 0 {
		n := 1
		for n < len(blocks) && n < batchBlocks && blocks[n].pos == blocks[n-1].pos+int64(blocks[n-1].frames) {
			n++
		}
		if err := f.Write(blocks[:n]); err != nil {
			return err
		}
		blocks = blocks[n:]
	}
	return f.look(lookEvery)
}

// write puts blocks that follow each other at their place and then makes the header tell the new size, so that the file
// can be played at any moment: what a reader finds behind the header is never less than the header says.
func (f *File) Write(blocks []*block) error {
	pos, n := blocks[0].pos, int64(0)
	f.buf = f.buf[:0]
	for _, b := range blocks {
		f.buf = f.lay.AppendSamples(f.buf, b.pcm[:2*b.frames])
		n += int64(b.frames)
	}
	if pos+n > f.lay.MaxFrames() {
		return wav.ErrFull
	}
	if f.lay.Silence != 0 {
		if err := f.lay.FillSilence(f.disk, f.frames, pos); err != nil {
			return err
		}
	}
	wrote, err := f.disk.WriteAt(f.buf, f.lay.Offset(pos))
	if whole := int64(wrote) / f.lay.FrameSize; whole > 0 {
		f.frames = max(f.frames, pos+whole)
	}
	return errors.Join(err, f.writeHeader())
}

func (f *File) writeHeader() error {
	f.buf = f.lay.AppendHeader(f.buf[:0], f.frames)
	_, err := f.disk.WriteAt(f.buf, 0)
	return err
}

// look finds out whether the file still lies at its path: one that was deleted takes writes as before, and loses them.
// What it holds is brought back to its path, as far as that goes.
func (f *File) look(every int64) error {
	if f.frames-f.looked < every {
		return nil
	}
	f.looked = f.frames
	mine, err := f.disk.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(f.spec.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.Join(errGone, f.save())
	case err == nil && !os.SameFile(mine, there):
		return errGone
	}
	return err
}

// save writes a file that was deleted under our hands anew.
func (f *File) save() error {
	src, ok := f.disk.(*os.File)
	if !ok {
		return errGone
	}
	if err := os.MkdirAll(filepath.Dir(f.spec.Path), 0o750); err != nil {
		return err
	}
	return wav.Replace(f.spec.Path, func(dst *os.File) error {
		_, err := io.Copy(dst, io.NewSectionReader(src, 0, f.lay.Offset(f.frames)))
		return err
	})
}

// closeDisk closes the file behind its last block. The header of one that failed tells what is there.
func (f *File) closeDisk(failed bool) error {
	if f.disk == nil {
		return nil
	}
	var err error
	if failed {
		err = errors.Join(f.disk.Truncate(f.lay.Offset(f.frames)), f.writeHeader())
	} else {
		err = f.look(0)
	}
	err = errors.Join(err, f.disk.Close())
	f.disk, f.buf = nil, nil
	return err
}
