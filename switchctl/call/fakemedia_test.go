package call

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/media/wav"
)

// fakeMedia opens sessions, or refuses them.
type fakeMedia struct {
	trace *trace

	mu     sync.Mutex
	refuse error
	last   *fakeSession
	calls  map[string]*fakeSession // the newest of each call
	taps   []*fakeSession          // the legs of the newest tap
	all    []*fakeSession
	hook   func(*fakeSession)
	slow   chan struct{} // the sockets of voice agents open when it is closed
	dead   chan struct{} // closed by die
}

// delay has sockets open slowly, or those that wait open.
func (m *fakeMedia) delay(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.slow != nil {
		close(m.slow)
	}
	if m.slow = nil; on {
		m.slow, m.dead = make(chan struct{}), make(chan struct{})
	}
}

func (m *fakeMedia) SIPAddr() string { return "127.0.0.1:5090" }

// OpenTap makes taps whose sessions a test drives.
func (m *fakeMedia) OpenTap(_ context.Context, spec media.SessionSpec) (*tapFork, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		m.trace.add("media refuses")
		return nil, m.refuse
	}
	if spec.URL != "" {
		holdMetadata(spec)
	}
	sides := []media.TapSide{media.TapMixed}
	if spec.URL == "" {
		sides = []media.TapSide{media.TapCaller}
	} else if spec.Audio.Channels == 2 {
		sides = []media.TapSide{media.TapCaller, media.TapOther}
	}
	var about struct {
		Purpose string `json:"purpose"`
		Target  string `json:"target_call_id"`
		MixType string `json:"mixType"`
	}
	if len(spec.Metadata) > 0 {
		if err := json.Unmarshal(spec.Metadata, &about); err != nil {
			return nil, err
		}
	}
	m.trace.add("media tap %s purpose=%s target=%s mix=%s", spec.Subprotocol, about.Purpose, about.Target, about.MixType)
	fork := &tapFork{socket: spec.URL != ""}
	m.taps = nil
	for _, side := range sides {
		s := &fakeSession{trace: m.trace, spec: spec, events: make(chan media.Event, 64)}
		m.taps = append(m.taps, s)
		fork.legs = append(fork.legs, forkLeg{side: side, sip: spec.ID, session: s})
	}
	sessions := m.taps
	m.all = append(m.all, sessions...)
	fork.close = func(reason media.CloseReason) {
		for _, s := range sessions {
			s.end()
		}
		m.trace.add("media tap close %s", reason)
	}
	return fork, nil
}

func (m *fakeMedia) Open(ctx context.Context, spec media.SessionSpec) (mediaSession, error) {
	m.mu.Lock()
	slow, dead := m.slow, m.dead
	m.mu.Unlock()
	if slow != nil {
		select {
		case <-slow:
		case <-dead:
			return nil, context.Canceled
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		m.trace.add("media refuses")
		return nil, m.refuse
	}
	s := &fakeSession{trace: m.trace, spec: spec, events: make(chan media.Event, 64)}
	holdMetadata(spec)
	m.last = s
	if m.calls == nil {
		m.calls = map[string]*fakeSession{}
	}
	m.calls[spec.CallID] = s
	if m.hook == nil {
		m.all = append(m.all, s)
	}
	rec := "none"
	if spec.Recording != nil {
		rec = fmt.Sprintf("append=%t", spec.Recording.Append)
		if spec.Recording.Paused {
			rec += " paused"
		}
	}
	if spec.AMD != nil {
		rec += " amd"
	}
	m.trace.add("media open %s reconnected=%t recording %s", spec.Subprotocol, spec.Reconnected, rec)
	if m.hook != nil {
		m.hook(s)
	}
	return s, nil
}

// die ends all sessions without a word, as kill -9 does.
func (m *fakeMedia) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.all {
		s.mu.Lock()
		if !s.closed {
			s.closed = true
			close(s.events)
		}
		s.mu.Unlock()
	}
	m.all = nil
	if m.dead != nil {
		close(m.dead)
		m.dead = nil
	}
}

func (m *fakeMedia) tapLegs() []*fakeSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taps
}

func (m *fakeMedia) session() *fakeSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

func (m *fakeMedia) sessionOf(callID string) *fakeSession {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[callID]
}

type fakeSession struct {
	trace *trace
	spec  media.SessionSpec

	mu     sync.Mutex
	events chan media.Event
	closed bool
	stats  media.Stats
	// recordedFrom is the answer that the recording was finished with.
	recordedFrom time.Time
}

func (s *fakeSession) Events() <-chan media.Event { return s.events }

func (s *fakeSession) send(ev media.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.events <- ev
	}
}

func (s *fakeSession) SendText(typ string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	holdText(typ, raw)
	s.trace.add("text %s %s", typ, raw)
	return nil
}

func (s *fakeSession) SendCommandResult(r media.CommandResult) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	holdText("command_result", raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.trace.add("command_result is lost")
		return media.ErrSessionClosed
	}
	s.trace.add("command_result %s", raw)
	return nil
}

func (s *fakeSession) SendDTMF(digits string, _ time.Duration) error {
	s.trace.add("media sends dtmf %s", digits)
	if digits == "99" {
		return dtmf.ErrQueueFull
	}
	return nil
}

func (s *fakeSession) HeardDTMF(digit string, dur time.Duration) {
	s.trace.add("media hears dtmf %s of %s", digit, dur)
}

func (s *fakeSession) Ring(on bool) { s.trace.add("media rings: %t", on) }

func (s *fakeSession) LegBridged() { s.trace.add("media leg is bridged") }

func (s *fakeSession) StopMachineDetection() { s.trace.add("media detects no machine") }

func (s *fakeSession) SetToneDetection(on bool) { s.trace.add("media listens for tones: %t", on) }

func (s *fakeSession) SetMute(dir media.Direction, muted bool) {
	s.trace.add("media mutes %d: %t", dir, muted)
}

func (s *fakeSession) SetEventPayload(pt uint8) { s.trace.add("media sends events as %d", pt) }
func (s *fakeSession) Play(clip *media.Clip) error {
	s.trace.add("media plays %d samples", len(clip.Samples))
	return nil
}

func (s *fakeSession) Hold(music *media.Clip) {
	s.trace.add("media holds, music of %d samples", len(music.Samples))
}
func (s *fakeSession) StopPlaying() { s.trace.add("media stops playing") }
func (s *fakeSession) Unhold()      { s.trace.add("media unholds") }

func (s *fakeSession) PauseRecording(paused bool) error {
	if s.spec.Recording == nil {
		return media.ErrNoRecording
	}
	s.trace.add("media recording paused %t", paused)
	return nil
}

func (s *fakeSession) UpdateMetadata(json.RawMessage) { s.trace.add("media metadata updated") }

func (s *fakeSession) Close(reason media.CloseReason) media.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.trace.add("media close %s", reason)
		close(s.events)
	}
	return s.stats
}

// end closes the session without a word.
func (s *fakeSession) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.events)
	}
}

func (s *fakeSession) FinishRecording(answered, ended time.Time) (wav.Recording, error) {
	s.trace.add("media recording finished, %s", ended.Sub(answered))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordedFrom = answered
	return wav.Recording{Path: s.spec.Recording.Path, Duration: ended.Sub(answered)}, nil
}

func (s *fakeSession) Speak(on bool) { s.trace.add("media speaks: %t", on) }
