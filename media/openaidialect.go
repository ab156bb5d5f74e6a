package media

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/media/openai"
	"github.com/ringmaster/ringmaster/media/playout"
	"github.com/ringmaster/ringmaster/media/ws"
)

// OpenAISession is what a session of TransportOpenAI is asked for. Its session's metadata is what the model is told about the call, a JSON object; empty
// tells nothing.
type OpenAISession struct{ Config openai.Config }

// SessionDeadline is how long an OpenAI socket that is open may take to begin its session: the caller hears nothing meanwhile.
const SessionDeadline = 5 * time.Second

const (
	// hearDeadline bounds the wait of a function that ends the conversation for what was said before it.
	hearDeadline = int64(30e9)
	// heardTicks is for how many frames playout is empty before it counts as heard: the caller's own buffer plays on.
	heardTicks = 10
	// keysPause ends a row of digits, as # does.
	keysPause = int64(15e8)
	// maxRunning bounds the function calls that are not answered yet, and maxSpoken the items that are not heard yet.
	maxRunning, maxSpoken = 64, 256
	// maxNoted bounds the function calls that are known by their arguments alone.
	maxNoted = 16
	// maxCut bounds the responses that are known to have been talked over: what is late of one comes before the next but one.
	maxCut = 4
	// maxAgentErrors bounds the AgentErrors of a session, and maxErrorsLogged those of its errors that are logged.
	maxAgentErrors, maxErrorsLogged = 5, 5
	// maxKnown bounds the function calls that are known to have been made.
	maxKnown = 128
	// responseDeadline is how long a response that was asked for may take to begin, and retryPause the time before one that failed is asked for again.
	responseDeadline, retryPause = int64(10e9), int64(2e9)
	// spokenPerSecond counts an item's audio, a multiple of the rates that playout has.
	spokenPerSecond = 96000
)

// openaiDialect is TransportOpenAI. What it writes depends on what the server has said, and on what the caller has heard: openaitext.go.
type openaiDialect struct {
	cfg       openai.Config
	update    []byte // the session.update
	listens   []byte // that of a tap that must not speak
	tap       *tapRole
	turns     openai.Turns
	greeted   bool
	meta      json.RawMessage
	sessionBy int64 // when the session must have begun

	openaiTalk
	errorsLogged int
	errorsTold   int
	refusedOnce  bool // a function that isn't allowed was logged
}

// openaiTalk is a conversation, which ends with its socket.
type openaiTalk struct {
	begun    bool // the session.update was sent
	response string
	asked    bool // a response was asked for, and has not begun
	askedBy  int64
	owed     bool           // a response is to be asked for
	words    string         // what the next response is asked to say
	failures int            // responses that have failed, one behind the other
	retryAt  int64          // when a response that failed is asked for again
	speaking string         // the response whose audio came last: some servers don't tell that one begins
	cut      [maxCut]string // the newest responses that the caller has talked over, a ring
	cuts     int
	cutItem  string
	spoken   []spokenItem
	pending  int               // of spoken, in the queue
	noted    []openai.Item     // function calls of the response that is under way
	running  map[string]string // function calls that are not answered yet: their names
	known    []string          // the newest function calls, a ring whose oldest is next
	oldest   int
	leaving  *leavingCall
	quiet    int // frames for which nothing has been played
	keys     []byte
	keysSeen int
	keysBy   int64
}

// spokenItem is audio of the model, one piece of an item. Lengths are in spokenPerSecond.
type spokenItem struct {
	id      string
	content int
	left    int  // in the playout queue
	heard   int  // by the caller
	lost    bool // some of it was not heard: held, muted, or of a leg that has gone
}

// missed tells whether the caller has not heard all of it.
func (s *spokenItem) missed() bool { return s.left > 0 || s.lost }

// leavingCall is a function call that waits for what was said before it.
type leavingCall struct {
	id      string
	command json.RawMessage
	by      int64
}

func newOpenAIDialect(spec *SessionSpec) (*openaiDialect, error) {
	format := openai.FormatPCMU
	if spec.Audio.Encoding == EncodingPCMA {
		format = openai.FormatPCMA
	}
	d := &openaiDialect{cfg: spec.OpenAI.Config, greeted: spec.Reconnected, tap: spec.tap}
	var err error
	if d.update, d.turns, err = d.cfg.Update(format, false); err == nil && d.tap != nil {
		d.listens, _, err = d.cfg.Update(format, true)
	}
	if err != nil {
		return nil, &SpecError{Field: "openai", Message: err.Error()}
	}
	return d, nil
}

// session describes the session: a tap's is another one while it may speak.
func (d *openaiDialect) session() []byte {
	if d.tap.mute() {
		return d.listens
	}
	return d.update
}

// open begins a conversation: the server speaks first.
func (d *openaiDialect) open(meta json.RawMessage, now int64) [][]byte {
	d.openaiTalk, d.meta, d.sessionBy = openaiTalk{running: map[string]string{}}, meta, now+int64(SessionDeadline)
	return nil
}

func (d *openaiDialect) audio(dst, frame []byte, _ int64) (op byte, payload []byte) {
	if !d.begun {
		return ws.OpText, nil
	}
	return ws.OpText, openai.AppendAudio(dst, frame)
}

func (d *openaiDialect) mark([]byte, playout.Answer) ([]byte, error) { return nil, nil }

// digit is told by a message, with those that follow it.
func (d *openaiDialect) digit(_ []byte, k keyPress) ([]byte, error) {
	if len(d.keys) < maxDigits {
		d.keys = append(d.keys, k.digit)
	}
	return nil, nil
}

func (d *openaiDialect) says() bool        { return false }
func (d *openaiDialect) end([]byte) []byte { return nil }
func (d *openaiDialect) marksAtOnce() int  { return playout.MaxMarks }
func (d *openaiDialect) reconnected(meta json.RawMessage) json.RawMessage {
	return withReconnect(meta, true)
}

// busy tells whether a response is under way.
func (t *openaiTalk) busy() bool { return t.response != "" || t.asked }

// queued adds to what the caller has still to hear of an item. With lost, some of it came too far ahead of its time, or for nobody.
func (t *openaiTalk) queued(id []byte, content, length int, lost bool) {
	t.pending += length
	last := t.piece(id, content, false)
	last.left += length
	if lost && !last.lost { // what comes behind is another piece
		t.piece(id, content, true).lost = true
	}
}

// piece is the newest piece of what was queued, a new one where that is another item's.
func (t *openaiTalk) piece(id []byte, content int, anew bool) *spokenItem {
	if n := len(t.spoken); n > 0 && !anew {
		if last := &t.spoken[n-1]; last.id == string(id) && last.content == content {
			return last
		}
	}
	if len(t.spoken) >= maxSpoken {
		t.pending -= t.spoken[0].left
		t.spoken = append(t.spoken[:0], t.spoken[1:]...)
	}
	t.spoken = append(t.spoken, spokenItem{id: string(id), content: content})
	return &t.spoken[len(t.spoken)-1]
}

// played takes from the queue what is not waiting there any more: it was heard, or lost. What comes behind something that was lost doesn't count as heard.
func (t *openaiTalk) played(waiting int, heard bool) {
	gone := t.pending - waiting
	if gone <= 0 {
		return
	}
	t.pending = waiting
	for i := range t.spoken {
		item := &t.spoken[i]
		n := min(gone, item.left)
		if n == 0 {
			continue
		}
		item.left -= n
		if heard && !item.lost {
			item.heard += n
		} else {
			item.lost = true
		}
		if gone -= n; gone == 0 {
			return
		}
	}
}

// unheard finds the items of which the caller has not heard all, each once: heard is how much was, up to what was not.
func (t *openaiTalk) unheard() (items []spokenItem) {
	for _, piece := range t.spoken {
		i := slices.IndexFunc(items, func(s spokenItem) bool { return s.id == piece.id && s.content == piece.content })
		if i < 0 {
			items = append(items, piece)
		} else if item := &items[i]; !item.missed() {
			item.heard, item.left, item.lost = item.heard+piece.heard, piece.left, piece.lost
		}
	}
	return slices.DeleteFunc(items, func(s spokenItem) bool { return !s.missed() })
}

// forgetHeard drops the items that the caller has heard, but those that something was missed of.
func (t *openaiTalk) forgetHeard() {
	first := slices.IndexFunc(t.spoken, func(s spokenItem) bool { return s.missed() })
	if first < 0 {
		t.spoken = t.spoken[:0]
		return
	}
	id := t.spoken[first].id
	keep := slices.IndexFunc(t.spoken, func(s spokenItem) bool { return s.id == id })
	t.spoken = t.spoken[:copy(t.spoken, t.spoken[keep:])]
}

// ErrNoSession means that an OpenAI socket has not begun its session within SessionDeadline.
var ErrNoSession = errors.New("voice agent's session: session.created has not come")

// errors of a conversation.
var (
	errNotBegun   = errors.New("session.created must come first")
	errTooMany    = errors.New("too many function calls wait for their answers")
	errLeaving    = errors.New("the call is about to be left already")
	errCallID     = errors.New("call_id is too long")
	errTalkedOver = errors.New("the caller has interrupted you before what you said was heard; listen, and call the function again when it is time")
)
