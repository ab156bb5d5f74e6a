package simswitch

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media/wav"
)

// errNoSource says that a path can't be played.
var errNoSource = errors.New("nothing to play")

// toneAmplitude leaves 13 dB of headroom, as teletone's default volume does.
const toneAmplitude = 7000

// playSource opens what a path names: silence_stream://<ms>[,level], tone_stream://…, local_stream://… (silence here), or a WAV
// file. The source fills a frame and says whether there is more.
func playSource(path string) (func([]int16) bool, error) {
	scheme, rest, ok := strings.Cut(path, "://")
	if !ok {
		return wavSource(path)
	}
	switch scheme {
	case "silence_stream":
		ms, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(strings.TrimSpace(ms))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", path, errNoSource)
		}
		return silenceSource(n), nil
	case "tone_stream":
		return toneSource(rest)
	case "local_stream":
		return silenceSource(-1), nil
	default:
		return nil, fmt.Errorf("%q: %w", path, errNoSource)
	}
}

// silenceSource is ms of silence, without end when negative.
func silenceSource(ms int) func([]int16) bool {
	left := ms * sampleRate / 1000
	return func(frame []int16) bool {
		if ms < 0 {
			return true
		}
		if left <= 0 {
			return false
		}
		left -= len(frame)
		return true
	}
}

// tone is a stretch of up to four frequencies, then a pause.
type tone struct {
	freqs   []float64
	on, off int // in samples
}

// toneSource parses "%(on,off,freq[,freq…])…[;loops=n]".
func toneSource(s string) (func([]int16) bool, error) {
	loops := 1
	script, options, _ := strings.Cut(s, ";loops=")
	if options != "" {
		n, err := strconv.Atoi(strings.TrimSpace(options))
		if err != nil {
			return nil, fmt.Errorf("tone_stream loops %q: %w", options, errNoSource)
		}
		loops = n
	}
	var tones []tone
	for part := range strings.SplitSeq(script, "%(") {
		body, _, ok := strings.Cut(part, ")")
		if !ok {
			continue
		}
		t, err := parseTone(body)
		if err != nil {
			return nil, err
		}
		tones = append(tones, t)
	}
	if len(tones) == 0 {
		return nil, fmt.Errorf("tone_stream %q: %w", s, errNoSource)
	}
	i, at, n := 0, 0, 0
	return func(frame []int16) bool {
		for k := range frame {
			for at >= tones[i].on+tones[i].off {
				at = 0
				if i++; i == len(tones) {
					i = 0
					if loops--; loops == 0 {
						return k > 0
					}
				}
			}
			if at < tones[i].on {
				frame[k] = toneSample(tones[i].freqs, n)
			}
			at++
			n++
		}
		return loops != 0
	}, nil
}

func parseTone(body string) (tone, error) {
	var t tone
	for i, f := range strings.Split(body, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(f), 64)
		if err != nil || v < 0 || v > 3_600_000 {
			return t, fmt.Errorf("tone %q: %w", body, errNoSource)
		}
		switch i {
		case 0:
			t.on = int(v * sampleRate / 1000)
		case 1:
			t.off = int(v * sampleRate / 1000)
		default:
			t.freqs = append(t.freqs, v)
		}
	}
	if t.on+t.off == 0 {
		return t, fmt.Errorf("tone %q: %w", body, errNoSource)
	}
	return t, nil
}

func toneSample(freqs []float64, n int) int16 {
	v := 0.0
	for _, f := range freqs {
		v += math.Sin(2 * math.Pi * f * float64(n) / sampleRate)
	}
	return int16(v * toneAmplitude / float64(max(len(freqs), 1)))
}

// wavSource plays a WAV file, its first channel, at 8 kHz by picking the nearest sample.
func wavSource(path string) (func([]int16) bool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	file, err := wav.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("play %s: %w: %w", path, errNoSource, err)
	}
	pcm, n := file.Channel(0), 0
	return func(frame []int16) bool {
		for k := range frame {
			at := n * file.Rate / sampleRate
			if at >= len(pcm) {
				return k > 0
			}
			frame[k] = pcm[at]
			n++
		}
		return true
	}, nil
}

// playbackApp plays to the channel until the end, a break, or the channel's end.
func (ch *application) playbackApp(path string, endless bool) string {
	if ch.media == nil {
		return "PLAYBACK ERROR"
	}
	path = strings.TrimSpace(path)
	if !ch.isAnswered() {
		ch.leg.in.preAnswer()
	}
	for {
		response, again := ch.playOnce(path)
		if !endless || !again {
			return response
		}
	}
}

// playOnce plays a path once; again is false when it was cut off or can't be played.
func (ch *application) playOnce(path string) (response string, again bool) {
	source, err := playSource(path)
	if err != nil {
		ch.sw.log.Debug("playback failed", "channel", ch.uuid, "error", err)
		return "FILE NOT FOUND", false
	}
	about := []header{{"Playback-File-Path", path}}
	if scheme, _, ok := strings.Cut(path, "://"); ok && scheme != "silence_stream" {
		about = append([]header{{"Playback-File-Type", scheme}}, about...)
	}
	ch.events.emit("PLAYBACK_START", about...)
	start := time.Now()
	p := ch.media.startPlay(source)
	end := ch.pause(p.done, 0)
	samples := ch.media.stopPlay(p)
	ch.setAll([]header{
		{"playback_seconds", strconv.Itoa(int(time.Since(start).Seconds()))},
		{"playback_ms", strconv.Itoa(samples / 8)},
		{"playback_samples", strconv.Itoa(samples)},
	})
	status := "done"
	if end == endBreak {
		status = "break"
	}
	ch.events.emit("PLAYBACK_STOP", append(about, header{"Playback-Status", status})...)
	switch end {
	case endDone:
		return "FILE PLAYED", true
	case endBreak:
		return "FILE PLAYED", false
	case endTimeout, endStopped:
	}
	return "PLAYBACK ERROR", false
}

// breakOff ends what plays, at its next look. As on FreeSWITCH it does nothing to what is played later.
func (ch *application) breakOff() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.breaks++
	ch.notify()
}

// terminated ends what plays when a digit is one of its terminators: * unless the variable names others.
func (ch *application) terminated(digit byte) {
	terminators, set := ch.lookup("playback_terminators")
	switch {
	case !set || terminators == "":
		terminators = "*"
	case strings.EqualFold(terminators, "any"):
		terminators = "1234567890*#"
	case strings.EqualFold(terminators, "none"):
		return
	}
	if strings.IndexByte(terminators, digit) < 0 || ch.media == nil || !ch.media.plays() {
		return
	}
	ch.set("playback_terminator_used", string(digit))
	ch.breakOff()
}

// echoApp sends the party's audio back.
func (ch *application) echoApp(string) {
	if ch.media == nil {
		return
	}
	ch.answer()
	ch.media.setEcho(true)
	for ch.pause(nil, 0) == endBreak {
		continue
	}
	ch.media.setEcho(false)
}

// displacement is a sound that uuid_displace lays over the audio that a channel hears, or puts in its place. It goes on with each
// frame that is sent, and not in between.
type displacement struct {
	path   string
	source func([]int16) bool
	mix    bool
	pcm    []int16
	frame  []int16
	out    []byte
}

// uuidDisplace is `uuid_displace <uuid> start|stop <path> [limit] [flags]`; an m among the flags mixes (switch_ivr_async.c).
func uuidDisplace(ch *channel, args []string) string {
	if ch.media == nil || len(args) < 3 {
		return "-USAGE: <uuid> [start|stop] <path> [<limit>] [mux]\n"
	}
	switch args[1] {
	case "start":
		source, err := playSource(args[2])
		if err != nil {
			return "-ERR Cannot displace session!\n"
		}
		ch.media.mu.Lock()
		defer ch.media.mu.Unlock()
		ch.media.over = &displacement{path: args[2], source: source, mix: strings.Contains(argAt(args, 4), "m")}
	case "stop":
		ch.media.mu.Lock()
		defer ch.media.mu.Unlock()
		if ch.media.over == nil || ch.media.over.path != args[2] {
			return "-ERR Cannot stop displace session!\n"
		}
		ch.media.over = nil
	default:
		return "-USAGE: <uuid> [start|stop] <path> [<limit>] [mux]\n"
	}
	return "+OK Success\n"
}

// displace gives the frame that is sent in place of payload. The caller holds mu.
func (m *mediaPort) displace(payload []byte) []byte {
	d := m.over
	d.frame = append(d.frame[:0], make([]int16, len(payload))...)
	if !d.source(d.frame) {
		m.over = nil
		return payload
	}
	if d.mix {
		d.pcm = decode(m.c, d.pcm[:0], payload)
		for i, v := range d.pcm {
			d.frame[i] = mixed(d.frame[i], v)
		}
	}
	d.out = encode(m.c, d.out[:0], d.frame)
	return d.out
}
