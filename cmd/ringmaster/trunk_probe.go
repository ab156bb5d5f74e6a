package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/cmd/controller"
	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/mediapath"
)

type trunkSetCmd struct {
	target
	MediaMode string `help:"bridge, or bypass: the audio goes past the switch." enum:"bridge,bypass" required:""`
}

// Run configures a trunk's media mode. To ask for bypass again gives a trunk that has failed another chance.
func (cmd trunkSetCmd) Run(ctx context.Context, e env) error {
	return cmd.on(ctx, e, func(s *account.Service, tenantID, id uuid.UUID) error {
		return s.SetTrunkMediaMode(ctx, tenantID, id, cmd.MediaMode)
	})
}

type trunkProbeCmd struct {
	ofTenantFlags
	Number string `arg:"" help:"A number of your own, reached over the trunk: somebody, or something, must answer and speak."`
	Trunk  string `help:"The trunk's id or name; may be left out when the tenant has one."`
	From   string `help:"The number that the callee sees; the tenant's first number when left out."`
}

var (
	// errTrunk says that a trunk must be named, errNoTrunk that the tenant has none of that name.
	errTrunk   = errors.New("name the trunk by --trunk")
	errNoTrunk = errors.New("no such trunk")
)

// probeReport is what the command prints.
type probeReport struct {
	TrunkID uuid.UUID `json:"trunk_id"`
	Trunk   string    `json:"trunk"`
	Number  string    `json:"number"`
	mediapath.ProbeResult
}

// Run probes a trunk. Exit code 0: it supports bypass, and its flag is set. 1: it does not, and its flag is cleared, or the test
// call did not come about, which leaves the flag as it was.
func (cmd trunkProbeCmd) Run(ctx context.Context, e env) error {
	c, err := cmd.load(e)
	if err != nil {
		return err
	}
	st, err := controller.OpenStore(ctx, c)
	if err != nil {
		return err
	}
	defer st.Close()
	accounts := account.New(st)
	tenant, err := accounts.Tenant(ctx, cmd.Tenant)
	if err != nil {
		return err
	}
	to, err := store.ParsePhone(cmd.Number)
	if err != nil {
		return err
	}
	trunk, from, err := cmd.choose(ctx, accounts, tenant.ID)
	if err != nil {
		return err
	}
	quiet := logger(e, controller.LogConfig{Level: "error", Format: c.Log.Format})
	result, probeErr := controller.ProbeTrunk(ctx, c, trunk, to, from, quiet)
	report := probeReport{TrunkID: trunk.ID, Trunk: trunk.Name, Number: to.E164(), ProbeResult: result}
	if probeErr != nil {
		report.Failure = strings.ReplaceAll(probeErr.Error(), "\n", "; ")
	}
	err = cmd.show(e, report, probeErr == nil)
	now := time.Now().UTC()
	switch {
	case probeErr != nil:
		return errors.Join(probeErr, err)
	case result.Bypass:
		return errors.Join(err, accounts.TrunkBypassProven(ctx, tenant.ID, trunk.ID, now))
	}
	if err := errors.Join(err, accounts.TrunkBypassFailed(ctx, tenant.ID, trunk.ID, now, "probe: "+result.Failure)); err != nil {
		return err
	}
	return &exitError{exitFailed}
}

// choose finds the trunk, and the number to call from.
func (cmd trunkProbeCmd) choose(ctx context.Context, s *account.Service, tenantID uuid.UUID) (trunk db.Trunk, from string, err error) {
	trunks, err := s.Trunks(ctx, tenantID)
	if err != nil {
		return trunk, "", err
	}
	if trunk, err = cmd.pick(trunks); err != nil {
		return trunk, "", err
	}
	if cmd.From != "" {
		phone, err := store.ParsePhone(cmd.From)
		return trunk, phone.E164(), err
	}
	numbers, err := s.Numbers(ctx, tenantID)
	if err != nil {
		return trunk, "", err
	}
	if len(numbers) > 0 {
		from = numbers[0].E164
	}
	return trunk, from, nil
}

// pick is the trunk that is named, or the only one.
func (cmd trunkProbeCmd) pick(trunks []db.Trunk) (db.Trunk, error) {
	i := slices.IndexFunc(trunks, func(t db.Trunk) bool { return t.Name == cmd.Trunk || t.ID.String() == cmd.Trunk })
	switch {
	case i >= 0:
		return trunks[i], nil
	case cmd.Trunk != "":
		return db.Trunk{}, fmt.Errorf("%w: %q of tenant %q", errNoTrunk, cmd.Trunk, cmd.Tenant)
	case len(trunks) == 1:
		return trunks[0], nil
	}
	return db.Trunk{}, errTrunk
}

// show prints what was seen, step by step.
func (cmd trunkProbeCmd) show(e env, r probeReport, tried bool) error {
	if cmd.JSON {
		return encodeJSON(e.stdout, r)
	}
	tw := tabwriter.NewWriter(e.stdout, 0, 4, 2, ' ', 0)
	for _, s := range r.Steps {
		verdict := "ok"
		if !s.OK {
			verdict = "FAILED"
		}
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%.0f ms\t%s\n", verdict, s.Name, s.TookMS, s.Detail)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	verdict := "Trunk " + r.Trunk + " supports bypass: its calls' audio goes past the switch from now on."
	switch {
	case !tried:
		verdict = "Nothing is known of trunk " + r.Trunk + ", whose flag stays as it is."
	case !r.Bypass:
		verdict = "Trunk " + r.Trunk + " does not bear bypass: its calls go through the switch. " + r.Failure + "."
	}
	_, err := fmt.Fprintln(e.stdout, verdict)
	return err
}
