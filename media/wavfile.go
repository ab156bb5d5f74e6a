package media

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

// copyBlock is how many sample frames are moved at a time when files are rewritten.
const copyBlock = 8192

// samplesIn rounds a duration to samples of 8 kHz.
func samplesIn(d time.Duration) int64 {
	return int64(d.Round(time.Duration(nsPerSample))) / nsPerSample
}

// FinishWAV cuts or pads a recording whose time zero is start to exactly the span from answered to ended, and describes it.
// It serves a recording whose session is gone, too: one that a crash left behind. Where the disk has no room for the
// silence at the end, the recording stays as long as it is, and is Partial.
func FinishWAV(ctx context.Context, path string, start, answered, ended time.Time) (RecordingInfo, error) {
	return finishWAV(ctx, path, answered.Sub(start), ended.Sub(answered), false)
}

// finishWAV cuts off the head and leaves at most that length; a partial recording is not padded. It stops between its
// steps when ctx is over.
func finishWAV(ctx context.Context, path string, head, length time.Duration, partial bool) (RecordingInfo, error) {
	failed := func(err error) (RecordingInfo, error) {
		return RecordingInfo{}, fmt.Errorf("finishing a recording: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return failed(err)
	}
	defer func() { closeQuietly(f) }()
	lay, frames, err := scanOurs(f)
	if err != nil {
		return failed(err)
	}
	shift, want := samplesIn(head), samplesIn(max(0, length))
	if max(-shift, want) > lay.maxFrames() {
		return failed(fmt.Errorf("from %v for %v: %w", head, length, errRecordingFull))
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
		if err := lay.extend(f, frames, want); err != nil {
			want, partial = frames, true
		}
	}
	if ctx.Err() != nil {
		return failed(context.Cause(ctx))
	}
	_, err = f.WriteAt(lay.appendHeader(nil, want), 0)
	if err := errors.Join(err, f.Truncate(lay.offset(want))); err != nil {
		return failed(err)
	}
	return RecordingInfo{
		Path: path, Duration: time.Duration(want * nsPerSample), Bytes: lay.offset(want), Stereo: true, Partial: partial,
	}, nil
}

// cutHead moves the file's time zero by a number of frames: audio before it goes, silence fills what is missing. The file
// is replaced in one step.
func cutHead(ctx context.Context, src *os.File, path string, lay wavLayout, frames, shift int64) error {
	return replaceFile(path, func(dst *os.File) error {
		from, pad := min(max(0, shift), frames), max(0, -shift)
		if _, err := dst.Write(lay.appendHeader(nil, frames-from+pad)); err != nil {
			return err
		}
		if err := lay.fillSilence(dst, 0, pad); err != nil {
			return err
		}
		if _, err := dst.Seek(lay.offset(pad), io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(dst, io.NewSectionReader(src, lay.offset(from), (frames-from)*lay.frame)); err != nil {
			return err
		}
		return context.Cause(ctx)
	})
}

// closeQuietly closes a file that was only read: there is nothing to lose.
func closeQuietly(f *os.File) { _ = f.Close() }

// replaceFile writes a file beside path and renames it over path.
func replaceFile(path string, write func(*os.File) error) error {
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

// JoinSpec says how joined recordings are kept.
type JoinSpec struct {
	Encoding RecordingEncoding
	// Mono has both sides on one channel.
	Mono bool
}

// JoinWAV lays parts on one timeline and writes it to dst at 8 kHz. Where parts overlap they are added, and so are the sides of a
// stereo part in a mono file; a mono part is heard on both sides of a stereo file. What no part covers is silence. Parts may differ
// in encoding, channels and rate.
func JoinWAV(dst string, spec JoinSpec, parts []WAVPart) (RecordingInfo, error) {
	var frames int64
	lay, err := layoutOf(spec.Encoding)
	if spec.Mono {
		lay = lay.asMono()
	}
	if err == nil {
		err = replaceFile(dst, func(out *os.File) error {
			for _, p := range parts {
				end, err := addPart(out, lay, frames, p)
				if err != nil {
					return fmt.Errorf("%s: %w", filepath.Base(p.Path), err)
				}
				frames = max(frames, end)
			}
			_, err := out.WriteAt(lay.appendHeader(nil, frames), 0)
			return errors.Join(err, out.Truncate(lay.offset(frames)))
		})
	}
	if err != nil {
		return RecordingInfo{}, fmt.Errorf("joining recordings: %w", err)
	}
	return RecordingInfo{Path: dst, Duration: time.Duration(frames * nsPerSample), Bytes: lay.offset(frames), Stereo: !lay.mono}, nil
}

// addPart adds one file to a timeline that holds so many frames, and returns where the file ends, in frames.
func addPart(out *os.File, lay wavLayout, filled int64, p WAVPart) (int64, error) {
	f, err := os.Open(p.Path)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(f)
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	info, err := scanWAV(f, st.Size())
	if err != nil {
		return 0, err
	}
	var side [2]*dsp.Resampler
	for i := range side {
		if side[i], err = dsp.NewResampler(info.rate, sampleRate); err != nil {
			return 0, err
		}
	}
	at := samplesIn(p.Offset)
	if err := lay.fillSilence(out, filled, at); err != nil {
		return 0, err
	}
	raw := make([]byte, copyBlock*info.frameBytes())
	var pcm, one []int16
	var both [2][]int16
	whole := info.dataLen - info.dataLen%int64(info.frameBytes())
	for done := int64(0); done < whole; {
		n := min(int64(len(raw)), whole-done)
		if _, err := f.ReadAt(raw[:n], info.dataAt+done); err != nil {
			return 0, err
		}
		done += n
		pcm = info.samples(pcm[:0], raw[:n])
		for c := range both {
			one = channel(one[:0], pcm, min(c, info.channels-1), info.channels)
			both[c] = side[c].Process(both[c][:0], one)
		}
		sides := both[:]
		if lay.mono && info.channels == 1 {
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
func mixAt(f *os.File, lay wavLayout, at int64, sides [][]int16) error {
	skip := min(max(0, -at), int64(len(sides[0])))
	at += skip
	length, channels := len(sides[0])-int(skip), int(lay.channels())
	raw := make([]byte, int64(length)*lay.frame)
	n, err := f.ReadAt(raw, lay.offset(at))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	info := wavInfo{format: lay.format}
	pcm := info.samples(make([]int16, 0, channels*length), raw[:int64(n)-int64(n)%lay.frame])
	pcm = append(pcm, make([]int16, channels*length-len(pcm))...) // silence behind the end
	for c, side := range sides {
		for i, v := range side[skip:] {
			at := channels*i + c%channels
			pcm[at] = saturate(int32(pcm[at]) + int32(v))
		}
	}
	_, err = f.WriteAt(lay.appendSamples(raw[:0], pcm), lay.offset(at))
	return err
}

func saturate(v int32) int16 { return int16(min(max(v, -32768), 32767)) }
