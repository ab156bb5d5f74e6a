package echoai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// mode is what a connection does with audio.
type mode int

const (
	modeEcho mode = iota
	modeTone
	modeSilent
)

// ending is how a connection ends a conversation.
type ending int

const (
	endNever ending = iota
	endDisconnect
	endClose
	endHangup
	endDrop
)

// playAs is how bursts are sent.
type playAs int

const (
	playBinary playAs = iota
	playRaw
	playWAV
)

const (
	greetingHz   = 1000
	greetingTime = 500 * time.Millisecond
	maxBurst     = time.Minute
)

// plan is what the path and query of a connection's URL ask for.
type plan struct {
	mode   mode
	greet  bool
	hz     float64
	level  float64       // dBFS
	delay  time.Duration // before the first burst, from the metadata frame on
	length time.Duration // of a burst; 0 is endless
	every  time.Duration // from burst to burst; 0 is one burst
	faster bool          // faster than real time
	play   playAs
	rate   int    // sample rate of playAudio; 0 is the socket's
	hears  int    // the channel that is listened to, from 0
	mark   string // name of the mark after each burst, "" for none

	endAfter time.Duration
	end      ending
	code     int // of endClose
	times    int // ends only the first so many connections of a call; 0 is all

	script []cue
}

// cue is a text frame sent some time after the metadata frame came.
type cue struct {
	after time.Duration
	frame json.RawMessage
}

// query reads values and keeps the errors.
type query struct {
	url.Values
	errs []error
}

func (q *query) fail(key string, err error) {
	q.errs = append(q.errs, fmt.Errorf("query %s=%q: %w", key, q.Get(key), err))
}

func (q *query) duration(key string) time.Duration {
	if !q.Has(key) {
		return 0
	}
	d, err := time.ParseDuration(q.Get(key))
	if err == nil && d < 0 {
		err = errors.New("negative")
	}
	if err != nil {
		q.fail(key, err)
	}
	return d
}

func (q *query) number(key string, def, low, high float64) float64 {
	if !q.Has(key) {
		return def
	}
	v, err := strconv.ParseFloat(q.Get(key), 64)
	if err == nil && !(v >= low && v <= high) {
		err = fmt.Errorf("not between %v and %v", low, high)
	}
	if err != nil {
		q.fail(key, err)
	}
	return v
}

func (q *query) flag(key string, def bool) bool {
	if !q.Has(key) {
		return def
	}
	v, err := strconv.ParseBool(q.Get(key))
	if err != nil {
		q.fail(key, err)
	}
	return v
}

func choice[T any](q *query, key string, def T, of map[string]T) T {
	if !q.Has(key) {
		return def
	}
	v, ok := of[q.Get(key)]
	if !ok {
		q.fail(key, errors.New("unknown"))
	}
	return v
}

// parsePlan reads a connection's URL.
func parsePlan(path string, values url.Values) (plan, error) {
	q := &query{Values: values}
	p := plan{
		greet: q.flag("greet", path == "/echo"), hz: greetingHz, level: q.number("level", -12, -60, 0), length: greetingTime,
		faster: q.flag("faster", false), mark: q.Get("mark"), hears: int(q.number("hears", 0, 0, 7)), rate: int(q.number("play_rate", 0, 4000, 48000)),
		endAfter: q.duration("end_after"), code: int(q.number("code", 1000, 0, 4999)), times: int(q.number("times", 0, 0, 1000)),
	}
	p.hz = q.number("hz", p.hz, 50, 3900)
	p.play = choice(q, "play", playBinary, map[string]playAs{"raw": playRaw, "wav": playWAV})
	p.delay, p.every = q.duration("delay"), q.duration("every")
	p.end = choice(q, "end_by", endDisconnect, map[string]ending{
		"disconnect": endDisconnect, "close": endClose, "hangup": endHangup, "drop": endDrop,
	})
	if !q.Has("end_after") {
		p.end = endNever
	}
	switch path {
	case "/echo":
		p.mode = modeEcho
	case "/tone":
		p.mode, p.length = modeTone, q.duration("duration")
	case "/silent":
		p.mode = modeSilent
	case "/close":
		p.mode, p.end, p.endAfter = modeEcho, endClose, q.duration("after")
		if p.code == 0 {
			p.end = endDrop
		}
	}
	if p.length > maxBurst {
		q.fail("duration", fmt.Errorf("longer than %s", maxBurst))
	}
	if p.every > 0 && (p.length == 0 || p.every < p.length) {
		q.fail("every", errors.New("shorter than duration"))
	}
	if p.play != playBinary && p.mode == modeTone && p.length == 0 {
		q.fail("play", errors.New("needs a duration"))
	}
	if p.script = q.script(); path == "/act" {
		p.script = append(actScript(), p.script...)
	}
	return p, errors.Join(q.errs...)
}

// script reads [{"after": "2s", "send": {"type": …}}, …].
func (q *query) script() []cue {
	if !q.Has("script") {
		return nil
	}
	var steps []struct {
		After string          `json:"after"`
		Send  json.RawMessage `json:"send"`
	}
	if err := json.Unmarshal([]byte(q.Get("script")), &steps); err != nil {
		q.fail("script", err)
		return nil
	}
	var out []cue
	for _, s := range steps {
		d, err := time.ParseDuration(s.After)
		if err != nil || d < 0 || len(s.Send) == 0 {
			q.fail("script", errors.Join(errors.New("each step needs after and send"), err))
			return nil
		}
		out = append(out, cue{d, s.Send})
	}
	return out
}

// refusal is the status of /refuse.
func refusal(values url.Values) (int, error) {
	q := &query{Values: values}
	status := int(q.number("status", http.StatusUnauthorized, 400, 599))
	return status, errors.Join(q.errs...)
}
