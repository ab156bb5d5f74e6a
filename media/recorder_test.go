package media

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/wav/wavtest"
)

// TestRecordingIsPlayable reads the file while the call goes on: its header is right at every flush.
func TestRecordingIsPlayable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("crash")
	path := filepath.Join(t.TempDir(), "crash.wav")
	spec.Recording = &record.Spec{Path: path, Start: time.Now()}
	sess, _ := r.open(spec)
	p := newPhone(t)
	p.call(sess)
	p.speak(dsptest.Tone(425, 8000, 12000))
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		s, err := wavtest.ParseStrict(b)
		if !assert.NoError(t, err, "valid at every moment") {
			return true
		}
		s.Decode()
		for at := 0; at+800 <= s.Frames; at += 200 {
			if dsptest.Power(s.Left[at:at+800], 425, 8000) > -20 {
				return true
			}
		}
		return false
	}, soon, 50*time.Millisecond, "what was said is on the disk, in a valid file, while the call lives")
	_, err := sess.FinishRecording(time.Now(), time.Now())
	require.ErrorIs(t, err, ErrSessionOpen)
}

// TestRecordingAppend goes on in the file of a session that crashed: the gap is silence.
func TestRecordingAppend(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "a.wav")
	start := time.Now().Add(-3 * time.Second)
	half := make([]int16, 0, 32000)
	for _, s := range dsptest.Tone(425, 8000, 16000) {
		half = append(half, s, 0)
	}
	require.NoError(t, os.WriteFile(path, wavtest.Samples(8000, 2, half), 0o600))
	spec := r.spec("append")
	spec.Reconnected = true
	spec.Recording = &record.Spec{Path: path, Start: start, Append: true}
	sess, ai := r.open(spec)
	ai.waitText(t, `"reconnect":true`)
	p := newPhone(t)
	p.call(sess)
	p.speak(dsptest.Tone(700, 8000, 8000))
	sess.Close(CloseHangup)
	info, err := sess.FinishRecording(start, start.Add(5*time.Second))
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, info.Duration)
	require.EqualValues(t, wav.HeaderSize+5*8000*4, info.Bytes)
	left, _ := wavtest.ReadStereo(t, path)
	require.Greater(t, dsptest.Power(left[:15000], 425, 8000), -20.0)
	require.Equal(t, -1, dsptest.Onset(left[16100:23500]))
	require.Positive(t, dsptest.Onset(left[23500:]))
	require.Greater(t, dsptest.Power(clearest(left[23500:], 700, 8000), 700, 8000), -20.0)
}

// TestCallOutlivesItsRecording has a session whose folder is missing: caller and AI hear each other all the same.
func TestCallOutlivesItsRecording(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("nodisk")
	start := time.Now()
	spec.Recording = &record.Spec{Path: filepath.Join(t.TempDir(), "gone", "x.wav"), Start: start}
	sess, ai := r.open(spec)
	p := newPhone(t)
	require.Equal(t, 200, p.invite(sess.URI(), p.sdpBody("0", "")).StatusCode)
	ai.say(dsptest.Tone(1000, 16000, 16000))
	p.speak(dsptest.Tone(425, 8000, 8000))
	require.ErrorIs(t, event[RecordingFailed](t, sess).Err, fs.ErrNotExist)
	p.speak(dsptest.Tone(425, 8000, 4000))
	require.Greater(t, dsptest.Power(clearest(ai.heard(), 425, 16000), 425, 16000), -20.0)
	require.GreaterOrEqual(t, dsptest.Onset(p.heard()), 0)
	sess.Close(CloseHangup)
	_, err := sess.FinishRecording(start, time.Now())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestPauseOfASession reaches the recorder of a session, which may begin with a pause.
func TestPauseOfASession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	spec := r.spec("pause")
	spec.Recording = &record.Spec{Path: filepath.Join(t.TempDir(), "call.wav"), Start: time.Now(), Paused: true}
	sess, _ := r.open(spec)
	paused := func() (paused bool) {
		require.True(t, sess.sh.do(func() { paused = sess.port.rec.rec.Paused() }))
		return paused
	}
	require.True(t, paused())
	for _, want := range []bool{false, true, true, false} {
		require.NoError(t, sess.PauseRecording(want))
		require.Equal(t, want, paused())
	}
	none, _ := r.open(r.spec("none"))
	require.ErrorIs(t, none.PauseRecording(true), ErrNoRecording)
}
