package dialer

import (
	"context"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// place puts a call through the gate to the switch. Nothing is admitted while the switch can't be reached. Errors: those of
// [Originator], *RefusalError, *fault.Error.
func (g *rules) place(ctx context.Context, by Originator, req admission.Request) (db.Call, error) {
	if err := by.CanOriginate(); err != nil {
		return db.Call{}, err
	}
	adm, err := g.Admit(ctx, req)
	if err != nil {
		return db.Call{}, err
	}
	return by.Originate(ctx, adm)
}
