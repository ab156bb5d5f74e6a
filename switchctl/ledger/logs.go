package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// AppendLogs writes entries of a session's log. When PostgreSQL refuses what stands in one of them (a number or a character that
// jsonb has not), the others are written without it, and it is counted as dropped.
func (l *Ledger) AppendLogs(ctx context.Context, call db.Call, session uuid.UUID, entries []LogEntry) error {
	for i := range entries {
		entries[i].Metadata = OrNull(entries[i].Metadata)
	}
	err := l.appendLogs(ctx, call, session, entries)
	if err == nil || len(entries) < 2 || ctx.Err() != nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrBusy) {
		return err
	}
	var faults []error
	for _, e := range entries {
		err := l.appendLogs(ctx, call, session, []LogEntry{e})
		if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrBusy) {
			return err
		}
		faults = append(faults, err)
	}
	refused := len(slices.DeleteFunc(slices.Clone(faults), func(err error) bool { return err == nil }))
	if refused == 0 {
		return nil
	}
	return &LogsRefusedError{N: refused, err: errors.Join(faults...)}
}

// LogsRefusedError says that N entries of a write were not kept; the others were.
type LogsRefusedError struct {
	N   int
	err error
}

// Error implements error.
func (e *LogsRefusedError) Error() string {
	return fmt.Sprintf("%d log entries are refused: %v", e.N, e.err)
}

// Unwrap gives the reasons.
func (e *LogsRefusedError) Unwrap() error { return e.err }

func (l *Ledger) appendLogs(ctx context.Context, call db.Call, session uuid.UUID, entries []LogEntry) error {
	raw, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("switchctl: encode log entries: %w", err)
	}
	return l.put(ctx, call.TenantID, func(q *db.Queries) error {
		_, err := q.SessionAppendLogs(ctx, call.TenantID, session, raw)
		return err
	})
}

// sessionMetadata is a session's metadata with its logs, as ai_session.ended shows it (interface document 2.8): entries of the time
// before they had rows come first. logs_dropped stands there when some were dropped.
func sessionMetadata(s db.AiSession, rows []sessionLog, dropped int) (_ json.RawMessage, err error) {
	if len(rows) == 0 && dropped == 0 {
		return OrNull(s.Metadata), nil
	}
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(s.Metadata, &m); err != nil || m == nil {
		return nil, fmt.Errorf("switchctl: read a session's metadata: %w", err)
	}
	logs := []json.RawMessage{}
	if raw := m["logs"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &logs); err != nil {
			return nil, fmt.Errorf("switchctl: read a session's logs: %w", err)
		}
	}
	for _, r := range rows {
		entry, err := json.Marshal(LogEntry{At: r.At.UTC(), Source: r.Source, Type: r.Type, Metadata: OrNull(r.Metadata)}.shown())
		if err != nil {
			return nil, fmt.Errorf("switchctl: encode a log entry: %w", err)
		}
		logs = append(logs, entry)
	}
	if m["logs"], err = json.Marshal(logs); err != nil {
		return nil, fmt.Errorf("switchctl: encode a session's logs: %w", err)
	}
	if dropped > 0 {
		m["logs_dropped"] = fmt.Append(nil, dropped)
	}
	return json.Marshal(m)
}

// sessionLog is a row of a session's log.
type sessionLog = db.SessionLogsRow
