package simswitch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	frameSamples  = 160 // 20 ms at 8 kHz
	frameDuration = 20 * time.Millisecond
	rtpHeader     = 12
	maxPacket     = 1500
	maxDelayed    = 480 // 60 ms of G.711; longer packets aren't held back
	// strangers is how many packets in a row must come from a new address before the leg follows it, as FreeSWITCH's
	// automatic adjustment does.
	strangers = 10
)

// errNoPort says that the RTP port range is used up.
var errNoPort = errors.New("no free RTP port")

// portRange hands out RTP sockets.
type portRange struct {
	ip       string
	min, max int

	mu   sync.Mutex
	next int // guarded by mu
}

func newPortRange(ip string, lowest, highest int) *portRange {
	lowest += lowest % 2
	return &portRange{ip: ip, min: lowest, max: highest, next: lowest}
}

// listen binds the next free even port, or any port when there is no range.
func (r *portRange) listen() (*net.UDPConn, error) {
	ip := net.ParseIP(r.ip)
	if r.max == 0 {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: ip})
		if err != nil {
			return nil, fmt.Errorf("bind an RTP port: %w", err)
		}
		return c, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for range (r.max-r.min)/2 + 1 {
		port := r.next
		if r.next += 2; r.next > r.max {
			r.next = r.min
		}
		if c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: ip, Port: port}); err == nil {
			return c, nil
		}
	}
	return nil, errNoPort
}

// mediaPort is a leg's RTP. A goroutine reads its socket; the media clock sends what plays and what waits to be relayed.
type mediaPort struct {
	sw    *Switch
	conn  *net.UDPConn
	local int
	ssrc  uint32
	owner *channel // set before the port is used

	lastRX atomic.Int64 // of the last packet, in ns since 1970; 0 = none yet
	rx, tx counters

	mu        sync.Mutex // guards all below
	closed    bool
	remote    netip.AddrPort
	c         codec
	telEvent  uint8
	stranger  netip.AddrPort
	strange   int
	peer      *mediaPort // where received audio goes
	echo      bool
	muteRead  bool
	muteWrite bool
	seq       uint16
	ts        uint32 // of the next packet
	sent      time.Time
	inBase    uint32 // timestamp of the relayed stream that maps to outBase
	outBase   uint32
	inSSRC    uint32
	mapped    bool
	delayed   []delayedPacket
	play      *player
	digits    []digitOut
	eventTS   uint32 // of the telephone-event being received
	eventSeen bool
	reading   reading
	recorders []*recorder
	spies     []*spy  // in the order in which they began
	bugs      int     // recorders and spies so far
	tapOnly   bool    // a recorder that is added hears nothing
	member    *member // of a conference
	speaks    *spy    // whose voice the leg is: it eavesdrops
	quiet     quiet
	tones     *keyTones     // start_dtmf
	over      *displacement // what is mixed into the audio that is sent
	scratch   [maxPacket]byte
	next      func() // to be run with the next packet
	every     int    // one of so many frames is sent; all when 0
	frames    int    // counts them
	pcm, mix  []int16
}

// counters are those of one direction.
type counters struct{ packets, bytes, dtmf atomic.Int64 }

// counts are the counters by the names that variables and call records have for them.
func (c *counters) counts() []header {
	n := func(v *atomic.Int64) string { return strconv.FormatInt(v.Load(), 10) }
	return []header{
		{"raw_bytes", n(&c.bytes)},
		{"media_bytes", n(&c.bytes)},
		{"packet_count", n(&c.packets)},
		{"media_packet_count", n(&c.packets)},
		{"dtmf_packet_count", n(&c.dtmf)},
	}
}

// delayedPacket is audio on its way through the switch.
type delayedPacket struct {
	due   time.Time
	ts    uint32
	ssrc  uint32
	codec codec
	n     int
	data  [maxDelayed]byte
}

// newMediaPort binds a socket and starts to read it.
func (sw *Switch) newMediaPort() (*mediaPort, error) {
	conn, err := sw.rtpPorts.listen()
	if err != nil {
		return nil, err
	}
	addr, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return nil, errors.Join(errNoPort, conn.Close())
	}
	m := &mediaPort{
		sw: sw, conn: conn, local: addr.Port, ssrc: rand.Uint32(), seq: uint16(rand.Uint32()), ts: rand.Uint32(), telEvent: 101, every: sw.cfg.RTPEvery,
	}
	return m, nil
}

// announce lets the port live: its reader and its place on the media clock.
func (m *mediaPort) announce() {
	m.sw.clock.add(m)
	if !m.sw.goFunc(m.read) {
		m.close()
	}
}

func (m *mediaPort) port() int { return m.local }

func (m *mediaPort) codec() codec {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.c
}

func (m *mediaPort) codecName() string { return m.codec().String() }

// connect points the port at the far end.
func (m *mediaPort) connect(remote netip.AddrPort, c codec, telEvent uint8) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.remote != remote {
		m.stranger, m.strange = netip.AddrPort{}, 0
	}
	m.remote, m.c, m.telEvent = remote, c, telEvent
}

// onceReceived runs f with the next packet.
func (m *mediaPort) onceReceived(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = f
}

// close ends the port. It may be called more than once.
func (m *mediaPort) close() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.closed = true
	p := m.play
	m.play, m.peer, m.delayed = nil, nil, nil
	m.mu.Unlock()
	for ; p != nil; p = p.under {
		p.finish()
	}
	m.sw.clock.remove(m)
	_ = m.conn.Close()
}

// read takes packets until the port closes.
func (m *mediaPort) read() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := m.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		m.receive(buf[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), time.Now())
	}
}

// receive handles one packet. Malformed ones and those of strangers are dropped.
func (m *mediaPort) receive(b []byte, from netip.AddrPort, now time.Time) {
	if len(b) < rtpHeader || b[0]>>6 != 2 || b[1] >= 192 && b[1] <= 223 { // RTCP, for the port below or for nobody
		return
	}
	payload, ok := rtpPayload(b)
	if !ok {
		return
	}
	pt := b[1] & 0x7f
	ts, ssrc := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	m.mu.Lock()
	if m.closed || !m.accept(from) {
		m.mu.Unlock()
		return
	}
	m.lastRX.Store(now.UnixNano())
	m.rx.packets.Add(1)
	m.rx.bytes.Add(int64(len(b)))
	if m.next != nil {
		m.sw.goFunc(m.next)
		m.next = nil
	}
	if pt >= 96 && len(payload) == 4 {
		digit, dur, done := m.telephoneEvent(payload, ts)
		m.mu.Unlock()
		if done {
			m.owner.events.gotDigit(digit, dur, sourceRTP)
		}
		return
	}
	if pt != uint8(codecPCMU) && pt != uint8(codecPCMA) {
		m.mu.Unlock()
		return
	}
	if !m.reading.takes(ts, b[1]&0x80 != 0) {
		m.mu.Unlock()
		return
	}
	c := codec(pt)
	if m.muteRead {
		payload = fill(payload, silence(c))
	}
	pressed := byte(0)
	if len(m.recorders)+len(m.spies) > 0 || m.tones != nil || m.member != nil || m.speaks != nil {
		m.pcm = decode(c, m.pcm[:0], payload)
		if m.tones != nil {
			pressed = m.tones.feed(m.pcm)
		}
		if m.said(m.pcm, ts, ssrc, now) {
			payload = encode(c, payload[:0], m.pcm)
		}
	}
	peer, echo := m.peer, m.echo
	m.mu.Unlock()
	if pressed != 0 {
		m.owner.events.gotDigit(pressed, infoSamples, sourceInband)
	}
	if echo {
		peer = m
	}
	if peer != nil {
		peer.relay(payload, c, ts, ssrc, now)
	}
}

// accept says whether a packet of that address is taken. The caller holds mu.
func (m *mediaPort) accept(from netip.AddrPort) bool {
	if from == m.remote {
		m.strange = 0
		return true
	}
	if from != m.stranger {
		m.stranger, m.strange = from, 0
	}
	if m.strange++; m.strange < strangers || !m.remote.IsValid() {
		return false
	}
	m.remote, m.strange = from, 0
	return true
}

// rtpPayload cuts header extensions and padding off (RFC 3550 section 5.1).
func rtpPayload(b []byte) ([]byte, bool) {
	off := rtpHeader + 4*int(b[0]&0x0f)
	if b[0]&0x10 != 0 {
		if len(b) < off+4 {
			return nil, false
		}
		off += 4 + 4*int(binary.BigEndian.Uint16(b[off+2:]))
	}
	end := len(b)
	if b[0]&0x20 != 0 && end > 0 {
		end -= int(b[end-1])
	}
	if off >= end {
		return nil, false
	}
	return b[off:end], true
}

func fill(b []byte, v byte) []byte {
	for i := range b {
		b[i] = v
	}
	return b
}

// relay takes audio from another leg, to be sent after the hop's delay.
func (m *mediaPort) relay(payload []byte, from codec, ts, ssrc uint32, now time.Time) {
	delay := m.sw.cfg.HopDelay
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || !m.remote.IsValid() || m.play != nil || len(m.digits) > 0 {
		return
	}
	if delay > 0 && len(payload) <= maxDelayed {
		m.delayed = append(m.delayed, delayedPacket{due: now.Add(delay), ts: ts, ssrc: ssrc, codec: from, n: len(payload)})
		copy(m.delayed[len(m.delayed)-1].data[:], payload)
		return
	}
	m.forward(payload, from, ts, ssrc, now)
}

// forward sends relayed audio: its timestamps keep their distances, its sequence numbers are the switch's own. The caller holds
// mu.
func (m *mediaPort) forward(payload []byte, from codec, ts, ssrc uint32, now time.Time) {
	if m.closed || !m.remote.IsValid() || m.play != nil || len(m.digits) > 0 {
		return
	}
	marker := false
	if !m.mapped || ssrc != m.inSSRC {
		m.rebase(now)
		m.inBase, m.outBase, m.inSSRC, m.mapped = ts, m.ts, ssrc, true
		marker = true
	}
	if from != m.c {
		m.pcm = decode(from, m.pcm[:0], payload)
		payload = encode(m.c, payload[:0], m.pcm)
	}
	m.sendAudio(payload, m.outBase+(ts-m.inBase), marker, now)
}

// rebase moves the timestamp on by the time in which nothing was sent. The caller holds mu.
func (m *mediaPort) rebase(now time.Time) {
	if !m.sent.IsZero() {
		if gap := now.Sub(m.sent); gap > frameDuration {
			m.ts += uint32(gap.Milliseconds()*8) - frameSamples
		}
	}
	m.mapped = false
}

// sendAudio sends one frame in the leg's codec. The caller holds mu.
func (m *mediaPort) sendAudio(payload []byte, ts uint32, marker bool, now time.Time) {
	if m.muteWrite {
		payload = fill(payload, silence(m.c))
	}
	if m.over != nil {
		payload = m.displace(payload)
	}
	if len(m.recorders)+len(m.spies) > 0 {
		m.pcm = decode(m.c, m.pcm[:0], payload)
		if m.heard(m.pcm, ts, now) {
			payload = encode(m.c, payload[:0], m.pcm)
		}
	}
	m.ts = ts + uint32(len(payload))
	m.send(uint8(m.c), payload, ts, marker, now)
}

// send writes one packet. The caller holds mu.
func (m *mediaPort) send(pt uint8, payload []byte, ts uint32, marker bool, now time.Time) {
	if len(payload) > maxPacket-rtpHeader || !m.remote.IsValid() {
		return
	}
	b := m.scratch[:rtpHeader+len(payload)]
	b[0], b[1] = 0x80, pt
	if marker {
		b[1] |= 0x80
	}
	binary.BigEndian.PutUint16(b[2:], m.seq)
	binary.BigEndian.PutUint32(b[4:], ts)
	binary.BigEndian.PutUint32(b[8:], m.ssrc)
	copy(b[rtpHeader:], payload)
	m.frames++
	if m.every > 1 && m.frames%m.every != 0 {
		return
	}
	m.seq++
	m.sent = now
	m.tx.packets.Add(1)
	m.tx.bytes.Add(int64(len(b)))
	_, _ = m.conn.WriteToUDPAddrPort(b, m.remote)
}

// bridgeMedia lets a's audio go to b and b's to a.
func bridgeMedia(a, b *mediaPort) {
	a.flushReading()
	b.flushReading()
	a.relayTo(b)
	b.relayTo(a)
}

// unbridgeMedia ends the relay between two ports.
func unbridgeMedia(a, b *mediaPort) {
	a.relayTo(nil)
	b.relayTo(nil)
}

// relayTo says where received audio goes from now on, nil for nowhere. A leg without audio has no port.
func (m *mediaPort) relayTo(peer *mediaPort) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peer, m.delayed = peer, m.delayed[:0]
}

func (m *mediaPort) setEcho(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.echo = on
}

// mute silences what the party says (read) or what it hears (write).
func (m *mediaPort) mute(read, write *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if read != nil {
		m.muteRead = *read
	}
	if write != nil {
		m.muteWrite = *write
	}
	if m.bugAdded(false); !m.muteRead && !m.muteWrite {
		m.bugRemoved()
	}
}

// silentFor is how long nothing has come, counted from since when nothing ever came.
func (m *mediaPort) silentFor(since, now time.Time) time.Duration {
	last := since
	if ns := m.lastRX.Load(); ns > 0 {
		if at := time.Unix(0, ns); at.After(since) {
			last = at
		}
	}
	return now.Sub(last)
}

// statVars are the counters that FreeSWITCH leaves in the variables.
func (m *mediaPort) statVars() []header {
	var vars []header
	for _, c := range m.rx.counts() {
		vars = append(vars, header{"rtp_audio_in_" + c.name, c.value})
	}
	for _, c := range m.tx.counts() {
		vars = append(vars, header{"rtp_audio_out_" + c.name, c.value})
	}
	return vars
}
