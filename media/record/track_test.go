package record

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
)

// TestTrackSlew proves that the recording's following of a clock is not heard: a tone stays a tone.
func TestTrackSlew(t *testing.T) {
	t.Parallel()
	for _, hz := range []float64{425, 1000, 3000} {
		track := Track{table: NewSlewTable()}
		rec := &Recorder{window: make([]int16, 2*windowSamples)}
		var out []int16
		pcm := dsptest.Tone(hz, dsp.SampleRate, 20*dsp.SampleRate)
		slewed := false
		for i := 0; i+dsp.FrameSamples <= len(pcm); i += dsp.FrameSamples {
			want := int64(i) + int64(i)/2000 // 500 ppm slow
			track.Put(rec, want, append([]int16(nil), pcm[i:i+dsp.FrameSamples]...))
			slewed = slewed || track.dir != 0
			for track.Pos-rec.Base > 1000 {
				for k := range 500 {
					out = append(out, rec.window[2*k])
				}
				copy(rec.window, rec.window[1000:])
				clear(rec.window[len(rec.window)-1000:])
				rec.Base += 500
			}
		}
		require.True(t, slewed)
		require.InDelta(t, len(pcm)+len(pcm)/2000, len(out), 1200)
		out = out[60000:100000]
		total, near := 0.0, 0.0
		for f := hz - 4; f <= hz+4; f += 8000.0 / float64(len(out)) {
			near += pow10(dsptest.Power(out, f, dsp.SampleRate))
		}
		for f := 101.3; f < 3900; f += 61.7 {
			if f < hz-10 || f > hz+10 {
				total += pow10(dsptest.Power(out, f, dsp.SampleRate))
			}
		}
		require.Less(t, db(total/near), -65.0, "%v Hz", hz)
	}
}

func pow10(db float64) float64 { return math.Pow(10, db/10) }

func db(ratio float64) float64 { return 10 * math.Log10(ratio) }
