package main

import (
	"context"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store/db"
)

// The commands that differ in nothing but what they list or change are rows of the two tables here.

// lists has what "KIND list" shows, by KIND.
func lists() map[string]func(context.Context, *account.Service, uuid.UUID) ([]row, error) {
	return map[string]func(context.Context, *account.Service, uuid.UUID) ([]row, error){
		"user": listed((*account.Service).Users, userRow),
		"key": listed(func(s *account.Service, ctx context.Context, tenant uuid.UUID) ([]db.ApiKey, error) {
			return s.Keys(ctx, tenant, true)
		}, keyRow),
		"trunk":  listed((*account.Service).Trunks, trunkRow),
		"number": listed((*account.Service).Numbers, numberRow),
		"tenant": listed(func(s *account.Service, ctx context.Context, _ uuid.UUID) ([]db.Tenant, error) { return s.Tenants(ctx) }, tenantRow),
	}
}

func listed[T any](list func(*account.Service, context.Context, uuid.UUID) ([]T, error), toRow func(T) row) func(context.Context, *account.Service, uuid.UUID) ([]row, error) {
	return func(ctx context.Context, s *account.Service, tenantID uuid.UUID) ([]row, error) {
		items, err := list(s, ctx, tenantID)
		rows := make([]row, 0, len(items))
		for _, item := range items {
			rows = append(rows, toRow(item))
		}
		return rows, err
	}
}

func (f adminFlags) list(ctx context.Context, e env, s *account.Service, command *kong.Context, tenantID uuid.UUID) error {
	kind, _, _ := strings.Cut(command.Command(), " ")
	rows, err := lists()[kind](ctx, s, tenantID)
	if err != nil {
		return err
	}
	return f.print(e.stdout, false, rows...)
}

// listCmd lists all that there are.
type listCmd struct{ adminFlags }

// Run lists them.
func (cmd listCmd) Run(ctx context.Context, e env, command *kong.Context) error {
	return cmd.accounts(ctx, e, func(s *account.Service) error { return cmd.list(ctx, e, s, command, uuid.Nil) })
}

// tenantListCmd lists what belongs to a tenant.
type tenantListCmd struct{ ofTenantFlags }

// Run lists it.
func (cmd tenantListCmd) Run(ctx context.Context, e env, command *kong.Context) error {
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, tenantID uuid.UUID) error { return cmd.list(ctx, e, s, command, tenantID) })
}

// changes has what "KIND CHANGE ID" does, by KIND.
func changes() map[string]change {
	return map[string]change{
		"user":   {activate: (*account.Service).SetUserActive},
		"trunk":  {activate: (*account.Service).SetTrunkActive, remove: (*account.Service).DeleteTrunk},
		"number": {activate: (*account.Service).SetNumberActive, remove: (*account.Service).DeleteNumber},
	}
}

type change struct {
	activate func(s *account.Service, ctx context.Context, tenantID, id uuid.UUID, active bool) error
	remove   func(s *account.Service, ctx context.Context, tenantID, id uuid.UUID) error
}

// changeCmd enables, disables or deletes one thing, which its name says.
type changeCmd struct{ target }

// Run changes it.
func (cmd changeCmd) Run(ctx context.Context, e env, command *kong.Context) error {
	words := strings.Fields(command.Command())
	kind, verb := words[0], words[1]
	return cmd.done(ctx, e, kind+" %s is "+verb+"d", func(s *account.Service, tenantID, id uuid.UUID) error {
		if verb == "delete" {
			return changes()[kind].remove(s, ctx, tenantID, id)
		}
		return changes()[kind].activate(s, ctx, tenantID, id, verb == "enable")
	})
}
