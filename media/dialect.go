package media

import (
	"encoding/json"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/twilio"
	"github.com/ringmaster/ringmaster/media/ws"
)

// Transport is the protocol that a voice agent speaks on its socket.
type Transport string

// The transports.
const (
	// TransportWebSocket is ours: metadata, binary audio, and texts of a type and its data.
	TransportWebSocket Transport = "websocket"
	// TransportTwilio is Twilio Media Streams: JSON alone, its audio μ-law at 8 kHz in base64.
	TransportTwilio Transport = "twilio"
	// TransportOpenAI is OpenAI's Realtime API: JSON alone, its audio G.711 in base64.
	TransportOpenAI Transport = "openai_realtime"
)

// TwilioStream is what a socket of Twilio Media Streams is called. Its session's metadata are the custom parameters, a JSON object of strings.
type TwilioStream struct{ AccountSID, CallSID, StreamSID string }

// dialect is how a voice agent's socket is spoken. It belongs to the shard. What it appends to dst is a frame's payload; none is a frame that the
// protocol doesn't have.
type dialect interface {
	// open gives the texts that a socket begins with.
	open(meta json.RawMessage, now int64) [][]byte
	audio(dst, frame []byte, now int64) (op byte, payload []byte)
	mark(dst []byte, m playout.Answer) ([]byte, error)
	digit(dst []byte, d keyPress) ([]byte, error)
	// says tells whether the call's owner may send texts of its own.
	says() bool
	// end appends the text that comes before the close frame.
	end(dst []byte) []byte
	// reconnected changes the metadata for a socket that is dialed again.
	reconnected(meta json.RawMessage) json.RawMessage
	// marksAtOnce bounds the marks that are answered in 20 ms.
	marksAtOnce() int
}

// newDialect is the dialect of a session.
func newDialect(spec *SessionSpec) (dialect, error) {
	switch spec.Transport {
	case TransportTwilio:
		return &twilioDialect{stream: twilio.Stream{
			AccountSID: spec.Twilio.AccountSID, CallSID: spec.Twilio.CallSID, StreamSID: spec.Twilio.StreamSID,
		}}, nil
	case TransportOpenAI:
		return newOpenAIDialect(spec)
	case TransportWebSocket:
	}
	return ownDialect{}, nil
}

// foreign tells whether the socket's protocol is not ours: JSON without our texts.
func (t Transport) foreign() bool { return t == TransportTwilio || t == TransportOpenAI }

// ownDialect is TransportWebSocket.
type ownDialect struct{}

func (ownDialect) open(meta json.RawMessage, _ int64) [][]byte { return [][]byte{meta} }

func (ownDialect) audio(_, frame []byte, _ int64) (op byte, payload []byte) {
	return ws.OpBinary, frame
}

func (ownDialect) mark(_ []byte, m playout.Answer) ([]byte, error) {
	event := "playout"
	if m.Cleared {
		event = "cleared"
	}
	return encodeText(textMark, markData{Name: m.Name, Event: event})
}

func (ownDialect) digit(_ []byte, d keyPress) ([]byte, error) {
	return encodeText("dtmf", dtmfData{Digit: string(rune(d.digit)), DurationMS: int(d.dur.Milliseconds())})
}

func (ownDialect) says() bool                                       { return true }
func (ownDialect) end([]byte) []byte                                { return nil }
func (ownDialect) reconnected(meta json.RawMessage) json.RawMessage { return withReconnect(meta, true) }
func (ownDialect) marksAtOnce() int                                 { return markAnswers }

// twilioDialect is TransportTwilio.
type twilioDialect struct {
	stream twilio.Stream
	began  int64 // when the stream did, on the monotonic clock
	stamp  int64 // the time of the next frame of audio, ms since then
}

// stampSlack is how far the frames' times may be from the clock's before they are set by it: a leg that has gone leaves a gap.
const stampSlack = 100 // ms

func (d *twilioDialect) open(meta json.RawMessage, now int64) [][]byte {
	d.began, d.stamp = now, 0
	return [][]byte{d.stream.AppendConnected(nil), d.stream.AppendStart(nil, meta)}
}

func (d *twilioDialect) audio(dst, frame []byte, now int64) (op byte, payload []byte) {
	if clock := (now - d.began) / 1e6; clock-d.stamp > stampSlack {
		d.stamp = clock
	}
	ms := d.stamp
	d.stamp += int64(len(frame)) * 1000 / dsp.SampleRate
	return ws.OpText, d.stream.AppendMedia(dst, ms, frame)
}

func (d *twilioDialect) mark(dst []byte, m playout.Answer) ([]byte, error) {
	return d.stream.AppendMark(dst, m.Name), nil
}

func (d *twilioDialect) digit(dst []byte, k keyPress) ([]byte, error) {
	return d.stream.AppendDTMF(dst, string(rune(k.digit))), nil
}

func (d *twilioDialect) says() bool { return false }

func (d *twilioDialect) end(dst []byte) []byte { return d.stream.AppendStop(dst) }

func (d *twilioDialect) reconnected(meta json.RawMessage) json.RawMessage {
	return withReconnect(meta, "true")
}

func (d *twilioDialect) marksAtOnce() int { return textQueue }
