package simswitch

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav"
)

// TestRecordHoldsBack has the audio begin at 0. The figures are FreeSWITCH's, give or take a frame.
func TestRecordHoldsBack(t *testing.T) {
	t.Parallel()
	const ms = sampleRate / 1000
	for name, c := range map[string]struct {
		bridged, ended time.Duration
		samples        int
		from           int // where audio begins; none below 0
	}{
		"at once":              {0, 10 * time.Millisecond, 0, -1},
		"while held back":      {0, 490 * time.Millisecond, frameSamples, -1},
		"soon after":           {0, 600 * time.Millisecond, 600 * ms, 0},
		"bridged, held back":   {400 * time.Millisecond, 700 * time.Millisecond, 2 * frameSamples, -1},
		"bridged early":        {400 * time.Millisecond, time.Second, frameSamples + 600*ms, frameSamples},
		"bridged late":         {time.Second, 1300 * time.Millisecond, 1000*ms + frameSamples, 0},
		"bridged late, long":   {time.Second, 2 * time.Second, 2000 * ms, 0},
		"bridged at once, end": {time.Millisecond, 5 * time.Millisecond, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.wav")
			r, err := newRecorder(path, false)
			require.NoError(t, err)
			begun := r.start
			for at := time.Duration(0); at < c.ended; at += time.Millisecond {
				now := begun.Add(at)
				if at == c.bridged && at > 0 {
					r.retrain(now)
				}
				if at%frameDuration == 0 && at > 0 {
					pcm := make([]int16, frameSamples)
					for i := range pcm {
						pcm[i] = 1000
					}
					r.read(pcm, uint32(at/time.Millisecond*ms), 1, now)
				}
				r.flush(now)
			}
			samples, size := r.close(begun.Add(c.ended))
			require.Equal(t, c.samples, samples)
			raw, err := os.ReadFile(path)
			if c.samples == 0 {
				require.ErrorIs(t, err, os.ErrNotExist)
				return
			}
			require.NoError(t, err)
			require.Len(t, raw, size)
			pcm := raw[wav.HeaderSize:]
			require.Len(t, pcm, 2*c.samples)
			heard := -1
			for i := 0; i < len(pcm) && heard < 0; i += 2 {
				if binary.LittleEndian.Uint16(pcm[i:]) != 0 {
					heard = i / 2
				}
			}
			require.Equal(t, c.from, heard)
		})
	}
}

// A machine that stands still for a while costs a recording what was to be played meanwhile, no more.
func TestRecordAfterAStall(t *testing.T) {
	t.Parallel()
	const stalls, ends, loud = time.Second, 4 * time.Second, 1000
	for _, stall := range []time.Duration{150 * time.Millisecond, 300 * time.Millisecond, 450 * time.Millisecond, 900 * time.Millisecond} {
		for _, plays := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v, plays %t", stall, plays), func(t *testing.T) {
				t.Parallel()
				sw, err := New(Config{ESLAddr: "127.0.0.1:0", ESLPassword: "pw", ExternalSIPAddr: "127.0.0.1:0", InternalSIPAddr: "127.0.0.1:0"})
				require.NoError(t, err)
				m, err := sw.newMediaPort()
				require.NoError(t, err)
				defer m.close()
				path := filepath.Join(t.TempDir(), "a.wav")
				r, err := newRecorder(path, false)
				require.NoError(t, err)
				m.connect(netip.MustParseAddrPort("127.0.0.1:9"), 0, 101)
				m.recorders = []*recorder{r}
				frame := slices.Repeat([]int16{loud}, frameSamples)
				if plays {
					m.play = &player{source: func(to []int16) bool { copy(to, frame); return true }, next: r.start, done: make(chan struct{})}
				}
				var queue []time.Duration // what the far end has sent
				for at := time.Duration(0); at < ends; at += clockTick {
					if !plays && at%frameDuration == 0 {
						queue = append(queue, at)
					}
					if at > stalls && at < stalls+stall {
						continue
					}
					now := r.start.Add(at)
					m.tick(now)
					for _, sent := range queue {
						r.read(frame, uint32(sent.Milliseconds()*8), 1, now)
					}
					queue = nil
				}
				samples, _ := r.close(r.start.Add(ends))
				raw, err := os.ReadFile(path)
				require.NoError(t, err)
				silent := 0
				for i := range samples {
					if int16(binary.LittleEndian.Uint16(raw[wav.HeaderSize+2*i:])) < loud/2 {
						silent++
					}
				}
				lost := time.Duration(silent) * time.Second / sampleRate
				if plays {
					require.Less(t, lost, stall+3*frameDuration)
				} else {
					require.Less(t, lost, 3*frameDuration)
				}
			})
		}
	}
}
