package simswitch

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// spyLead is how much of a side must wait before it is heard, and spyHold how much may: the two sides and the spy run by
	// three clocks.
	spyLead = 2 * frameSamples
	spyHold = 5 * frameSamples
)

// spy listens to a channel: to what its party says, to what it hears, or to both mixed. What the spy itself says goes into what the
// channel says, into what it hears, or nowhere (see whisper.go). Its lock is taken under that of the port which feeds it, or of the one
// that plays it, never with another.
type spy struct {
	reads, writes bool
	native        bool
	order         int // among the port's recorders and spies; under its mu

	mu      sync.Mutex // guards all below
	in, out spySide
	voice   whisper
}

// spySide is one direction's samples on their way.
type spySide struct {
	pcm   []int16
	going bool // enough has waited
}

func (s *spySide) put(pcm []int16) {
	s.pcm = append(s.pcm, pcm...)
	if over := len(s.pcm) - spyHold; over > 0 {
		s.pcm = slices.Delete(s.pcm, 0, len(s.pcm)-spyLead)
	}
}

// add mixes the next samples into frame; a side that has run dry waits for a new lead.
func (s *spySide) add(frame []int16) {
	if !s.going && len(s.pcm) < spyLead {
		return
	}
	s.going = len(s.pcm) >= len(frame)
	n := min(len(s.pcm), len(frame))
	for i, v := range s.pcm[:n] {
		frame[i] = mixed(frame[i], v)
	}
	s.pcm = slices.Delete(s.pcm, 0, n)
}

// source is what the spy's own channel plays.
func (s *spy) source(frame []int16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in.add(frame)
	s.out.add(frame)
	return true
}

// eavesdropApp listens to another channel until one of the two ends. The variables eavesdrop_bridge_aleg and eavesdrop_bridge_bleg choose one
// side: what the channel says, what it hears; eavesdrop_whisper_aleg and eavesdrop_whisper_bleg put what the spy says into the same two, as far
// as it listens to them. An event with eavesdrop-command, or the spy's digits unless eavesdrop_enable_dtmf is false, change the latter.
func (ch *application) eavesdropApp(arg string) {
	s := &spy{reads: isTrue(ch.get("eavesdrop_bridge_aleg")), writes: isTrue(ch.get("eavesdrop_bridge_bleg"))}
	if !s.reads && !s.writes {
		s.reads, s.writes = true, true
	}
	s.heard(isTrue(ch.get("eavesdrop_whisper_aleg")), isTrue(ch.get("eavesdrop_whisper_bleg")))
	ch.readsLinear(true)
	defer ch.readsLinear(false)
	v, set := ch.lookup("eavesdrop_enable_dtmf")
	ch.listenTo(strings.TrimSpace(arg), s, !set || isTrue(v))
}

// nativeEavesdropApp takes one side as it comes: `<uuid> [read|write]`, what the channel says when neither is named.
func (ch *application) nativeEavesdropApp(arg string) {
	args := splitArgs(arg)
	if len(args) == 0 {
		return
	}
	writes := argAt(args, 1) == "write"
	ch.listenTo(args[0], &spy{reads: !writes, writes: writes, native: true}, false)
}

// listenTo runs until the target or the spy ends. A target that is not there, or is the spy itself, ends it at once. What the target goes
// through meanwhile, bridges and conferences, changes nothing.
func (ch *application) listenTo(uuid string, s *spy, keys bool) {
	target := ch.sw.channel(uuid)
	if target == nil || target == ch.channel || target.media == nil || ch.media == nil || !target.up() {
		ch.sw.log.Warn("nothing to eavesdrop on", "channel", ch.uuid, "target", uuid)
		return
	}
	about := []header{{"Media-Bug-Function", "eavesdrop"}, {"Media-Bug-Target", uuid}}
	target.media.attach(s)
	ch.media.setVoice(s)
	ch.control.listenForCommands(keys)
	target.events.emit("MEDIA_BUG_START", about...)
	play := ch.media.startPlay(s.source)
	defer func() {
		ch.media.stopPlay(play)
		ch.control.endCommands()
		ch.media.setVoice(nil)
		target.media.detach(s)
		target.events.emit("MEDIA_BUG_STOP", about...)
	}()
	watch := newMediaWatch(ch.channel)
	defer watch.stop()
	for ch.ready() && target.up() {
		changed := ch.watch()
		for _, c := range ch.control.nextCommands() {
			if !s.command(c) {
				return
			}
		}
		ended := target.watch()
		if !target.up() {
			return
		}
		switch ch.pauseWhile(changed, ended, watch.tick()) {
		case endStopped, endBreak:
			return
		case endDone, endTimeout:
			watch.check()
		}
	}
}

// pauseWhile is pause for something that a ticker looks at as well: endTimeout is its tick. changed was taken before the channel was looked at.
func (ch *application) pauseWhile(changed, done <-chan struct{}, tick <-chan time.Time) waitEnd {
	if !ch.ready() {
		return endStopped
	}
	if m, ok := ch.control.nextMessage(); ok {
		ch.handle(m)
		return endDone
	}
	select {
	case <-done:
		return endDone
	case <-tick:
		return endTimeout
	case <-changed:
		return endDone
	}
}
