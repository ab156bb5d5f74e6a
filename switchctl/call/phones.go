package call

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

const (
	// silenceApp is what a phone's leg runs that is in no call.
	silenceApp = "playback"
	// silenceLimit bounds the wait for it, silencePause lies between two looks.
	silenceLimit = 500 * time.Millisecond
	silencePause = 10 * time.Millisecond
)

// silent waits until a phone's leg plays its silence, or has had time enough. Before that, right after it was answered or taken from a call, the
// switch looks the extension of the silence up, and gives it also to a leg that is sent elsewhere meanwhile (switch_core_standard_on_routing).
func (c *host) silent(ctx context.Context, leg string) {
	for began := c.clock.Now(); c.clock.Now().Sub(began) < silenceLimit; {
		app, err := c.link.API(ctx, fs.GetVar(leg, "current_application"))
		if err != nil || strings.TrimSpace(app) == silenceApp || rt.Pause(ctx, c.clock, silencePause) != nil {
			return
		}
	}
}

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
