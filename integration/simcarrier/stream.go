package simcarrier

import (
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

const (
	// maxCatchup bounds the frames sent in one go by a thread that came late; what is older is skipped, as a phone's
	// clock would.
	maxCatchup = 20
	// hearsWithin is how recent audio must be for "hears now".
	hearsWithin = 300 * time.Millisecond
	// maxJitter bounds the delay of a packet on a lossy line.
	maxJitter = 40 * time.Millisecond
	maxSent   = 16384
	// gapsFrom is the least time between two packets that counts as a gap: two frames are missing.
	gapsFrom = 3 * frameTime
	maxGaps  = 256
)

// stream is one call's RTP. A pacing thread owns the socket and all that is not under mu; the call's goroutines read
// and change what is under mu.
type stream struct {
	socket *rtpSocket
	port   int
	slot   int
	lossy  bool
	closed atomic.Bool // set by the call, obeyed by the thread
	lost   atomic.Bool // set by the call: what is sent and received is dropped
	freed  bool        // the thread's
	every  int         // one of so many frames is sent; all when 0

	voice  voice
	beep   clip
	quiet  clip
	player player
	keysAt int // frame at which keys are pressed; −1 for never
	keys   *keypad
	// wanted are keys that the call's goroutine wants pressed, as tones or as events.
	wanted    string
	wantTones bool
	rng       *rand.Rand
	frame     int
	nextAt    time.Time
	ts        uint32
	seq       uint16
	ssrc      uint32
	packet    []byte
	held      []heldPacket
	samples   []int16
	lastMark  time.Time // when the latest marker left whose echo has not come yet

	mu      sync.Mutex
	media   negotiated
	active  bool
	paused  bool      // the peer has put us on hold
	stalled time.Time // nothing is sent before
	ear     *tone.Listener
	clock   mediaClock
	in      RTPIn
	out     RTPOut
	sources []uint32
	highest uint16 // highest sequence number of the current source
	gap     time.Duration
	gapAt   time.Time
	gaps    []Gap
	event   heardEvent
	dtmf    []tone.Digit
	sentKey []tone.Digit
	sent    []SentAudio
	onsets  []time.Time
	came    map[float64][]time.Time // of onsets heard, by frequency
	trips   []float64
	taping  bool
	tape    []Taped
}

// heldPacket waits out its jitter.
type heldPacket struct {
	at time.Time
	b  []byte
}

// heardEvent is the telephone event being received: its packets share a timestamp.
type heardEvent struct {
	ts     uint32
	digit  string
	at     time.Time
	length int
	open   bool
}

func newStream(socket *rtpSocket, port int, v voice, bank *voiceBank, listen []float64, seed uint64) *stream {
	return &stream{
		socket: socket, port: port, voice: v, beep: bank.beep, quiet: bank.quiet, keysAt: -1,
		ear: tone.NewListener(rateHz, listen), packet: make([]byte, 0, 256), samples: make([]int16, 2048),
		rng: rand.New(rand.NewPCG(seed, 1)),
	}
}

// behave sets what the subscriber does once the stream is active; it is called before the stream joins the pump.
func (st *stream) behave(b Behaviour, number string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(digitsOf(number))) // a hash never fails
	st.rng = rand.New(rand.NewPCG(st.rng.Uint64(), h.Sum64()))
	st.seq, st.ts, st.ssrc = uint16(st.rng.Uint32()), st.rng.Uint32(), st.rng.Uint32()
	st.player = player{script: scriptFor(b, st.voice.spec.kind)}
	st.lossy = b == Lossy
	if b == PressesKeys {
		st.keysAt = keysFrame
	}
}

// activate begins to send at once, or sends on to another address or codec.
func (st *stream) activate(n negotiated) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.media, st.active, st.paused = n, true, !n.sends
}

// negotiated is what both sides last agreed on.
func (st *stream) negotiated() (n negotiated, active bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.media, st.active
}

// receive empties the socket.
func (st *stream) receive(buf []byte) {
	for {
		n, at, ok := st.socket.receive(buf)
		if !ok {
			return
		}
		if st.lost.Load() {
			continue
		}
		var h rtp.Header
		size, err := h.Unmarshal(buf[:n])
		if err != nil || h.Version != 2 || buf[1] >= 192 && buf[1] <= 223 { // RTCP, for the port below or for nobody
			continue
		}
		st.hear(&h, buf[size:n], at)
	}
}

func (st *stream) hear(h *rtp.Header, payload []byte, at time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.count(h, len(payload), at)
	if ev := st.media.event; ev != 0 && h.PayloadType == ev {
		st.hearEvent(h.Timestamp, payload, at)
		return
	}
	var c codec
	switch h.PayloadType {
	case 0:
		c, _ = codecByName(codecPCMU)
	case 8:
		c, _ = codecByName(codecPCMA)
	default:
		return
	}
	n := c.decode(st.samples, payload)
	st.keep(h.Timestamp, at, st.samples[:n])
	st.ear.Hear(st.clock.date(h.Timestamp, at), st.samples[:n], st.onset)
}

// onset notes when it came, and closes the round trip of a marker.
func (st *stream) onset(hz float64, at time.Time) {
	came := st.clock.cameAt(at)
	if st.came == nil {
		st.came = map[float64][]time.Time{}
	}
	if len(st.came[hz]) < maxSent {
		st.came[hz] = append(st.came[hz], came)
	}
	if hz != markerHz || st.lastMark.IsZero() || came.Before(st.lastMark) {
		return
	}
	st.trips = append(st.trips, came.Sub(st.lastMark).Seconds()*1000)
	st.lastMark = time.Time{}
}

func (st *stream) count(h *rtp.Header, size int, at time.Time) {
	if st.in.LastAt != nil {
		st.countGap(*st.in.LastAt, at)
	} else {
		st.in.FirstAt = &at
	}
	st.in.LastAt = &at
	st.in.Packets++
	st.in.Bytes += int64(size)
	known := len(st.sources) > 0 && st.sources[len(st.sources)-1] == h.SSRC
	if !known {
		st.sources = append(st.sources, h.SSRC)
		st.clock = mediaClock{}
		st.highest = h.SequenceNumber
		return
	}
	switch step := int16(h.SequenceNumber - st.highest); {
	case step > 0:
		st.in.Lost += int64(step) - 1
		st.highest = h.SequenceNumber
	case step < 0:
		st.in.Late++
		st.in.Lost = max(0, st.in.Lost-1)
	}
}

func (st *stream) countGap(from, to time.Time) {
	gap := to.Sub(from)
	if gap > st.gap {
		st.gap, st.gapAt = gap, from
	}
	if gap >= gapsFrom && len(st.gaps) < maxGaps {
		st.gaps = append(st.gaps, Gap{At: from, MS: float64(gap.Microseconds()) / 1000})
	}
}

func (st *stream) hearEvent(ts uint32, payload []byte, at time.Time) {
	digit, ended, samples, ok := eventOf(payload)
	if !ok {
		return
	}
	if !st.event.open && st.event.ts == ts && st.event.digit == digit {
		return // a repeat of the end
	}
	if st.event.open && st.event.ts != ts {
		st.closeEvent() // all its ends were lost
	}
	if !st.event.open {
		st.event = heardEvent{ts: ts, digit: digit, at: at, open: true}
	}
	st.event.length = samples
	if ended {
		st.closeEvent()
	}
}

func (st *stream) closeEvent() {
	st.event.open = false
	st.dtmf = append(st.dtmf, tone.Digit{
		Digit: st.event.digit, At: st.event.at, DurationMS: st.event.length / (rateHz / 1000), Via: "rfc4733",
	})
}

// hearInfo notes a digit that came by SIP INFO.
func (st *stream) hearInfo(d tone.Digit) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.dtmf = append(st.dtmf, d)
}

// send writes the frames that are due.
func (st *stream) send(now time.Time) {
	st.mu.Lock()
	active, paused, n := st.active && !now.Before(st.stalled), st.paused, st.media
	st.mu.Unlock()
	if !active {
		return
	}
	if st.nextAt.IsZero() {
		st.nextAt = now
	}
	if late := now.Sub(st.nextAt); late > maxCatchup*frameTime {
		skipped := int(late/frameTime) - 1
		st.nextAt = st.nextAt.Add(time.Duration(skipped) * frameTime)
		st.ts += uint32(skipped * frameSamples)
	}
	// Half a slot of slack keeps one frame per turn, though turns come a little early or late.
	for sent := 0; !now.Add(slotTime / 2).Before(st.nextAt); sent++ {
		st.sendFrame(n, paused, sent > 0)
		st.nextAt = st.nextAt.Add(frameTime)
	}
}

// sendFrame plays one frame: a key if one is pressed, else the script. On hold the script goes on, unheard.
func (st *stream) sendFrame(n negotiated, paused, catchup bool) {
	if st.frame == st.keysAt && n.event != 0 {
		st.keys = &keypad{digits: "123"}
	}
	first := st.frame == 0
	k, at := st.player.next()
	st.frame++
	st.ts += frameSamples
	if paused || st.lost.Load() || st.every > 1 && st.frame%st.every != 0 {
		return
	}
	if catchup {
		st.mu.Lock()
		st.out.Catchups++
		st.mu.Unlock()
	}
	st.takePressed()
	if st.keys != nil {
		var ev [eventSize]byte
		payload, begins, age, done := st.keys.next(ev[:])
		if done {
			st.keys = nil
		}
		if payload != nil {
			if begins {
				st.keys.began = st.ts
				st.noteKey(st.keys.digit())
			}
			if st.keys.tones {
				tones := toneFrame(st.keys.digit()[0], age, n.codec.payloadType)
				st.write(rtp.Header{Version: 2, PayloadType: n.codec.payloadType, Timestamp: st.ts}, tones, n.remote)
				return
			}
			st.write(rtp.Header{Version: 2, PayloadType: n.event, Marker: begins, Timestamp: st.keys.began}, payload, n.remote)
			return
		}
		if !done {
			k = soundSilence
		}
	}
	payload := st.payload(k, at, n.codec)
	if at == 0 && k != soundSilence {
		st.noteOnset(k)
	}
	st.write(rtp.Header{Version: 2, PayloadType: n.codec.payloadType, Marker: first, Timestamp: st.ts}, payload, n.remote)
}

// payload is one frame of a sound; silence when its clip is too short.
func (st *stream) payload(k sound, frame int, c codec) []byte {
	var b []byte
	switch k {
	case soundSpeech, soundMarker:
		b = st.voice.phrase.frame(frame, c.payloadType)
	case soundBeep:
		b = st.beep.frame(frame, c.payloadType)
	case soundSilence:
	}
	if b == nil {
		b = st.quiet.frame(0, c.payloadType)
	}
	return b
}

// write sends or, on a lossy line, drops or delays one packet.
func (st *stream) write(h rtp.Header, payload []byte, to netip.AddrPort) {
	h.SequenceNumber, h.SSRC = st.seq, st.ssrc
	st.seq++
	st.packet = st.packet[:cap(st.packet)]
	n, err := h.MarshalTo(st.packet)
	if err != nil {
		st.tally(0, err)
		return
	}
	st.packet = append(st.packet[:n], payload...)
	if st.lossy {
		if st.rng.Float64() < lossRatio {
			st.mu.Lock()
			st.out.Dropped++
			st.mu.Unlock()
			return
		}
		delay := time.Duration(st.rng.Int64N(int64(maxJitter)))
		st.held = append(st.held, heldPacket{time.Now().Add(delay), append([]byte(nil), st.packet...)})
		return
	}
	st.tally(len(payload), st.socket.send(st.packet, to))
}

// flush sends the held packets whose jitter has passed.
func (st *stream) flush(now time.Time) {
	if len(st.held) == 0 {
		return
	}
	n, _ := st.negotiated()
	kept := st.held[:0]
	for _, p := range st.held {
		if p.at.After(now) {
			kept = append(kept, p)
			continue
		}
		st.tally(len(p.b)-12, st.socket.send(p.b, n.remote))
	}
	st.held = kept
}

func (st *stream) tally(size int, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err != nil {
		st.out.Failed++
		return
	}
	st.out.Packets++
	st.out.Bytes += int64(size)
}

const (
	// maxLate is the jitter that a packet may have; more is a break in the sender's timestamps.
	maxLate = 400 * time.Millisecond
	// clockWindow is the number of packets over which the least delay is taken.
	clockWindow = 25
)

// mediaClock dates packets by their RTP timestamps, laid on the wall clock by the packets that came fastest. What a
// busy machine delays is thereby heard when it was said.
type mediaClock struct {
	anchored bool
	ts       uint32
	at       time.Time // when a packet of timestamp ts comes if nothing delays it
	least    time.Duration
	packets  int
	recent   [4]dated
	next     int
}

// dated is a packet's time by the clock, and how much later it came.
type dated struct {
	at   time.Time
	late time.Duration
}

// date is when the first sample of a packet is heard, given when the packet came.
func (c *mediaClock) date(ts uint32, came time.Time) time.Time {
	due := c.at.Add(time.Duration(int32(ts-c.ts)) * time.Second / rateHz)
	late := came.Sub(due)
	if !c.anchored || late < 0 || late > maxLate {
		c.anchored, c.packets, late, due = true, 0, 0, came
	}
	if c.packets == 0 || late < c.least {
		c.least = late
	}
	c.ts, c.at = ts, due
	if c.packets++; c.packets == clockWindow {
		c.at, c.packets = c.at.Add(c.least), 0
	}
	c.recent[c.next%len(c.recent)] = dated{due, late}
	c.next++
	return due
}

// cameAt is when audio dated at really came.
func (c *mediaClock) cameAt(at time.Time) time.Time {
	nearest := dated{}
	for _, d := range c.recent {
		if !d.at.After(at.Add(5*time.Millisecond)) && d.at.After(nearest.at) {
			nearest = d
		}
	}
	return at.Add(nearest.late)
}
