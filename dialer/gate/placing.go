package gate

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// PlaceTimeout bounds the admission of one call, and the order to dial it.
const PlaceTimeout = 10 * time.Second

// Originator dials. The call controller is one.
type Originator interface {
	// CanOriginate tells why nothing can be dialed just now; nil when calls can be placed.
	CanOriginate() error
	// Originate dials what was admitted.
	Originate(ctx context.Context, adm *admission.Admission) (db.Call, error)
}

// Place puts a call through the gate to the switch. Nothing is admitted while the switch can't be reached. Errors: those of
// [Originator], *RefusalError, *fault.Error.
func (g *Gate) Place(ctx context.Context, by Originator, req admission.Request) (db.Call, error) {
	if err := by.CanOriginate(); err != nil {
		return db.Call{}, err
	}
	adm, err := g.Admit(ctx, req)
	if err != nil {
		return db.Call{}, err
	}
	return by.Originate(ctx, adm)
}
