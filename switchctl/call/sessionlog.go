package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// sessionLogEntries and sessionLogBytes bound what an AI session keeps of the log verb and of json frames. What comes later
	// is counted in metadata.logs_dropped.
	sessionLogEntries = 1000
	sessionLogBytes   = 1 << 20
	// tenantLogBytes bounds the entries of one tenant's calls that wait to be written.
	tenantLogBytes = 16 << 20
	// sessionLogPause lies between two writes of one session, and twice as much between the next two, up to sessionLogRest: entries that
	// come faster are written together, and who logs all the time writes once a second. After that long without a write it begins anew.
	sessionLogPause, sessionLogRest = 100 * time.Millisecond, time.Second
	// logOverhead is what an entry counts for beside its metadata.
	logOverhead = 64
)

// Refusals of an entry of a session's log, which is dropped.
var (
	errLogFull error = &fault.Error{
		Kind: fault.TooLarge, Code: "session_log_full", Detail: "The session's log holds its 1,000 entries, or 1 MiB: this one is dropped.",
	}
	errLogBusy error = &fault.Error{
		Kind: fault.Unavailable, Code: "service_unavailable", Detail: "Too many log entries wait for the database: this one is dropped.",
	}
)

// sessionLog takes an AI session's log entries to the ledger: bounded in number and bytes, several by one write, in order with the
// call's other changes. The actor adds entries; its journal writes them.
type sessionLog struct {
	a    *core
	call db.Call
	id   uuid.UUID

	mu      sync.Mutex
	entries int // taken, written or not
	bytes   int
	dropped int
	waiting []ledger.LogEntry
	replies []chan<- controlResult
	size    int64 // of what waits
	busy    bool  // a write is on its way, or its timer runs
	timer   Timer
	wrote   time.Time
	pause   time.Duration // until the next write
	closed  bool
}

func newSessionLog(a *core, session uuid.UUID) *sessionLog {
	return &sessionLog{a: a, call: a.call, id: session}
}

// resume counts what a session that outlived a crash has written before.
func (l *sessionLog) resume(entries, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries, l.bytes = l.entries+entries, l.bytes+bytes
}

// add takes an entry; reply, which may be nil, hears when it is written. It returns errLogFull or errLogBusy for one that is dropped.
func (l *sessionLog) add(ctx context.Context, e ledger.LogEntry, reply chan<- controlResult) error {
	size := len(e.Metadata) + logOverhead
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.entries >= sessionLogEntries || l.bytes+size > sessionLogBytes
	if full || !l.a.c.logBytes.Try(l.a.tenant.String(), int64(size)) {
		l.dropped++
		l.a.c.metrics.logsDropped.Inc()
		if full {
			return errLogFull
		}
		return errLogBusy
	}
	l.entries++
	l.bytes += size
	l.size += int64(size)
	l.waiting = append(l.waiting, e)
	if reply != nil {
		l.replies = append(l.replies, reply)
	}
	if l.busy {
		return nil
	}
	l.busy = true
	since := l.a.c.clock.Now().Sub(l.wrote)
	if since >= sessionLogRest {
		l.pause = 0
	}
	if since < l.pause {
		l.timer = l.a.c.clock.AfterFunc(l.pause-since, func() { l.due(ctx) })
		return nil
	}
	l.write(ctx)
	return nil
}

// due writes what has come meanwhile.
func (l *sessionLog) due(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.write(ctx)
	}
}

// end has everything written that waits, before what the actor records next, and returns how many entries were dropped.
func (l *sessionLog) end(ctx context.Context) (dropped int) {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	if !l.closed && len(l.waiting) > 0 {
		l.write(ctx)
	}
	l.closed = true
	return l.dropped
}

// write puts a write into the journal, which takes whatever waits by then. The caller holds mu.
func (l *sessionLog) write(ctx context.Context) {
	var batch []ledger.LogEntry
	var replies []chan<- controlResult
	var size int64
	l.a.record(ctx, "session log", func(ctx context.Context) error {
		if batch == nil {
			l.mu.Lock()
			batch, replies, size = l.waiting, l.replies, l.size
			l.waiting, l.replies, l.size = nil, nil, 0
			l.mu.Unlock()
		}
		if len(batch) == 0 {
			return nil
		}
		return l.a.c.ledger.AppendLogs(ctx, l.call, l.id, batch)
	}, func(err error) {
		if len(batch) == 0 { // an earlier write of the journal took what this one was for
			return
		}
		l.a.c.logBytes.Release(l.a.tenant.String(), size)
		l.written(ctx, len(batch), err)
		for _, reply := range replies {
			reply <- controlResult{result: map[string]any{}, err: err}
		}
	})
}

// written ends a write; what has come meanwhile waits a little.
func (l *sessionLog) written(ctx context.Context, n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote, l.busy = l.a.c.clock.Now(), false
	l.pause = min(max(2*l.pause, sessionLogPause), sessionLogRest)
	if err != nil {
		if refused, ok := errors.AsType[*ledger.LogsRefusedError](err); ok {
			n = refused.N
		}
		l.dropped += n
		l.a.c.metrics.logsDropped.Add(float64(n))
	}
	if len(l.waiting) > 0 && !l.closed {
		l.busy = true
		l.timer = l.a.c.clock.AfterFunc(l.pause, func() { l.due(ctx) })
	}
}

// endLogs writes what waits of the session's log, if the call has one, and returns how many entries were dropped.
func (v *voice) endLogs(ctx context.Context) int {
	if v.ai == nil {
		return 0
	}
	return v.ai.logs.end(ctx)
}

// appendLog keeps an entry with the session's logs, if there is room.
func (v *voice) appendLog(ctx context.Context, typ string, metadata json.RawMessage, source string) {
	if err := v.ai.logs.note(ctx, typ, metadata, source, nil); err != nil {
		v.log.DebugContext(ctx, "keeping an entry of the session's log failed", "error", err)
	}
}

// note is add of what comes now; without a source it is the API's.
func (l *sessionLog) note(ctx context.Context, typ string, metadata json.RawMessage, source string, reply chan<- controlResult) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	return l.add(ctx, ledger.LogEntry{ID: id, At: l.a.c.clock.Now().UTC(), Source: cmp.Or(source, "api"), Type: typ, Metadata: metadata}, reply)
}

// logReason keeps a verb with its reason, which may be empty, in the session's log.
func (v *voice) logReason(ctx context.Context, req switchctl.ControlRequest) {
	var metadata json.RawMessage
	if req.Reason != "" {
		metadata, _ = json.Marshal(map[string]string{"reason": req.Reason}) // a string has no error
	}
	v.appendLog(ctx, req.Event, metadata, req.Source)
}

// noteType is the type of a log's entry about what a voice agent's connect_url has led to.
const noteType = "connect_url"

func noteEntry(why string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"error": why}) // a string has no error
	return raw
}

// noteCommand has the log of a session that there isn't say why a voice agent was not connected.
type noteCommand struct {
	agent db.VoiceAgent
	note  string
	reply chan<- error
}

func (noteCommand) Name() string    { return "note of a voice agent" }
func (noteCommand) Essential() bool { return false }

func (m noteCommand) refused(_ *core, err error) { m.reply <- err }

func (l *leg) Note(ctx context.Context, agent db.VoiceAgent, note string) error {
	return l.a.ask(ctx, func(reply chan<- error) message { return noteCommand{agent: agent, note: note, reply: reply} })
}

// noteAgent writes the note behind what was to be written before. The caller doesn't wait for that.
func (k *core) noteAgent(ctx context.Context, m noteCommand) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	call, entry := k.call, ledger.LogEntry{ID: id, At: k.c.clock.Now().UTC(), Source: sourceSystem, Type: noteType, Metadata: noteEntry(m.note)}
	k.record(ctx, "note of a voice agent", func(ctx context.Context) error { return k.c.ledger.NoteSession(ctx, call, m.agent, entry) }, nil)
	m.reply <- nil
	return nil
}

// maxSocketNotes bounds the entries of a session's log about failures of its socket that it goes on with: one that breaks each few seconds leaves room for others.
const maxSocketNotes = 20

// noteSocket tells the session's log what has become of its socket: "refused" when it didn't open, "lost" when it broke and is dialed again, "closed" when none
// will come again, and "error" for what the voice agent complains of.
func (v *voice) noteSocket(ctx context.Context, event string, err error) {
	s := v.ai
	if event == "lost" || event == "error" {
		if s.socketNotes++; s.socketNotes > maxSocketNotes {
			return
		}
	}
	told := media.Tell(err, s.grant.AuthToken)
	if unserved, ok := errors.AsType[*switchctl.SubprotocolError](err); ok {
		told.Error = unserved.Fault().Detail
	}
	raw, err := json.Marshal(struct {
		Event string `json:"event"`
		media.Told
	}{event, told})
	if err != nil {
		return // strings and numbers always encode
	}
	v.appendLog(ctx, "socket", raw, sourceSystem)
}
