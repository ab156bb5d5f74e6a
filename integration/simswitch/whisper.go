package simswitch

import (
	"slices"
	"time"
)

// whisper is what a spy says, on its way into what the channel says (its partner hears it: the rest of a conference, if it is in one) and
// into what the channel hears.
type whisper struct{ toPartner, toChannel whisperSide }

// whisperSide is one of the two. frame are the samples that go into the channel's next frame; its port's mu guards it, too.
type whisperSide struct {
	spySide
	on    bool
	frame []int16
}

// turn switches the side on or off; what waited is dropped.
func (w *whisperSide) turn(on bool) { w.on, w.spySide = on, spySide{} }

// take cuts the next n samples off; nothing when the side is off.
func (w *whisperSide) take(n int) bool {
	if !w.on {
		return false
	}
	w.frame = append(w.frame[:0], make([]int16, n)...)
	w.add(w.frame)
	return true
}

// speak takes what the spy says.
func (s *spy) speak(pcm []int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.voice.toPartner.put(pcm)
	s.voice.toChannel.put(pcm)
}

// command changes who hears the spy, as FreeSWITCH reads it (switch_ivr_async.c): 1 the partner, 2 the channel, 3 both, 0 nobody. It is
// false for *, which ends the eavesdrop.
func (s *spy) command(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range text {
		switch c {
		case '0', '1', '2', '3':
			s.heard(c == '1' || c == '3', c == '2' || c == '3')
		case '*':
			return false
		}
	}
	return true
}

// heard says who hears the spy from now on. A spy of one side replaces the frames of that side alone (SMBF_READ_REPLACE, SMBF_WRITE_REPLACE).
// The caller holds mu, or owns the spy.
func (s *spy) heard(partner, channel bool) {
	s.voice.toPartner.turn(partner && s.reads)
	s.voice.toChannel.turn(channel && s.writes)
}

// whispers says whether the spy is heard by that side.
func (s *spy) whispers(toChannel bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if toChannel {
		return s.voice.toChannel.on
	}
	return s.voice.toPartner.on
}

func mixInto(pcm, more []int16) {
	for i, v := range more[:min(len(more), len(pcm))] {
		pcm[i] = mixed(pcm[i], v)
	}
}

// attach has a spy listen to the port, and detach no more.
func (m *mediaPort) attach(s *spy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bugAdded(s.native)
	s.order = m.bugs
	m.spies = append(m.spies, s)
}

// bugAdded counts a recorder, a spy, or whatever else hears or changes the channel's audio, before it is among them, and says whether recorders are
// deaf from now on. As in FreeSWITCH 1.11 (switch_core_media_bug_add) a channel with native taps alone has no audio for anybody else, and whether it
// has is judged without the newcomer unless that is the first. The caller holds mu.
func (m *mediaPort) bugAdded(native bool) {
	m.bugs++
	m.tapOnly = native
	if len(m.recorders)+len(m.spies) > 0 {
		m.tapOnly = len(m.recorders) == 0 && !slices.ContainsFunc(m.spies, func(s *spy) bool { return !s.native })
	}
	m.hearAgain()
}

// bugRemoved: the channel is taken for one with audio again. The caller holds mu.
func (m *mediaPort) bugRemoved() {
	m.tapOnly = false
	m.hearAgain()
}

// hearAgain has the recorders go on, or begin, if there is audio. The caller holds mu.
func (m *mediaPort) hearAgain() {
	if m.tapOnly {
		return
	}
	for _, r := range m.recorders {
		r.hear(time.Now())
	}
}

func (m *mediaPort) detach(s *spy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, other := range m.spies {
		if other == s {
			m.spies = append(m.spies[:i:i], m.spies[i+1:]...)
			m.bugRemoved()
			return
		}
	}
}

// setVoice says for which spy the leg speaks, nil for none.
func (m *mediaPort) setVoice(s *spy) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.speaks = s
}

// said gives a frame that the party said to all who take it, mixes into it what the spies whisper to whoever hears it, and reports whether it
// did. A spy hears all but itself; recordings and conferences have it with the whispers. The caller holds mu.
func (m *mediaPort) said(pcm []int16, ts, ssrc uint32, now time.Time) bool {
	whispered := false
	for _, s := range m.spies {
		s.mu.Lock()
		if s.voice.toPartner.take(len(pcm)) {
			whispered = true
		} else {
			s.voice.toPartner.frame = s.voice.toPartner.frame[:0]
		}
		s.mu.Unlock()
	}
	for _, s := range m.spies {
		if !s.reads {
			continue
		}
		m.mix = append(m.mix[:0], pcm...)
		for _, other := range m.spies {
			if other != s {
				mixInto(m.mix, other.voice.toPartner.frame)
			}
		}
		s.mu.Lock()
		s.in.put(m.mix)
		s.mu.Unlock()
	}
	for _, s := range m.spies {
		mixInto(pcm, s.voice.toPartner.frame)
	}
	for _, r := range m.recorders {
		r.read(pcm, ts, ssrc, now)
	}
	if m.speaks != nil {
		m.speaks.speak(pcm)
	}
	if m.member != nil {
		m.member.say(pcm)
	}
	return whispered
}

// heard gives a frame that the party hears to all who take it, and mixes into it what the spies whisper to the party. A spy or a recording
// has of the whispers those of spies that began before it. The caller holds mu.
func (m *mediaPort) heard(pcm []int16, ts uint32, now time.Time) bool {
	whispered, next := false, 0
	record := func(before int) {
		for ; next < len(m.recorders) && m.recorders[next].order < before; next++ {
			m.recorders[next].write(pcm, ts, now)
		}
	}
	for _, s := range m.spies {
		record(s.order)
		s.mu.Lock()
		if s.writes {
			s.out.put(pcm)
		}
		if s.voice.toChannel.take(len(pcm)) {
			whispered = true
			mixInto(pcm, s.voice.toChannel.frame)
		}
		s.mu.Unlock()
	}
	record(m.bugs + 1)
	return whispered
}

// quietAfter is for how long nothing comes, or is sent, before a whisper is heard in silence.
const quietAfter = 3 * frameDuration

// quiet is the silence of a party that sends nothing, and of one that is sent nothing, into which whispers go: FreeSWITCH's timers make
// frames where none come.
type quiet struct {
	said, heard time.Time // when the next frame is due; the zero time while there is sound
	ts          uint32    // of the next frame that nobody said
	out         []byte
}

// whispered tells whether a spy is heard on one side. The caller holds mu.
func (m *mediaPort) whispered(toChannel bool) bool {
	for _, s := range m.spies {
		if s.whispers(toChannel) {
			return true
		}
	}
	return false
}

// due says whether a silent frame's time has come, and when the next one's comes.
func due(next *time.Time, silent bool, now time.Time) bool {
	if !silent {
		*next = time.Time{}
		return false
	}
	if next.IsZero() || now.Sub(*next) > 10*frameDuration {
		*next = now
	}
	if next.After(now) {
		return false
	}
	*next = next.Add(frameDuration)
	return true
}

// fillSaid is a frame that the party, who sends nothing, would have said, with the whispers in it; nil when there is none. The caller holds mu.
func (m *mediaPort) fillSaid(now time.Time) []byte {
	last := time.Unix(0, m.lastRX.Load())
	if !due(&m.quiet.said, len(m.spies) > 0 && now.Sub(last) >= quietAfter && m.whispered(false), now) {
		return nil
	}
	m.quiet.ts += frameSamples
	m.pcm = append(m.pcm[:0], make([]int16, frameSamples)...)
	m.said(m.pcm, m.quiet.ts, m.ssrc, now)
	m.quiet.out = encode(m.c, m.quiet.out[:0], m.pcm)
	return m.quiet.out
}

// fillHeard sends a bridged party, to whom nothing comes, a frame with the whispers in it. The caller holds mu.
func (m *mediaPort) fillHeard(now time.Time) {
	silent := len(m.spies) > 0 && m.peer != nil && (now.Sub(m.sent) >= quietAfter || !m.quiet.heard.IsZero() && !m.mapped) && m.whispered(true)
	if !due(&m.quiet.heard, silent, now) {
		return
	}
	m.mapped = false
	m.quiet.out = append(m.quiet.out[:0], make([]byte, frameSamples)...)
	m.sendAudio(fill(m.quiet.out, silence(m.c)), m.ts, false, now)
}

// listenForCommands has commands, and digits as such, wait for what the channel runs; endCommands drops them.
func (ch *controlling) listenForCommands(keys bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.heeds, ch.keys = true, keys
}

func (ch *controlling) endCommands() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.heeds, ch.keys, ch.commands = false, false, nil
}

// command is one by an event. What else a channel may run swallows it.
func (ch *controlling) command(text string) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.heeds && text != "" {
		ch.control.commands = append(ch.control.commands, text)
		ch.notify()
	}
}

// key is one by a digit.
func (ch *controlling) key(digit byte) {
	ch.mu.Lock()
	keys := ch.keys
	ch.mu.Unlock()
	if keys {
		ch.command(string(digit))
	}
}

func (ch *controlling) nextCommands() []string {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	waiting := ch.commands
	ch.commands = nil
	return waiting
}
