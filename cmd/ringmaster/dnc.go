package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/cmd/controller"
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/store"
)

// dncCmd works on the do-not-call registry without a controller.
type dncCmd struct {
	Import dncImportCmd `cmd:"" help:"Read the regulator's files and write the snapshot that a controller starts from."`
	Check  dncCheckCmd  `cmd:"" help:"Tell whether numbers are on the registry. Exit code 0: none is; 1: at least one is, or it can't be told."`
	Status dncStatusCmd `cmd:"" help:"Show which registry a controller would start with, and its files."`
}

// dncFlags name the registry: the configuration's, or files of one's own.
type dncFlags struct {
	adminFlags
	Path     string `help:"A file or folder of the regulator's, or a snapshot, in place of the configuration's." type:"path" placeholder:"PATH"`
	Snapshot string `help:"The snapshot of --path; beside it when left out." type:"path" placeholder:"FILE"`
}

func (f dncFlags) config(e env, needs ...string) (controller.Config, error) {
	if f.Path == "" {
		return f.load(e, append(needs, controller.NeedsRegistry()...)...)
	}
	c := controller.Defaults()
	c.Dialing.DNCPath, c.Dialing.DNCSnapshot = f.Path, f.Snapshot
	return c, nil
}

type dncImportCmd struct {
	dncFlags
	AcceptSmaller bool `help:"Accept a registry that lost more than 1% of its numbers."`
}

// Run imports the files, and reads back what it wrote.
func (cmd dncImportCmd) Run(ctx context.Context, e env) error {
	c, err := cmd.config(e, controller.NeedsStore()...) // for the audit
	if err != nil {
		return err
	}
	log := logger(e, controller.LogConfig{Level: "warn", Format: c.Log.Format})
	status, err := c.ImportRegistry(ctx, log, cmd.AcceptSmaller)
	if err != nil {
		return err
	}
	if err := cmd.audit(ctx, c, status); err != nil {
		return err
	}
	return cmd.print(e.stdout, true, row{
		{"version", status.Version},
		{"as_of", &status.AsOf},
		{"numbers", status.Numbers},
		{"files", len(status.Sources)},
		{"bad_rows", status.BadRows},
		{"memory_mb", status.Bytes >> 20},
		{"load_s", fmt.Sprintf("%.1f", status.Took.Seconds())},
	})
}

// audit writes the row of an import into the installation's database, where the command knows one.
func (cmd dncImportCmd) audit(ctx context.Context, c controller.Config, status dnc.Status) error {
	if c.Database.URL == "" {
		return nil
	}
	st, err := controller.OpenStore(ctx, c)
	if err != nil {
		return fmt.Errorf("the registry is imported, but its audit could not be written: %w", err)
	}
	defer st.Close()
	return st.InSystem(ctx, func(tx *store.Tx) error {
		return tx.Audit(ctx, store.AuditEntry{Action: "dnc_registry.imported", ObjectID: status.Version, Details: map[string]any{
			"numbers": status.Numbers, "as_of": status.AsOf, "files": len(status.Sources), "accept_smaller": cmd.AcceptSmaller,
		}})
	})
}

type dncCheckCmd struct {
	dncFlags
	Numbers []string `arg:"" help:"Ten digits, or with 0, 91 or +91 before them."`
}

// Run asks for numbers, as the dialer does.
func (cmd dncCheckCmd) Run(ctx context.Context, e env) error {
	c, err := cmd.config(e)
	if err != nil {
		return err
	}
	phones := make([]store.Phone, len(cmd.Numbers))
	for i, n := range cmd.Numbers {
		if phones[i], err = store.ParsePhone(n); err != nil {
			return fmt.Errorf("read %q: %w", n, err)
		}
	}
	s, err := c.Scrubber(logger(e, controller.LogConfig{Level: "warn", Format: c.Log.Format}), nil, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Load(ctx); err != nil {
		return err
	}
	listed, err := s.Listed(ctx, phones)
	if err != nil {
		return err
	}
	rows := make([]row, len(phones))
	code := exitDone
	for i, p := range phones {
		rows[i] = row{{"number", p.National()}, {"listed", listed[i]}}
		if listed[i] {
			code = exitFailed
		}
	}
	if err := cmd.print(e.stdout, false, rows...); err != nil || code == exitDone {
		return err
	}
	return &exitError{code: code}
}

type dncStatusCmd struct{ dncFlags }

// Run shows the snapshot's catalogue and what has become of the files since; it reads no numbers.
func (cmd dncStatusCmd) Run(e env) error {
	c, err := cmd.config(e)
	if err != nil {
		return err
	}
	in, err := dnc.Inspect(c.Dialing.DNCPath, c.Dialing.DNCSnapshot)
	if err != nil {
		return err
	}
	rows := make([]row, 0, len(in.Files))
	for _, f := range in.Files {
		r := row{
			{"file", f.Name}, {"as_of", &f.AsOf}, {"bytes", f.Size}, {"state", string(f.State)}, {"rows", f.Rows}, {"bad_rows", f.BadRows},
		}
		if cmd.JSON {
			r = append(r, cell{"bad_lines", f.BadLines})
		}
		rows = append(rows, r)
	}
	snapshot := row{{"snapshot", in.Snapshot}, {"state", in.State()}, {"version", "-"}, {"as_of", "-"}, {"age", "-"}, {"numbers", uint64(0)}}
	if in.Version != "" {
		snapshot[2].value, snapshot[3].value = in.Version, &in.AsOf
		snapshot[4].value, snapshot[5].value = time.Since(in.AsOf).Round(time.Minute).String(), in.Numbers
	}
	if cmd.JSON {
		object, files := snapshot.object(), make([]map[string]any, len(rows))
		for i, r := range rows {
			files[i] = r.object()
		}
		object["files"] = files
		return encodeJSON(e.stdout, object)
	}
	if err := cmd.print(e.stdout, true, snapshot); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(e.stdout)
	return cmd.print(e.stdout, false, rows...)
}
