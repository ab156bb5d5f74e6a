package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ringmaster/ringmaster/cmd/controller"
	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
)

type switchCmd struct {
	Config switchConfigCmd `cmd:"" help:"Render the switch's configuration for this host."`
}

type switchConfigCmd struct {
	configFlag
	Out string `help:"Folder to write to; it must not exist, or be empty." required:"" type:"path" placeholder:"DIR"`
}

// Run renders the switch's configuration: what ringmaster.yaml says, and the active trunks of all tenants. The carriers' names are resolved
// now, so that it is to be rendered again when a trunk, or a carrier's address, changes.
func (cmd switchConfigCmd) Run(ctx context.Context, e env) error {
	switch entries, err := os.ReadDir(cmd.Out); {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("the folder %s is not empty: what lies there would be mixed with the new configuration; render to a new folder", cmd.Out)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the folder: %w", err)
	}
	return cmd.withStoreFor(ctx, e, controller.NeedsSwitch(), func(c controller.Config, st *store.Store) error {
		gateways, hosts, err := account.New(st).SwitchTrunks(ctx)
		if err != nil {
			return err
		}
		nets, err := c.CarrierNetworks(ctx, hosts)
		if err != nil {
			return err
		}
		params, err := c.SwitchParams(st, nets)
		if err != nil {
			return err
		}
		if err := conf.Render(cmd.Out, params, gateways...); err != nil {
			return err
		}
		if err := os.Chmod(cmd.Out, 0o750); err != nil {
			return fmt.Errorf("close the folder to others: %w", err)
		}
		_, err = fmt.Fprintf(e.stdout, "%s: %d gateway(s), calls are taken from %d network(s)\n%s", cmd.Out, len(gateways), len(nets), inForce)
		return err
	})
}

// inForce says how a switch that runs takes a configuration over.
const inForce = "a switch that runs takes it over with reloadxml, then reloadacl, then sofia profile external rescan " +
	"(a gateway that was changed: killgw first); conf/README.md\n"

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Validate the configuration: all faults at once, and what is seldom meant."`
}

type configCheckCmd struct{ configFlag }

// Run validates the configuration as serve would.
func (cmd configCheckCmd) Run(e env) error {
	c, err := cmd.load(e)
	if err != nil {
		return err
	}
	for _, w := range append(controller.FileWarnings(cmd.file(e)), c.Warnings()...) {
		_, _ = fmt.Fprintf(e.stderr, "warning: %s: %s\n", w.Key, w.Message)
	}
	_, err = fmt.Fprintln(e.stdout, "the configuration has no faults")
	return err
}
