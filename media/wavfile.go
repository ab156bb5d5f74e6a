package media

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// copyBlock is how many sample frames are moved at a time when files are rewritten.
const copyBlock = 8192

// samplesIn rounds a duration to samples of 8 kHz.
func samplesIn(d time.Duration) int64 {
	return int64(d+time.Duration(nsPerSample)/2) / nsPerSample
}

// FinishWAV cuts or pads a recording whose time zero is start to exactly the span from answered to ended, writes its
// header, and describes it. It serves a recording whose session is gone, too: one that a crash left behind.
func FinishWAV(path string, start, answered, ended time.Time) (RecordingInfo, error) {
	if ended.Before(answered) {
		ended = answered
	}
	length := samplesIn(ended.Sub(answered))
	if err := cutHead(path, answered.Sub(start)); err != nil {
		return RecordingInfo{}, fmt.Errorf("finishing a recording: %w", err)
	}
	if err := setLength(path, length); err != nil {
		return RecordingInfo{}, fmt.Errorf("finishing a recording: %w", err)
	}
	return describe(path)
}

// cutHead moves the file's time zero by d: audio before it goes, silence fills what is missing. The file is replaced
// in one step.
func cutHead(path string, d time.Duration) error {
	shift := samplesIn(d.Abs())
	if shift == 0 {
		return nil
	}
	if d < 0 {
		shift = -shift
	}
	src, err := os.Open(path)
	if err != nil {
		return err
	}
	defer closeQuietly(src)
	st, err := src.Stat()
	if err != nil {
		return err
	}
	from := wavHeaderSize + max(shift, 0)*stereoBytes
	from = min(from, max(st.Size(), wavHeaderSize))
	return replaceFile(path, func(dst *os.File) error {
		if _, err := dst.Seek(wavHeaderSize+max(-shift, 0)*stereoBytes, io.SeekStart); err != nil {
			return err
		}
		_, err := io.Copy(dst, io.NewSectionReader(src, from, max(st.Size()-from, 0)))
		return err
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

// setLength cuts or pads a recording to a number of sample frames and writes its header.
func setLength(path string, frames int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	head := wavHeader(frames * stereoBytes)
	err = f.Truncate(wavHeaderSize + frames*stereoBytes)
	if err == nil {
		_, err = f.WriteAt(head[:], 0)
	}
	return errors.Join(err, f.Close())
}

// describe reads a finished recording through.
func describe(path string) (RecordingInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return RecordingInfo{}, fmt.Errorf("describing a recording: %w", err)
	}
	defer closeQuietly(f)
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return RecordingInfo{}, fmt.Errorf("describing a recording: %w", err)
	}
	info, err := scanWAV(f, n)
	if err != nil {
		return RecordingInfo{}, fmt.Errorf("describing a recording: %w", err)
	}
	return RecordingInfo{
		Path:     path,
		Duration: time.Duration(info.frames()) * time.Second / time.Duration(info.rate),
		Bytes:    n,
		Stereo:   info.channels == 2,
		SHA256:   hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

// JoinWAV lays parts on one timeline and writes it to dst as stereo 8 kHz 16-bit. Where parts overlap they are added;
// what no part covers is silence. A mono part is heard on both sides.
func JoinWAV(dst string, parts []WAVPart) (RecordingInfo, error) {
	err := replaceFile(dst, func(out *os.File) error {
		var frames int64
		for _, p := range parts {
			end, err := addPart(out, p)
			if err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(p.Path), err)
			}
			frames = max(frames, end)
		}
		head := wavHeader(frames * stereoBytes)
		if err := out.Truncate(wavHeaderSize + frames*stereoBytes); err != nil {
			return err
		}
		_, err := out.WriteAt(head[:], 0)
		return err
	})
	if err != nil {
		return RecordingInfo{}, fmt.Errorf("joining recordings: %w", err)
	}
	return describe(dst)
}

// addPart adds one file to the timeline and returns where it ends, in sample frames.
func addPart(out *os.File, p WAVPart) (int64, error) {
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
	var side [2]*Resampler
	for i := range side {
		if side[i], err = NewResampler(info.rate, sampleRate); err != nil {
			return 0, err
		}
	}
	at := samplesIn(p.Offset)
	raw := make([]byte, copyBlock*info.frameBytes())
	var pcm, one []int16
	var both [2][]int16
	for rest := info.dataLen - info.dataLen%int64(info.frameBytes()); rest > 0; {
		n := min(int64(len(raw)), rest)
		if _, err := f.ReadAt(raw[:n], info.dataAt+info.dataLen-info.dataLen%int64(info.frameBytes())-rest); err != nil {
			return 0, err
		}
		rest -= n
		pcm = info.samples(pcm[:0], raw[:n])
		for c := range both {
			one = channel(one[:0], pcm, min(c, info.channels-1), info.channels)
			both[c] = side[c].Process(both[c][:0], one)
		}
		if err := mixAt(out, at, both[0], both[1]); err != nil {
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

// mixAt adds samples to what the file holds at a position; positions before the timeline are dropped.
func mixAt(f *os.File, at int64, left, right []int16) error {
	if at < 0 {
		skip := min(-at, int64(len(left)))
		left, right, at = left[skip:], right[skip:], at+skip
	}
	b := make([]byte, len(left)*stereoBytes)
	off := wavHeaderSize + at*stereoBytes
	if _, err := f.ReadAt(b, off); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for i := range left {
		l := int32(int16(binary.LittleEndian.Uint16(b[4*i:]))) + int32(left[i])
		r := int32(int16(binary.LittleEndian.Uint16(b[4*i+2:]))) + int32(right[i])
		binary.LittleEndian.PutUint16(b[4*i:], uint16(saturate(l)))
		binary.LittleEndian.PutUint16(b[4*i+2:], uint16(saturate(r)))
	}
	_, err := f.WriteAt(b, off)
	return err
}

func saturate(v int32) int16 { return int16(min(max(v, -32768), 32767)) }
