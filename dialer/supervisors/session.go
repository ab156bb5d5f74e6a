package supervisors

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// Session is a supervisor's session as it is shown.
type Session struct {
	ID           uuid.UUID                `json:"id"`
	SupervisorID uuid.UUID                `json:"supervisor_id"`
	CallID       *uuid.UUID               `json:"call_id"`
	AgentID      *uuid.UUID               `json:"agent_id"`
	Mode         switchctl.SupervisorMode `json:"mode"`
	StartedAt    time.Time                `json:"started_at"`
	EndedAt      *time.Time               `json:"ended_at"`
}

func sessionOf(row db.SupervisorSession) Session {
	out := Session{
		ID: row.ID, SupervisorID: row.SupervisorID, CallID: row.CallID, AgentID: row.AgentID, Mode: switchctl.SupervisorMode(row.Mode),
		StartedAt: row.StartedAt.UTC(),
	}
	if row.EndedAt != nil {
		at := row.EndedAt.UTC()
		out.EndedAt = &at
	}
	return out
}

// Supervisor is who asks.
type Supervisor struct {
	TenantID, ID uuid.UUID
	// Admin may end the sessions of others.
	Admin bool
}

// StartInput is the body that begins a session: with one call, or with an agent's calls.
type StartInput struct {
	CallID, AgentID, Mode input.Opt[string]
}

// UnmarshalJSON takes the body.
func (in *StartInput) UnmarshalJSON(b []byte) error {
	*in = StartInput{}
	return input.Members(b, map[string]json.Unmarshaler{"call_id": &in.CallID, "agent_id": &in.AgentID, "mode": &in.Mode})
}

// ModeInput is the body that changes a session's mode.
type ModeInput struct{ Mode input.Opt[string] }

// UnmarshalJSON takes the body.
func (in *ModeInput) UnmarshalJSON(b []byte) error {
	*in = ModeInput{}
	return input.Members(b, map[string]json.Unmarshaler{"mode": &in.Mode})
}

// modes are those of a session.
func modes() []string {
	return []string{string(switchctl.SupervisorListens), string(switchctl.SupervisorWhispers), string(switchctl.SupervisorBarges)}
}

// modeOf reads a mode that may be left out.
func modeOf(f *input.Form, in input.Opt[string], otherwise switchctl.SupervisorMode) switchctl.SupervisorMode {
	mode, ok := input.Given(f, "mode", in)
	if !ok {
		return otherwise
	}
	f.OneOf("mode", mode, modes()...)
	return switchctl.SupervisorMode(mode)
}

// started is a session that is to begin.
type started struct {
	row db.SupervisorSession
	// extension is the supervisor's.
	extension string
	// with is the agent who has the call; nil for none.
	with *uuid.UUID
	// take is the escalation that the session claims; nil for none.
	take *uuid.UUID
}

// StartSession rings the supervisor's phone and returns when it is at the call, or waits for the agent's first. Errors: a *fault.Error, of a
// call or agent that the tenant hasn't, one that can't be listened to, a session that the supervisor has already, a phone that doesn't answer.
func (s *Service) StartSession(ctx context.Context, by Supervisor, in StartInput) (Session, error) {
	f := new(input.Form)
	id := func(field string, opt input.Opt[string]) (out *uuid.UUID) {
		if opt.Null {
			return nil
		}
		if text, ok := input.Given(f, field, opt); ok {
			if read, ok := f.UUID(field, text); ok {
				out = &read
			}
		}
		return out
	}
	call, agent := id("call_id", in.CallID), id("agent_id", in.AgentID)
	mode := modeOf(f, in.Mode, switchctl.SupervisorListens)
	switch {
	case f.Faults() > 0:
	case call == nil && agent == nil:
		f.Fail("call_id", "is required, or agent_id")
	case call != nil && agent != nil:
		f.Fail("agent_id", "can't be given beside call_id")
	}
	if err := f.Err(); err != nil {
		return Session{}, err
	}
	return s.start(ctx, by, func(ctx context.Context, tx *store.Tx, st *started) error {
		st.row.CallID, st.row.AgentID, st.row.Mode = call, agent, string(mode)
		if call != nil {
			row, err := liveCall(ctx, tx, by.TenantID, *call)
			st.with = row.AgentID
			return err
		}
		who, err := tx.Q.SupervisedAgent(ctx, by.TenantID, *agent)
		switch {
		case err != nil:
			return missing(err, "agent")
		case who.Status == string(acd.Offline):
			return conflict(CodeAgentOffline, "The agent is not logged in.")
		case who.Node != s.cfg.NodeID:
			return conflict(CodeOtherHost, "The agent's phone is on another host.")
		}
		st.row.CallID = who.CallID
		return nil
	})
}

// liveCall reads a call that goes on.
func liveCall(ctx context.Context, tx *store.Tx, tenant, id uuid.UUID) (db.Call, error) {
	row, err := tx.Q.GetCallView(ctx, tenant, id)
	if err == nil && row.Call.EndTime != nil {
		err = conflict(CodeCallEnded, "The call has ended.")
	}
	return row.Call, missing(err, "call")
}

// start writes a session that prepare has filled in, with its audit row, and rings the phone.
func (s *Service) start(
	ctx context.Context, by Supervisor, prepare func(ctx context.Context, tx *store.Tx, st *started) error,
) (Session, error) {
	sw, err := s.switchOf()
	if err != nil {
		return Session{}, err
	}
	id := store.NewID()
	s.begin(id, by)
	var st started
	err = s.st.InTenant(ctx, by.TenantID, func(tx *store.Tx) error {
		st = started{row: db.SupervisorSession{TenantID: by.TenantID, ID: id, SupervisorID: by.ID, StartedAt: s.now()}}
		if err := prepare(ctx, tx, &st); err != nil {
			return err
		}
		if err := s.ownPhone(ctx, tx, by, &st); err != nil {
			return err
		}
		return s.writeStart(ctx, tx, &st)
	})
	if err != nil {
		if _, refused := errors.AsType[*fault.Error](err); refused {
			s.forget(id)
		} else {
			// The commit may have come to pass: a row that nobody is behind would keep the supervisor from another session.
			s.ends(id, ReasonFailed)
		}
		return Session{}, fault.Wrap("begin supervisor session", err)
	}
	row, err := s.ring(ctx, sw, st)
	if err != nil {
		return Session{}, fault.Wrap("begin supervisor session", err)
	}
	s.metrics.begun.WithLabelValues(row.Mode).Inc()
	if st.take != nil {
		s.metrics.claimed.Inc()
	}
	return sessionOf(row), nil
}

// ownPhone reads the supervisor's extension, and that there is no session yet.
func (s *Service) ownPhone(ctx context.Context, tx *store.Tx, by Supervisor, st *started) error {
	user, err := tx.Q.AgentUser(ctx, by.TenantID, by.ID)
	if err != nil {
		return err
	}
	if user.Extension == nil {
		return conflict(CodeNoExtension, "The supervisor has no extension, and so no phone.")
	}
	st.extension, st.row.SessionEpoch = *user.Extension, &user.SessionEpoch
	switch had, err := tx.Q.SupervisionOf(ctx, by.TenantID, by.ID); {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	default:
		refusal := sessionActive()
		refusal.Members = map[string]any{"session_id": had.ID}
		return refusal
	}
}

func sessionActive() *fault.Error {
	return conflict(CodeSessionActive, "The supervisor has an active session, and can have only one.")
}

// writeStart writes the session's row, what it takes, and the audit's row.
func (s *Service) writeStart(ctx context.Context, tx *store.Tx, st *started) error {
	r := st.row
	row, err := tx.Q.SupervisionInsert(ctx, db.SupervisionInsertParams{
		TenantID: r.TenantID, ID: r.ID, SupervisorID: r.SupervisorID, CallID: r.CallID, AgentID: r.AgentID, Mode: r.Mode, Node: s.cfg.NodeID,
		StartedAt: r.StartedAt, SessionEpoch: r.SessionEpoch,
	})
	if taken, ok := errors.AsType[*store.ConstraintError](err); ok && taken.Constraint == "supervisor_sessions_one_each" {
		return sessionActive()
	}
	if err != nil {
		return err
	}
	st.row = row
	details := map[string]any{}
	if st.take != nil {
		details["escalation_id"] = *st.take
		if err := tx.Q.EscalationTake(ctx, r.ID, r.TenantID, *st.take); err != nil {
			return err
		}
	}
	if row.AgentID == nil {
		row.AgentID = st.with
	}
	return s.audit(ctx, tx, ActionStarted, row, details)
}

// ring has the phone rung, and notes that it is there.
func (s *Service) ring(ctx context.Context, sw switchctl.Supervisions, st started) (db.SupervisorSession, error) {
	row := st.row
	ask := switchctl.Supervision{
		ID: row.ID, TenantID: row.TenantID, Mode: switchctl.SupervisorMode(row.Mode), Follows: row.AgentID != nil,
		Phone: phone.Spec{
			TenantID: row.TenantID, AgentID: row.SupervisorID, Extension: st.extension, Domain: s.cfg.Queue.Domain(), Mode: phone.OnHook,
		},
	}
	if row.CallID != nil {
		ask.CallID = *row.CallID
	}
	if err := sw.StartSupervision(ctx, ask); err != nil {
		s.endRow(context.WithoutCancel(ctx), row.ID, ending{
			tenant: row.TenantID, supervisor: row.SupervisorID, reason: reasonOfRefusal(err), at: s.now(),
		})
		return row, missing(err, "call")
	}
	err := s.st.InTenant(ctx, row.TenantID, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.SupervisionBegun(ctx, s.now(), st.row.TenantID, st.row.ID)
		if errors.Is(err, store.ErrNotFound) {
			return conflict(CodeSessionEnded, "The session ended as it began: the phone hung up, or the call is over.")
		}
		if err != nil || st.take == nil {
			return err
		}
		return s.claimed(ctx, tx, row, *st.take)
	})
	if err == nil {
		s.begun(row.ID)
		return row, nil
	}
	s.hangUp(context.WithoutCancel(ctx), sw, st.row.ID)
	s.endRow(context.WithoutCancel(ctx), st.row.ID, ending{
		tenant: st.row.TenantID, supervisor: st.row.SupervisorID, reason: ReasonFailed, at: s.now(),
	})
	return row, err
}

// reasonOfRefusal says why a session came to nothing.
func reasonOfRefusal(err error) string {
	switch {
	case errors.Is(err, switchctl.ErrPhoneNotReady), errors.Is(err, context.DeadlineExceeded):
		return ReasonNotAnswered
	default:
		return ReasonFailed
	}
}

// ActiveSession is the supervisor's own; nil for none.
func (s *Service) ActiveSession(ctx context.Context, by Supervisor) (*Session, error) {
	var out *Session
	err := s.st.InTenant(ctx, by.TenantID, func(tx *store.Tx) error {
		out = nil
		row, err := tx.Q.SupervisionOf(ctx, by.TenantID, by.ID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		session := sessionOf(row)
		out = &session
		return err
	})
	if err != nil {
		return nil, fault.Wrap("read supervisor session", err)
	}
	return out, nil
}

// ChangeMode gives the supervisor's running session another mode. Errors: a *fault.Error, for one of somebody else as for one that never was.
func (s *Service) ChangeMode(ctx context.Context, by Supervisor, id uuid.UUID, in ModeInput) (Session, error) {
	f := new(input.Form)
	if _, ok := input.Required(f, "mode", in.Mode); !ok {
		return Session{}, f.Err()
	}
	mode := modeOf(f, in.Mode, "")
	if err := f.Err(); err != nil {
		return Session{}, err
	}
	sw, done, err := s.take(ctx, by, id)
	if err != nil {
		return Session{}, err
	}
	defer done()
	was, row, err := s.setMode(ctx, by, id, mode)
	if err != nil || was == mode {
		return sessionOf(row), fault.Wrap("change supervisor session", err)
	}
	if err := sw.ChangeSupervision(ctx, id, mode); err != nil {
		s.restoreMode(context.WithoutCancel(ctx), row, was)
		if errors.Is(err, store.ErrNotFound) {
			err = conflict(CodeSessionEnded, "The session has ended.")
		}
		return Session{}, fault.Wrap("change supervisor session", err)
	}
	return sessionOf(row), nil
}

// setMode writes another mode with its audit row, and gives the mode of before.
func (s *Service) setMode(
	ctx context.Context, by Supervisor, id uuid.UUID, mode switchctl.SupervisorMode,
) (was switchctl.SupervisorMode, row db.SupervisorSession, err error) {
	err = s.st.InTenant(ctx, by.TenantID, func(tx *store.Tx) error {
		var err error
		if row, err = s.runningSession(ctx, tx, by, id); err != nil {
			return err
		}
		if was = switchctl.SupervisorMode(row.Mode); was == mode {
			return nil
		}
		if row, err = tx.Q.SupervisionSetMode(ctx, string(mode), by.TenantID, id); err != nil {
			return err
		}
		return s.audit(ctx, tx, ActionModeChanged, row, map[string]any{"previous_mode": was})
	})
	return was, row, err
}

// restoreMode takes a change back that the switch didn't make.
func (s *Service) restoreMode(ctx context.Context, row db.SupervisorSession, was switchctl.SupervisorMode) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := s.st.InTenant(ctx, row.TenantID, func(tx *store.Tx) error {
		back, err := tx.Q.SupervisionSetMode(ctx, string(was), row.TenantID, row.ID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.audit(ctx, tx, ActionModeChanged, back, map[string]any{"previous_mode": row.Mode, "failed": true})
	})
	if err != nil {
		s.log.ErrorContext(ctx, "restoring the mode of a supervisor's session failed", "supervision_id", row.ID, "error", err)
	}
}

// runningSession locks a session that the supervisor may change.
func (s *Service) runningSession(ctx context.Context, tx *store.Tx, by Supervisor, id uuid.UUID) (db.SupervisorSession, error) {
	row, err := tx.Q.SupervisionLock(ctx, by.TenantID, id)
	switch {
	case err != nil:
		return row, missing(err, sessionNoun)
	case row.SupervisorID != by.ID:
		return row, missing(store.ErrNotFound, sessionNoun)
	case row.EndedAt != nil || row.BegunAt == nil:
		return row, conflict(CodeSessionEnded, "The session has ended, or its phone still rings.")
	case row.Node != s.cfg.NodeID:
		return row, conflict(CodeOtherHost, "The session's phone is on another host.")
	}
	return row, nil
}

const sessionNoun = "session"

// EndSession hangs the supervisor's phone up; for a session that has ended it does nothing. Administrators may end anybody's. Errors: a
// *fault.Error.
func (s *Service) EndSession(ctx context.Context, by Supervisor, id uuid.UUID) error {
	var row db.SupervisorSession
	err := s.st.InTenant(ctx, by.TenantID, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.SupervisionGet(ctx, by.TenantID, id)
		if err == nil && row.SupervisorID != by.ID && !by.Admin {
			err = store.ErrNotFound
		}
		return missing(err, sessionNoun)
	})
	switch {
	case err != nil:
		return fault.Wrap("end supervisor session", err)
	case row.EndedAt != nil:
		return nil
	case row.Node != s.cfg.NodeID:
		return conflict(CodeOtherHost, "The session's phone is on another host.")
	}
	sw, err := s.switchOf()
	if err != nil {
		return err
	}
	s.stopping(id, true)
	if err := sw.EndSupervision(ctx, id); err != nil && !errors.Is(err, store.ErrNotFound) {
		s.stopping(id, false)
		return fault.Wrap("end supervisor session", err)
	}
	s.endRow(context.WithoutCancel(ctx), id, ending{tenant: row.TenantID, reason: ReasonStopped, at: s.now()})
	return nil
}

// take waits for its turn to change a session, and gives what has its phone.
func (s *Service) take(ctx context.Context, by Supervisor, id uuid.UUID) (sw switchctl.Supervisions, done func(), err error) {
	s.mu.Lock()
	live := s.live[id]
	sw = s.sw
	s.mu.Unlock()
	if sw == nil {
		return nil, nil, errNoSwitch()
	}
	if live == nil || live.tenant != by.TenantID || live.supervisor != by.ID {
		// Of another host, or ended, or never there: the row says which.
		if err = s.refusalOf(ctx, by, id); err == nil {
			err = conflict(CodeSessionEnded, "The session has ended.")
		}
		return nil, nil, err
	}
	select {
	case live.turn <- struct{}{}:
		return sw, func() { <-live.turn }, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// refusalOf says why a session can't be changed here.
func (s *Service) refusalOf(ctx context.Context, by Supervisor, id uuid.UUID) error {
	return s.st.InTenant(ctx, by.TenantID, func(tx *store.Tx) error {
		_, err := s.runningSession(ctx, tx, by, id)
		return err
	})
}
