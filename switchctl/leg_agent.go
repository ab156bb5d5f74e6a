package switchctl

import (
	"context"

	"github.com/google/uuid"
)

func (l *leg) ConnectAgent(context.Context, AgentConnect) (AgentOutcome, error) {
	return AgentUnavailable, ErrUnknownPhone
}

func (l *leg) StartMusic(context.Context, string) error { return nil }

func (l *leg) StopMusic(context.Context) error { return nil }

// HoldPhone keeps the agent's phone from now on: a held one gets its leg as soon as it is registered. It may be called again.
func (c *Controller) HoldPhone(context.Context, PhoneSpec) error { return ErrUnknownPhone }

// ReleasePhone ends that, and the phone's leg.
func (c *Controller) ReleasePhone(context.Context, uuid.UUID) error { return nil }

// RingPhone plays ringback to a held phone while the call that its agent has dialed rings, or ends it.
func (c *Controller) RingPhone(context.Context, uuid.UUID, bool) error { return ErrUnknownPhone }

// Phones tells how all phones stand.
func (c *Controller) Phones() []PhoneState { return nil }
