package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/httpapi/auth"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	sessionNoun    = "session"
	escalationNoun = "escalation"

	defaultLimit = 50
	maxLimit     = 500
	// maxOffset and maxAuditPeriod bound what a page of the audit reads.
	maxOffset      = 100_000
	maxAuditPeriod = 92 * 24 * time.Hour
	// escalationPeriod is listed when no beginning is named.
	escalationPeriod = 7 * 24 * time.Hour
)

// Supervisors is what the API asks of those who watch calls; *supervisors.Service is one.
type Supervisors interface {
	Floor(ctx context.Context, tenant uuid.UUID) (supervisors.Floor, error)
	// Listen gives the live floor, from after an event that is known.
	Listen(tenant, user uuid.UUID, last string) (*supervisors.Listener, error)
	StartSession(ctx context.Context, by supervisors.Supervisor, in supervisors.StartInput) (supervisors.Session, error)
	ActiveSession(ctx context.Context, by supervisors.Supervisor) (*supervisors.Session, error)
	ChangeMode(ctx context.Context, by supervisors.Supervisor, id uuid.UUID, in supervisors.ModeInput) (supervisors.Session, error)
	EndSession(ctx context.Context, by supervisors.Supervisor, id uuid.UUID) error
	TransferCall(ctx context.Context, by supervisors.Supervisor, in supervisors.TransferInput) (supervisors.ActionResult, error)
	Escalations(ctx context.Context, tenant uuid.UUID, f supervisors.EscalationFilter) ([]supervisors.Escalation, int64, error)
	ClaimEscalation(ctx context.Context, by supervisors.Supervisor, id uuid.UUID, in supervisors.ClaimInput) (supervisors.Session, error)
	Audit(ctx context.Context, tenant uuid.UUID, f supervisors.AuditFilter) ([]supervisors.AuditItem, int64, error)
}

type supervisorHandlers struct {
	supervisors Supervisors
	streams     streams
	now         func() time.Time
}

// supervisorOperations are what supervisors see and do.
func (a *api) supervisorOperations() []operation {
	const root = "/api/supervisor"
	h := a.supervisors
	return onDialerAPI([]operation{
		{method: http.MethodGet, path: root + "/floor", roles: managers, handle: ofTenant(h.supervisors.Floor)},
		{method: http.MethodGet, path: root + "/floor/stream", roles: managers, handle: h.floorStream},
		{method: http.MethodPost, path: root + "/transfer", roles: managers, body: jsonBody, place: a.places.ofSubject, handle: withBodyBy(ok, h.supervisors.TransferCall)},
		{method: http.MethodPost, path: root + "/sessions", roles: managers, body: jsonBody, place: a.places.ofSubject, handle: withBodyBy(created, h.supervisors.StartSession)},
		{method: http.MethodGet, path: root + "/sessions/active", roles: managers, handle: h.active},
		{method: http.MethodPatch, path: root + "/sessions/{session_id}/mode", roles: managers, body: jsonBody, place: a.places.ofSession, handle: h.changeMode},
		{method: http.MethodDelete, path: root + "/sessions/{session_id}", roles: managers, place: a.places.ofSession, handle: h.end},
		{method: http.MethodGet, path: root + "/escalations", roles: managers, handle: h.escalations},
		{method: http.MethodPost, path: root + "/escalations/{escalation_id}/claim", roles: managers, body: jsonBody, place: a.places.ofEscalation, handle: h.claim},
		{method: http.MethodGet, path: root + "/audit", roles: managers, handle: h.audit},
	})
}

// supervisorOf is who asks.
func supervisorOf(p auth.Principal) supervisors.Supervisor {
	return supervisors.Supervisor{TenantID: p.TenantID, ID: p.ID, Admin: p.Role == account.RoleAdmin}
}

// withBodyBy takes a body, in the name of the supervisor who asks.
func withBodyBy[In, R any](show func(any) reply, do func(ctx context.Context, by supervisors.Supervisor, in In) (R, error)) handlerFunc {
	return func(ctx context.Context, r *request) (reply, error) {
		var in In
		if err := r.decode(&in); err != nil {
			return reply{}, err
		}
		out, err := do(ctx, supervisorOf(r.who), in)
		return show(out), err
	}
}

func (h supervisorHandlers) active(ctx context.Context, r *request) (reply, error) {
	session, err := h.supervisors.ActiveSession(ctx, supervisorOf(r.who))
	return ok(session), err
}

func (h supervisorHandlers) changeMode(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("session_id", sessionNoun)
	if err != nil {
		return reply{}, err
	}
	var in supervisors.ModeInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	session, err := h.supervisors.ChangeMode(ctx, supervisorOf(r.who), id, in)
	return ok(session), err
}

func (h supervisorHandlers) end(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("session_id", sessionNoun)
	if err != nil {
		return reply{}, err
	}
	return noContent(), h.supervisors.EndSession(ctx, supervisorOf(r.who), id)
}

type escalationList struct {
	Items []supervisors.Escalation `json:"items"`
	Total int64                    `json:"total"`
}

func (h supervisorHandlers) escalations(ctx context.Context, r *request) (reply, error) {
	status, badStatus := r.queryOneOf("status", supervisors.EscalationsOpen, supervisors.EscalationsClaimed)
	to, badTo := r.queryTime("to", h.now().Add(time.Minute)) // clocks of several hosts
	from, badFrom := r.queryTime("from", to.Add(-escalationPeriod))
	limit, badLimit := r.queryInt("limit", defaultLimit, 1, maxLimit)
	offset, badOffset := r.queryInt("offset", 0, 0, maxOffset)
	if err := faults(badStatus, badFrom, badTo, badLimit, badOffset, before(from, to, badFrom, badTo)); err != nil {
		return reply{}, err
	}
	f := supervisors.EscalationFilter{From: from, To: to, Limit: int32(limit), Offset: int32(offset)}
	if status != nil {
		f.Status = *status
	}
	items, total, err := h.supervisors.Escalations(ctx, r.who.TenantID, f)
	return ok(escalationList{Items: orEmpty(items), Total: total}), err
}

// before refuses a period that ends before it begins.
func before(from, to time.Time, bad ...*fault.Field) *fault.Field {
	for _, b := range bad {
		if b != nil {
			return nil
		}
	}
	if from.After(to) {
		return &fault.Field{Field: "from", Message: "must not lie after to"}
	}
	return nil
}

func (h supervisorHandlers) claim(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID("escalation_id", escalationNoun)
	if err != nil {
		return reply{}, err
	}
	var in supervisors.ClaimInput
	if err := r.decodeOptional(&in); err != nil {
		return reply{}, err
	}
	session, err := h.supervisors.ClaimEscalation(ctx, supervisorOf(r.who), id, in)
	return ok(session), err
}

type auditList struct {
	Items  []supervisors.AuditItem `json:"items"`
	Total  int64                   `json:"total"`
	Limit  int                     `json:"limit"`
	Offset int                     `json:"offset"`
}

func (h supervisorHandlers) audit(ctx context.Context, r *request) (reply, error) {
	from, badFrom := r.requiredTime("from")
	to, badTo := r.requiredTime("to")
	who, badWho := r.queryID("supervisor_id")
	mode, badMode := r.queryOneOf("mode", "listen", "whisper", "barge", "listen_and_whisper")
	limit, badLimit := r.queryInt("limit", defaultLimit, 1, maxLimit)
	offset, badOffset := r.queryInt("offset", 0, 0, maxOffset)
	badPeriod := before(from, to, badFrom, badTo)
	if badFrom == nil && badTo == nil && to.Sub(from) > maxAuditPeriod {
		badPeriod = &fault.Field{Field: "from", Message: "must lie at most 92 days before to"}
	}
	if err := faults(badFrom, badTo, badWho, badMode, badLimit, badOffset, badPeriod); err != nil {
		return reply{}, err
	}
	items, total, err := h.supervisors.Audit(ctx, r.who.TenantID, supervisors.AuditFilter{
		From: from, To: to, SupervisorID: who, Mode: mode, Limit: int32(limit), Offset: int32(offset),
	})
	return ok(auditList{Items: orEmpty(items), Total: total, Limit: limit, Offset: offset}), err
}

// requiredTime is queryTime for a parameter that can't be left out.
func (r *request) requiredTime(name string) (time.Time, *fault.Field) {
	if _, sent := r.query(name); !sent {
		return time.Time{}, &fault.Field{Field: name, Message: "is required"}
	}
	return r.queryTime(name, time.Time{})
}
