package aikit

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/frames"
	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
)

// Shown is a frame as listen shows it.
type Shown struct {
	AtS  float64 `json:"at_s"`
	Sent bool    `json:"sent"`
	// Kind is the frame's event or type, "audio" of a binary one, ping, pong or close.
	Kind  string `json:"kind"`
	Bytes int    `json:"bytes"`
	// AudioMS and LevelDBFS are of the audio in it, AheadMS how much of what has come waits to be heard.
	AudioMS   float64 `json:"audio_ms,omitempty"`
	LevelDBFS float64 `json:"level_dbfs,omitempty"`
	AheadMS   float64 `json:"ahead_ms,omitempty"`
	Name      string  `json:"name,omitempty"` // of a mark, or a digit
	// Number is that of a frame of the server's, counted from 1. Frame is a text without audio, as it crossed the socket.
	Number    int    `json:"number,omitempty"`
	Frame     string `json:"frame,omitempty"`
	Violation string `json:"violation,omitempty"`
}

// watch sees all that crosses one session's socket.
type watch struct {
	k      *Kit
	format media.AudioFormat
	stream string // Twilio's
	show   func(Shown)
	queue  queue

	mu      sync.Mutex
	found   findings
	sent    map[string]int
	got     map[string]int
	message []byte          // the binary message so far
	number  int             // of the server's frames so far
	judged  map[string]bool // function calls by their ids: the server tells of each up to three times
	ear     ear
	cleared time.Time // when the server last had playout emptied
	updated bool      // OpenAI's session was confirmed
	pinged  time.Time // the newest ping that has no answer yet
	closeBy string    // who sent the first close frame: us or them
	closed  bool      // the server sent one
}

func (k *Kit) newWatch(spec media.SessionSpec, show func(Shown)) *watch {
	w := &watch{k: k, format: withDefaults(spec.Audio, spec.Subprotocol), stream: spec.Twilio.StreamSID, show: show, sent: map[string]int{}, got: map[string]int{}, judged: map[string]bool{}}
	if spec.Transport != media.TransportWebSocket {
		w.format = media.AudioFormat{Encoding: media.EncodingPCMU, SampleRateHz: dsp.SampleRate, Channels: 1, FrameMS: 20}
		if spec.Audio.Encoding == media.EncodingPCMA {
			w.format.Encoding = media.EncodingPCMA
		}
	}
	w.found.began = time.Now()
	w.queue.start(w.take)
	return w
}

// frame is media.Probe's.
func (w *watch) frame(sent bool, op byte, payload []byte, last bool) {
	c := crossed{at: time.Now(), sent: sent, op: op, bytes: len(payload), last: last}
	if !sent || op == ws.OpText { // of our own audio the size is enough
		c.payload = bytes.Clone(payload)
	}
	w.queue.put(c)
}

// take judges what has crossed the socket.
func (w *watch) take(c crossed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Shown{AtS: c.at.Sub(w.found.began).Seconds(), Sent: c.sent, Bytes: c.bytes, Kind: c.kind, Violation: c.note}
	if !c.sent && c.op != opNone && (c.op != ws.OpBinary || c.last) {
		w.number++
		s.Number, w.found.number = w.number, w.number
		defer func() { w.found.number = 0 }()
	}
	switch c.op {
	case ws.OpText:
		if c.sent {
			w.sentText(c.payload, &s)
		} else {
			w.text(c.payload, c.at, &s)
		}
	case ws.OpBinary:
		s.Kind = "audio"
		if !c.sent {
			w.message = append(w.message, c.payload...)
			if !c.last {
				return
			}
			s.Bytes = len(w.message)
			w.binary(w.message, c.at, &s)
			w.message = w.message[:0]
		}
	case ws.OpPing, ws.OpPong, ws.OpClose:
		s.Kind = map[byte]string{ws.OpPing: "ping", ws.OpPong: "pong", ws.OpClose: "close"}[c.op]
		w.control(c.sent, c.op, c.at)
	}
	if c.op == ws.OpText && s.AudioMS == 0 && !audioSent(s) {
		s.Frame = clip(string(c.payload[:min(len(c.payload), mostFrame+1)]), mostFrame)
	}
	s.Kind, s.Name, s.Violation = clip(s.Kind, mostKind), clip(s.Name, mostSeen), clip(s.Violation, mostSeen)
	if c.op != opNone {
		count(w.sent, w.got, s)
	}
	if w.show != nil {
		w.show(s)
	}
}

// mostFrame is how much of a text is shown, in bytes.
const mostFrame = 4096

// audioSent tells whether a text of ours carries audio.
func audioSent(s Shown) bool {
	return s.Sent && (s.Kind == "media" || s.Kind == "input_audio_buffer.append")
}

// count counts a frame by its kind, and those of kinds that a server goes on making up together.
func count(sent, got map[string]int, s Shown) {
	const mostKinds = 200
	by := got
	if s.Sent {
		by = sent
	}
	if _, known := by[s.Kind]; !known && len(by) >= mostKinds {
		s.Kind = "other"
	}
	by[s.Kind]++
}

func (w *watch) control(sent bool, op byte, now time.Time) {
	switch {
	case op == ws.OpPing && sent:
		if w.pinged.IsZero() {
			w.pinged = now
		}
	case op == ws.OpPong && !sent:
		w.pinged = time.Time{}
	case op == ws.OpClose:
		if w.closeBy == "" {
			w.closeBy = map[bool]string{true: "us", false: "them"}[sent]
		}
		w.closed = w.closed || !sent
	}
}

// sentText holds what we send to the schema: a breach is the endpoint's fault.
func (w *watch) sentText(text []byte, s *Shown) {
	kind, err := w.k.frames.Check(frames.ToAI, text)
	if s.Kind = kind; kind == "" {
		s.Kind = "metadata"
	}
	if err != nil {
		s.Violation = err.Error()
		w.found.add(Finding{
			Rule: "endpoint_frame", Level: LevelWarning, Expected: "what the endpoint sends is as its schema says",
			Seen: err.Error() + ", which is a defect of Ringmaster, and none of your server", See: seeTransport(w.k.o.Transport), Frame: clip(string(text), mostSeen),
		})
	}
}

// text holds a text of the server to the schema, and takes what it says.
func (w *watch) text(text []byte, now time.Time, s *Shown) {
	kind, err := w.k.frames.Check(frames.FromAI, text)
	s.Kind = kind
	if s.Kind == "" {
		s.Kind = "text"
	}
	if w.violation(kind, err, text, s) {
		return
	}
	switch w.k.o.Transport {
	case media.TransportTwilio:
		w.twilio(kind, text, now, s)
	case media.TransportOpenAI:
		w.openai(kind, text, now, s)
	case media.TransportWebSocket:
		w.own(kind, text, now, s)
	}
}

// violation reports a frame that breaks the schema.
func (w *watch) violation(kind string, err error, text []byte, s *Shown) bool {
	if err == nil {
		return false
	}
	f := Finding{See: seeTransport(w.k.o.Transport), Frame: clipped(text)}
	unknown, isUnknown := errors.AsType[*frames.UnknownError](err)
	invalid, isInvalid := errors.AsType[*frames.InvalidError](err)
	switch {
	case isUnknown && w.k.o.Transport == media.TransportOpenAI && openai.Known([]byte(kind)):
		return false // the API has more than matters here
	case isUnknown:
		f.Rule = "unknown_frame"
		f.Expected = fmt.Sprintf("a text frame's %s is one of %v", w.member(), unknown.Known)
		f.Seen = fmt.Sprintf("%.64q", unknown.Kind)
		if unknown.Kind == "" {
			f.Seen = "there is none"
		}
	case isInvalid:
		f.Rule = "schema"
		f.Expected = invalid.Kind + " is as the schema says"
		f.Seen = fmt.Sprintf("%s: %s", invalid.Where, invalid.What)
		f.See = "ringmaster ai-kit schema " + string(w.k.o.Transport) + ", " + invalid.At + "; " + f.See
	default:
		f.Rule, f.Expected, f.Seen = "not_json", "a text frame is a JSON object", "it can't be read"
	}
	s.Violation = f.Seen
	w.found.add(f)
	return true
}

// member is the one that tells kinds of frames apart.
func (w *watch) member() string {
	if w.k.o.Transport == media.TransportTwilio {
		return "event"
	}
	return "type"
}

// twilio takes a frame of Twilio Media Streams.
func (w *watch) twilio(kind string, text []byte, now time.Time, s *Shown) {
	var f struct {
		StreamSid string
		Media     struct{ Payload string }
		Mark      struct{ Name string }
	}
	if json.Unmarshal(text, &f) != nil {
		return
	}
	if f.StreamSid != w.stream {
		s.Violation = "another stream's streamSid"
		w.found.add(Finding{
			Rule: "stream_sid", Expected: "streamSid is that of the start frame, " + w.stream, Seen: f.StreamSid, See: seeTwilio, Frame: clipped(text),
		})
		return
	}
	switch kind {
	case "media":
		w.base64(f.Media.Payload, text, w.format, now, s)
	case "mark":
		s.Name = f.Mark.Name
	case "clear":
		w.clear(now)
	}
}

// own takes a text of our own transport.
func (w *watch) own(kind string, text []byte, now time.Time, s *Shown) {
	var f struct {
		Data struct {
			Name             string
			AudioContentType string          `json:"audioContentType"`
			AudioContent     string          `json:"audioContent"`
			SampleRate       json.RawMessage `json:"sampleRate"`
			Event            string
		}
	}
	_ = json.Unmarshal(text, &f) // what has another form has none of these
	switch kind {
	case "playAudio":
		if f.Data.AudioContentType != "raw" {
			w.wavFile(f.Data.AudioContent, now, s)
			return
		}
		format := media.AudioFormat{Encoding: media.EncodingPCM, SampleRateHz: w.format.SampleRateHz, Channels: 1}
		if rate, err := strconv.ParseFloat(string(bytes.Trim(f.Data.SampleRate, `"`)), 64); err == nil {
			format.SampleRateHz = int(rate)
		}
		if b, err := decode64(f.Data.AudioContent); err == nil && len(b)%2 != 0 {
			s.Violation = "ends within a sample"
			w.found.add(Finding{
				Rule: "odd_audio", Expected: "audioContent is a whole number of samples of 2 bytes; any other is refused as a whole", Seen: fmt.Sprintf("%d bytes", len(b)), See: seeFromAI,
			})
			return
		}
		w.base64(f.Data.AudioContent, text, format, now, s)
	case "killAudio":
		w.clear(now)
	case "mark":
		s.Name = f.Data.Name
	case "command":
		s.Name = f.Data.Event
	}
}

// openai takes an event of OpenAI's Realtime API.
func (w *watch) openai(kind string, text []byte, now time.Time, s *Shown) {
	var e struct {
		Delta   string
		Error   openai.Error
		Session struct {
			Audio struct {
				Input, Output struct{ Format struct{ Type string } }
			}
		}
	}
	if json.Unmarshal(text, &e) != nil {
		return
	}
	switch kind {
	case "response.output_audio.delta", "response.audio.delta":
		w.base64(e.Delta, text, w.format, now, s)
	case "input_audio_buffer.speech_started":
		w.clear(now)
	case "session.updated":
		w.updated = true
		asked := map[media.Encoding]string{media.EncodingPCMU: openai.FormatPCMU, media.EncodingPCMA: openai.FormatPCMA}[w.format.Encoding]
		for side, have := range map[string]string{"input": e.Session.Audio.Input.Format.Type, "output": e.Session.Audio.Output.Format.Type} {
			if have != "" && have != asked {
				s.Violation = "another format of audio"
				w.found.add(Finding{
					Rule: "audio_format", Expected: "session.audio." + side + ".format is what session.update has asked for, " + asked, Seen: have, See: seeOpenAI, Frame: clipped(text),
				})
			}
		}
	case openai.EventItemDone, openai.EventArguments, openai.EventResponseDone:
		w.functions(kind, text, s)
	case "error":
		s.Name = e.Error.Code
		w.found.add(Finding{Rule: "error_event", Expected: "no error event", Seen: e.Error.Error(), See: seeOpenAI, Frame: clipped(text)})
	}
}

// functions holds the function calls of an event to what the session has declared, each once.
func (w *watch) functions(kind string, text []byte, s *Shown) {
	detail, err := openai.ReadDetail(text)
	if err != nil {
		return
	}
	calls := []openai.Item{detail.Item}
	switch {
	case kind == openai.EventArguments:
		calls = []openai.Item{detail.Call}
		calls[0].Type = "function_call"
	case kind == openai.EventResponseDone && detail.Response.Completed():
		calls = detail.Response.Output
	}
	for _, call := range calls {
		if !call.Called() || call.Name == "" || w.judged[call.CallID] {
			continue
		}
		if len(w.judged) < mostJudged {
			w.judged[call.CallID] = true
		}
		s.Name = call.Name
		if _, err := w.k.config.Command(&call); err != nil {
			s.Violation = "a function call that is refused"
			w.found.add(Finding{
				Rule: "function_call", Level: LevelWarning, Expected: "calls of the functions that session.update has declared, with arguments as declared",
				Seen: fmt.Sprintf("%s(%s): %v", call.Name, clip(call.Arguments, 100), err), See: seeOpenAI, Frame: clipped(text),
			})
		}
	}
}

// mostJudged bounds the function calls that are known.
const mostJudged = 1000

// clear has what waits to be heard dropped.
func (w *watch) clear(now time.Time) {
	w.cleared = now
	w.ear.clear(now)
}

// base64 takes audio in base64, of a frame.
func (w *watch) base64(text string, frame []byte, format media.AudioFormat, now time.Time, s *Shown) {
	b, err := decode64(text)
	if err != nil {
		s.Violation = "not base64"
		w.found.add(Finding{Rule: "base64", Expected: "audio in base64, the standard alphabet", Seen: err.Error(), See: seeTransport(w.k.o.Transport), Frame: clipped(frame)})
		return
	}
	if bytes.HasPrefix(b, []byte("RIFF")) {
		s.Violation = "a file's header"
		w.found.add(w.headerFinding())
	}
	w.hear(b, format, now, s)
}

// decode64 takes base64 with padding and without.
func decode64(text string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
}

func (w *watch) headerFinding() Finding {
	return Finding{
		Rule: "audio_header", Expected: "samples alone", Seen: "a WAV file's header, which callers hear as a click", See: seeTransport(w.k.o.Transport),
	}
}

// wavFile takes a WAV file in base64.
func (w *watch) wavFile(text string, now time.Time, s *Shown) {
	b, err := base64.StdEncoding.DecodeString(text)
	var file wav.File
	if err == nil {
		file, err = wav.Parse(b)
	}
	if err != nil {
		s.Violation = "no WAV file"
		w.found.add(Finding{Rule: "wav", Expected: "audioContent is a WAV file, as audioContentType says", Seen: err.Error(), See: seeFromAI})
		return
	}
	w.heard(wav.MixDown(file.Samples, file.Channels), file.Rate, now, s)
}

// binary takes a binary message.
func (w *watch) binary(b []byte, now time.Time, s *Shown) {
	if w.k.o.Transport != media.TransportWebSocket {
		s.Violation = "binary"
		w.found.add(Finding{
			Rule: "binary_frame", Expected: "text frames alone: audio is base64 in JSON", Seen: fmt.Sprintf("a binary frame of %d bytes", len(b)),
			See: seeTransport(w.k.o.Transport),
		})
		return
	}
	size := sampleBytes(w.format)
	if len(b)%size != 0 {
		s.Violation = "ends within a sample"
		w.found.add(Finding{
			Rule: "odd_audio", Expected: fmt.Sprintf("a binary frame is a whole number of samples of %d bytes", size), Seen: fmt.Sprintf("%d bytes", len(b)), See: seeConnect,
		})
	}
	if bytes.HasPrefix(b, []byte("RIFF")) {
		s.Violation = "a file's header"
		w.found.add(w.headerFinding())
	}
	w.hear(b, w.format, now, s)
}

// sampleBytes counts all channels.
func sampleBytes(f media.AudioFormat) int {
	if f.Encoding == media.EncodingPCM {
		return 2 * f.Channels
	}
	return f.Channels
}

// hear decodes audio.
func (w *watch) hear(b []byte, f media.AudioFormat, now time.Time, s *Shown) {
	b = b[:len(b)/sampleBytes(f)*sampleBytes(f)]
	var pcm []int16
	switch f.Encoding {
	case media.EncodingPCMU:
		pcm = make([]int16, len(b))
		dsp.DecodeULaw(pcm, b)
	case media.EncodingPCMA:
		pcm = make([]int16, len(b))
		dsp.DecodeALaw(pcm, b)
	case media.EncodingPCM:
		pcm = make([]int16, len(b)/2)
		for i := range pcm {
			pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
		}
	}
	if f.Channels == 2 {
		pcm = wav.MixDown(pcm, 2)
	}
	w.heard(pcm, f.SampleRateHz, now, s)
	if s.LevelDBFS > noiseLevel && f.Channels == 1 && f.Encoding == w.format.Encoding {
		w.ear.read(b)
	}
}

// heard takes samples.
func (w *watch) heard(pcm []int16, rate int, now time.Time, s *Shown) {
	if len(pcm) == 0 || rate <= 0 {
		return
	}
	s.AudioMS = float64(len(pcm)) * 1000 / float64(rate)
	s.LevelDBFS, s.AheadMS = w.ear.hear(pcm, rate, now)
}

// counts is how many frames have crossed.
func (w *watch) counts() (sent, got int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.sent {
		sent += n
	}
	for _, n := range w.got {
		got += n
	}
	return sent, got
}

// ask reads what is watched.
func (w *watch) ask(f func(*watch) bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f(w)
}

func (w *watch) add(f Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found.add(f)
}
