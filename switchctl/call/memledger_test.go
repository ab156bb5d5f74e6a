package call

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// memLedger keeps calls in memory under the rules of the real one: a row moves forward only, a closed call has no unit.
type memLedger struct {
	trace *trace

	mu           sync.Mutex
	away         bool
	stalled      bool   // sessions are neither written nor refused
	monitorScope string // of the voice agents
	inFlow       bool   // calls are in a flow
	full         int    // how many of the trunks that a leg could go on with have no room
	calls        map[uuid.UUID]db.Call
	units        map[uuid.UUID]uuid.UUID // unit → call
	sessions     map[uuid.UUID]db.AiSession
	closes       int
	core         string                      // of the switch that the node's calls were compared with
	logWrites    []int                       // entries of each write to a session's log
	logsDropped  int                         // of the newest session that ended
	sessionOf    map[uuid.UUID]uuid.UUID     // call → its newest session
	agents       map[uuid.UUID]db.VoiceAgent // of the sessions
	unitsOf      map[uuid.UUID][]uuid.UUID
	outbox       map[uuid.UUID][]string // events of a call, in the order in which they are committed
	held         map[uuid.UUID][]string // behind call.answered
}

func newMemLedger(t *trace) *memLedger {
	return &memLedger{
		trace: t, calls: map[uuid.UUID]db.Call{}, units: map[uuid.UUID]uuid.UUID{}, sessions: map[uuid.UUID]db.AiSession{},
		sessionOf: map[uuid.UUID]uuid.UUID{}, agents: map[uuid.UUID]db.VoiceAgent{}, unitsOf: map[uuid.UUID][]uuid.UUID{},
		outbox: map[uuid.UUID][]string{}, held: map[uuid.UUID][]string{},
	}
}

// emit holds an event while the call's answer waits for a verdict.
func (l *memLedger) emit(call uuid.UUID, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if ledger.AwaitsVerdict(l.calls[call]) {
		l.held[call] = append(l.held[call], text)
		l.trace.add("held %s", text)
		return
	}
	l.outbox[call] = append(l.outbox[call], text)
	l.trace.add("event %s", text)
}

// decide commits call.answered with what was held behind it.
func (l *memLedger) decide(id uuid.UUID, by string) {
	row := l.calls[id]
	if !ledger.AwaitsVerdict(row) {
		return
	}
	row.AnsweredByAmd = &by
	l.calls[id] = row
	l.emit(id, "call.answered %s", by)
	held := l.held[id]
	delete(l.held, id)
	for _, text := range held {
		l.emit(id, "%s", text)
	}
}

func (l *memLedger) events(call uuid.UUID) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.outbox[call])
}

func (l *memLedger) open(call db.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[call.ID] = call
	l.units[call.ID] = call.ID
	l.unitsOf[call.ID] = append(l.unitsOf[call.ID], call.ID)
}

func (l *memLedger) unit(id, call uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.units[id] = call
	l.unitsOf[call] = append(l.unitsOf[call], id)
}

func (l *memLedger) setStalled(stalled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = stalled
}

func (l *memLedger) setAway(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = away
}

func (l *memLedger) setMonitorScope(scope string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.monitorScope = scope
}

func (l *memLedger) setInFlow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlow = true
}

func (l *memLedger) setFull(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = n
}

func (l *memLedger) call(id uuid.UUID) db.Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[id]
}

func (l *memLedger) unitCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.units)
}

// logWriteCount tells how often log entries were written.
func (l *memLedger) logWriteCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.logWrites)
}

// do runs fn under the lock, unless the database is away.
func (l *memLedger) do(fn func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return store.ErrUnavailable
	}
	return fn()
}

func (l *memLedger) update(call db.Call, from []string, change func(*db.Call)) error {
	return l.do(func() error {
		row := l.calls[call.ID]
		if slices.Contains(from, row.Status) {
			change(&row)
			l.calls[call.ID] = row
			l.trace.add("ledger %s", row.Status)
		}
		return nil
	})
}

func (l *memLedger) Ringing(_ context.Context, call db.Call, at time.Time) error {
	return l.update(call, []string{ledger.StatusDialing}, func(c *db.Call) { c.Status, c.RingTime = ledger.StatusRinging, &at })
}

func (l *memLedger) Answered(_ context.Context, call db.Call, at time.Time) error {
	return l.update(call, []string{ledger.StatusDialing, ledger.StatusRinging}, func(c *db.Call) {
		c.Status, c.AnswerTime = ledger.StatusAnswered, &at
		if !c.Amd {
			by := ledger.AnsweredByHuman
			c.AnsweredByAmd = &by
			l.outbox[c.ID] = append(l.outbox[c.ID], "call.answered "+by)
		}
	})
}

func (l *memLedger) Quality(_ context.Context, call db.Call, quality json.RawMessage) error {
	return l.do(func() error {
		row := l.calls[call.ID]
		row.Quality = quality
		l.calls[call.ID] = row
		l.trace.add("ledger quality %s", quality)
		return nil
	})
}

func (l *memLedger) Verdict(_ context.Context, call db.Call) error {
	return l.do(func() error {
		row := l.calls[call.ID]
		if row.AmdMachine == nil && call.AmdMachine != nil {
			row.AmdMachine = call.AmdMachine
			l.trace.add("ledger machine %s", *call.AmdMachine)
		}
		if row.AmdClass == nil && call.AmdClass != nil {
			row.AmdClass, row.AmdConfidence, row.AmdAfterMs = call.AmdClass, call.AmdConfidence, call.AmdAfterMs
			l.calls[call.ID] = row
			l.trace.add("ledger verdict %s after %d ms", *call.AmdClass, *call.AmdAfterMs)
		}
		if call.AnsweredByAmd != nil {
			l.decide(call.ID, *call.AnsweredByAmd)
		}
		return nil
	})
}

func (l *memLedger) BeginRecording(_ context.Context, _ db.Call, path string, offset time.Duration) error {
	return l.do(func() error { l.trace.add("ledger recording %s from %s", filepath.Base(path), offset); return nil })
}

func (l *memLedger) AgentConnected(_ context.Context, call db.Call, at time.Time) error {
	if call.AgentID != nil {
		return l.update(call, []string{ledger.StatusAnswered, ledger.StatusAgentConnected}, func(c *db.Call) {
			c.Status, c.AgentConnectTime, c.AgentID = ledger.StatusAgentConnected, &at, call.AgentID
		})
	}
	return l.update(call, []string{ledger.StatusAnswered}, func(c *db.Call) {
		c.Status, c.AgentConnectTime = ledger.StatusAgentConnected, &at
	})
}

func (l *memLedger) Served(_ context.Context, call db.Call, at time.Time) error {
	return l.do(func() error {
		row := l.calls[call.ID]
		row.ServedAt = &at
		l.calls[call.ID] = row
		l.trace.add("ledger served %s after the answer", at.Sub(*call.AnswerTime))
		return nil
	})
}

func (l *memLedger) BypassFailed(_ context.Context, _, _ uuid.UUID, _ time.Time, reason string) error {
	return l.do(func() error { l.trace.add("ledger bypass failed: %s", reason); return nil })
}

func (l *memLedger) Reroute(_ context.Context, _ ledger.Readmission, _ *ledger.FailedRoute, trunks []*uuid.UUID, _ time.Time) (int, error) {
	chosen := -1
	err := l.do(func() error {
		if len(trunks) > l.full {
			chosen = l.full
		}
		l.trace.add("ledger reroute %d of %d", chosen, len(trunks))
		return nil
	})
	return chosen, err
}

func (l *memLedger) StartSession(ctx context.Context, s ledger.SessionStart) (ledger.SessionGrant, error) {
	g := ledger.SessionGrant{Agent: s.Agent, Token: s.Token, From: "+918000000001", To: "+919876543210", Bypass: s.Call.TrunkID != nil}
	l.mu.Lock()
	stalled := l.stalled
	l.mu.Unlock()
	if stalled {
		<-ctx.Done()
		return g, store.ErrUnavailable
	}
	err := l.do(func() error {
		if s.Agent.MaxConcurrent == 0 {
			return ledger.ErrAgentBusy
		}
		g.Session = db.AiSession{
			TenantID: s.Call.TenantID, ID: s.ID, CallID: s.Call.ID, VoiceAgentID: s.Agent.ID, WsUrl: s.Agent.WsUrl,
			Status: "active", StartedAt: s.At, TokenHash: &s.Token.JTI,
		}
		l.sessions[s.ID] = g.Session
		l.sessionOf[s.Call.ID] = s.ID
		l.agents[s.ID] = s.Agent
		l.trace.add("ledger session started")
		return nil
	})
	return g, err
}

func (l *memLedger) ResumeSession(_ context.Context, call db.Call, s db.AiSession) (ledger.SessionGrant, error) {
	g := ledger.SessionGrant{Session: s, Agent: l.agents[s.ID], Token: callbacktoken.Token{JTI: *s.TokenHash}, Bypass: call.TrunkID != nil}
	return g, l.do(func() error { l.trace.add("ledger session resumed"); return nil })
}

func (l *memLedger) SessionOpened(_ context.Context, call db.Call, s db.AiSession, _ string) error {
	return l.do(func() error {
		s, now := l.sessions[s.ID], time.Now()
		s.OpenedAt = &now
		l.sessions[s.ID] = s
		l.emit(call.ID, "ai_session.started")
		return nil
	})
}

func (l *memLedger) EndSession(_ context.Context, _ db.Call, end ledger.SessionEnd) error {
	return l.do(func() error { l.endSession(end); return nil })
}

func (l *memLedger) KeepInsights(_ context.Context, _ db.Call, in ledger.Insights) error {
	return l.do(func() error {
		for name, v := range map[string]*string{"summary": in.Summary, "sentiment": in.Sentiment, "next": in.NextAction} {
			if v != nil {
				l.trace.add("ledger insight %s=%s", name, *v)
			}
		}
		return nil
	})
}

func (l *memLedger) endSession(end ledger.SessionEnd) {
	l.logsDropped = end.LogsDropped
	s := l.sessions[end.Session]
	if end.Unsure {
		l.trace.add("ledger session ends, if it was started")
	}
	if s.Status != "active" {
		return
	}
	outcome := string(end.Outcome)
	s.Status, s.Outcome, s.EndedAt = "ended", &outcome, &end.At
	l.sessions[end.Session] = s
	if end.Transfer != nil {
		l.emit(s.CallID, "ai_session.transferred %s %s", end.Transfer.DestinationType, end.Transfer.Destination)
	}
	l.emit(s.CallID, "ai_session.ended %s revoke=%t", outcome, end.Revoke)
}

func (l *memLedger) AddToken(context.Context, db.Call, uuid.UUID, callbacktoken.Token) error {
	return l.do(func() error { l.trace.add("ledger token added"); return nil })
}

func (l *memLedger) AppendLogs(_ context.Context, _ db.Call, _ uuid.UUID, entries []ledger.LogEntry) error {
	return l.do(func() error {
		l.logWrites = append(l.logWrites, len(entries))
		for _, e := range entries {
			l.trace.add("ledger log %s %s %s", e.Source, e.Type, e.Metadata)
		}
		return nil
	})
}

func (l *memLedger) NoteSession(_ context.Context, call db.Call, _ db.VoiceAgent, e ledger.LogEntry) error {
	return l.do(func() error {
		l.trace.add("ledger session noted: %s %s %s", e.Source, e.Type, e.Metadata)
		l.emit(call.ID, "ai_session.ended %s", ledger.SessionError)
		return nil
	})
}

func (l *memLedger) AddRecordingPart(_ context.Context, _ db.Call, _ string, offset time.Duration) error {
	return l.do(func() error { l.trace.add("ledger recording part at %s", offset); return nil })
}

func (l *memLedger) MoveRecordingPart(_ context.Context, _ db.Call, path string, offset time.Duration) error {
	return l.do(func() error { l.trace.add("ledger recording %s moved to %s", filepath.Base(path), offset); return nil })
}

func (l *memLedger) AddRecording(_ context.Context, _ db.Call, _ string, offset time.Duration) error {
	return l.do(func() error { l.trace.add("ledger recording by the switch at %s", offset); return nil })
}

func (l *memLedger) ConferenceChanged(_ context.Context, _ db.Call, c ledger.ConferenceChange) error {
	return l.do(func() error {
		roles := make([]string, 0, len(c.Members))
		for _, m := range c.Members {
			roles = append(roles, m.Role)
		}
		about := string(c.Mode)
		if c.Target != nil {
			about += " of " + c.Target.String()
		}
		l.trace.add("event ai_session.conference_changed %s by %s, %s: %v", c.Change, c.Actor, about, roles)
		return nil
	})
}

// PermitMonitor goes by the call's own voice agent, as its session started with it.
func (l *memLedger) PermitMonitor(_ context.Context, m ledger.MonitorStart) error {
	return l.do(func() error {
		if m.Source == ledger.SourceAI && l.monitorScope == "none" {
			l.trace.add("ledger monitor refused")
			return ledger.ErrMonitorScope
		}
		l.trace.add("ledger monitor %s permitted", [...]string{string(m.Mode), "whisper", "barge"}[m.Act])
		return nil
	})
}

func (l *memLedger) MonitorStopped(_ context.Context, m ledger.MonitorStop) error {
	return l.do(func() error {
		mode := string(m.Mode)
		if m.Barged {
			mode = "barge"
		}
		l.trace.add("ledger monitor stopped: %s by %s, %s", m.Reason, m.Source, mode)
		return nil
	})
}

func (l *memLedger) ReleaseUnit(_ context.Context, _, unit uuid.UUID) error {
	return l.do(func() error {
		delete(l.units, unit)
		l.trace.add("ledger unit released")
		return nil
	})
}

func (l *memLedger) Close(_ context.Context, c ledger.Closing) error {
	return l.do(func() error {
		row := l.calls[c.Call.ID]
		if row.Status == ledger.StatusCompleted || row.Status == ledger.StatusFailed {
			return nil
		}
		rec := c.Record
		if rec.AnswerTime == nil {
			rec.AnswerTime = row.AnswerTime
		}
		l.decide(row.ID, ledger.AnsweredBy(c.Call))
		if row = l.calls[row.ID]; rec.AnswerTime != nil && row.AnswerTime == nil {
			by := ledger.AnsweredBy(c.Call)
			row.AnsweredByAmd = &by
			l.outbox[row.ID] = append(l.outbox[row.ID], "call.answered "+by)
		}
		row.Status, row.AnswerTime, row.EndTime, row.HangupCause = rec.Status(), rec.AnswerTime, &rec.EndTime, &rec.Cause
		row.HangupDisposition, row.SipStatus = rec.Disposition, rec.SIPStatus
		if rec.RingTime != nil {
			row.RingTime = rec.RingTime
		}
		l.calls[row.ID] = row
		for _, unit := range l.unitsOf[row.ID] {
			delete(l.units, unit)
		}
		if id, ok := l.sessionOf[row.ID]; ok {
			l.endSession(ledger.SessionEnd{Session: id, Outcome: c.Outcome, At: rec.EndTime.Add(c.Ahead), LogsDropped: c.LogsDropped})
		}
		if c.Quality != nil {
			row.Quality = c.Quality
			l.calls[row.ID] = row
			l.trace.add("ledger quality %s", c.Quality)
		}
		l.closes++
		disposition, sip := "-", int32(0)
		if row.HangupDisposition != nil {
			disposition = *row.HangupDisposition
		}
		if row.SipStatus != nil {
			sip = *row.SipStatus
		}
		l.emit(row.ID, "call.ended %s %s %s sip=%d never_begun=%t", row.Status, rec.Cause, disposition, sip, ledger.NeverBegun(row))
		return nil
	})
}

func (l *memLedger) CallState(_ context.Context, tenant, call uuid.UUID) (string, *string, error) {
	var row db.Call
	err := l.do(func() error {
		row = l.calls[call]
		if row.TenantID != tenant {
			return store.ErrNotFound
		}
		return nil
	})
	return row.Status, row.Disposition, err
}

func (l *memLedger) OpenCalls(context.Context, string) ([]ledger.OpenCall, error) {
	var open []ledger.OpenCall
	err := l.do(func() error {
		for _, call := range l.calls {
			if call.Status == ledger.StatusCompleted || call.Status == ledger.StatusFailed {
				continue
			}
			o := ledger.OpenCall{Call: call, InFlow: l.inFlow}
			if id, ok := l.sessionOf[call.ID]; ok {
				s := l.sessions[id]
				o.Session = &s
			}
			for _, unit := range l.unitsOf[call.ID] {
				if _, live := l.units[unit]; live && unit != call.ID {
					o.TransferUnit = &unit
				}
			}
			open = append(open, o)
		}
		return nil
	})
	return open, err
}

func (l *memLedger) NodeStarted(context.Context, string, time.Time) (ledger.NodeBefore, error) {
	return ledger.NodeBefore{}, nil
}

func (l *memLedger) NodeSeen(_ context.Context, _ string, _ time.Time, core string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.core = core
	return nil
}
