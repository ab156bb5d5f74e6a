package media

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// TestPings has the port ping every 15 s, and take an AI that is silent for 40 s for dead.
func TestPings(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	begin := r.now
	var at []time.Duration
	for r.p.ai.sock != nil {
		require.Less(t, time.Duration(r.now-begin), time.Minute)
		r.step()
		before := r.pings
		r.aiReads()
		if r.pings > before {
			at = append(at, time.Duration(r.now-begin).Round(100*time.Millisecond))
		}
	}
	require.Equal(t, []time.Duration{15 * time.Second, 30 * time.Second}, at)
	require.InDelta(t, 40, time.Duration(r.now-begin).Seconds(), 0.1)
	require.True(t, r.p.ai.reconnecting, "a dead socket is dialed again")

	r.connect()
	begin = r.now
	pongs := 0
	for time.Duration(r.now-begin) < 5*time.Minute {
		r.step()
		r.aiReads()
		if r.pings > 2+pongs {
			pongs = r.pings - 2
			r.send(wstest.Frame(0x8a, nil))
		}
	}
	require.NotNil(t, r.p.ai.sock, "pongs are a sign of life")
	require.InDelta(t, 20, pongs, 1, "every 15 s")
}

// TestPong answers the AI's own pings.
func TestPong(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	r.aiReads()
	r.send(wstest.Frame(0x89, []byte("are you there")))
	buf := make([]byte, 256)
	n, err := unix.Read(r.ai, buf)
	require.NoError(t, err)
	require.Equal(t, byte(0x80|ws.OpPong), buf[0])
	require.Equal(t, 2+4+13, n)
}

// TestWriteDeadline has an AI that reads nothing: the oldest audio is dropped and counted, texts are not, and after 10 s
// without a byte taken the socket is given up.
func TestWriteDeadline(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	require.NoError(t, unix.SetsockoptInt(r.p.ai.sock.st.PollFD(), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	frame := make([]byte, 640)
	full := int64(0)
	n := uint64(0)
	for r.p.ai.sock != nil {
		if s := r.p.ai.sock; s.blocked != 0 && full == 0 {
			full = s.blocked
		}
		if r.step() {
			n++
			frame[0], frame[1] = byte(n), byte(n>>8)
			r.p.toAI.sendAudio(frame, r.now)
			if n%100 == 0 {
				r.p.toAI.sendText("call_state", map[string]uint64{"n": n})
			}
			r.p.ai.sock.keepsBounds(t)
		}
		r.p.ai.sock.alive(r)
		require.Less(t, n, uint64(3000))
	}
	require.NotZero(t, full)
	require.InDelta(t, 10, time.Duration(r.now-full).Seconds(), 0.1)
	require.Greater(t, r.p.stats.FramesDropped, uint64(300))
	require.Equal(t, r.p.stats.FramesDropped, r.p.sh.tally.dropped)
}

// keepsBounds: no more than two seconds of audio wait.
func (s *socket) keepsBounds(t *testing.T) {
	t.Helper()
	if s == nil {
		return
	}
	audio := 0
	for _, f := range s.queue {
		if f.audio {
			audio++
		}
	}
	require.Equal(t, audio, s.audio)
	require.LessOrEqual(t, audio, 100)
}

// alive keeps the dead-peer rule out of a test.
func (s *socket) alive(r *portRig) {
	if s != nil {
		s.lastIn = r.now
	}
}

// TestSlowReader lets the AI stall for a while: what it gets afterwards is the newest audio and every text, in order.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	require.NoError(t, unix.SetsockoptInt(r.p.ai.sock.st.PollFD(), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	const total = 400
	for n := 1; n <= total; {
		if !r.step() {
			continue
		}
		frame := make([]byte, 640)
		frame[0], frame[1] = byte(n), byte(n>>8)
		r.p.toAI.sendAudio(frame, r.now)
		if n%50 == 0 {
			r.p.toAI.sendText("call_state", map[string]int{"n": n})
		}
		n++
	}
	for range 100 * slots {
		r.step()
		r.aiReads()
	}
	require.NotNil(t, r.p.ai.sock)
	var texts []string
	for _, s := range r.texts {
		if strings.Contains(s, "call_state") {
			texts = append(texts, s)
		}
	}
	require.Len(t, texts, total/50)
	for i, s := range texts {
		require.JSONEq(t, fmt.Sprintf(`{"type":"call_state","data":{"n":%d}}`, (i+1)*50), s)
	}
	frames := len(r.audio) / 640
	require.Equal(t, total, frames+int(r.p.stats.FramesDropped))
	require.GreaterOrEqual(t, r.p.stats.FramesDropped, uint64(250))
	last, newest := 0, 0
	for i := range frames {
		n := int(r.audio[640*i]) | int(r.audio[640*i+1])<<8
		require.Greater(t, n, last, "in order")
		if n > total-100 {
			newest++
		}
		last = n
	}
	require.Equal(t, 100, newest, "the newest two seconds are all there")
}

// TestTextsBound gives up an AI that leaves more texts unread than the queue takes.
func TestTextsBound(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	require.NoError(t, unix.SetsockoptInt(r.p.ai.sock.st.PollFD(), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	n := 0
	for r.p.ai.sock != nil {
		n++
		require.Less(t, n, 5000)
		r.p.toAI.sendText("call_state", map[string]int{"n": n})
	}
	require.Greater(t, n, textQueue)
	for range 2 * textQueue {
		r.p.toAI.sendText("call_state", nil)
	}
	require.LessOrEqual(t, len(r.p.toAI.waiting), textQueue, "what waits for the next socket is bounded, too")
}

// TestBinaryOfAnySize plays frames of every size, cut within samples, too, at the AI's rate.
func TestBinaryOfAnySize(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{SampleRateHz: 24000})
	r.connect()
	r.call()
	in := pcmBytes(dsptest.Tone(1000, 24000, 24000))
	for size := 2; len(in) > 0; size = size*2 + 2 {
		n := min(size, len(in))
		r.send(wstest.Frame(0x82, in[:n]))
		in = in[n:]
	}
	var pcm []int16
	for range 60 * slots {
		r.step()
		pcm = append(pcm, r.heard()...)
	}
	on := dsptest.Onset(pcm)
	require.GreaterOrEqual(t, on, 0)
	pcm = pcm[on+100 : on+7500]
	ref := dsptest.Power(pcm, 1000, 8000)
	require.Greater(t, ref, -15.0)
	for hz := 200.0; hz < 3900; hz += 100 {
		if hz != 1000 {
			require.Less(t, dsptest.Power(pcm, hz, 8000), ref-55, "%.0f Hz", hz)
		}
	}
}

// TestUnmarkedFrames counts what is not understood, and goes on.
func TestUnmarkedFrames(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	for range 5 {
		r.send(aiText(`{"type":"dance","data":{}}`))
		r.send(aiText(`no JSON`))
	}
	require.EqualValues(t, 5, r.p.stats.UnknownTexts)
	require.EqualValues(t, 5, r.p.stats.BadFrames)
	require.True(t, r.p.ai.unknownLogged)
	r.send(aiMark("still"))
	r.aiReads()
	require.Empty(t, r.closes)
	require.NotNil(t, r.p.ai.sock)
}

// TestPeerErrors closes a socket whose peer breaks the protocol, and says why.
func TestPeerErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bytes []byte
		code  int
	}{
		"masked":         {[]byte{0x81, 0x81, 1, 2, 3, 4, 5}, ws.CloseProtocol},
		"reserved bit":   {[]byte{0xc2, 0x00}, ws.CloseProtocol},
		"not UTF-8":      {[]byte{0x81, 0x01, 0xff}, ws.CloseInvalid},
		"text too long":  {[]byte{0x81, 127, 0, 0, 0, 0, 1, 0, 0, 1}, ws.CloseTooBig},
		"lone piece":     {[]byte{0x80, 0x00}, ws.CloseProtocol},
		"long control":   {[]byte{0x89, 126, 0, 126}, ws.CloseProtocol},
		"unknown opcode": {[]byte{0x8b, 0x00}, ws.CloseProtocol},
	} {
		r := newPortRig(t, AudioFormat{})
		r.connect()
		r.send(tc.bytes)
		r.aiReads()
		require.Equal(t, []int{tc.code}, r.closes, name)
		require.Nil(t, r.p.ai.sock, name)
		require.Equal(t, tc.code != ws.CloseTooBig, r.p.ai.reconnecting, "%s: a limit ends the session, a slip doesn't", name)
	}
}

// TestSocketAllocs proves that a frame costs no allocation in the steady state: audio both ways over a socket, keys included.
func TestSocketAllocs(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts the whole process
	r := newPortRig(t, AudioFormat{})
	r.connect()
	r.call()
	down := aiAudio(dsptest.Tone(1000, 16000, 320))
	up := make([]byte, 640)
	buf := make([]byte, 64<<10)
	event := telephoneEvent(5, false, 160)
	step := func() {
		if _, err := unix.Write(r.ai, down); err != nil {
			t.Fatal(err)
		}
		for !r.step() {
			continue
		}
		r.p.toAI.sendAudio(up, r.now)
		r.p.keys.events(7, event, r.now)
		if _, err := unix.Read(r.ai, buf); err != nil {
			t.Fatal(err)
		}
		for {
			if _, _, _, err := r.rd.Read(r.caller); err != nil {
				break
			}
		}
	}
	r.p.keys.events(7, telephoneEvent(5, true, 160), r.now) // its end is repeated
	for range 300 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(500, step))
	keys, err := dtmf.Parse("5", 80*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, r.p.keys.out.Add(keys))
	r.p.keys.out.Clear()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if r.p.keys.out.Idle() {
			_ = r.p.keys.out.Add(keys)
		}
		step()
	}))
}
