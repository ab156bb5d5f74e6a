package media

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"

	pion "github.com/pion/rtp"

	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
)

// port is one session as its shard sees it. All members belong to the shard's thread. Its parts are types of their own, each of which names the others
// that it works with.
type port struct {
	*portCore
	leg   *portLeg
	rx    *fromCaller
	tx    *toCaller
	keys  *keys
	ctl   *reports
	ai    *aiSocket
	toAI  *toAI
	marks *marks
	rec   *recording
}

// portCore is what every part of a port works with.
type portCore struct {
	port *port
	s    *Session
	sh   *shard
	log  *slog.Logger
	slot int

	muted         [2]bool
	closing       bool
	closeDeadline int64
	gone          bool
	stats         Stats
}

// portLeg is the SIP leg's RTP: where it goes and whence it comes.
type portLeg struct {
	*portCore
	ctl  *reports
	rx   *fromCaller
	keys *keys
	tx   *toCaller
	rec  *recording

	rtp       *netio.Socket
	media     sip.Media
	up        bool
	had       bool // there was one
	peer      netio.Peer
	heardFrom netip.AddrPort // the address that packets are accepted from; not valid before the first
	move      move
	lastRTP   int64
	silent    bool  // LegSilent was reported
	primed    bool  // silence was sent ahead of the first word
	speakAt   int64 // when we begin to speak
}

// fromCaller takes the caller's audio to the AI, the recording and whoever else listens.
type fromCaller struct {
	*portCore
	toAI *toAI
	keys *keys
	leg  *portLeg
	rec  *recording

	ssrcIn   uint32
	haveSSRC bool
	hdr      pion.Header
	caller   rtp.Inbound
	amd      *amd.Detector // nil when nobody listens, or nothing more can come
	up       *uplink
}

// toCaller takes the AI's audio to the caller.
type toCaller struct {
	*portCore
	ai    *aiSocket
	ctl   *reports
	rx    *fromCaller
	keys  *keys
	leg   *portLeg
	marks *marks
	rec   *recording

	down    *downlink
	queue   playout.Queue
	seq     uint16
	ts      uint32
	ssrc    uint32
	talking bool
	// silenced: the newest frame was muted, or the caller is on hold.
	silenced bool
	count    int64 // the shard's slot count at the last tick
	noise    uint32
	wire     *dsp.Resampler // from the queue's rate to the leg's; nil when they are the same
	wide     []int16        // what wire has made
	texted   bool           // the newest audio came in a text frame
	extra    overlay
}

// keys are the digits, both ways.
type keys struct {
	*portCore
	toAI *toAI
	leg  *portLeg
	tx   *toCaller

	keypad
}

// reports is RTCP, both ways.
type reports struct {
	*portCore
	rx  *fromCaller
	leg *portLeg
	tx  *toCaller

	rtp.Reports
	peer      netio.Peer
	heardFrom netip.AddrPort // the address that reports are accepted from; not valid before the first
}

// toAI writes to the AI's socket: audio, which is dropped when it is too old, and texts, which wait for the next socket.
type toAI struct {
	*portCore
	ai *aiSocket

	dialect      dialect
	waiting      [][]byte // text frames for the next socket
	waitingBytes int
	digits       []keyPress // digits for the next socket of a transport whose frames are numbered
}

// aiSocket is the AI's socket and what it reads, and the wait for the next one.
type aiSocket struct {
	*portCore
	toAI  *toAI
	leg   *portLeg
	marks *marks
	tx    *toCaller
	rec   *recording

	sock           *socket // nil while there is none
	reconnecting   bool
	socketGone     bool  // the AI's socket will not come again
	redialDeadline int64 // when reconnecting ends
	stableAt       int64 // a socket that lives so long earns the whole time for reconnecting again
	unknownLogged  bool
	badLogged      bool
	fullLogged     bool
}

// marks are the AI's marks in the playout, and their answers.
type marks struct {
	*portCore
	ai   *aiSocket
	toAI *toAI
	tx   *toCaller

	owed []playout.Answer // marks whose answers have not been sent
	left int              // how many may be sent until the next tick
}

// recording is the session's file.
type recording struct {
	*portCore

	rec      *record.Recorder
	recStart int64 // its time zero on the monotonic clock
	track    record.Track
	playPos  int64          // where the next frame of the AI lies
	thin     *dsp.Resampler // from the leg's rate to the recording's; nil when they are the same
	narrow   []int16        // what thin has made
}

// assemble makes a port's parts and says who works with whom.
func assemble(k *portCore) *port {
	p := &port{
		portCore: k, leg: new(portLeg), rx: new(fromCaller), tx: new(toCaller), keys: new(keys), ctl: new(reports),
		ai: new(aiSocket), toAI: new(toAI), marks: new(marks), rec: new(recording),
	}
	k.port = p
	*p.leg = portLeg{portCore: k, ctl: p.ctl, rx: p.rx, keys: p.keys, tx: p.tx, rec: p.rec}
	*p.rx = fromCaller{portCore: k, toAI: p.toAI, keys: p.keys, leg: p.leg, rec: p.rec}
	*p.tx = toCaller{portCore: k, ai: p.ai, ctl: p.ctl, rx: p.rx, keys: p.keys, leg: p.leg, marks: p.marks, rec: p.rec}
	*p.keys = keys{portCore: k, toAI: p.toAI, leg: p.leg, tx: p.tx}
	*p.ctl = reports{portCore: k, rx: p.rx, leg: p.leg, tx: p.tx}
	*p.toAI = toAI{portCore: k, ai: p.ai}
	*p.ai = aiSocket{portCore: k, toAI: p.toAI, leg: p.leg, marks: p.marks, tx: p.tx, rec: p.rec}
	*p.marks = marks{portCore: k, ai: p.ai, toAI: p.toAI, tx: p.tx}
	*p.rec = recording{portCore: k}
	return p
}

// samplesAt is a moment's position in the recording.
func (rg *recording) samplesAt(mono int64) int64 { return (mono - rg.recStart) / dsp.SampleNS }

// setLeg starts the leg, or changes what a re-INVITE has changed.
func (l *portLeg) setLeg(m sip.Media, now int64) {
	if l.rtp == nil {
		return
	}
	if m.Rate == 0 {
		m.Rate = dsp.SampleRate
	}
	if !l.up {
		l.up, l.had = true, true
		l.tx.seq, l.tx.ts, l.tx.ssrc = uint16(rand.Uint32()), rand.Uint32(), rand.Uint32()
		l.tx.talking, l.tx.count = false, 0
		l.tx.queue.DropTail()
		l.tx.extra.forget()
		l.rec.playPos = 0
		l.primed, l.speakAt = false, now+speakLimit
		l.rx.resetCaller()
		l.ctl.peer, l.ctl.heardFrom = netio.Peer{}, netip.AddrPort{}
		l.ctl.Begin(now, m.Remote.Addr(), l.stats.PacketsOut, l.tx.seq)
		l.sh.srv.metrics.legs.Inc()
	}
	if m.Remote != l.media.Remote || !l.heardFrom.IsValid() {
		if m.Remote != l.media.Remote && l.media.Remote.IsValid() {
			l.move.begin(l.heardFrom, l.media.Remote, l.lastRTP)
			l.ctl.Moved(l.stats.PacketsOut, l.tx.seq)
		}
		l.heardFrom = netip.AddrPort{}
		l.peer = netio.NewPeer(m.Remote)
	}
	if m.RTCP != l.media.RTCP {
		l.ctl.heardFrom, l.ctl.peer = netip.AddrPort{}, netio.NewPeer(m.RTCP)
	}
	if err := l.setRate(m.Rate); err != nil {
		l.log.Error("setting the leg's rate failed", "error", err, "rate_hz", m.Rate)
		return
	}
	l.media, l.lastRTP, l.silent = m, now, false
	l.keys.chooseTones()
}

// setRate prepares both directions for a leg's rate.
func (l *portLeg) setRate(rate int) error {
	if rate == l.rx.caller.Rate {
		return nil
	}
	if err := l.rx.caller.SetRate(rate); err != nil {
		return err
	}
	if err := l.rx.up.setRate(rate); err != nil {
		return err
	}
	if err := l.tx.extra.setRate(rate); err != nil {
		return err
	}
	return l.tx.setPlayRate(rate)
}

// pauseRecording leaves out what is put from now on, or takes it again.
func (rg *recording) pauseRecording(paused bool) {
	if rg.rec != nil {
		rg.rec.Pause(paused)
	}
}

// snapshot is what the session has moved so far.
func (p *port) snapshot() Stats {
	st := p.stats
	st.Duplicates, st.Late, st.Concealed = p.rx.caller.Duplicates, p.rx.caller.Late, uint64(p.rx.caller.Concealed/dsp.FrameNS)
	st.Quality = p.ctl.quality()
	return st
}

// endLeg stops the leg's audio. What the AI has queued is for a caller who is not there.
func (l *portLeg) endLeg() {
	if !l.up {
		return
	}
	l.keys.endKey(l.sh.now())
	l.keys.out.Clear()
	l.keys.pt = 0 // the next leg negotiates its own
	l.ctl.report(l.sh.now(), true)
	l.up = false
	l.media, l.move = sip.Media{}, move{}
	l.keys.chooseTones()
	l.heardFrom, l.ctl.heardFrom = netip.AddrPort{}, netip.AddrPort{}
	l.tx.killAudio()
	l.sh.srv.metrics.legs.Dec()
}

// tick is the session's 20 ms. due is the moment of the grid, now the clock.
func (p *port) tick(now, due int64) {
	p.marks.left = p.toAI.dialect.marksAtOnce()
	if p.closing {
		p.ai.tickClosing(now)
		return
	}
	p.keys.tick()
	if p.leg.up {
		p.rx.pump(now)
		if d, ok := p.keys.in.Expire(now); ok {
			p.keys.reportKey(p.keys.rtpKey(d), dtmf.ByRTP, now)
		}
		p.leg.watchSilence(now)
		p.ctl.tickRTCP(now)
		p.marks.answerMarks()
		if now >= p.leg.speakAt {
			p.tx.play(due)
		}
	} else if len(p.marks.owed) > 0 {
		p.marks.sendMarks()
	}
	p.ai.tickSocket(now)
	if p.rec.rec != nil && p.rec.rec.Err() == nil {
		if err := p.rec.rec.Advance(p.rec.samplesAt(now)); err != nil {
			p.s.emit(RecordingFailed{Err: err})
		}
	}
}

// killAudio empties the playout queue at once. Marks whose audio was heard in full are played, the rest are cleared.
func (tx *toCaller) killAudio() {
	tx.marks.answerMarks()
	tx.queue.Clear()
	tx.account(false)
	tx.extra.stop()
	tx.down.reset()
	if s := tx.ai.sock; s != nil && s.paused {
		s.dec = &textDecoder{rate: s.dec.rate} // the old one may be at work
	} else if s != nil {
		s.dec.reset()
	}
	tx.marks.dropMarks()
}

// clearMarks takes the marks off the queue, whose audio goes on.
func (ms *marks) clearMarks() {
	ms.answerMarks()
	ms.dropMarks()
}

func (ms *marks) dropMarks() {
	ms.owed = ms.tx.queue.DropMarks(ms.owed)
	ms.sendMarks()
}

func (ms *marks) answerMarks() {
	if ms.tx.queue.Waiting() > 0 {
		ms.owed = ms.tx.queue.Played(ms.owed)
	}
	if len(ms.owed) > 0 {
		ms.sendMarks()
	}
}

// sendMarks answers marks, some of many in each tick and as many as there is room for: an AI that has set a thousand takes no audio from other calls, and loses
// neither its socket nor an answer. The rest stays owed, in order.
func (ms *marks) sendMarks() {
	n := ms.toAI.sendMarks(ms.owed[:min(len(ms.owed), ms.left)])
	ms.left -= n
	ms.owed = slices.Delete(ms.owed, 0, n)
}
