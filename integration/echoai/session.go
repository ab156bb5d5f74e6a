package echoai

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
)

const (
	// hearsWithin is how recent audio must be for "hears now".
	hearsWithin = 300 * time.Millisecond
	maxTexts    = 2000
	maxOnsets   = 4096
)

// Party says who ended a connection.
type Party string

// The parties.
const (
	Us   Party = "us"
	Them Party = "them"
)

// Session is the record of one connection; a call that was reconnected has several.
type Session struct {
	CallID string `json:"call_id"`
	// Path is the path and query of the URL.
	Path          string          `json:"path"`
	Subprotocol   string          `json:"subprotocol"`
	Authorization string          `json:"authorization"`
	Metadata      json.RawMessage `json:"metadata"`
	Format        Format          `json:"audio_format"`
	// Reconnect is the metadata's flag.
	Reconnect bool `json:"reconnect"`
	Live      bool `json:"live"`

	ConnectedAt time.Time  `json:"connected_at"`
	EndedAt     *time.Time `json:"ended_at"`
	EndedBy     Party      `json:"ended_by"`
	// CloseCode is the code of the close frame received or sent; 0 when the connection broke.
	CloseCode int    `json:"close_code"`
	Error     string `json:"error,omitempty"`

	FramesIn  int64 `json:"frames_in"`
	FramesOut int64 `json:"frames_out"`
	BytesIn   int64 `json:"bytes_in"`
	BytesOut  int64 `json:"bytes_out"`
	PingsIn   int64 `json:"pings_in"`

	// Texts are the text frames received after the metadata, TextsSent those sent.
	Texts     []Text `json:"texts"`
	TextsSent []Text `json:"texts_sent"`

	// Violations are the frames of the service that broke their schema, and how; at most ten.
	Violations []string `json:"violations"`

	Heard      []tone.Heard `json:"heard"`
	Bursts     []tone.Burst `json:"bursts"`
	DominantHz float64      `json:"dominant_hz"`
	// HearsNow says that audio other than silence came within the last 300 ms.
	HearsNow     bool        `json:"hears_now"`
	FirstHeardAt *time.Time  `json:"first_heard_at"`
	LastHeardAt  *time.Time  `json:"last_heard_at"`
	FirstFrameAt *time.Time  `json:"first_frame_at"`
	LastFrameAt  *time.Time  `json:"last_frame_at"`
	LongestGapMS float64     `json:"longest_gap_ms"`
	SentOnsets   []time.Time `json:"sent_onsets"`
	// ControlStatus are the HTTP statuses that the control endpoint answered.
	ControlStatus []int `json:"control_status"`
}

// Text is one text frame.
type Text struct {
	At   time.Time       `json:"at"`
	Type string          `json:"type"`
	Raw  json.RawMessage `json:"raw"`
}

// newText keeps a frame; one that is no JSON is kept as a JSON string.
func newText(frame []byte) Text {
	var head struct {
		Type string `json:"type"`
	}
	raw := slices.Clone(frame)
	if err := json.Unmarshal(frame, &head); err != nil && !json.Valid(frame) {
		raw, _ = json.Marshal(string(frame)) // a string always marshals
	}
	return Text{At: time.Now(), Type: head.Type, Raw: raw}
}

// Stats are totals since start.
type Stats struct {
	Live        int   `json:"live"`
	PeakLive    int   `json:"peak_live"`
	Connections int64 `json:"connections"`
	Reconnects  int64 `json:"reconnects"`
	Refused     int64 `json:"refused"`
	Stalled     int64 `json:"stalled"`
}

// snapshot is the record as it stands.
func (a *agent) snapshot() Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.record
	r.Texts, r.TextsSent, r.Violations = slices.Clone(r.Texts), slices.Clone(r.TextsSent), slices.Clone(r.Violations)
	r.SentOnsets, r.ControlStatus = slices.Clone(r.SentOnsets), slices.Clone(r.ControlStatus)
	if a.ear == nil {
		return r
	}
	r.Heard, r.Bursts, r.DominantHz = a.ear.Heard(), a.ear.Bursts(), a.ear.DominantHz()
	if first, last := a.ear.FirstHeard(), a.ear.LastHeard(); !last.IsZero() {
		r.FirstHeardAt, r.LastHeardAt = &first, &last
		r.HearsNow = r.Live && time.Since(last) <= hearsWithin
	}
	return r
}

// admit keeps a new connection's record.
func (s *Server) admit(a *agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Connections++
	s.stats.Live++
	s.stats.PeakLive = max(s.stats.PeakLive, s.stats.Live)
	s.agents = append(s.agents, a)
	if over := len(s.agents) - keepSessions - s.stats.Live; over > 0 {
		s.forget(over)
	}
}

// forget drops the n oldest records of ended connections.
func (s *Server) forget(n int) {
	s.agents = slices.DeleteFunc(s.agents, func(a *agent) bool {
		if n == 0 || !a.over.Load() {
			return false
		}
		n--
		return true
	})
}

// Forget drops the records of ended connections and returns how many there were.
func (s *Server) Forget() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.agents)
	s.forget(before)
	return before - len(s.agents)
}

func (s *Server) all() []*agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.agents)
}

// Sessions lists the records kept, the oldest first; those of one call, unless callID is empty.
func (s *Server) Sessions(callID string) []Session {
	out := []Session{}
	for _, a := range s.all() {
		if r := a.snapshot(); callID == "" || r.CallID == callID {
			out = append(out, r)
		}
	}
	return out
}

// Send sends a text frame on the live connection of a call.
func (s *Server) Send(callID string, frame json.RawMessage) error {
	for _, a := range slices.Backward(s.all()) {
		if r := a.snapshot(); r.Live && r.CallID == callID {
			return a.sendText(frame)
		}
	}
	return fmt.Errorf("send to call %s: %w", callID, ErrUnknownSession)
}

// Stats are the totals.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// connectionsOf counts the connections of a call so far, this one included.
func (s *Server) connectionsOf(callID string) int {
	n := 0
	for _, a := range s.all() {
		if a.call() == callID {
			n++
		}
	}
	return n
}
