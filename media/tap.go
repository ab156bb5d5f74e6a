package media

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/record"
	"github.com/ringmaster/ringmaster/media/rtp"
)

// TapSide says which part of a call the leg of a tap brings, seen from the channel that is tapped.
type TapSide int

// The sides of a tap's legs.
const (
	// TapMixed is both parties in one channel.
	TapMixed TapSide = iota
	// TapCaller is what the tapped channel's own party says.
	TapCaller
	// TapOther is what that party hears: the other side.
	TapOther
)

// String names the side in logs.
func (s TapSide) String() string {
	switch s {
	case TapMixed:
		return "mixed"
	case TapCaller:
		return "caller"
	case TapOther:
		return "other"
	}
	return "unknown"
}

// TapLeg is one leg that the switch has to bring: it runs eavesdrop and is dialed to the session's URI.
type TapLeg struct {
	Side    TapSide
	Session *Session
}

// Tap is a fork of a call's audio. What its socket sends is dropped and counted unless it may speak ([Session.Speak]); then it goes to all legs, as
// do clips ([Session.Play]). Who on the call hears that is up to the switch, whose eavesdrop mixes it in.
type Tap struct {
	// Legs are one, of both parties mixed or of one of them, or two when the socket's format has two channels: the caller
	// on the left, the other side on the right. The first one's session has the socket, and is the one that speaks and plays.
	Legs []TapLeg
}

// otherSideSuffix makes the id of a tap's second leg from that of its first.
const otherSideSuffix = "-other"

// OpenTap opens a tap that waits for its legs. Without a URL it has no socket: it is there for the answering-machine
// detector, which hears the caller's side alone. Errors are those of Open.
func (s *Server) OpenTap(ctx context.Context, spec SessionSpec) (*Tap, error) {
	spec.Recording = nil
	role := &tapRole{side: TapMixed, socket: spec.URL != ""}
	if !role.socket {
		role.side = TapCaller
	}
	if role.socket && spec.Audio.Channels == 2 {
		role.side, role.pair = TapCaller, &tapPair{}
	}
	spec.tap = role
	first, err := s.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	t := &Tap{Legs: []TapLeg{{Side: role.side, Session: first}}}
	if role.pair == nil {
		return t, nil
	}
	spec.ID += otherSideSuffix
	spec.URL, spec.AMD = "", nil
	spec.tap = &tapRole{side: TapOther, pair: role.pair, beside: first}
	second, err := s.Open(ctx, spec)
	if err != nil {
		first.Close(CloseError) //nolint:contextcheck // a BYE has its own time limit
		return nil, err
	}
	t.Legs = append(t.Legs, TapLeg{Side: TapOther, Session: second})
	return t, nil
}

// Close ends the tap's legs and its socket, and returns the counts of the one with the socket.
func (t *Tap) Close(reason CloseReason) Stats {
	var st Stats
	for _, l := range slices.Backward(t.Legs) {
		st = l.Session.Close(reason)
	}
	return st
}

// tapRole makes a session a tap, or the second leg of one.
type tapRole struct {
	side   TapSide
	socket bool
	// pair is shared by the two legs of a tap of two channels; nil for a tap of one.
	pair *tapPair
	// beside is the session on whose shard this one must be; nil for the first.
	beside *Session
	// speaks: what the socket sends goes to the legs. It belongs to the shard.
	speaks bool
}

// mute tells whether a session is a tap's that must not speak.
func (t *tapRole) mute() bool { return t != nil && !t.speaks }

// Speak has a tap's legs get what its socket sends, or drops that again. What waits to be heard is dropped either way: it was meant for those who
// heard before.
func (s *Session) Speak(on bool) {
	s.post(func() {
		if t := s.spec.tap; t != nil {
			t.speaks = on
			s.port.tx.killAudio()
			if d, ok := s.port.toAI.dialect.(*openaiDialect); ok && d.begun {
				s.port.ai.say(d.session())
			}
		}
	})
}

const (
	// tapSkew is how far the two sides of a tap may lie apart before silence stands in for the one that is behind: they
	// come by different legs, each with its own jitter. It also bounds what waits.
	tapSkew = 3 * dsp.FrameSamples
	// tapHold is the room for one side's samples.
	tapHold = tapSkew + rtp.MaxPayload
)

// tapPair puts the two sides of a tap side by side. It belongs to the shard that both legs are on.
type tapPair struct {
	main *port // the one with the socket
	side [2]tapBuffer
	// said is what the first leg sends, until the second one has sent it, too. Empty for silence.
	said []int16
}

// speak gives what the first leg sends to the second, at the rate of both; it reports whether the frame is more than silence.
func (t *tapRole) speak(frame []int16, sounds bool) bool {
	switch {
	case t == nil || t.pair == nil:
		return sounds
	case t.beside == nil:
		t.pair.said = t.pair.said[:0]
		if sounds {
			t.pair.said = append(t.pair.said, frame...)
		}
		return sounds
	}
	sounds = len(t.pair.said) == len(frame)
	if sounds {
		copy(frame, t.pair.said)
	}
	t.pair.said = t.pair.said[:0]
	return sounds
}

// tapBuffer holds the samples of one side that wait for the other.
type tapBuffer struct {
	pcm [tapHold]int16
	n   int
}

// put appends samples; what exceeds the room pushes out the oldest.
func (b *tapBuffer) Put(pcm []int16) {
	if len(pcm) > tapHold {
		pcm = pcm[len(pcm)-tapHold:]
	}
	if over := b.n + len(pcm) - tapHold; over > 0 {
		b.drop(over)
	}
	b.n += copy(b.pcm[b.n:], pcm)
}

func (b *tapBuffer) drop(n int) { b.n = copy(b.pcm[:], b.pcm[n:b.n]) }

// pad makes the buffer n samples long, by silence.
func (b *tapBuffer) pad(n int) {
	if b.n < n {
		clear(b.pcm[b.n:n])
		b.n = n
	}
}

// put takes samples of one side and sends on what both sides have. A side that is missing, or late by more than tapSkew, is
// silence.
func (t *tapPair) Put(side TapSide, pcm []int16, now int64) {
	i := record.Left
	if side == TapOther {
		i = record.Right
	}
	t.side[i].Put(pcm)
	left, right := &t.side[record.Left], &t.side[record.Right]
	n := max(min(left.n, right.n), max(left.n, right.n)-tapSkew)
	if n == 0 || t.main == nil || t.main.closing {
		return
	}
	left.pad(n)
	right.pad(n)
	t.main.rx.up.feedSides(left.pcm[:n], right.pcm[:n])
	left.drop(n)
	right.drop(n)
	for f := t.main.rx.up.frame(); f != nil; f = t.main.rx.up.frame() {
		t.main.toAI.sendAudio(f, now)
	}
}

// tapped gives the port's audio to its tap; it reports false when the port sends it like that of any session.
func (p *port) tapped(pcm []int16, now int64) bool {
	t := p.s.spec.tap
	switch {
	case t == nil:
		return false
	case t.pair != nil:
		t.pair.Put(t.side, pcm, now)
		return true
	}
	return !t.socket
}

// opened is the gauge that counts the port's session.
func (p *port) opened() prometheus.Gauge {
	if p.s.spec.tap != nil {
		return p.sh.srv.metrics.tapLegs
	}
	return p.sh.srv.metrics.sessions
}

// begin gives the first leg of a pair what it needs to send both.
func (t *tapRole) begin(p *port) error {
	if t == nil || t.pair == nil || t.beside != nil {
		return nil
	}
	res, err := dsp.NewResampler(dsp.SampleRate, p.s.spec.Audio.SampleRateHz)
	p.rx.up.resRight, t.pair.main = res, p
	return err
}

// feedSides encodes one span of both sides, as left and right.
func (u *uplink) feedSides(left, right []int16) {
	u.compact()
	u.pcm = u.res.Process(u.pcm[:0], left)
	u.right = u.resRight.Process(u.right[:0], right)
	n := min(len(u.pcm), len(u.right))
	u.pcm = slices.Grow(u.pcm[:n], n)[:2*n]
	for i := n - 1; i >= 0; i-- {
		u.pcm[2*i], u.pcm[2*i+1] = u.pcm[i], u.right[i]
	}
	u.encode()
}
