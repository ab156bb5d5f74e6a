package wav

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ringmaster/ringmaster/media/dsp"
)

// Rate is the rate of our recordings, in Hz.
const Rate = 8000

const perSample = int64(time.Second / Rate)

// ErrFull means that a recording has reached the largest size of a WAV file.
var ErrFull = errors.New("recording: a WAV file can't be longer")

// copyBlock is how many sample frames are moved at a time when files are rewritten.
const copyBlock = 8192

// SamplesIn rounds a duration to samples of 8 kHz.
func SamplesIn(d time.Duration) int64 {
	return int64(d.Round(time.Duration(perSample))) / perSample
}

// Finish cuts or pads a recording whose time zero is start to exactly the span from answered to ended, and describes it.
// It serves a recording whose session is gone, too: one that a crash left behind. Where the disk has no room for the
// silence at the end, the recording stays as long as it is, and is Partial.
func Finish(ctx context.Context, path string, start, answered, ended time.Time) (Recording, error) {
	return FinishSpan(ctx, path, answered.Sub(start), ended.Sub(answered), false)
}

// FinishSpan cuts off the head and leaves at most that length; a partial recording is not padded. It stops between its
// steps when ctx is over.
func FinishSpan(ctx context.Context, path string, head, length time.Duration, partial bool) (Recording, error) {
	failed := func(err error) (Recording, error) {
		return Recording{}, fmt.Errorf("finishing a recording: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return failed(err)
	}
	defer func() { closeQuietly(f) }()
	lay, frames, err := ScanOwn(f)
	if err != nil {
		return failed(err)
	}
	shift, want := SamplesIn(head), SamplesIn(max(0, length))
	if max(-shift, want) > lay.MaxFrames() {
		return failed(fmt.Errorf("from %v for %v: %w", head, length, ErrFull))
	}
	if ctx.Err() != nil {
		return failed(context.Cause(ctx))
	}
	if shift != 0 {
		if err := cutHead(ctx, f, path, lay, frames, shift); err != nil {
			return failed(err)
		}
		closeQuietly(f)
		if f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
			return failed(err)
		}
		frames = max(0, frames-shift)
	}
	if partial {
		want = min(want, frames)
	}
	if frames < want {
		if err := lay.Extend(f, frames, want); err != nil {
			want, partial = frames, true
		}
	}
	if ctx.Err() != nil {
		return failed(context.Cause(ctx))
	}
	_, err = f.WriteAt(lay.AppendHeader(nil, want), 0)
	if err := errors.Join(err, f.Truncate(lay.Offset(want))); err != nil {
		return failed(err)
	}
	return Recording{
		Path: path, Duration: time.Duration(want * perSample), Bytes: lay.Offset(want), Stereo: true, Partial: partial,
	}, nil
}

// cutHead moves the file's time zero by a number of frames: audio before it goes, silence fills what is missing. The file
// is replaced in one step.
func cutHead(ctx context.Context, src *os.File, path string, lay Layout, frames, shift int64) error {
	return Replace(path, func(dst *os.File) error {
		from, pad := min(max(0, shift), frames), max(0, -shift)
		if _, err := dst.Write(lay.AppendHeader(nil, frames-from+pad)); err != nil {
			return err
		}
		if err := lay.FillSilence(dst, 0, pad); err != nil {
			return err
		}
		if _, err := dst.Seek(lay.Offset(pad), io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(dst, io.NewSectionReader(src, lay.Offset(from), (frames-from)*lay.FrameSize)); err != nil {
			return err
		}
		return context.Cause(ctx)
	})
}

// closeQuietly closes a file that was only read: there is nothing to lose.
func closeQuietly(f *os.File) { _ = f.Close() }

// Replace writes a file beside path and renames it over path.
func Replace(path string, write func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = write(tmp)
	if err == nil {
		err = tmp.Chmod(0o640)
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// Recording describes a finished recording.
type Recording struct {
	Path     string
	Duration time.Duration
	Bytes    int64
	Stereo   bool
	// Partial: the recording ended before its call, and is as long as what it holds.
	Partial bool
}

// Part is one file on the timeline that Join builds.
type Part struct {
	Path string
	// Offset is where the part's first sample lies.
	Offset time.Duration
}

// JoinSpec says how joined recordings are kept.
type JoinSpec struct {
	Encoding Encoding
	// Mono has both sides on one channel.
	Mono bool
}

// Join lays parts on one timeline and writes it to dst at 8 kHz. Where parts overlap they are added, and so are the sides of a
// stereo part in a mono file; a mono part is heard on both sides of a stereo file. What no part covers is silence. Parts may differ
// in encoding, channels and rate.
func Join(dst string, spec JoinSpec, parts []Part) (Recording, error) {
	var frames int64
	lay, err := LayoutOf(spec.Encoding)
	if spec.Mono {
		lay = lay.Mono()
	}
	if err == nil {
		err = Replace(dst, func(out *os.File) error {
			for _, p := range parts {
				end, err := addPart(out, lay, frames, p)
				if err != nil {
					return fmt.Errorf("%s: %w", filepath.Base(p.Path), err)
				}
				frames = max(frames, end)
			}
			_, err := out.WriteAt(lay.AppendHeader(nil, frames), 0)
			return errors.Join(err, out.Truncate(lay.Offset(frames)))
		})
	}
	if err != nil {
		return Recording{}, fmt.Errorf("joining recordings: %w", err)
	}
	return Recording{Path: dst, Duration: time.Duration(frames * perSample), Bytes: lay.Offset(frames), Stereo: !lay.mono}, nil
}

// addPart adds one file to a timeline that holds so many frames, and returns where the file ends, in frames.
func addPart(out *os.File, lay Layout, filled int64, p Part) (int64, error) {
	f, err := os.Open(p.Path)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(f)
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	info, err := Scan(f, st.Size())
	if err != nil {
		return 0, err
	}
	var side [2]*dsp.Resampler
	for i := range side {
		if side[i], err = dsp.NewResampler(info.Rate, Rate); err != nil {
			return 0, err
		}
	}
	at := SamplesIn(p.Offset)
	if err := lay.FillSilence(out, filled, at); err != nil {
		return 0, err
	}
	raw := make([]byte, copyBlock*info.FrameBytes())
	var pcm, one []int16
	var both [2][]int16
	whole := info.DataLen - info.DataLen%int64(info.FrameBytes())
	for done := int64(0); done < whole; {
		n := min(int64(len(raw)), whole-done)
		if _, err := f.ReadAt(raw[:n], info.DataAt+done); err != nil {
			return 0, err
		}
		done += n
		pcm = info.AppendTo(pcm[:0], raw[:n])
		for c := range both {
			one = channel(one[:0], pcm, min(c, info.Channels-1), info.Channels)
			both[c] = side[c].Process(both[c][:0], one)
		}
		sides := both[:]
		if lay.mono && info.Channels == 1 {
			sides = sides[:1]
		}
		if err := mixAt(out, lay, at, sides); err != nil {
			return 0, err
		}
		at += int64(len(both[0]))
	}
	return at, nil
}

// channel picks one channel out of interleaved samples.
func channel(dst, pcm []int16, c, channels int) []int16 {
	for i := c; i < len(pcm); i += channels {
		dst = append(dst, pcm[i])
	}
	return dst
}

// mixAt adds samples to what the file holds at a position; positions before the timeline are dropped. All sides go on the channel of a
// mono file.
func mixAt(f *os.File, lay Layout, at int64, sides [][]int16) error {
	skip := min(max(0, -at), int64(len(sides[0])))
	at += skip
	length, channels := len(sides[0])-int(skip), int(lay.channels())
	raw := make([]byte, int64(length)*lay.FrameSize)
	n, err := f.ReadAt(raw, lay.Offset(at))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	info := Info{Format: lay.Format}
	pcm := info.AppendTo(make([]int16, 0, channels*length), raw[:int64(n)-int64(n)%lay.FrameSize])
	pcm = append(pcm, make([]int16, channels*length-len(pcm))...) // silence behind the end
	for c, side := range sides {
		for i, v := range side[skip:] {
			at := channels*i + c%channels
			pcm[at] = saturate(int32(pcm[at]) + int32(v))
		}
	}
	_, err = f.WriteAt(lay.AppendSamples(raw[:0], pcm), lay.Offset(at))
	return err
}

func saturate(v int32) int16 { return int16(min(max(v, -32768), 32767)) }
