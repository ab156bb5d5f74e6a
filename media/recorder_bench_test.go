package media

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
				w := newRecWriter(testMetrics(b), openRecFile)
				if encoding == "none" {
					w.open = func(*RecordingSpec) (recDisk, wav.Layout, int64, error) {
						lay, err := wav.LayoutOf(wav.PCM)
						return nowhere{path: dir}, lay, 0, err
					}
				}
				recs := make([]*recorder, calls)
				for i := range recs {
					spec := RecordingSpec{Path: filepath.Join(dir, strconv.Itoa(i)), Encoding: encoding}
					if encoding == "none" {
						spec.Path = dir
					}
					recs[i] = newTestRecorder(w, spec)
				}
				frame := dsptest.Tone(425, dsp.SampleRate, dsp.FrameSamples)
				before := cpuTime(b)
				for pos := int64(0); pos < length*dsp.SampleRate; pos += dsp.FrameSamples {
					for _, rec := range recs {
						rec.put(leftChannel, pos, frame)
						rec.put(rightChannel, pos, frame)
						if err := rec.advance(pos + dsp.FrameSamples); err != nil {
							b.Fatal(err)
						}
					}
					if pos%recBlock == 0 {
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
	recDisk
	path string
}

// Stat implements recDisk.
func (n nowhere) Stat() (fs.FileInfo, error) { return os.Stat(n.path) }

func (nowhere) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
