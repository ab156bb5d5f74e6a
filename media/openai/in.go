package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringmaster/ringmaster/media/jsonscan"
)

// The server's events that we act on.
const (
	EventSessionCreated = "session.created"
	EventError          = "error"
	EventSpeechStarted  = "input_audio_buffer.speech_started"
	EventResponse       = "response.created"
	EventResponseDone   = "response.done"
	EventItemDone       = "response.output_item.done"
	EventArguments      = "response.function_call_arguments.done"
	eventAudio          = "response.output_audio.delta"
	eventAudioBefore    = "response.audio.delta" // its name before the API was general
)

// Event is what every event of the server says. Its members are parts of the message that was read.
type Event struct {
	Type, ItemID, ResponseID []byte
	ContentIndex             int
	// Delta is a piece of what is streamed; of audio, G.711 in base64.
	Delta []byte
}

// Audio tells whether the event carries what the model says.
func (e *Event) Audio() bool {
	return string(e.Type) == eventAudio || string(e.Type) == eventAudioBefore
}

const (
	// maxID bounds types, names and ids, in bytes.
	maxID = 256
	// maxArguments bounds the arguments of a function call, in bytes: notes of 10,000 characters fit in.
	maxArguments = 48 << 10
	// maxArgumentsTogether bounds those of all function calls of a response.
	maxArgumentsTogether = 64 << 10
	// maxOutput bounds the items of a response that are looked at.
	maxOutput = 64
)

// MayBeAudio tells whether an event may carry what the model says, by its type, or by its beginning where the type stands behind the audio.
func MayBeAudio(typ string, head []byte) bool {
	if typ == "" {
		return bytes.Contains(head, []byte(`"delta"`))
	}
	e := Event{Type: []byte(typ)}
	return e.Audio()
}

// What is wrong with an event.
var (
	ErrNotJSON = errors.New("the event is not a JSON object")
	ErrNoType  = errors.New("type is missing, or not a string")
	ErrDelta   = errors.New("delta is missing, empty, or not base64")
	ErrLong    = fmt.Errorf("a type, a name or an id has more than %d bytes", maxID)
)

// MaxEvent bounds an event without audio, in bytes.
const MaxEvent = 1 << 20

// Read reads an event. It allocates nothing where no string of it has escapes, which audio needs none of. Where one has, they are resolved in a copy of
// msg, or, in one of more than MaxEvent bytes, in msg itself: whatever it is, it costs no more than that.
func Read(msg []byte) (Event, error) {
	s := jsonscan.New(msg)
	e, err := scan(&s)
	if errors.Is(err, jsonscan.ErrUnusual) {
		if len(msg) <= MaxEvent {
			msg = bytes.Clone(msg)
		}
		s = jsonscan.NewResolving(msg)
		e, err = scan(&s)
		for _, name := range [...]*[]byte{&e.Type, &e.ItemID, &e.ResponseID} {
			*name = bytes.ToValidUTF8(*name, []byte("\uFFFD"))
		}
	}
	switch {
	case err != nil, !s.AtEnd():
		return Event{}, ErrNotJSON
	case len(e.Type) == 0:
		return e, ErrNoType
	case long(e.Type, e.ItemID, e.ResponseID):
		return e, ErrLong
	}
	return e, nil
}

// scan finds an event's members.
func scan(s *jsonscan.Scanner) (Event, error) {
	e := Event{}
	err := s.Object(func(key []byte) error {
		switch string(key) {
		case "type":
			return s.Text(&e.Type)
		case "item_id":
			return s.Text(&e.ItemID)
		case "response_id":
			return s.Text(&e.ResponseID)
		case "content_index":
			return s.Index(&e.ContentIndex)
		case "delta":
			return s.Text(&e.Delta)
		}
		return s.Skip()
	})
	return e, err
}

// long tells whether one of them is longer than maxID.
func long[T string | []byte](names ...T) bool {
	return slices.ContainsFunc(names, func(v T) bool { return len(v) > maxID })
}

// Decode decodes a delta of audio into dst, whose memory it uses when it is enough. Padding may be left away.
func Decode(dst, delta []byte) ([]byte, error) {
	delta = bytes.TrimRight(delta, "=")
	n := base64.RawStdEncoding.DecodedLen(len(delta))
	if n == 0 || bytes.IndexByte(delta, '\n') >= 0 || bytes.IndexByte(delta, '\r') >= 0 { // which the decoder would leave out
		return nil, ErrDelta
	}
	if cap(dst) < n {
		dst = make([]byte, n)
	}
	dst = dst[:n]
	if _, err := base64.RawStdEncoding.Decode(dst, delta); err != nil {
		return nil, ErrDelta
	}
	return dst, nil
}

// Item is an item of the conversation.
type Item struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Status    string `json:"status"`
	Name      string `json:"name"`
	CallID    string `json:"call_id"`
	Arguments string `json:"arguments"`
	// TooLong says that the arguments were, and are not kept.
	TooLong bool `json:"-"`
}

// Called tells whether the item is a function call that is complete.
func (i Item) Called() bool {
	return i.Type == "function_call" && i.CallID != "" && (i.Status == "" || i.Status == statusCompleted)
}

const statusCompleted = "completed"

// Response is one of the model's turns.
type Response struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Output []Item `json:"output"`
	// Details say why the response ended as it did; of no matter where they have another form.
	Details json.RawMessage `json:"status_details"`
}

// Failed tells whether the server could not make the response.
func (r Response) Failed() bool { return r.Status == "failed" }

// Fault is why the response failed.
func (r Response) Fault() *Error {
	var details struct {
		Error Error `json:"error"`
	}
	if json.Unmarshal(r.Details, &details) != nil || details.Error == (Error{}) {
		details.Error = Error{Code: "response_failed"}
	}
	return &details.Error
}

// Completed tells whether nothing has ended the response early.
func (r Response) Completed() bool { return r.Status == "" || r.Status == statusCompleted }

// Error is what the server complains of.
type Error struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
	EventID string `json:"event_id"`
}

// Error implements error.
func (e *Error) Error() string {
	code := e.Code
	if code == "" {
		code = e.Type
	}
	return fmt.Sprintf("voice agent's session: %.64s: %.300s", code, e.Message)
}

// codeBusy: a response was asked for while one is under way.
const codeBusy = "conversation_already_has_active_response"

// OfResponse tells whether a response that was asked for is refused.
func (e *Error) OfResponse() bool { return e.EventID == respondID || e.Busy() }

// Busy tells whether a response is refused because another one is under way.
func (e *Error) Busy() bool { return e.Code == codeBusy }

// Refused tells whether the session, as it was asked for, will never be: to dial again doesn't help.
func (e *Error) Refused() bool {
	switch e.Code {
	case "invalid_api_key", "insufficient_quota", "model_not_found", "account_deactivated":
		return true
	}
	return e.EventID == UpdateID || e.Type == "authentication_error"
}

// Over tells whether the session has ended by itself.
func (e *Error) Over() bool { return e.Code == "session_expired" }

// Detail is what lies deeper in an event: Response in response.created and response.done, Item in response.output_item.done, Error in error, Call in
// response.function_call_arguments.done.
type Detail struct {
	Response Response `json:"response"`
	Item     Item     `json:"item"`
	Error    Error    `json:"error"`
	Call     Item     `json:"-"`
}

// ReadDetail reads what lies deeper in an event. What it returns is bounded, but for an error's message.
func ReadDetail(msg []byte) (Detail, error) {
	var event struct {
		Detail
		Name      string `json:"name"`
		CallID    string `json:"call_id"`
		Arguments string `json:"arguments"`
	}
	if err := json.Unmarshal(msg, &event); err != nil {
		return Detail{}, ErrNotJSON
	}
	d := event.Detail
	d.Call = Item{Name: event.Name, CallID: event.CallID, Arguments: event.Arguments}
	d.Response.Output = slices.Clone(d.Response.Output[:min(len(d.Response.Output), maxOutput)])
	if d.Call.tooLong() || d.Item.tooLong() || long(d.Response.ID, d.Response.Status) || slices.ContainsFunc(d.Response.Output, func(i Item) bool { return i.tooLong() }) {
		return Detail{}, ErrLong
	}
	for i := range d.Response.Output {
		d.Response.Output[i].clip()
	}
	d.Item.clip()
	d.Call.clip()
	return d, nil
}

// tooLong tells whether an item has a name that is too long.
func (i *Item) tooLong() bool { return long(i.ID, i.Type, i.Status, i.Name, i.CallID) }

// clip drops arguments that are too long.
func (i *Item) clip() {
	if len(i.Arguments) > maxArguments {
		i.Arguments, i.TooLong = "", true
	}
}

// ClipTogether drops arguments of function calls beyond what the tick threads read at once.
func ClipTogether(calls ...[]Item) {
	room := maxArgumentsTogether
	for _, some := range calls {
		for i := range some {
			if room -= len(some[i].Arguments); room < 0 {
				some[i].Arguments, some[i].TooLong = "", true
			}
		}
	}
}

// HasDetail tells whether an event has a Detail that matters.
func HasDetail(typ []byte) bool {
	switch string(typ) {
	case EventError, EventResponse, EventResponseDone, EventItemDone, EventArguments:
		return true
	}
	return false
}

// Known tells whether an event is one of the API's, also where nothing is done about it.
func Known(typ []byte) bool {
	for _, family := range [...]string{"session.", "conversation.", "input_audio_buffer.", "output_audio_buffer.", "response.", "mcp_list_tools."} {
		if strings.HasPrefix(string(typ), family) {
			return true
		}
	}
	return string(typ) == EventError || string(typ) == "rate_limits.updated"
}
