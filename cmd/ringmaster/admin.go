package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/cmd/controller"
	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// configFlag is the flag of every command that works on an installation.
type configFlag struct {
	Config string `help:"Configuration file, /etc/ringmaster/ringmaster.yaml by default; environment variables RINGMASTER_SECTION__KEY override it." type:"path" placeholder:"FILE"`
}

// load reads what a command needs of the configuration; all of it when nothing is named.
func (f configFlag) load(e env, needs ...string) (controller.Config, error) {
	return controller.LoadFor(f.file(e), e.environ, needs)
}

func (f configFlag) file(e env) string { return controller.File(f.Config, e.environ) }

// adminFlags are those of the commands that read and write the database.
type adminFlags struct {
	configFlag
	JSON bool `help:"Print JSON."`
}

// withStore opens the database for one command.
func (f configFlag) withStore(ctx context.Context, e env, work func(controller.Config, *store.Store) error) error {
	return f.withStoreFor(ctx, e, controller.NeedsStore(), work)
}

// withStoreFor does the same for a command that needs more of the configuration.
func (f configFlag) withStoreFor(ctx context.Context, e env, needs []string, work func(controller.Config, *store.Store) error) error {
	c, err := f.load(e, needs...)
	if err != nil {
		return err
	}
	st, err := controller.OpenStore(ctx, c)
	if err != nil {
		return err
	}
	defer st.Close()
	return work(c, st)
}

// accounts does the same for a command on accounts.
func (f adminFlags) accounts(ctx context.Context, e env, work func(*account.Service) error) error {
	return f.withStore(ctx, e, func(_ controller.Config, st *store.Store) error { return work(account.New(st)) })
}

// ofTenant does the same for one tenant, named by id or name.
func (f adminFlags) ofTenant(ctx context.Context, e env, ref string, work func(*account.Service, uuid.UUID) error) error {
	return f.accounts(ctx, e, func(s *account.Service) error {
		t, err := s.Tenant(ctx, ref)
		if err != nil {
			return err
		}
		return work(s, t.ID)
	})
}

// row is one line of a table: names and values in the order shown.
type row []cell

type cell struct {
	name  string
	value any
}

// object has the values by their names, for JSON.
func (r row) object() map[string]any {
	out := make(map[string]any, len(r))
	for _, c := range r {
		out[c.name] = c.value
	}
	return out
}

// one shows what an operation gives, unless that has failed.
func one[T any](f adminFlags, e env, toRow func(T) row) func(T, error) error {
	return func(v T, err error) error {
		if err != nil {
			return err
		}
		return f.print(e.stdout, true, toRow(v))
	}
}

// print shows rows as a table, or as JSON: an array, or one object when single.
func (f adminFlags) print(w io.Writer, single bool, rows ...row) error {
	if f.JSON {
		objects := make([]map[string]any, 0, len(rows))
		for _, r := range rows {
			objects = append(objects, r.object())
		}
		if single && len(objects) == 1 {
			return encodeJSON(w, objects[0])
		}
		return encodeJSON(w, objects)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i, r := range rows {
		if i == 0 {
			for _, c := range r {
				_, _ = fmt.Fprint(tw, strings.ToUpper(strings.ReplaceAll(c.name, "_", " ")), "\t")
			}
			_, _ = fmt.Fprintln(tw)
		}
		for _, c := range r {
			_, _ = fmt.Fprint(tw, show(c.value), "\t")
		}
		_, _ = fmt.Fprintln(tw)
	}
	return tw.Flush()
}

func encodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func show(v any) string {
	switch v := v.(type) {
	case *string:
		if v == nil {
			return "-"
		}
		return *v
	case *time.Time:
		if v == nil {
			return "-"
		}
		return v.UTC().Format(time.RFC3339)
	case *uuid.UUID:
		if v == nil {
			return "-"
		}
		return v.String()
	case []string:
		if len(v) == 0 {
			return "-"
		}
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

type migrateCmd struct{ configFlag }

// Run migrates the database.
func (cmd migrateCmd) Run(ctx context.Context, e env) error {
	c, err := cmd.load(e, controller.NeedsDatabase()...)
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx, c.Database.Store()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, "the schema is current")
	return err
}

type tenantCmd struct {
	Create tenantCreateCmd `cmd:"" help:"Create a tenant."`
	List   listCmd         `cmd:"" help:"List the tenants."`
	// SIPHosts is the way out for SIP URIs.
	Suspend  tenantSuspendCmd  `cmd:"" help:"End every credential of a tenant, at once. Nothing is dialed for it any more; calls that are up go on."`
	Resume   tenantResumeCmd   `cmd:"" help:"Lift a suspension; the tenant's earlier credentials work again."`
	SIPHosts tenantSIPHostsCmd `cmd:"" name:"sip-hosts" help:"Set the hosts that a tenant's SIP URIs may lead to: names, addresses, CIDR blocks."`
}

type tenantSIPHostsCmd struct {
	adminFlags
	Tenant string   `arg:"" help:"The tenant's id or name."`
	Hosts  []string `arg:"" optional:"" help:"Host names, addresses or CIDR blocks, in place of those before; none: no SIP URI is dialed."`
}

// Run sets them.
func (cmd tenantSIPHostsCmd) Run(ctx context.Context, e env) error {
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, tenantID uuid.UUID) error {
		hosts := cmd.Hosts
		if hosts == nil {
			hosts = []string{}
		}
		t, err := s.SetSIPHosts(ctx, tenantID, hosts)
		if err != nil {
			return err
		}
		return cmd.print(e.stdout, true, row{{"id", t.ID}, {"name", t.Name}, {"sip_hosts", t.SipHosts}})
	})
}

type tenantCreateCmd struct {
	adminFlags
	Name    string `arg:"" help:"Its name."`
	Privacy string `help:"standard, or strict: numbers encrypted and masked." enum:"standard,strict" default:"standard"`
}

// Run creates a tenant.
func (cmd tenantCreateCmd) Run(ctx context.Context, e env) error {
	return cmd.accounts(ctx, e, func(s *account.Service) error {
		return one(cmd.adminFlags, e, tenantRow)(s.CreateTenant(ctx, cmd.Name, store.PrivacyMode(cmd.Privacy)))
	})
}

type tenantSuspendCmd struct {
	adminFlags
	Tenant string `arg:"" help:"Its id or name."`
	Reason string `help:"Why."`
}

// Run suspends a tenant.
func (cmd tenantSuspendCmd) Run(ctx context.Context, e env) error {
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, id uuid.UUID) error {
		return one(cmd.adminFlags, e, suspensionRow)(s.Suspend(ctx, id, time.Now(), cmd.Reason))
	})
}

type tenantResumeCmd struct {
	adminFlags
	Tenant string `arg:"" help:"Its id or name."`
}

// Run takes a suspension back.
func (cmd tenantResumeCmd) Run(ctx context.Context, e env) error {
	return cmd.ofTenant(ctx, e, cmd.Tenant, func(s *account.Service, id uuid.UUID) error {
		return one(cmd.adminFlags, e, suspensionRow)(s.Resume(ctx, id))
	})
}

func tenantRow(t db.Tenant) row {
	return row{{"id", t.ID}, {"name", t.Name}, {"privacy_mode", t.PrivacyMode}}
}

func suspensionRow(t db.Tenant) row {
	return row{{"id", t.ID}, {"name", t.Name}, {"suspended_at", t.SuspendedAt}, {"suspend_reason", t.SuspendReason}}
}

// ofTenantFlags are those of the commands on what belongs to a tenant.
type ofTenantFlags struct {
	adminFlags
	Tenant string `help:"The tenant's id or name." required:""`
}

// target is the argument of the commands that change one thing.
type target struct {
	ofTenantFlags
	ID string `arg:"" help:"Its id."`
}

// done is on for a command that has nothing to show but that it is done; message names the id. With --json it prints {"id"}.
func (t target) done(ctx context.Context, e env, message string, work func(*account.Service, uuid.UUID, uuid.UUID) error) error {
	if err := t.on(ctx, e, work); err != nil {
		return err
	}
	return t.said(e, message)
}

func (t target) said(e env, message string) error {
	if t.JSON {
		return encodeJSON(e.stdout, map[string]string{"id": t.ID})
	}
	_, err := fmt.Fprintf(e.stdout, message+"\n", t.ID)
	return err
}

func (t target) on(ctx context.Context, e env, work func(*account.Service, uuid.UUID, uuid.UUID) error) error {
	id, err := uuid.Parse(t.ID)
	if err != nil {
		return fmt.Errorf("the id %q is not a UUID", t.ID)
	}
	return t.ofTenant(ctx, e, t.Tenant, func(s *account.Service, tenantID uuid.UUID) error {
		return work(s, tenantID, id)
	})
}

// isAdministration tells whether a command changes things for the operator, and not as a controller.
func isAdministration(command string) bool {
	first, _, _ := strings.Cut(command, " ")
	return slices.Contains([]string{"tenant", "user", "key", "trunk", "number", "dnc", "secret", "oauth-client"}, first)
}

// asOperator has what a command changes audited as that of the account that runs it. Behind sudo it is the account that called it.
func asOperator(ctx context.Context) context.Context {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	name = cmp.Or(os.Getenv("SUDO_USER"), name)
	return store.WithActor(ctx, store.Actor{Name: "operator:" + name + "@" + host})
}
