package main

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/input"
)

type trunkEditCmd struct {
	target
	Name      *string `help:"Its name."`
	Host      *string `help:"The carrier's host. Another one needs the password again."`
	Port      *int    `help:"Its SIP port."`
	Transport *string `help:"udp, tcp or tls."`
	Username  *string `help:"For a carrier that asks for one; empty for none."`
	passwordFlags
	Register     *bool   `help:"Register with the carrier." negatable:""`
	NumberFormat *string `help:"How the carrier requires numbers: e164, national or 0national."`
	MaxChannels  *int    `help:"Calls at once."`
	CPS          *int    `help:"New calls per second."`
	Priority     *int    `help:"The lowest is tried first."`
}

// Run changes a trunk.
func (cmd trunkEditCmd) Run(ctx context.Context, e env) error {
	password, err := cmd.given(e, trunkPassword)
	if err != nil {
		return err
	}
	in := account.TrunkEdit{
		Name: member(cmd.Name), Host: member(cmd.Host), Port: member(cmd.Port), Transport: member(cmd.Transport),
		Username: clearable(cmd.Username), Password: clearable(password), Register: member(cmd.Register),
		NumberFormat: member(cmd.NumberFormat), MaxChannels: member(cmd.MaxChannels), CPS: member(cmd.CPS), Priority: member(cmd.Priority),
	}
	return cmd.on(ctx, e, func(s *account.Service, tenantID, id uuid.UUID) error {
		return one(cmd.adminFlags, e, trunkRow)(s.EditTrunk(ctx, tenantID, id, in))
	})
}

// member is a flag as a member of an edit: absent unless it was given.
func member[T any](v *T) input.Opt[T] {
	if v == nil {
		return input.Opt[T]{}
	}
	return input.Some(*v)
}

// clearable is a flag whose empty value forgets what there is.
func clearable(v *string) input.Opt[string] {
	if v != nil && *v == "" {
		return input.Null[string]()
	}
	return member(v)
}

type numberEditCmd struct {
	target
	Label *string `help:"What it is for; empty for nothing."`
	Flow  *string `help:"The flow that takes its calls; empty for the tenant's default voice agent."`
	Trunk *string `help:"The trunk that it belongs to, which its calls must come over; empty for any of the tenant's."`
}

// Run changes a number.
func (cmd numberEditCmd) Run(ctx context.Context, e env) error {
	in := account.NumberEdit{Label: clearable(cmd.Label), FlowID: clearable(cmd.Flow), TrunkID: clearable(cmd.Trunk)}
	return cmd.on(ctx, e, func(s *account.Service, tenantID, id uuid.UUID) error {
		return one(cmd.adminFlags, e, numberRow)(s.EditNumber(ctx, tenantID, id, in))
	})
}
