package twilio

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
)

// Stream builds the frames of one socket. Its zero value with the identifiers set is a stream that has not started.
type Stream struct {
	AccountSID, CallSID, StreamSID string

	sequence uint64 // of the newest frame that has a number
	chunk    uint64 // of the newest frame of audio
}

// AppendConnected appends the first frame of a socket. The numbers of what follows begin anew.
func (s *Stream) AppendConnected(dst []byte) []byte {
	s.sequence, s.chunk = 0, 0
	return append(dst, `{"event":"connected","protocol":"Call","version":"1.0.0"}`...)
}

// AppendStart appends the second frame. The parameters are a JSON object whose values are strings; nil is none.
func (s *Stream) AppendStart(dst []byte, parameters json.RawMessage) []byte {
	if len(parameters) == 0 {
		parameters = json.RawMessage("{}")
	}
	dst = s.begin(dst, "start")
	dst = append(dst, `,"start":{"accountSid":"`...)
	dst = append(dst, s.AccountSID...)
	dst = append(dst, `","streamSid":"`...)
	dst = append(dst, s.StreamSID...)
	dst = append(dst, `","callSid":"`...)
	dst = append(dst, s.CallSID...)
	dst = append(dst, `","tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1},"customParameters":`...)
	dst = append(dst, parameters...)
	dst = append(dst, '}')
	return s.end(dst)
}

// AppendMedia appends a frame of the caller's audio, in μ-law, at so many milliseconds since the stream began.
func (s *Stream) AppendMedia(dst []byte, ms int64, ulaw []byte) []byte {
	s.chunk++
	dst = s.begin(dst, "media")
	dst = append(dst, `,"media":{"track":"inbound","chunk":"`...)
	dst = strconv.AppendUint(dst, s.chunk, 10)
	dst = append(dst, `","timestamp":"`...)
	dst = strconv.AppendInt(dst, ms, 10)
	dst = append(dst, `","payload":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, ulaw)
	dst = append(dst, `"}`...)
	return s.end(dst)
}

// AppendDTMF appends a digit that the caller has pressed.
func (s *Stream) AppendDTMF(dst []byte, digit string) []byte {
	dst = s.begin(dst, "dtmf")
	dst = append(dst, `,"dtmf":{"track":"inbound_track","digit":`...)
	dst = appendString(dst, digit)
	dst = append(dst, '}')
	return s.end(dst)
}

// AppendMark appends the answer to a mark, whose audio was played or cleared.
func (s *Stream) AppendMark(dst []byte, name string) []byte {
	dst = s.begin(dst, "mark")
	dst = append(dst, `,"mark":{"name":`...)
	dst = appendString(dst, name)
	dst = append(dst, '}')
	return s.end(dst)
}

// AppendStop appends the last frame.
func (s *Stream) AppendStop(dst []byte) []byte {
	dst = s.begin(dst, "stop")
	dst = append(dst, `,"stop":{"accountSid":"`...)
	dst = append(dst, s.AccountSID...)
	dst = append(dst, `","callSid":"`...)
	dst = append(dst, s.CallSID...)
	dst = append(dst, `"}`...)
	return s.end(dst)
}

func (s *Stream) begin(dst []byte, event string) []byte {
	s.sequence++
	dst = append(dst, `{"event":"`...)
	dst = append(dst, event...)
	dst = append(dst, `","sequenceNumber":"`...)
	dst = strconv.AppendUint(dst, s.sequence, 10)
	return append(dst, '"')
}

func (s *Stream) end(dst []byte) []byte {
	dst = append(dst, `,"streamSid":"`...)
	dst = append(dst, s.StreamSID...)
	return append(dst, `"}`...)
}

// appendString appends a JSON string.
func appendString(dst []byte, v string) []byte {
	if plain(v) {
		dst = append(dst, '"')
		dst = append(dst, v...)
		return append(dst, '"')
	}
	b, err := json.Marshal(v)
	if err != nil { // a string always encodes
		return append(dst, `""`...)
	}
	return append(dst, b...)
}

// plain tells whether a string stands in JSON as it is.
func plain(v string) bool {
	return !slices.ContainsFunc([]byte(v), func(b byte) bool { return b < 0x20 || b > 0x7e || b == '"' || b == '\\' })
}
