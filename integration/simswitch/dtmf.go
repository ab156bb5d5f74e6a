package simswitch

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	dtmfKeys        = "0123456789*#ABCD"
	defaultDigitMS  = 250 // FreeSWITCH's default of 2,000 samples
	maxDigits       = 99  // a command's limit (switch_core_io.c)
	digitGap        = 50 * time.Millisecond
	eventVolume     = 10
	endEventRepeats = 3
)

// digitOut is a digit being sent as telephone-event packets (RFC 4733).
type digitOut struct {
	key      byte // event code
	total    int  // duration in samples
	elapsed  int
	ts       uint32
	started  bool
	ends     int
	next     time.Time
	resumeAt time.Time
}

// splitDigits parses "123@200": the keys that exist, and the milliseconds of each.
func splitDigits(s string) (digits string, ms int) {
	digits, duration, _ := strings.Cut(strings.TrimSpace(s), "@")
	ms, err := strconv.Atoi(duration)
	if err != nil || ms <= 0 {
		ms = defaultDigitMS
	}
	digits = strings.Map(func(r rune) rune {
		r = []rune(strings.ToUpper(string(r)))[0]
		if strings.ContainsRune(dtmfKeys, r) {
			return r
		}
		return -1
	}, digits)
	if len(digits) > maxDigits {
		digits = digits[:maxDigits]
	}
	return digits, min(ms, 8000)
}

// queueDigit sends a digit after those that wait.
func (m *mediaPort) queueDigit(key byte, ms int) {
	code := strings.IndexByte(dtmfKeys, key)
	if code < 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.telEvent == 0 {
		return
	}
	m.digits = append(m.digits, digitOut{key: byte(code), total: ms * 8})
}

// digitTick sends what is due of the first digit; audio rests meanwhile. The caller holds mu.
func (m *mediaPort) digitTick(now time.Time) {
	d := &m.digits[0]
	if !d.started {
		m.rebase(now)
		d.started, d.ts, d.next = true, m.ts, now
	}
	for !d.next.After(now) {
		switch {
		case d.elapsed < d.total:
			d.elapsed = min(d.elapsed+frameSamples, d.total)
			m.sendEvent(d, false, d.elapsed == frameSamples, now)
			d.next = d.next.Add(frameDuration)
		case d.ends < endEventRepeats:
			d.ends++
			m.sendEvent(d, true, false, now)
			if d.ends == endEventRepeats {
				d.resumeAt = now.Add(digitGap)
				d.next = d.resumeAt
			}
		default:
			m.ts = d.ts + uint32(d.total) + uint32(digitGap.Milliseconds()*8)
			m.digits = m.digits[1:]
			return
		}
	}
}

func (m *mediaPort) sendEvent(d *digitOut, end, marker bool, now time.Time) {
	var b [4]byte
	b[0], b[1] = d.key, eventVolume
	if end {
		b[1] |= 0x80
	}
	binary.BigEndian.PutUint16(b[2:], uint16(min(d.elapsed, 0xffff)))
	m.tx.dtmf.Add(1)
	m.send(m.telEvent, b[:], d.ts, marker, now)
}

// telephoneEvent takes an event packet and says when a digit is complete. The caller holds mu.
func (m *mediaPort) telephoneEvent(p []byte, ts uint32) (digit byte, samples int, done bool) {
	m.rx.dtmf.Add(1)
	if int(p[0]) >= len(dtmfKeys) {
		return 0, 0, false
	}
	if p[1]&0x80 == 0 {
		if m.eventTS != ts {
			m.eventTS, m.eventSeen = ts, true
		}
		return 0, 0, false
	}
	if m.eventTS == ts && !m.eventSeen {
		return 0, 0, false // the end again
	}
	m.eventTS, m.eventSeen = ts, false
	return dtmfKeys[p[0]], int(binary.BigEndian.Uint16(p[2:])), true
}

// Where a digit came from, as events tell it.
const (
	sourceRTP      = "RTP"
	sourceEndpoint = "ENDPOINT" // SIP INFO
	sourceInband   = "INBAND_AUDIO"
)

// infoSamples is the length of an INFO's digit that names none.
const infoSamples = 2000

// infoDigit reads a SIP INFO's digit.
func infoDigit(contentType, body string) (digit byte, samples int, ok bool) {
	signal := ""
	samples = infoSamples
	switch strings.ToLower(contentType) {
	case "application/dtmf":
		signal = body
	case "application/dtmf-relay":
		for line := range strings.Lines(body) {
			name, val, _ := strings.Cut(line, "=")
			switch strings.TrimSpace(name) {
			case "Signal":
				signal = val
			case "Duration":
				if ms, err := strconv.Atoi(strings.TrimSpace(val)); err == nil && ms > 0 {
					samples = ms * 8
				}
			}
		}
	}
	signal = strings.TrimSpace(signal)
	if len(signal) != 1 || !strings.Contains(dtmfKeys, signal) {
		return 0, 0, false
	}
	return signal[0], samples, true
}

// gotDigit tells of a digit that the far end pressed, and passes it on to the other leg of a bridge.
func (ch *reporting) gotDigit(digit byte, samples int, source string) {
	ch.emitDigit(digit, samples, source)
	ch.app.terminated(digit)
	ch.control.key(digit)
	ch.mu.Lock()
	other := ch.bridge.partner
	ch.mu.Unlock()
	if other != nil && other.up() {
		other.leg.sendDigits(string(digit) + "@" + strconv.Itoa(max(samples/8, 60)))
	}
}

// emitDigit fires DTMF on the channel; a controller that diverts the channel's events gets it alone.
func (ch *reporting) emitDigit(digit byte, samples int, source string) {
	about := []header{
		{"DTMF-Digit", string(digit)}, {"DTMF-Duration", strconv.Itoa(samples)}, {"DTMF-Source", source},
	}
	ch.mu.Lock()
	divert := ch.control.divert
	ch.mu.Unlock()
	if !divert {
		ch.emit("DTMF", about...)
		return
	}
	e := ch.build("DTMF", nil, about)
	for _, c := range ch.control.controllers() {
		c.offer(e)
	}
}

// keyTones finds digits that are sent as tones in 8 kHz audio, as the applications start_dtmf and stop_dtmf switch it on and
// off: frame by frame, a digit being what two frames in a row show.
type keyTones struct {
	last, held byte
}

const (
	// toneFloor is the least amplitude of each of a digit's tones; toneShare is their least part of a frame's power.
	toneFloor = 500.0
	toneShare = 0.7
)

// feed takes one frame and gives the digit that begins in it, 0 for none.
func (k *keyTones) feed(pcm []int16) byte {
	now := digitOf(pcm)
	begins := byte(0)
	if now != 0 && now == k.last && now != k.held {
		k.held, begins = now, now
	}
	if now == 0 && k.last == 0 {
		k.held = 0
	}
	k.last = now
	return begins
}

// digitOf is the digit whose two tones make up a frame, 0 for none.
func digitOf(pcm []int16) byte {
	if len(pcm) == 0 {
		return 0
	}
	power := 0.0
	for _, s := range pcm {
		power += float64(s) * float64(s)
	}
	power /= float64(len(pcm))
	best := func(hz [4]float64) (at int, amplitude float64) {
		for i, f := range hz {
			if a := amplitudeAt(pcm, f); a > amplitude {
				at, amplitude = i, a
			}
		}
		return at, amplitude
	}
	low, a := best([4]float64{697, 770, 852, 941})
	high, b := best([4]float64{1209, 1336, 1477, 1633})
	if a < toneFloor || b < toneFloor || (a*a+b*b)/2 < toneShare*power {
		return 0
	}
	return "123A456B789C*0#D"[4*low+high]
}

// amplitudeAt is that of one frequency, by Goertzel's filter.
func amplitudeAt(pcm []int16, hz float64) float64 {
	w := 2 * math.Pi * hz / sampleRate
	coeff, s1, s2 := 2*math.Cos(w), 0.0, 0.0
	for _, s := range pcm {
		s1, s2 = float64(s)+coeff*s1-s2, s1
	}
	return 2 * math.Sqrt(max(0, s1*s1+s2*s2-coeff*s1*s2)) / float64(len(pcm))
}

// listenForKeys is start_dtmf and stop_dtmf.
func (ch *application) listenForKeys(on bool) {
	if ch.media == nil {
		return
	}
	ch.media.mu.Lock()
	defer ch.media.mu.Unlock()
	ch.media.tones = nil
	if on {
		ch.media.tones = &keyTones{}
	}
}
