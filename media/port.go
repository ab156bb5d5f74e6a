package media

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/pion/rtp"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/dsp"
)

// port is one session as its shard sees it. All members belong to the shard's thread.
type port struct {
	s    *Session
	sh   *shard
	log  *slog.Logger
	slot int

	// The leg.
	rtp       *rtpSocket
	leg       legMedia
	legUp     bool
	hadLeg    bool
	peer      rtpPeer
	heardFrom netip.AddrPort // the address that packets are accepted from; not valid before the first
	move      move
	ssrcIn    uint32
	haveSSRC  bool
	hdr       rtp.Header
	lastRTP   int64
	silent    bool  // LegSilent was reported
	speakAt   int64 // when we begin to send, unless the leg is heard before

	// Caller to AI.
	in  caller
	ctl control       // RTCP, both ways
	amd *amd.Detector // nil when nobody listens, or nothing more can come
	pad keypad
	up  *uplink

	// AI to caller.
	down    *downlink
	queue   playout
	seq     uint16
	ts      uint32
	ssrc    uint32
	talking bool
	count   int64 // the shard's slot count at the last tick
	noise   uint32
	wire    *dsp.Resampler // from the queue's rate to the leg's; nil when they are the same
	wide    []int16        // what wire has made
	thin    *dsp.Resampler // from the leg's rate to the recording's; nil when they are the same
	narrow  []int16        // what thin has made
	texted  bool           // the newest audio came in a text frame

	muted [2]bool

	// The AI's socket, nil while there is none.
	sock           *socket
	waiting        [][]byte // text frames for the next socket
	waitingBytes   int
	owed           []markAnswer // marks whose answers have not been sent
	marksLeft      int          // how many may be sent until the next tick
	reconnecting   bool
	socketGone     bool  // the AI's socket will not come again
	redialDeadline int64 // when reconnecting ends
	stableAt       int64 // a socket that lives so long earns the whole time for reconnecting again
	unknownLogged  bool
	badLogged      bool
	fullLogged     bool

	// The recording.
	rec      *recorder
	recStart int64 // its time zero on the monotonic clock
	track    callerTrack
	playPos  int64 // where the next frame of the AI lies

	closing       bool
	closeDeadline int64
	gone          bool
	stats         Stats
}

// speakLimit is how long we wait for a leg's first packet before we send. A switch that bridges begins to read when it begins to
// write: what it gets before waits, and reaches the caller in a burst, or late for the whole call (two packets, 40 ms, seen on
// FreeSWITCH). Its first packet tells that it reads.
const speakLimit = int64(500 * time.Millisecond)

// samplesAt is a moment's position in the recording.
func (p *port) samplesAt(mono int64) int64 { return (mono - p.recStart) / nsPerSample }

// setLeg starts the leg, or changes what a re-INVITE has changed.
func (p *port) setLeg(m legMedia, now int64) {
	if p.rtp == nil {
		return
	}
	if m.rate == 0 {
		m.rate = sampleRate
	}
	if !p.legUp {
		p.legUp, p.hadLeg = true, true
		p.seq, p.ts, p.ssrc = uint16(rand.Uint32()), rand.Uint32(), rand.Uint32()
		p.talking, p.count = false, 0
		p.playPos = 0
		p.speakAt = now + speakLimit
		p.resetCaller()
		p.ctl.begin(now, m.remote.Addr(), p.stats.PacketsOut, p.seq)
		p.sh.srv.metrics.legs.Inc()
	}
	if m.remote != p.leg.remote || !p.heardFrom.IsValid() {
		if m.remote != p.leg.remote && p.leg.remote.IsValid() {
			p.move.begin(p.heardFrom, p.leg.remote, p.lastRTP)
			p.ctl.out.moved(p.stats.PacketsOut, p.seq)
		}
		p.heardFrom = netip.AddrPort{}
		p.peer = newRTPPeer(m.remote)
	}
	if m.rtcp != p.leg.rtcp {
		p.ctl.heardFrom, p.ctl.peer = netip.AddrPort{}, newRTPPeer(m.rtcp)
	}
	if err := p.setRate(m.rate); err != nil {
		p.log.Error("a leg's rate can't be served", "error", err, "rate_hz", m.rate)
		return
	}
	p.leg, p.lastRTP, p.silent = m, now, false
	p.chooseTones()
}

// setRate prepares both directions for a leg's rate.
func (p *port) setRate(rate int) error {
	if rate == p.in.rate {
		return nil
	}
	if err := p.in.setRate(rate); err != nil {
		return err
	}
	if err := p.up.setRate(rate); err != nil {
		return err
	}
	return p.setPlayRate(rate)
}

// snapshot is what the session has moved so far.
func (p *port) snapshot() Stats {
	st := p.stats
	st.Duplicates, st.Late, st.Concealed = p.in.duplicate, p.in.late, uint64(p.in.concealed/frameNS)
	st.Quality = p.quality()
	return st
}

// endLeg stops the leg's audio. What the AI has queued is for a caller who is not there.
func (p *port) endLeg() {
	if !p.legUp {
		return
	}
	p.endKey(p.sh.now())
	p.pad.out.clear()
	p.pad.pt = 0 // the next leg negotiates its own
	p.report(p.sh.now(), true)
	p.legUp = false
	p.leg, p.move = legMedia{}, move{}
	p.chooseTones()
	p.heardFrom, p.ctl.heardFrom = netip.AddrPort{}, netip.AddrPort{}
	p.killAudio()
	p.sh.srv.metrics.legs.Dec()
}

// tick is the session's 20 ms. due is the moment of the grid, now the clock.
func (p *port) tick(now, due int64) {
	p.marksLeft = markAnswers
	if p.closing {
		p.tickClosing(now)
		return
	}
	if p.legUp {
		p.pump(now)
		if d, ok := p.pad.in.expire(now); ok {
			p.heardKey(p.rtpKey(d), wayRTP, now)
		}
		p.watchSilence(now)
		p.tickRTCP(now)
		p.answerMarks()
		if now >= p.speakAt {
			p.play(due)
		}
	} else if len(p.owed) > 0 {
		p.sendMarks()
	}
	p.tickSocket(now)
	if p.rec != nil && p.rec.failed == nil {
		if err := p.rec.advance(p.samplesAt(now)); err != nil {
			p.s.emit(RecordingFailed{Err: err})
		}
	}
}

// killAudio empties the playout queue at once. Marks whose audio was heard in full are played, the rest are cleared.
func (p *port) killAudio() {
	p.answerMarks()
	p.queue.clearAudio()
	p.down.reset()
	if s := p.sock; s != nil && s.paused {
		s.dec = &textDecoder{rate: s.dec.rate} // the old one may be at work
	} else if s != nil {
		s.dec.reset()
	}
	p.dropMarks()
}

// clearMarks takes the marks off the queue, whose audio goes on.
func (p *port) clearMarks() {
	p.answerMarks()
	p.dropMarks()
}

func (p *port) dropMarks() {
	p.owed = p.queue.dropMarks(p.owed)
	p.sendMarks()
}

func (p *port) answerMarks() {
	if len(p.queue.marks) > 0 {
		p.owed = p.queue.played(p.owed)
	}
	if len(p.owed) > 0 {
		p.sendMarks()
	}
}

// sendMarks answers marks, some of many in each tick: an AI that has set a thousand takes no audio from other calls.
func (p *port) sendMarks() {
	n := min(len(p.owed), p.marksLeft)
	p.marksLeft -= n
	for _, m := range p.owed[:n] {
		event := "playout"
		if m.cleared {
			event = "cleared"
		}
		p.sendText(textMark, markData{Name: m.name, Event: event})
	}
	p.owed = slices.Delete(p.owed, 0, n)
}
