package media

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/wav/wavtest"
	"github.com/ringmaster/ringmaster/media/ws"
)

func toneClip(hz float64, frames int) *Clip {
	return &Clip{Samples: dsptest.Tone(hz, dsp.SampleRate, frames*dsp.FrameSamples)}
}

// ears are what a caller hears in so many frames.
func (r *portRig) ears(frames int) []int16 {
	r.heard()
	for range frames {
		r.turn()
	}
	return r.heard()
}

func loud(pcm []int16, hz float64, rate int) bool { return dsptest.Power(pcm, hz, rate) > -30 }

// TestClipIsMixed plays a clip over the AI's speech: the caller hears both, then the next clip, then the AI alone.
func TestClipIsMixed(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.call()
	r.send(aiAudio(dsptest.Tone(500, dsp.SampleRate, 100*dsp.FrameSamples)))
	require.True(t, r.p.tx.extra.add(toneClip(1000, 20)))
	require.True(t, r.p.tx.extra.add(toneClip(1700, 20)))
	for i, want := range []struct{ ai, first, second bool }{{true, true, false}, {true, false, true}, {true, false, false}} {
		pcm := r.ears(20)
		require.Equal(t, want.ai, loud(pcm, 500, dsp.SampleRate), i)
		require.Equal(t, want.first, loud(pcm, 1000, dsp.SampleRate), i)
		require.Equal(t, want.second, loud(pcm, 1700, dsp.SampleRate), i)
	}
	require.False(t, r.p.tx.extra.active())
	require.Zero(t, r.p.tx.extra.waiting)
}

// TestHoldKeepsBothApart holds a caller: music in place of the AI, over and over; the AI hears silence; then both hear each other again.
func TestHoldKeepsBothApart(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.callLaw(eventPT)
	r.send(aiAudio(dsptest.Tone(500, dsp.SampleRate, 200*dsp.FrameSamples)))
	h := pion.Header{Version: 2, SSRC: 5}
	caller := dsptest.Tone(800, dsp.SampleRate, 30*dsp.FrameSamples)
	hears := func(music, ai, callerAtAI bool) {
		t.Helper()
		r.heard()
		r.aiReads()
		r.audio = nil
		h = r.talk(h, caller)
		pcm := r.heard()
		r.aiReads()
		up := make([]int16, len(r.audio)/2)
		for i := range up {
			up[i] = int16(uint16(r.audio[2*i]) | uint16(r.audio[2*i+1])<<8)
		}
		require.Equal(t, music, loud(pcm, 1300, dsp.SampleRate), "music")
		require.Equal(t, ai, loud(pcm, 500, dsp.SampleRate), "the AI")
		require.Equal(t, callerAtAI, loud(up[len(up)/2:], 800, dsp.SampleRate), "the caller, at the AI")
	}
	hears(false, true, true)
	r.p.tx.extra.setHold(true, toneClip(1300, 7))
	hears(true, false, false)
	hears(true, false, false)
	r.p.tx.extra.setHold(false, nil)
	hears(false, true, true)
}

// TestClipEndsWithKillAudio: an AI that falls silent at once silences what is played for it.
func TestClipEndsWithKillAudio(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.call()
	require.True(t, r.p.tx.extra.add(toneClip(1000, 100)))
	require.True(t, loud(r.ears(10), 1000, dsp.SampleRate))
	r.send(aiText(`{"type":"killAudio"}`))
	r.ears(2)
	require.False(t, loud(r.ears(10), 1000, dsp.SampleRate))
}

// TestClipAtTheLegsRate plays a clip of 8 kHz on a leg of 16 kHz: the tone stays what it is.
func TestClipAtTheLegsRate(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.L16, Rate: 16000, PT: l16PT, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
	r.p.leg.speakAt = 0
	require.True(t, r.p.tx.extra.add(toneClip(1000, 50)))
	pcm := r.ears(40)
	require.Len(t, pcm, 40*320)
	require.True(t, loud(pcm[3200:], 1000, 16000))
	require.False(t, loud(pcm[3200:], 2000, 16000))
}

// TestClipIsRecorded: what a caller hears of a clip is in the recording, on the AI's side, while the AI is muted too.
func TestClipIsRecorded(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	path, start := filepath.Join(t.TempDir(), "call.wav"), time.Unix(1_700_000_000, 0)
	w := record.NewWriter(record.NewMetrics())
	f := r.record(w, &record.Spec{Path: path, Start: start})
	began := r.now
	r.connect()
	r.call()
	r.p.muted[FromAgent] = true
	require.True(t, r.p.tx.extra.add(toneClip(1000, 50)))
	for range 60 {
		r.turn()
	}
	r.p.ai.shutdown(ws.CloseNormal, CloseHangup, r.now)
	_, err := f.Finish(t.Context(), start, start.Add(time.Duration(r.now-began)))
	require.NoError(t, err)
	require.NoError(t, w.Close(t.Context()))
	left, right := wavtest.ReadStereo(t, path)
	require.True(t, loud(right[1600:6400], 1000, dsp.SampleRate))
	require.False(t, loud(left, 1000, dsp.SampleRate))
}

func TestClipsAreBounded(t *testing.T) {
	t.Parallel()
	var o overlay
	for range maxClips {
		require.True(t, o.add(toneClip(1000, 1)))
	}
	require.False(t, o.add(toneClip(1000, 1)))
	o.stop()
	require.False(t, o.add(&Clip{Samples: make([]int16, 601*dsp.SampleRate)}))
	require.True(t, o.add(&Clip{}), "nothing is played at once")
	require.False(t, o.active())
}

// TestOverlayAllocatesNothing mixes a second at a leg's rate that isn't the clips'.
func TestOverlayAllocatesNothing(t *testing.T) {
	var o overlay
	require.NoError(t, o.setRate(48000))
	o.setHold(true, DefaultMusic())
	frame := make([]int16, 960)
	o.mix(frame)
	require.Zero(t, testing.AllocsPerRun(50, func() { o.mix(frame) }))
}

// TestDefaultMusic: it is soft, never silent for long, and begins where it ends.
func TestDefaultMusic(t *testing.T) {
	t.Parallel()
	pcm := DefaultMusic().Samples
	require.Len(t, pcm, 8*dsp.SampleRate)
	peak := 0
	for _, s := range pcm {
		peak = max(peak, max(int(s), -int(s)))
	}
	require.Less(t, peak, 8000)
	require.Greater(t, peak, 1000)
	seam := int(pcm[0]) - int(pcm[len(pcm)-1])
	require.Less(t, max(seam, -seam), 600)
}

// TestClipsShareAudio: two calls that hear one file have it once in memory, and nobody keeps it.
func TestClipsShareAudio(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "music.wav")
	require.NoError(t, os.WriteFile(path, wav.Encode(make([]int16, 800)), 0o600))
	var c Clips
	one, err := c.Read(path)
	require.NoError(t, err)
	two, err := c.Read(path)
	require.NoError(t, err)
	require.Same(t, one, two)
	runtime.KeepAlive(one)
	one, two = nil, nil
	_, _ = one, two
	require.Eventually(t, func() bool {
		runtime.GC()
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.read[path].Value() == nil
	}, soon, tick)
	require.NoError(t, os.WriteFile(path, []byte("RIFF"), 0o600))
	_, err = c.Read(path)
	require.ErrorIs(t, err, wav.ErrFormat)
	_, err = c.Read(path + ".gone")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestRingback: a caller who is being transferred hears ringback whenever the AI says nothing, and the AI alone when it speaks.
func TestRingback(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.call()
	hears := func(ring, ai bool) {
		t.Helper()
		pcm := r.ears(50)
		require.Equal(t, ring, loud(pcm, 400, dsp.SampleRate), "ringback")
		require.Equal(t, ai, loud(pcm, 1000, dsp.SampleRate), "the AI")
	}
	r.p.tx.extra.setRing(ringback())
	r.ears(ringAfter)
	hears(true, false)
	r.send(aiAudio(dsptest.Tone(1000, dsp.SampleRate, 50*dsp.FrameSamples)))
	r.ears(5)
	hears(false, true)
	r.ears(ringAfter)
	hears(true, false)
	r.p.tx.extra.setRing(nil)
	hears(false, false)
}
