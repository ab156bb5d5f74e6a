package media

import (
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/media/ws/wstest"
)

// Payload types of L16 and of telephone-events.
const l16PT, eventPT = 96, 101

// portRig is one session's port on a shard that nobody runs: a test turns its clock. The AI and the caller are the far ends of
// real sockets.
type portRig struct {
	t    *testing.T
	p    *port
	now  int64
	slot int64

	ai     int    // the AI's end of the socket, -1 while there is none
	raw    []byte // of a frame that has come in part
	buf    []byte // of aiReads
	in     ws.Reader
	texts  []string
	audio  []byte
	pings  int
	closes []int

	caller *netio.Socket
	rd     netio.Reader
	faults float64 // panics that the test has injected; any other fails it
}

func newPortRig(t *testing.T, audio AudioFormat) *portRig {
	t.Helper()
	return newSpecRig(t, SessionSpec{ID: "rig", URL: "ws://127.0.0.1:1", Audio: audio, ReconnectFor: 1 << 40})
}

// newSpecRig is a rig whose session is as described.
func newSpecRig(t *testing.T, spec SessionSpec) *portRig {
	t.Helper()
	srv, err := New(Config{SIPAddr: "127.0.0.1:0", RTPPortMin: 30000, RTPPortMax: 59998, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	srv.next.Store(rand.Uint32())
	sh, err := newShard(srv)
	require.NoError(t, err)
	local := netip.MustParseAddr("127.0.0.1")
	mine, err := srv.bindRTP()
	require.NoError(t, err)
	caller, err := netio.Open(local, 0)
	require.NoError(t, err)
	require.NoError(t, srv.checkSpec(&spec))
	// Closed from the beginning: no event is queued, and no socket is dialed again behind the test's back.
	sess := &Session{srv: srv, sh: sh, spec: spec, metadata: spec.Metadata, log: srv.log, closed: true, events: make(chan Event, 1), released: make(chan struct{}), rtpAddr: mine.Local}
	p, err := newPort(sess, mine)
	require.NoError(t, err)
	sess.port = p
	r := &portRig{t: t, p: p, now: 1 << 40, ai: -1, caller: caller}
	require.NoError(t, p.leg.watchRTP())
	sh.now = func() int64 { return r.now }
	sh.add(p)
	t.Cleanup(func() {
		if !p.gone {
			p.ai.shutdown(ws.CloseNormal, CloseHangup, r.now)
			p.ai.finishClosing()
		}
		r.hangUp()
		require.NoError(t, caller.Close())
		sh.end()
		require.InDelta(t, r.faults, metric(t, srv.metrics.panics), 0, "panics")
	})
	return r
}

// connect gives the port a socket, whose other end is the AI.
func (r *portRig) connect() {
	r.t.Helper()
	r.connectWith(r.p.s.meta(false))
}

// connectWith is connect with metadata of its own.
func (r *portRig) connectWith(meta json.RawMessage) {
	r.t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(r.t, err)
	r.hangUp()
	r.ai, r.in, r.raw = fds[1], ws.Reader{}, nil
	r.p.ai.attach(&ws.Conn{Stream: &netio.FDStream{FD: fds[0]}}, meta, r.now)
}

// hangUp breaks the AI's end.
func (r *portRig) hangUp() {
	if r.ai >= 0 {
		require.NoError(r.t, unix.Close(r.ai))
		r.ai = -1
	}
}

// call brings a caller with a codec that loses nothing.
func (r *portRig) call() {
	r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.L16, Rate: dsp.SampleRate, PT: l16PT, EventPT: eventPT, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
	r.p.leg.speakAt = 0
}

// callLaw brings a caller who speaks μ-law, with telephone-events of a payload type, or none.
func (r *portRig) callLaw(events uint8) {
	r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.PCMU, Rate: dsp.SampleRate, EventPT: events, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
	r.p.leg.speakAt = 0
}

// record has the session recorded from now on, by a writer.
func (r *portRig) record(w *record.Writer, spec *record.Spec) *record.File {
	f := w.Add(spec, slog.New(slog.DiscardHandler))
	r.p.s.file, r.p.rec.recStart = f, r.now
	r.p.rec.rec, r.p.rec.track = record.NewRecorder(f, 0, spec.Paused), record.NewTrack(r.p.sh.slew)
	return f
}

// packet has a packet of the caller arrive now.
func (r *portRig) packet(h pion.Header, payload []byte) {
	r.t.Helper()
	b, err := h.Marshal()
	require.NoError(r.t, err)
	r.p.leg.packet(append(b, payload...), r.caller.Local, r.now)
}

// turn goes on to the session's next 20 ms.
func (r *portRig) turn() {
	for !r.step() {
	}
}

// talk has the caller say something in packets of 20 ms, each at its time, under the numbers that h begins with, and returns those that follow.
func (r *portRig) talk(h pion.Header, pcm []int16) pion.Header {
	r.t.Helper()
	b := make([]byte, dsp.FrameSamples)
	for ; len(pcm) >= dsp.FrameSamples; pcm = pcm[dsp.FrameSamples:] {
		dsp.EncodeULaw(b, pcm[:dsp.FrameSamples])
		r.packet(h, b)
		h.SequenceNumber, h.Timestamp = h.SequenceNumber+1, h.Timestamp+dsp.FrameSamples
		r.turn()
	}
	return h
}

// send writes bytes of the AI, as far as the socket takes them, and has the port read them.
func (r *portRig) send(b []byte) {
	r.t.Helper()
	for len(b) > 0 {
		n, err := unix.Write(r.ai, b)
		if err == unix.EAGAIN {
			r.Read()
			continue
		}
		require.NoError(r.t, err)
		b = b[n:]
	}
	r.Read()
}

// read has the port read its socket, long text frames, which are decoded elsewhere, included.
func (r *portRig) Read() {
	r.p.ai.readSocket(r.now)
	for s := r.p.ai.sock; s != nil && r.p.ai.sock == s && (s.paused || s.hot); {
		if s.paused {
			(<-r.p.sh.inbox)()
		}
		r.p.ai.readSocket(r.now)
	}
}

// step turns the clock by a slot of 5 ms; the session's own comes every fourth time. It reports whether this was it.
func (r *portRig) step() bool {
	r.now += slotNS
	r.slot++
	r.p.sh.count++
	r.Read()
	if r.slot%slots != 0 {
		return false
	}
	r.p.tick(r.now, r.now)
	return true
}

// aiReads takes what has come to the AI.
func (r *portRig) aiReads() {
	r.t.Helper()
	if r.buf == nil {
		r.buf = make([]byte, 64<<10)
	}
	for r.ai >= 0 {
		n, err := unix.Read(r.ai, r.buf)
		if err != nil || n == 0 {
			return
		}
		r.raw = append(r.raw, r.buf[:n]...)
		r.raw = unmask(r.t, r.raw, &r.in, r)
	}
}

// unmask feeds a client's whole frames to a server's reader, and returns what is left.
func unmask(t *testing.T, b []byte, fr *ws.Reader, sink ws.Sink) []byte {
	t.Helper()
	for {
		first, payload, rest, ok := wstest.Unmask(b)
		if !ok {
			return b
		}
		_, err := fr.Feed(wstest.Frame(first, payload), sink)
		require.NoError(t, err)
		b = rest
	}
}

// Binary, Text and Control implement ws.Sink for the AI.
func (r *portRig) Binary(b []byte, _ bool) { r.audio = append(r.audio, b...) }

func (r *portRig) Text(msg []byte) bool {
	r.texts = append(r.texts, string(msg))
	return true
}

func (r *portRig) Long([]byte, int) (bool, error) { return true, nil }
func (r *portRig) Spent() bool                    { return false }

func (r *portRig) Control(op byte, payload []byte) {
	switch op {
	case ws.OpPing:
		r.pings++
	case ws.OpClose:
		r.closes = append(r.closes, ws.CloseCode(payload))
	}
}

// heard takes the packets that have come to the caller.
func (r *portRig) heard() (pcm []int16) {
	for {
		b, _, _, err := r.rd.Read(r.caller)
		if err != nil {
			return pcm
		}
		if len(b) < rtp.HeaderSize {
			continue
		}
		switch pt := b[1] & 0x7f; pt {
		case 0:
			frame := make([]int16, len(b)-rtp.HeaderSize)
			dsp.DecodeULaw(frame, b[rtp.HeaderSize:])
			pcm = append(pcm, frame...)
			continue
		case l16PT:
		default:
			continue
		}
		for b = b[rtp.HeaderSize:]; len(b) >= 2; b = b[2:] {
			pcm = append(pcm, int16(binary.BigEndian.Uint16(b)))
		}
	}
}

// packets takes the packets that have come to the caller as they are.
func (r *portRig) packets() (all []heardPacket) {
	for {
		b, _, _, err := r.rd.Read(r.caller)
		if err != nil {
			return all
		}
		var h pion.Header
		payload, err := rtp.Parse(&h, b)
		require.NoError(r.t, err)
		all = append(all, heardPacket{h: h, p: slices.Clone(payload)})
	}
}

// frames of the AI, and an answer of ours.
func aiText(s string) []byte     { return wstest.Frame(0x81, []byte(s)) }
func aiAudio(pcm []int16) []byte { return wstest.Frame(0x82, pcmBytes(pcm)) }
func aiMark(name string) []byte  { return aiText(`{"type":"mark","data":{"name":"` + name + `"}}`) }
func eightKHz() AudioFormat      { return AudioFormat{SampleRateHz: dsp.SampleRate} }
func markText(name, ev string) string {
	return `{"type":"mark","data":{"name":"` + name + `","event":"` + ev + `"}}`
}

// allocatesNothing has the caller say ulaw and the voice agent frame, 20 ms after 20 ms: sockets and ticks included, nothing is allocated.
func (r *portRig) allocatesNothing(ulaw, frame []byte) {
	r.t.Helper()
	buf := make([]byte, 64<<10)
	h := pion.Header{Version: 2, SSRC: 7}
	packet := make([]byte, rtp.HeaderSize+dsp.FrameSamples)
	copy(packet[rtp.HeaderSize:], ulaw)
	step := func() {
		h.SequenceNumber++
		h.Timestamp += dsp.FrameSamples
		_, err := h.MarshalTo(packet)
		require.NoError(r.t, err)
		r.p.leg.packet(packet, r.caller.Local, r.now)
		_, err = unix.Write(r.ai, frame)
		require.NoError(r.t, err)
		r.turn()
		for err == nil {
			_, err = unix.Read(r.ai, buf)
		}
		for err = nil; err == nil; {
			_, _, _, err = r.rd.Read(r.caller)
		}
	}
	for range 300 { // until queues and pools have grown
		step()
	}
	require.Zero(r.t, testing.AllocsPerRun(500, step))
	require.Zero(r.t, r.p.stats.BadFrames)
	require.Greater(r.t, r.p.stats.FramesToAI, uint64(700))
	require.Greater(r.t, r.p.stats.FramesFromAI, uint64(700))
}
