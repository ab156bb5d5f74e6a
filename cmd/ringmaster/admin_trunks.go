package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

type trunkCmd struct {
	Create  trunkCreateCmd  `cmd:"" help:"Declare a trunk."`
	List    tenantListCmd   `cmd:"" help:"List a tenant's trunks."`
	Disable changeCmd       `cmd:"" help:"Take a trunk out of use."`
	Enable  changeCmd       `cmd:"" help:"Take a trunk into use again."`
	Set     trunkSetCmd     `cmd:"" help:"Set a trunk's media mode."`
	Probe   trunkProbeCmd   `cmd:"" help:"Try by a test call whether a trunk supports bypass, and set or clear its flag."`
	Edit    trunkEditCmd    `cmd:"" help:"Change a trunk: what is given."`
	Delete  changeCmd       `cmd:"" help:"Remove a trunk without numbers and calls."`
	Gateway trunkGatewayCmd `cmd:"" help:"Print the switch's gateway for a trunk that registers or authenticates."`
}

type trunkCreateCmd struct {
	ofTenantFlags
	Name      string `arg:"" help:"Its name."`
	Host      string `help:"The carrier's host." required:""`
	Port      int    `help:"Its SIP port." default:"5060"`
	Transport string `help:"udp, tcp or tls." enum:"udp,tcp,tls" default:"udp"`
	Username  string `help:"For a carrier that asks for one."`
	passwordFlags
	Register     bool   `help:"Register with the carrier."`
	NumberFormat string `help:"How the carrier requires numbers: e164, national or 0national." enum:"e164,national,0national" default:"e164"`
	MaxChannels  int    `help:"Calls at once." default:"10"`
	CPS          int    `help:"New calls per second." default:"10"`
	Priority     int    `help:"The lowest is tried first." default:"0"`
	MediaMode    string `help:"bridge, or bypass: the audio goes past the switch." enum:"bridge,bypass" default:"bridge"`
}

// Run declares a trunk.
func (cmd trunkCreateCmd) Run(ctx context.Context, e env) error {
	password, err := cmd.given(e, trunkPassword)
	if err != nil {
		return err
	}
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, tenantID uuid.UUID) error {
		return one(cmd.adminFlags, e, trunkRow)(s.AddTrunk(ctx, tenantID, cmd.edit(password)))
	})
}

// edit has every flag as a member, so that a number out of range is refused as it is over HTTP.
func (cmd *trunkCreateCmd) edit(password *string) account.TrunkEdit {
	in := account.TrunkEdit{
		Name: input.Some(cmd.Name), Host: input.Some(cmd.Host), Port: input.Some(cmd.Port), Transport: input.Some(cmd.Transport),
		Register: input.Some(cmd.Register), NumberFormat: input.Some(cmd.NumberFormat), MaxChannels: input.Some(cmd.MaxChannels),
		CPS: input.Some(cmd.CPS), Priority: input.Some(cmd.Priority), MediaMode: input.Some(cmd.MediaMode),
	}
	if cmd.Username != "" {
		in.Username = input.Some(cmd.Username)
	}
	if password != nil && *password != "" {
		in.Password = input.Some(*password)
	}
	return in
}

func trunkRow(t db.Trunk) row {
	return row{
		{"id", t.ID},
		{"name", t.Name},
		{"host", t.Host},
		{"port", t.Port},
		{"transport", t.Transport},
		{"number_format", t.NumberFormat},
		{"max_channels", t.MaxChannels},
		{"cps", t.Cps},
		{"priority", t.Priority},
		{"media_mode", t.MediaMode},
		{"bypass_proven_at", t.BypassProvenAt},
		{"bypass_failed_at", t.BypassFailedAt},
		{"bypass_failure", t.BypassFailure},
		{"is_active", t.IsActive},
		{"rests_until", t.RestsUntil},
		{"failure", t.Failure},
	}
}

type trunkGatewayCmd struct{ target }

// Run prints the gateway's XML, password included: for sip_profiles/gateways of the switch.
func (cmd trunkGatewayCmd) Run(ctx context.Context, e env) error {
	return cmd.on(ctx, e, func(s *account.Service, tenantID, id uuid.UUID) error {
		g, err := s.Gateway(ctx, tenantID, id)
		if err != nil {
			return err
		}
		text, err := g.XML()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(e.stdout, text)
		return err
	})
}

type numberCmd struct {
	Create  numberCreateCmd `cmd:"" help:"Give a number to a tenant."`
	List    tenantListCmd   `cmd:"" help:"List a tenant's numbers."`
	Disable changeCmd       `cmd:"" help:"Refuse calls to a number."`
	Enable  changeCmd       `cmd:"" help:"Take calls to a number again."`
	Edit    numberEditCmd   `cmd:"" help:"Change a number: what is given."`
	Delete  changeCmd       `cmd:"" help:"Take a number from a tenant."`
}

type numberCreateCmd struct {
	ofTenantFlags
	Number string     `arg:"" help:"Ten digits, or with 0, 91 or +91 before them."`
	Label  string     `help:"What it is for."`
	Flow   *uuid.UUID `help:"The flow that takes its calls; the tenant's default voice agent when left out."`
	Trunk  *uuid.UUID `help:"The trunk that it belongs to."`
}

// Run gives a number to a tenant.
func (cmd numberCreateCmd) Run(ctx context.Context, e env) error {
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, tenantID uuid.UUID) error {
		return one(cmd.adminFlags, e, numberRow)(s.CreateNumber(ctx, tenantID, account.NumberInput{
			Number: cmd.Number, Label: cmd.Label, FlowID: cmd.Flow, TrunkID: cmd.Trunk,
		}))
	})
}

func numberRow(n db.Number) row {
	return row{
		{"id", n.ID},
		{"e164", n.E164},
		{"label", n.Label},
		{"flow_id", n.FlowID},
		{"trunk_id", n.TrunkID},
		{"is_active", n.IsActive},
	}
}

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
