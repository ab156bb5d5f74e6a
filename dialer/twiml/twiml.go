// Package twiml reads the part of Twilio's markup that says what a call does before, or in place of, a voice agent's stream: Play, Pause, Connect with
// Stream and Parameter, Dial, Hangup (https://www.twilio.com/docs/voice/twiml). What it doesn't support is an error that names it.
package twiml

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Step is one of Play, Pause, Stream, Dial and Hangup.
type Step interface{ step() }

// Play plays a file.
type Play struct{ URL string }

// Pause waits.
type Pause struct{ For time.Duration }

// Stream connects a voice agent, and is the last step.
type Stream struct {
	URL        string
	Parameters map[string]string
}

// Dial leads the caller to somebody else, and is the last step.
type Dial struct {
	// SIP says that Destination is a SIP URI; otherwise it is a number.
	SIP         bool
	Destination string
}

// Hangup ends the call.
type Hangup struct{}

func (Play) step()   {}
func (Pause) step()  {}
func (Stream) step() {}
func (Dial) step()   {}
func (Hangup) step() {}

const (
	// maxSteps and maxPause bound what is done before a caller has somebody.
	maxSteps = 16
	maxPause = time.Minute
	maxDepth = 8
	// maxURL bounds a URL, in bytes.
	maxURL = 2000
	// MaxParameters bounds a stream's parameters.
	MaxParameters = 64
	// MaxParameter bounds the name and the value of one together, in bytes.
	MaxParameter = 4096
)

// element is any element, with its children in order.
type element struct {
	name  string
	attrs map[string]string
	text  string
	kids  []element
}

// Parse reads a document. Without a last step the call ends behind the others.
func Parse(doc []byte) ([]Step, error) {
	root, err := read(doc)
	if err != nil {
		return nil, err
	}
	if root.name != "Response" {
		return nil, fmt.Errorf("TwiML: the document is <%.64s>, not <Response>", root.name)
	}
	if len(root.kids) > maxSteps {
		return nil, fmt.Errorf("TwiML: more than %d verbs", maxSteps)
	}
	var steps []Step
	for i, verb := range root.kids {
		step, err := verb.read()
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
		switch step.(type) {
		case Hangup:
			return steps, nil
		case Stream, Dial:
			if rest := root.kids[i+1:]; len(rest) > 0 && rest[0].name != "Hangup" {
				return nil, fmt.Errorf("TwiML: <%.64s> behind <%s> is not supported: the call ends there, or goes on as ws_disconnect_action says", rest[0].name, verb.name)
			}
			return steps, nil
		}
	}
	return append(steps, Hangup{}), nil
}

// read gives a verb's step.
func (e element) read() (Step, error) {
	switch e.name {
	case "Play":
		return e.play()
	case "Pause":
		return e.pause()
	case "Hangup":
		return Hangup{}, nil
	case "Connect":
		return e.connect()
	case "Dial":
		return e.dial()
	case "Say":
		return nil, errors.New("TwiML: <Say> is not supported: this service doesn't turn text into speech. Play a file with <Play>, or let the voice agent speak")
	}
	return nil, fmt.Errorf("TwiML: <%.64s> is not supported; <Connect>, <Dial>, <Play>, <Pause> and <Hangup> are", e.name)
}

func (e element) play() (Step, error) {
	switch {
	case e.attrs["digits"] != "":
		return nil, errors.New("TwiML: the attribute digits of <Play> is not supported")
	case cmp.Or(e.attrs["loop"], "1") != "1":
		return nil, errors.New("TwiML: the attribute loop of <Play> must be 1")
	case !strings.HasPrefix(e.text, "http://") && !strings.HasPrefix(e.text, "https://"):
		return nil, errors.New("TwiML: <Play> needs an http or https URL")
	case len(e.text) > maxURL:
		return nil, fmt.Errorf("TwiML: the URL of <Play> is longer than %d bytes", maxURL)
	}
	return Play{URL: e.text}, nil
}

func (e element) pause() (Step, error) {
	s, err := strconv.Atoi(cmp.Or(e.attrs["length"], "1"))
	if err == nil && s >= 0 && s <= int(maxPause.Seconds()) {
		return Pause{For: time.Duration(s) * time.Second}, nil
	}
	return nil, fmt.Errorf("TwiML: the attribute length of <Pause> must be 0 to %d seconds", int(maxPause.Seconds()))
}

// only refuses the attributes that aren't among those.
func (e element) only(attrs ...string) error {
	for _, name := range slices.Sorted(maps.Keys(e.attrs)) {
		if !slices.Contains(attrs, name) {
			return fmt.Errorf("TwiML: the attribute %.64s of <%s> is not supported", name, e.name)
		}
	}
	return nil
}

func (e element) connect() (Step, error) {
	if err := e.only(); err != nil {
		return nil, err
	}
	if len(e.kids) != 1 || e.kids[0].name != "Stream" {
		return nil, errors.New("TwiML: <Connect> needs one <Stream>, and nothing else")
	}
	s := e.kids[0]
	if err := s.only("url", "name", "track", "statusCallback", "statusCallbackMethod"); err != nil {
		return nil, err
	}
	if cmp.Or(s.attrs["track"], "inbound_track") != "inbound_track" {
		return nil, errors.New("TwiML: the attribute track of <Stream> must be inbound_track")
	}
	address, ok := SocketURL(s.attrs["url"])
	if !ok {
		return nil, errors.New("TwiML: the attribute url of <Stream> must be a ws or wss URL, without credentials, of at most 2000 bytes")
	}
	if len(s.kids) > MaxParameters {
		return nil, fmt.Errorf("TwiML: <Stream> has more than %d parameters", MaxParameters)
	}
	out := Stream{URL: address, Parameters: map[string]string{}}
	for _, p := range s.kids {
		name, value := p.attrs["name"], p.attrs["value"]
		switch {
		case p.name != "Parameter":
			return nil, fmt.Errorf("TwiML: <%.64s> in <Stream> is not supported", p.name)
		case name == "":
			return nil, errors.New("TwiML: a <Parameter> has no name")
		case len(name)+len(value) > MaxParameter:
			return nil, fmt.Errorf("TwiML: <Parameter> %.64q is longer than %d bytes", name, MaxParameter)
		}
		out.Parameters[name] = value
	}
	return out, nil
}

// SocketURL gives a ws or wss URL with its scheme in small letters. One with credentials can't be dialed, and a longer one is no voice agent's.
func SocketURL(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil || len(raw) > maxURL {
		return "", false
	}
	return u.Scheme + raw[len(u.Scheme):], true
}

func (e element) dial() (Step, error) {
	if err := e.only("timeout", "answerOnBridge"); err != nil {
		return nil, err
	}
	for _, k := range e.kids {
		if err := k.only("statusCallback", "statusCallbackEvent", "statusCallbackMethod"); err != nil && (k.name == "Number" || k.name == "Sip") {
			return nil, err
		}
	}
	to, sip := e.text, false
	switch {
	case len(e.kids) > 1:
		return nil, errors.New("TwiML: <Dial> to several destinations is not supported")
	case len(e.kids) == 1 && e.kids[0].name == "Number":
		to = e.kids[0].text
	case len(e.kids) == 1 && e.kids[0].name == "Sip":
		to, sip = e.kids[0].text, true
	case len(e.kids) == 1:
		return nil, fmt.Errorf("TwiML: <%.64s> in <Dial> is not supported; <Number> and <Sip> are", e.kids[0].name)
	}
	if to == "" {
		return nil, errors.New("TwiML: <Dial> has no destination")
	}
	return Dial{SIP: sip, Destination: to}, nil
}

// read reads a document's root element; a decoder of encoding/xml has no entities but XML's own.
func read(doc []byte) (element, error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(doc, []byte("\ufeff"))))
	d.CharsetReader = func(name string, in io.Reader) (io.Reader, error) {
		if strings.EqualFold(name, "us-ascii") {
			return in, nil
		}
		return nil, fmt.Errorf("the encoding %.32q is not supported; UTF-8 is", name)
	}
	var open []element
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return element{}, errors.New("TwiML: the document is empty, or ends early")
		}
		if err != nil {
			return element{}, fmt.Errorf("TwiML: %.200s", err.Error()) // it may quote the document
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			if open = append(open, e); len(open) > maxDepth {
				return element{}, errors.New("TwiML: elements lie too deep in one another")
			}
		case xml.CharData:
			if n := len(open); n > 0 {
				open[n-1].text += string(token)
			}
		case xml.EndElement:
			done := open[len(open)-1]
			done.text = strings.TrimSpace(done.text)
			if open = open[:len(open)-1]; len(open) == 0 {
				return done, nil
			}
			open[len(open)-1].kids = append(open[len(open)-1].kids, done)
		case xml.Directive:
			return element{}, errors.New("TwiML: a document type is not allowed")
		}
	}
}
