package media

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// flood writes what the socket takes of the same frames again and again, without having them read. It returns what is left of the
// last ones, to be written first the next time.
func (r *portRig) flood(rest, frames []byte) []byte {
	r.t.Helper()
	for {
		if len(rest) == 0 {
			rest = frames
		}
		n, err := unix.Write(r.ai, rest)
		if err != nil {
			return rest
		}
		rest = rest[n:]
	}
}

func (r *portRig) limit(name string) float64 {
	return testutil.ToFloat64(r.p.sh.srv.metrics.limits.WithLabelValues(name))
}

// TestFloodSlot takes no more than a socket's share in a slot, whatever it sends; the rest waits in the kernel's buffer.
func TestFloodSlot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		frame []byte
		most  int // frames
	}{
		"pings":           {wstest.Frame(0x89, nil), 16},
		"texts of a byte": {wstest.Frame(0x81, []byte("x")), 16},
		"marks":           {aiMark("m"), 16},
		"long json":       {aiText(`{"type":"json","data":"` + strings.Repeat("j", 8<<10) + `"}`), 4},
		"small binary":    {wstest.Frame(0x82, []byte{0, 0}), 64},
		"audio":           {aiAudio(make([]int16, 512)), 35},
	} {
		r := newPortRig(t, eightKHz())
		r.connect()
		r.flood(nil, bytes.Repeat(tc.frame, max(1, 32<<10/len(tc.frame))))
		before := r.p.ai.sock.floodUntil
		frames := func() int {
			return int(r.p.stats.FramesFromAI) + int(r.p.stats.BadFrames) + int(testutil.ToFloat64(r.p.sh.srv.metrics.texts.WithLabelValues(textMark))) +
				int(testutil.ToFloat64(r.p.sh.srv.metrics.texts.WithLabelValues(textJSON)))
		}
		r.p.ai.readSocket(r.now)
		require.NotNil(t, r.p.ai.sock, name)
		require.True(t, r.p.ai.sock.hot, name)
		got := frames()
		if name == "pings" {
			got = int((r.p.ai.sock.floodUntil - max(before, r.now)) * floodRate / 1e9)
		}
		require.LessOrEqual(t, got, tc.most, name)
		require.Positive(t, got, name)
	}
}

// recordStream is a socket whose reads give a byte each, as TLS does with records of one, and take some time.
type recordStream struct {
	netio.Stream

	r     *portRig
	took  time.Duration
	reads int
}

func (s *recordStream) Holds() bool { return true }

func (s *recordStream) Read(p []byte) (int, error) {
	s.reads++
	s.r.now += int64(s.took)
	return s.Stream.Read(p[:1])
}

// TestFloodRecords takes no more of a TLS peer's records in a slot than of its frames, however small they are and whatever lies between them.
func TestFloodRecords(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		took time.Duration
		most int
	}{
		"of a byte":                 {0, slotUnits + 1},
		"with new keys before each": {400 * time.Microsecond, 2},
	} {
		r := newPortRig(t, eightKHz())
		r.connect()
		st := &recordStream{Stream: r.p.ai.sock.st, r: r, took: tc.took}
		r.p.ai.sock.st = st
		r.flood(nil, wstest.Frame(0x82, make([]byte, 4<<10)))
		r.p.ai.readSocket(r.now)
		require.LessOrEqual(t, st.reads, tc.most, name)
		require.True(t, r.p.ai.sock.hot, name)
	}
}

// TestOnePong answers the newest of many pings, and lets no pongs pile up for a peer that doesn't read.
func TestOnePong(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, AudioFormat{})
	r.connect()
	r.aiReads()
	pongs := func() (list []string) {
		buf := make([]byte, 64<<10)
		n, err := unix.Read(r.ai, buf)
		require.NoError(t, err)
		for b := buf[:n]; len(b) > 0; {
			first, payload, rest, ok := wstest.Unmask(b)
			require.True(t, ok)
			require.Equal(t, byte(0x80|ws.OpPong), first)
			list, b = append(list, string(payload)), rest
		}
		return list
	}
	var burst []byte
	for i := range 10 {
		burst = append(burst, wstest.Frame(0x89, fmt.Append(nil, i))...)
	}
	r.send(burst)
	require.Equal(t, []string{"9"}, pongs())

	// The peer reads nothing more: one pong waits at most.
	require.NoError(t, unix.SetsockoptInt(r.p.ai.sock.st.PollFD(), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	for r.p.ai.sock.blocked == 0 {
		r.p.toAI.sendAudio(make([]byte, 640), r.now)
	}
	for i := range 1000 {
		r.send(wstest.Frame(0x89, fmt.Append(nil, i)))
	}
	require.Zero(t, r.p.ai.sock.texts)
	require.Equal(t, "999", string(r.p.ai.sock.pong))
	require.True(t, r.p.ai.sock.pongDue)
}

// TestFloodStrikesOut closes a socket by 1008 that goes on sending what carries no audio; the session is not dialed again.
func TestFloodStrikesOut(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("j", 60<<10)
	for name, frame := range map[string][]byte{
		"pings":            wstest.Frame(0x89, []byte("p")),
		"pongs":            wstest.Frame(0x8a, nil),
		"texts of a byte":  wstest.Frame(0x81, []byte("x")),
		"unknown":          aiText(`{"type":"dance"}`),
		"marks":            aiMark(strings.Repeat("m", 256)),
		"commands":         aiText(`{"type":"command","id":"1","data":{"event":"get_call_state"}}`),
		"json":             aiText(`{"type":"json","data":"` + full + `"}`),
		"binary of a byte": wstest.Frame(0x82, []byte{0}),
		"empty audio":      aiText(`{"type":"playAudio","data":{"audioContent":""}}`),
	} {
		frames := bytes.Repeat(frame, max(1, 32<<10/len(frame)))
		r := newPortRig(t, AudioFormat{})
		r.connect()
		begin := r.now
		var rest []byte
		for r.p.ai.sock != nil {
			rest = r.flood(rest, frames)
			r.now += slotNS
			r.p.sh.count++
			r.p.ai.readSocket(r.now)
			if r.p.ai.sock != nil && r.p.ai.sock.paused {
				(<-r.p.sh.inbox)()
			}
			if r.p.sh.count%slots == 0 {
				r.p.tick(r.now, r.now)
			}
			r.aiReads()
			require.Less(t, r.now-begin, int64(10*time.Second), name)
		}
		require.False(t, r.p.ai.reconnecting, name)
		r.aiReads()
		require.Equal(t, []int{ws.ClosePolicy}, r.closes, name)
		require.InDelta(t, 1, r.limit("flood"), 0, name)
	}
}

// TestNoStrike leaves sockets alone that send much audio ahead of time, with a mark behind each piece, and pings.
func TestNoStrike(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.call()
	audio := base64.StdEncoding.EncodeToString(make([]byte, 320))
	for i := range 900 { // 18 s of speech at once
		r.send(aiText(`{"type":"playAudio","data":{"audioContent":"` + audio + `"}}`))
		r.send(aiMark(strconv.Itoa(i)))
		r.send(aiAudio(make([]int16, 80)))
		if i%100 == 0 {
			r.send(wstest.Frame(0x89, nil))
		}
	}
	for range 40 * 50 * slots {
		r.step()
		r.p.ai.sock.alive(r)
		r.aiReads()
	}
	require.NotNil(t, r.p.ai.sock)
	marks := 0
	for _, s := range r.texts {
		if strings.Contains(s, `"playout"`) {
			marks++
		}
	}
	require.Equal(t, 900, marks)
}

// TestPlainTextBound closes a socket by 1009 whose text without audio is longer than 64 KiB: as soon as it is known.
func TestPlainTextBound(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", 16<<20-200)
	long := longest[:1<<20]
	for name, msg := range map[string]string{
		"json":         `{"type":"json","data":"` + long + `"}`,
		"mark":         `{"data":{"name":"a"},"more":[{"type":"playAudio"}],"type":"mark","x":"` + long + `"}`,
		"command":      `{"type":"command","id":"1","data":{"event":"log","metadata":"` + long + `"}}`,
		"nothing":      longest,
		"in disguise":  `{"data":{"audioContent":"` + long + `"},"type":"json"}`,
		"other escape": `{"type":"playAudio","data":{"audioContent":"` + long + `\u0041"}}`,
		"more beside":  `{"type":"playAudio","data":{"audioContent":"AAAA","textContent":"` + long + `"}}`,
	} {
		r := newPortRig(t, AudioFormat{})
		r.connect()
		for b := wstest.Frame(0x81, []byte(msg)); len(b) > 0 && r.p.ai.sock != nil; {
			n, err := unix.Write(r.ai, b)
			if err != nil && err != unix.EAGAIN {
				break
			}
			b = b[max(0, n):]
			r.Read()
		}
		require.Nil(t, r.p.ai.sock, name)
		require.False(t, r.p.ai.reconnecting, name)
		r.aiReads()
		require.Equal(t, []int{ws.CloseTooBig}, r.closes, name)
		require.InDelta(t, 1, r.limit("text_too_long"), 0, name)
		require.Zero(t, r.p.sh.srv.longTexts.Used(""), name)
	}
	// What is just within the bound passes.
	r := newPortRig(t, AudioFormat{})
	r.connect()
	msg := `{"type":"json","data":"`
	r.send(aiText(msg + long[:ws.MaxPlainText-len(msg)-2] + `"}`))
	require.NotNil(t, r.p.ai.sock)
	require.InDelta(t, 1, testutil.ToFloat64(r.p.sh.srv.metrics.texts.WithLabelValues(textJSON)), 0)
}

// TestLongAudio plays five minutes of audio in one text, or less of it, whole or in pieces, whatever stands first and however slashes are written.
func TestLongAudio(t *testing.T) {
	t.Parallel()
	// One of nearly as much as playout has room for; the others are long enough to come by another way than short ones.
	all := dsptest.Tone(440, dsp.SampleRate, 280*dsp.SampleRate)
	most := base64.StdEncoding.EncodeToString(pcmBytes(all))
	content := most[:len(most)/8/16*16]
	for name, msg := range map[string]string{
		"type first":      `{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":8000,"audioContent":"` + content + `"}}`,
		"five minutes":    `{"type":"playAudio","data":{"audioContentType":"raw","sampleRate":8000,"audioContent":"` + most + `"}}`,
		"type last":       `{"data":{"audioContent":"` + content + `","audioContentType":"raw","sampleRate":"8000"},"type":"playAudio"}`,
		"slashes escaped": `{"type":"playAudio","data":{"audioContent":"` + strings.ReplaceAll(content, "/", `\/`) + `"}}`,
	} {
		pcm := all
		if len(msg) < len(most) {
			pcm = all[:len(content)/4*3/2]
		}
		for _, pieces := range []bool{false, true} {
			if pieces && len(pcm) == len(all) {
				continue
			}
			r := newPortRig(t, eightKHz())
			r.connect()
			if pieces {
				first := byte(0x01)
				for b := []byte(msg); len(b) > 0; first = 0 {
					n := min(len(b), 50_000)
					r.send(wstest.Frame(first, b[:n]))
					b = b[n:]
				}
				r.send(wstest.Frame(0x80, nil))
			} else {
				r.send(aiText(msg))
			}
			require.NotNil(t, r.p.ai.sock, name)
			require.Equal(t, len(pcm), r.p.tx.queue.Backlog(), name)
			got := make([]int16, len(pcm))
			r.p.tx.queue.Pull(got)
			require.True(t, slices.Equal(pcm, got), name)
			require.Zero(t, r.p.sh.srv.longTexts.Used(""), name)
		}
	}
}

// TestPlayoutRoom converts no more of a file than playout has room for.
func TestPlayoutRoom(t *testing.T) {
	t.Parallel()
	file := wavFile(wav.FormatULaw, 8, 1, 4000, make([]int16, 10<<20))
	dec := &textDecoder{rate: 16000, to: 48000, room: 48000}
	f, err := dec.decode(playFrame("wav", "", file), true)
	require.NoError(t, err)
	require.Len(t, f.pcm, 48000)
	require.Less(t, cap(f.pcm), 2*48000)
	require.InDelta(t, 12*10<<20-48000, f.cut, 12*convertBlock)

	r := newPortRig(t, eightKHz())
	r.connect()
	r.p.tx.queue.Push(make([]int16, (playout.MaxQueued-1)*dsp.SampleRate))
	r.send(aiText(string(playFrame("wav", "", wavFile(wav.FormatPCM, 16, 1, 8000, make([]int16, 3*dsp.SampleRate))))))
	require.Equal(t, playout.MaxQueued*dsp.SampleRate, r.p.tx.queue.Backlog())
	require.Equal(t, 2*time.Second, r.p.stats.PlayoutDropped)
}

// TestOwnersTexts bounds the long texts of one owner's sockets in bytes: the next waits, another owner's doesn't. A socket that
// ends gives its share back, and one that doesn't get done is closed.
func TestOwnersTexts(t *testing.T) {
	t.Parallel()
	rig := newRig(t)
	long := rig.srv.longTexts
	head := append([]byte{0x81, 127, 0, 0, 0, 0, 1, 0, 0, 0}, []byte(`{"type":"playAudio","data":{"audioContent":"`)...)
	head = append(head, bytes.Repeat([]byte("A"), ws.MaxPlainText)...)
	begin := func(id, owner string) (*Session, *aiConn) {
		spec := rig.spec(id)
		spec.Owner = owner
		sess, ai := rig.open(spec)
		_, err := ai.c.NetConn().Write(head)
		require.NoError(t, err)
		return sess, ai
	}
	state := func(s *Session) (reserved int64, paused bool) {
		require.True(t, s.sh.do(func() {
			if s.port.ai.sock != nil {
				reserved, paused = s.port.ai.sock.reserved, s.port.ai.sock.paused
			}
		}))
		return reserved, paused
	}
	first, _ := begin("one", "acme")
	require.Eventually(t, func() bool { return long.Used("acme") == ownerTexts }, soon, tick)
	second, _ := begin("two", "acme")
	require.Eventually(t, func() bool { _, paused := state(second); return paused }, soon, tick)
	other, _ := begin("three", "globex")
	require.Eventually(t, func() bool { reserved, _ := state(other); return reserved == ws.MaxText }, soon, tick)
	require.EqualValues(t, ownerTexts, long.Used("acme"))
	first.Close(CloseHangup)
	require.Eventually(t, func() bool { reserved, paused := state(second); return reserved == ws.MaxText && !paused }, soon, tick)
	second.Close(CloseHangup)
	require.Eventually(t, func() bool { return long.Used("acme") == 0 }, soon, tick)

	// One that waits for memory and ends takes none.
	r := newPortRig(t, AudioFormat{})
	require.True(t, r.p.sh.srv.longTexts.Try("", ownerTexts))
	r.connect()
	_, err := unix.Write(r.ai, head)
	require.NoError(t, err)
	r.p.ai.readSocket(r.now)
	require.True(t, r.p.ai.sock.paused)
	r.p.ai.detach()
	r.p.sh.srv.longTexts.Release("", ownerTexts)
	(<-r.p.sh.inbox)()
	require.Zero(t, r.p.sh.srv.longTexts.Used(""))

	// One that comes too slowly is closed.
	r.connect()
	_, err = unix.Write(r.ai, head)
	require.NoError(t, err)
	r.Read()
	for begin := r.now; r.p.ai.sock != nil; r.step() {
		r.p.ai.sock.alive(r)
		require.Less(t, r.now-begin, longTextDeadline+int64(time.Second))
	}
	r.aiReads()
	require.Equal(t, []int{ws.ClosePolicy}, r.closes)
	require.Zero(t, r.p.sh.srv.longTexts.Used(""))
}

// TestLongNames refuses names and ids of more than 256 characters; the command is answered.
func TestLongNames(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.p.tx.queue.Push(make([]int16, dsp.SampleRate))
	fits := strings.Repeat("é", maxName)
	r.send(aiMark(fits))
	r.send(aiMark(fits + "x"))
	require.Equal(t, 1, r.p.tx.queue.Waiting())
	require.EqualValues(t, 1, r.p.stats.BadFrames)
	r.send(aiText(`{"type":"command","id":"` + fits + `x","data":{"event":"hangup"}}`))
	r.send(aiText(`{"type":"command","id":` + strings.Repeat("1", 2000) + `,"data":{"event":"hangup"}}`))
	require.EqualValues(t, 3, r.p.stats.BadFrames)
	require.Zero(t, testutil.ToFloat64(r.p.sh.srv.metrics.texts.WithLabelValues(textCommand)))
	r.aiReads()
	require.NotNil(t, r.p.ai.sock)
	results := 0
	for _, s := range r.texts {
		var f struct {
			Type string
			Data CommandResult
		}
		require.NoError(t, json.Unmarshal([]byte(s), &f))
		if f.Type == "command_result" {
			results++
			require.Equal(t, 400, f.Data.Status)
		}
	}
	require.Equal(t, 2, results)
}

// TestMarkAnswers spreads the answers of many marks: no more than 64 in a tick, all of them in order.
func TestMarkAnswers(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.call()
	r.p.tx.queue.Push(make([]int16, dsp.SampleRate))
	for i := range playout.MaxMarks {
		r.send(aiMark(fmt.Sprintf("%04d", i)))
	}
	require.Equal(t, playout.MaxMarks, r.p.tx.queue.Waiting())
	r.p.marks.left = 0
	r.p.tx.killAudio()
	require.Len(t, r.p.marks.owed, playout.MaxMarks)
	r.send(aiMark("one too many"))
	require.Zero(t, r.p.tx.queue.Waiting())
	for left := playout.MaxMarks; left > 0; {
		if r.step() {
			require.Len(t, r.p.marks.owed, left-markAnswers)
			left -= markAnswers
		}
		r.aiReads()
	}
	r.aiReads()
	require.Equal(t, markText("one too many", "cleared"), r.texts[1])
	for i := range playout.MaxMarks {
		require.Equal(t, markText(fmt.Sprintf("%04d", i), "cleared"), r.texts[2+i])
	}
}

// TestUnreadBytes bounds by their size the texts that wait for a reader of ours, and those that wait for the AI.
func TestUnreadBytes(t *testing.T) {
	t.Parallel()
	rig := newRig(t)
	sess, ai := rig.open(rig.spec("unread"))
	msg := []byte(`{"type":"json","data":"` + strings.Repeat("j", 60<<10) + `"}`)
	command := []byte(`{"type":"command","id":"late","data":{"event":"log","metadata":"` + strings.Repeat("j", 60<<10) + `"}}`)
	for range eventBytes/len(msg) + 5 {
		ai.Write(1, msg)
	}
	ai.Write(1, command)
	require.Eventually(t, func() bool { return ai.has(`"command_result"`) && ai.has(`"status":429`) }, soon, tick)
	require.LessOrEqual(t, len(sess.events)*len(msg), eventBytes+len(msg))
	require.Positive(t, testutil.ToFloat64(rig.srv.metrics.limits.WithLabelValues("events_unread")))

	r := newPortRig(t, AudioFormat{})
	r.connect()
	require.NoError(t, unix.SetsockoptInt(r.p.ai.sock.st.PollFD(), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10))
	text := strings.Repeat("t", 10<<10)
	for n := 0; r.p.ai.sock != nil; n++ {
		require.Less(t, n, 200)
		r.p.toAI.sendText("call_state", text)
	}
	for range 200 {
		r.p.toAI.sendText("call_state", text)
	}
	require.LessOrEqual(t, r.p.toAI.waitingBytes, textBytes)
}

// (has looks for a text that came to the AI.)
func (a *aiConn) has(part string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.texts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

// TestDecoderFault has a decoder panic: the socket reads on, and the process lives.
func TestDecoderFault(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	r.p.ai.sock.dec, r.faults = nil, 1
	r.p.ai.sock.paused, r.p.ai.sock.decoding = true, true
	r.p.ai.unwatchSocket(r.p.ai.sock)
	r.p.ai.decodeApart(r.p.ai.sock, []byte(`{}`), func(t *textDecoder, msg []byte) (textFrame, error) { return t.decode(msg, true) })
	(<-r.p.sh.inbox)()
	require.False(t, r.p.ai.sock.paused)
	require.EqualValues(t, 1, r.p.stats.BadFrames)
	require.InDelta(t, 1, testutil.ToFloat64(r.p.sh.srv.metrics.panics), 0)
	r.p.ai.sock.dec = &textDecoder{rate: dsp.SampleRate}
	r.send(aiMark("after"))
	require.Equal(t, 1, r.p.tx.queue.Waiting())
}

// TestPlayoutDropped tells audio that came too far ahead of time, once in the log, apart from frames that the AI did not get.
func TestPlayoutDropped(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.connect()
	var log strings.Builder
	r.p.log = slog.New(slog.NewTextHandler(&log, nil))
	r.p.ai.enqueue(make([]int16, (playout.MaxQueued-1)*dsp.SampleRate), false)
	require.Zero(t, r.p.stats.PlayoutDropped)
	for range 3 {
		r.p.ai.enqueue(make([]int16, dsp.SampleRate), false)
	}
	st := r.p.snapshot()
	require.Equal(t, 2*time.Second, st.PlayoutDropped)
	require.Zero(t, st.FramesDropped)
	require.EqualValues(t, 2*dsp.SampleRate, r.p.sh.tally.unplayed)
	require.Zero(t, r.p.sh.tally.dropped)
	require.Equal(t, 1, strings.Count(log.String(), "too far ahead"))
}
