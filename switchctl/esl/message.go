package esl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Limits of what is read. The body's is the switch's own (mod_event_socket.c:1317).
const (
	MaxBody = 16 << 20 // bytes of a body
	// MaxReply bounds the output of an API command, in bytes: "show channels as json" has about 2,500 for each call with a voice agent. A longer one
	// is passed over, and fails its command alone.
	MaxReply  = 128 << 20
	maxLine   = 64 << 10 // bytes of one header line; a longer header is left out
	maxHead   = 1 << 20  // bytes of a message's header; beyond them all but its frame is left out
	maxPassed = 64 << 20 // bytes of headers that are left out of one message
	maxBlanks = 64       // empty lines before a message
)

// The content types of the protocol.
const (
	TypeAuthRequest  = "auth/request"
	TypeReply        = "command/reply"
	TypeAPIResponse  = "api/response"
	TypeEventPlain   = "text/event-plain"
	TypeEventJSON    = "text/event-json"
	TypeDisconnect   = "text/disconnect-notice"
	TypeRudeRejected = "text/rude-rejection"
	TypeLog          = "log/data"
)

// Message is one frame from the switch: a header, and a body of Content-Length bytes.
type Message struct {
	Header Header
	Body   string
}

// ContentType gives the frame's type.
func (m *Message) ContentType() string { return m.Header.Get("Content-Type") }

// Event parses the event that the frame holds, in either format.
func (m *Message) Event() (*Event, error) {
	switch m.ContentType() {
	case TypeEventPlain:
		return parsePlain(m.Body)
	case TypeEventJSON:
		return ParseJSONEvent([]byte(m.Body))
	default:
		return nil, &ProtocolError{Reason: "frame holds no event"}
	}
}

// ReadMessage reads one frame. It gives io.EOF when the input ends between two frames, io.ErrUnexpectedEOF when it ends
// inside one, and a *ProtocolError when the input is malformed.
func ReadMessage(r *bufio.Reader) (*Message, error) {
	head, err := readHead(r, nil, func(string, int) {})
	if err != nil {
		return nil, err
	}
	header, _, err := parseHeader(string(head))
	if err != nil {
		return nil, err
	}
	body, err := readBody(r, head)
	if err != nil {
		return nil, err
	}
	return &Message{Header: header, Body: body}, nil
}

// readHead appends the lines up to the blank one to dst, each with a bare line feed. A stranger's words may be a channel's variables, however long: what
// is too long is left out, and given to leftOut as its name and its length in bytes.
func readHead(r *bufio.Reader, dst []byte, leftOut func(name string, size int)) ([]byte, error) {
	dst = dst[:0]
	blanks, passed := 0, 0
	for {
		start := len(dst)
		var size int
		var err error
		if dst, size, err = readLine(r, dst); err != nil {
			if errors.Is(err, io.EOF) && len(dst)+passed > 0 {
				err = fmt.Errorf("read event socket header: %w", io.ErrUnexpectedEOF)
			}
			return dst, err
		}
		line := dst[start:]
		switch {
		case len(line) == 0 && start+passed > 0:
			return dst, nil
		case len(line) == 0:
			if blanks++; blanks > maxBlanks {
				return dst, &ProtocolError{Reason: "more than " + strconv.Itoa(maxBlanks) + " blank lines before a message"}
			}
			continue
		case size <= maxLine && (len(dst) <= maxHead || isFrame(line)):
			dst = append(dst, '\n')
			continue
		}
		name, _, named := bytes.Cut(line, []byte(":"))
		if passed += size; !named || passed > maxPassed {
			return dst, &ProtocolError{Reason: strconv.Itoa(size) + " bytes of header are too long: " + excerpt(string(name))}
		}
		leftOut(string(name), size)
		dst = dst[:start]
	}
}

// readLine appends a line, without its end, to dst, and gives its length in bytes. Of one that is longer than maxLine only the begin is appended.
func readLine(r *bufio.Reader, dst []byte) (_ []byte, size int, err error) {
	start := len(dst)
	for {
		chunk, err := r.ReadSlice('\n')
		size += len(chunk)
		room := start + maxLine + len("\r\n") - len(dst)
		dst = append(dst, chunk[:min(len(chunk), room)]...)
		switch {
		case err == nil && size > maxLine+len("\r\n"):
			return dst, size, nil
		case err == nil:
			line := bytes.TrimSuffix(dst[start:len(dst)-1], []byte("\r"))
			return dst[:start+len(line)], len(line), nil
		case size > maxPassed:
			return dst, size, &ProtocolError{Reason: "header line longer than " + strconv.Itoa(maxPassed) + " bytes"}
		case !errors.Is(err, bufio.ErrBufferFull):
			return dst, size, err
		}
	}
}

// isFrame tells whether a line says how the message is to be read.
func isFrame(line []byte) bool {
	for _, name := range []string{"Content-Length", "Content-Type"} {
		if _, ok := headField(line, name); ok {
			return true
		}
	}
	return false
}

// readBody reads as many bytes as head's Content-Length tells.
func readBody(r *bufio.Reader, head []byte) (string, error) {
	size, err := contentLength(head, MaxBody)
	if err != nil {
		return "", err
	}
	return readBytes(r, size)
}

// readReplyBody is readBody for the output of a command. It passes over one that is longer than MaxReply: *ReplyLengthError.
func readReplyBody(r *bufio.Reader, head []byte) (string, error) {
	size, err := contentLength(head, math.MaxInt32)
	if err != nil {
		return "", err
	}
	if size <= MaxReply {
		return readBytes(r, size)
	}
	if _, err := io.CopyN(io.Discard, r, int64(size)); err != nil {
		return "", bodyError(err)
	}
	return "", &ReplyLengthError{Length: size}
}

func readBytes(r *bufio.Reader, size int) (string, error) {
	if size == 0 {
		return "", nil
	}
	if size <= r.Size() {
		text, err := r.Peek(size)
		if err != nil {
			return "", bodyError(err)
		}
		body := string(text)
		_, err = r.Discard(size)
		return body, err
	}
	// Grown as the bytes come, so that a length alone makes nobody set 16 MiB aside.
	var body strings.Builder
	if _, err := io.CopyN(&body, r, int64(size)); err != nil {
		return "", bodyError(err)
	}
	return body.String(), nil
}

func bodyError(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read event socket body: %w", err)
}

func contentLength(head []byte, limit int) (int, error) {
	text, ok := headField(head, "Content-Length")
	if !ok {
		return 0, nil
	}
	size, err := strconv.Atoi(string(text))
	if err != nil || size < 0 {
		return 0, &ProtocolError{Reason: "Content-Length is no length", Err: err}
	}
	if size > limit {
		return 0, &ProtocolError{Reason: "Content-Length is above the limit of " + strconv.Itoa(limit) + " bytes"}
	}
	return size, nil
}

// headField finds a header in raw lines, without building an index.
func headField(head []byte, name string) ([]byte, bool) {
	for len(head) > 0 {
		line := head
		if n := bytes.IndexByte(head, '\n'); n >= 0 {
			line, head = head[:n], head[n+1:]
		} else {
			head = nil
		}
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return bytes.TrimSpace(line[len(name)+1:]), true
		}
	}
	return nil, false
}
