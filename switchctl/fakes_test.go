package switchctl

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// trace collects what a call makes its surroundings do.
type trace struct {
	mu    sync.Mutex
	lines []string
	off   bool // set before use
}

func (t *trace) add(format string, args ...any) {
	if t.off {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *trace) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	t.lines = nil
	return lines
}

// fakeLink is a switch that does nothing by itself.
type fakeLink struct {
	trace *trace

	mu         sync.Mutex
	generation uint64
	next       uint64
	jobs       []fakeJob
	channels   map[string]string // uuid → uuid_dump
	onBgAPI    func(cmd string, done func(string, error))
	dump       func(channel string) (string, bool) // in place of channels
	reinvite   string                              // what a re-INVITE is refused with, or "silent"
	cseq       int
}

type fakeJob struct {
	cmd  string
	done func(string, error)
}

func (l *fakeLink) Generation() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generation
}

func (l *fakeLink) BgAPI(_ context.Context, cmd string, done func(string, error)) error {
	l.mu.Lock()
	up, hook := l.generation != 0, l.onBgAPI
	if up && hook == nil {
		l.jobs = append(l.jobs, fakeJob{cmd: cmd, done: done})
	}
	l.mu.Unlock()
	if !up {
		return ErrLinkDown
	}
	l.trace.add("bgapi %s", cmd)
	if hook != nil {
		hook(cmd, done)
	}
	return nil
}

func (l *fakeLink) API(_ context.Context, cmd string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation == 0 {
		return "", ErrLinkDown
	}
	name, args, _ := strings.Cut(cmd, " ")
	switch name {
	case "xml_flush_cache":
		l.trace.add("api %s", cmd)
		return "+OK cleared 1 entry\n", nil
	case "uuid_dump":
		channel, _, _ := strings.Cut(args, " ")
		if l.dump != nil {
			if text, ok := l.dump(channel); ok {
				return text, nil
			}
		}
		if text, ok := l.channels[channel]; ok {
			return text, nil
		}
		return "", &esl.ReplyError{Text: "-ERR No such channel!"}
	case "show":
		rows := []map[string]string{}
		for channel := range l.channels {
			rows = append(rows, map[string]string{"uuid": channel})
		}
		raw, err := json.Marshal(map[string]any{"row_count": len(rows), "rows": rows})
		return string(raw), err
	case "uuid_getvar":
		return l.getvar(args), nil
	case "global_getvar":
		return "", &esl.ReplyError{Text: "-ERR no such variable"}
	}
	if name == "uuid_media_reneg" && l.reinvite == "" {
		l.cseq++
	}
	l.trace.add("api %s", cmd)
	return "+OK", nil
}

// getvar tells how the last re-INVITE has gone. The caller holds mu.
func (l *fakeLink) getvar(args string) string {
	switch _, name, _ := strings.Cut(args, " "); {
	case name == "sip_cseq":
		return strconv.Itoa(l.cseq)
	case name == "sip_invite_failure_status" && l.reinvite != "" && l.reinvite != "silent":
		return l.reinvite
	}
	return "_undef_"
}

// reply answers the oldest job whose command begins with name.
func (l *fakeLink) reply(name, body string) bool {
	l.mu.Lock()
	var found *fakeJob
	for i, job := range l.jobs {
		if strings.HasPrefix(job.cmd, name) {
			found = &job
			l.jobs = append(l.jobs[:i:i], l.jobs[i+1:]...)
			break
		}
	}
	l.mu.Unlock()
	if found == nil {
		return false
	}
	found.done(body, nil)
	return true
}

func (l *fakeLink) set(up bool) {
	l.mu.Lock()
	jobs := l.jobs
	l.jobs = nil
	if up {
		l.next++
		l.generation = l.next
	} else {
		l.generation = 0
	}
	l.mu.Unlock()
	for _, job := range jobs {
		job.done("", errLinkLost)
	}
}

func (l *fakeLink) setChannel(channel, dump string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if dump == "" {
		delete(l.channels, channel)
		return
	}
	l.channels[channel] = dump
}

func (l *fakeLink) run(context.Context)   {}
func (l *fakeLink) setCore(string) string { return "" }
func (l *fakeLink) restarted() bool       { return false }

// fakeSocket is a caller's outbound socket.
type fakeSocket struct {
	trace *trace
	done  chan struct{}
	once  sync.Once

	mu      sync.Mutex
	bridged string
	played  string // Event-UUID of the newest playback
	handler func(*esl.Event)
}

func newFakeSocket(t *trace) *fakeSocket { return &fakeSocket{trace: t, done: make(chan struct{})} }

func (s *fakeSocket) Execute(_ context.Context, req esl.ExecuteRequest) error {
	s.trace.add("execute %s %s", req.App, req.Arg)
	if req.App == "bridge" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bridged = between(req.Arg, "origination_uuid=")
	}
	if req.App == "playback" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.played = req.EventUUID
	}
	return nil
}

// leg is the channel that the last bridge was to make.
func (s *fakeSocket) leg() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bridged
}

// Handle keeps who hears what a test has the socket say.
func (s *fakeSocket) Handle(fn func(*esl.Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = fn
}

func (s *fakeSocket) Command(_ context.Context, text string, _ ...esl.Field) (esl.Reply, error) {
	s.trace.add("socket %s", text)
	return esl.Reply{}, nil
}

// say brings an event of the socket's own.
func (s *fakeSocket) say(ev *esl.Event) {
	s.mu.Lock()
	fn := s.handler
	s.mu.Unlock()
	if fn != nil {
		fn(ev)
	}
}

func (s *fakeSocket) Done() <-chan struct{} { return s.done }

func (s *fakeSocket) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

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

func (m *fakeMedia) Open(_ context.Context, spec media.SessionSpec) (mediaSession, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		m.trace.add("media refuses")
		return nil, m.refuse
	}
	s := &fakeSession{trace: m.trace, spec: spec, events: make(chan media.Event, 64)}
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
	s.trace.add("text %s %s", typ, raw)
	return nil
}

func (s *fakeSession) SendCommandResult(r media.CommandResult) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	s.trace.add("command_result %s", raw)
	return nil
}

func (s *fakeSession) SendDTMF(digits string, _ time.Duration) error {
	s.trace.add("media sends dtmf %s", digits)
	if digits == "99" {
		return media.ErrDTMFQueueFull
	}
	return nil
}

func (s *fakeSession) HeardDTMF(digit string, dur time.Duration) {
	s.trace.add("media hears dtmf %s of %s", digit, dur)
}

func (s *fakeSession) SetToneDetection(on bool) { s.trace.add("media listens for tones: %t", on) }

func (s *fakeSession) SetEventPayload(pt uint8) { s.trace.add("media sends events as %d", pt) }
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

func (s *fakeSession) FinishRecording(answered, ended time.Time) (media.RecordingInfo, error) {
	s.trace.add("media recording finished, %s", ended.Sub(answered))
	return media.RecordingInfo{Path: s.spec.Recording.Path, Duration: ended.Sub(answered)}, nil
}

// fakeGate admits everything, as the dialer's gate does: row and unit in one step.
type fakeGate struct {
	ledger *memLedger

	mu     sync.Mutex
	refuse error
	routes []Route
	amd    func() bool // nil is off
	trunk  *uuid.UUID
}

func (g *fakeGate) detect(amd func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.amd = amd
}

func (g *fakeGate) set(refuse error, routes ...Route) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse, g.routes = refuse, routes
}

func (g *fakeGate) Admit(_ context.Context, req OriginateRequest) (Admission, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse != nil {
		return Admission{}, g.refuse
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Admission{}, err
	}
	adm := Admission{
		UnitID: id, Privacy: store.PrivacyStandard, To: req.To, From: "+918000000001", RingTimeout: 20 * time.Second,
		Routes: g.routes,
	}
	if req.Purpose == PurposeTransfer {
		g.ledger.unit(id, *req.ParentCallID)
		adm.Call = db.Call{TenantID: req.TenantID, ID: *req.ParentCallID}
		return adm, nil
	}
	now := time.Now().UTC()
	adm.Call = db.Call{
		TenantID: req.TenantID, ID: id, FsUuid: id.String(), Node: "node-1", Direction: directionOutbound,
		Environment: "live", Status: StatusDialing, FromNumber: store.NewNumber("+918000000001"),
		ToNumber: store.NewNumber(req.To.E164()), DialTime: &now, CreatedAt: now, VoiceAgentID: req.VoiceAgentID,
	}
	adm.Call.Amd = g.amd != nil && g.amd()
	adm.Call.TrunkID = g.trunk
	g.ledger.open(adm.Call)
	return adm, nil
}

// fakeHandler connects the voice agent, as the one node of a flow does.
type fakeHandler struct {
	trace *trace
	agent db.VoiceAgent
	// answered replaces the connecting when set.
	answered func(ctx context.Context, leg Leg) error
	route    func(in Inbound) (db.Call, error)
	queue    func(ctx context.Context, leg Leg) error // nil: nobody is logged in
}

func (h *fakeHandler) Route(_ context.Context, in Inbound) (db.Call, error) { return h.route(in) }

func (h *fakeHandler) Answered(ctx context.Context, leg Leg) error {
	if h.answered != nil {
		return h.answered(ctx, leg)
	}
	outcome, err := leg.ConnectVoiceAgent(ctx, h.agent)
	h.trace.add("handler %s %v", outcome, err)
	return err
}

func (h *fakeHandler) Ended(context.Context, *store.Tx, db.Call) error { return nil }

func (h *fakeHandler) CanQueue(context.Context, uuid.UUID, QueueRequest) error {
	if h.queue == nil {
		return ErrNobodyLoggedIn
	}
	return nil
}

func (h *fakeHandler) Queue(ctx context.Context, leg Leg, req QueueRequest) error {
	h.trace.add("queue %q extension %q", req.Queue, req.Extension)
	return h.queue(ctx, leg)
}
