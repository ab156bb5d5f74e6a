package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store/db"
)

// Actor is who a change is made for, as the audit names them.
type Actor struct {
	// Name is "user:<id>", "api_key:<id>", "ai_session:<id>" or "operator:<account>@<host>".
	Name string `json:"actor"`
	// Role is a user's.
	Role string `json:"role,omitempty"`
	// RemoteAddr is the client's address, RequestID that of its request.
	RemoteAddr string `json:"remote_addr,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
}

// ActorSystem is the service's own name in the audit.
const ActorSystem = "system"

type actorKey struct{}

// WithActor gives a context whose transactions work for somebody: what they change in audited tables is in the audit, with who it was.
// Changes without an actor are the service's own and are not.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf gives the actor of a context; its name is empty when there is none.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}

// actorScope is the actor of a transaction as the triggers of audited tables read it; empty for none.
func actorScope(ctx context.Context) string {
	a := ActorOf(ctx)
	if a.Name == "" {
		return ""
	}
	text, err := json.Marshal(a)
	if err != nil {
		return "" // never: it is made of strings
	}
	return string(text)
}

// AuditEntry is a row of the audit that no change of an audited table writes by itself.
type AuditEntry struct {
	// TenantID is uuid.Nil for what concerns the whole installation: such an entry needs the system's scope.
	TenantID uuid.UUID
	// Action is "<object>.<past participle>", such as "monitor.started".
	Action string
	// Actor is that of the context unless it is given here, and the service when there is none.
	Actor           string
	ObjectID        string
	CallID, AgentID *uuid.UUID
	Mode            string
	// Details is encoded as JSON; no secrets, no numbers.
	Details any
	// At is now when it is zero.
	At time.Time
}

// Audit writes an entry in this transaction.
func (t *Tx) Audit(ctx context.Context, e AuditEntry) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	a := ActorOf(ctx)
	if e.Actor != "" && e.Actor != a.Name {
		a = Actor{Name: e.Actor, RemoteAddr: a.RemoteAddr, RequestID: a.RequestID}
	}
	if a.Name == "" {
		a.Name = ActorSystem
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	p := db.AuditInsertParams{
		TenantID: e.TenantID, ID: id, At: e.At, Actor: a.Name, Role: textOrNull(a.Role), Action: e.Action, ObjectID: textOrNull(e.ObjectID),
		CallID: e.CallID, AgentID: e.AgentID, Mode: textOrNull(e.Mode), RemoteAddr: textOrNull(a.RemoteAddr), RequestID: textOrNull(a.RequestID),
	}
	if e.Details != nil {
		if p.Details, err = json.Marshal(e.Details); err != nil {
			return fmt.Errorf("audit %s: %w", e.Action, err)
		}
	}
	if err := t.Q.AuditInsert(ctx, p); err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return nil
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
