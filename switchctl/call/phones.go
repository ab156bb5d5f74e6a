package call

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// HoldPhone keeps the agent's phone from now on, see [phone.Book.Hold]. Errors: [*fs.VariableError] for an account that can't be dialed,
// [switchctl.ErrDraining].
func (c *Controller) HoldPhone(_ context.Context, spec phone.Spec) error { return c.phones.Hold(spec) }

// ReleasePhone ends that, and the phone's leg, once the call on it is over. It returns when the leg has been given up.
func (c *Controller) ReleasePhone(ctx context.Context, agentID uuid.UUID) error {
	return c.phones.Release(ctx, agentID)
}

// RingPhone plays ringback to a held phone while the call that its agent has dialed rings, or ends it.
func (c *Controller) RingPhone(_ context.Context, agentID uuid.UUID, on bool) error {
	return c.phones.Ring(agentID, on)
}

// Phones tells how all phones stand, in the order of their agents' ids.
func (c *Controller) Phones() []phone.State { return c.phones.States() }
