package record

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/wav"
)

// cpuTime is the processor time that this process has used, in the kernel and outside.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRecording records 100 calls of a minute, both sides talking, as fast as the disk takes them, and prints what a
// second of one call costs: laying 50 frames on the timeline, encoding, writing, and the header at each block. The ratio is
// to the same calls without a file (`none`), whose blocks are thrown away.
func BenchmarkRecording(b *testing.B) {
	const calls, length = 100, 60
	base := time.Duration(0)
	for _, encoding := range []wav.Encoding{"none", wav.PCM, wav.ULaw, wav.ALaw} {
		b.Run(string(encoding), func(b *testing.B) {
			b.ReportAllocs()
			var used time.Duration
			for range b.N {
				dir := b.TempDir()
				w := newWriter(NewMetrics(), openFile, roundPause, maxBlocks)
				if encoding == "none" {
					w.open = func(*Spec) (disk, wav.Layout, int64, error) {
						lay, err := wav.LayoutOf(wav.PCM)
						return nowhere{path: dir}, lay, 0, err
					}
				}
				recs := make([]*testRecorder, calls)
				for i := range recs {
					spec := Spec{Path: filepath.Join(dir, strconv.Itoa(i)), Encoding: encoding}
					if encoding == "none" {
						spec.Path = dir
					}
					recs[i] = newTestRecorder(w, spec)
				}
				frame := dsptest.Tone(425, dsp.SampleRate, dsp.FrameSamples)
				before := cpuTime(b)
				for pos := int64(0); pos < length*dsp.SampleRate; pos += dsp.FrameSamples {
					for _, rec := range recs {
						rec.Put(Left, pos, frame)
						rec.Put(Right, pos, frame)
						if err := rec.Advance(pos + dsp.FrameSamples); err != nil {
							b.Fatal(err)
						}
					}
					if pos%blockSamples == 0 {
						w.breathe(b, calls)
					}
				}
				w.breathe(b, 0)
				used += cpuTime(b) - before
				require.NoError(b, w.Close(b.Context()))
			}
			perSecond := used / time.Duration(b.N*calls*length)
			if encoding == "none" {
				base = perSecond
			}
			b.ReportMetric(float64(perSecond.Nanoseconds())/1000, "cpu-µs/call-s")
			b.ReportMetric(float64(perSecond)/float64(max(base, 1)), "ratio")
		})
	}
}

// nowhere is a disk that takes everything and keeps nothing.
type nowhere struct {
	disk
	path string
}

// Stat implements disk.
func (n nowhere) Stat() (fs.FileInfo, error) { return os.Stat(n.path) }

func (nowhere) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
