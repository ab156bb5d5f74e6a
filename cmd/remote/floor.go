package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type floorCmd struct {
	flags
	Follow bool `short:"f" help:"Show it as it changes, until Ctrl-C; with --json an event in each line."`
}

// Help shows how it is used.
func (floorCmd) Help() string {
	return "It takes the session of an administrator or supervisor (login).\n\n" + example("floor", "floor --follow", "floor --follow --json")
}

// Run shows the floor.
func (cmd floorCmd) Run(ctx context.Context, e Env) error {
	c, err := cmd.session(e)
	if err != nil {
		return err
	}
	if !cmd.Follow {
		floor, err := c.Supervisors.SupervisorFloor(ctx)
		if err != nil {
			return err
		}
		if cmd.JSON || cmd.Columns != "" {
			return cmd.object(e, floor, "kpis")
		}
		if err := cmd.object(e, floor.Kpis, "calls_live", "calls_today", "answer_rate", "abandon_rate_24h", "avg_wait_s", "agents_available", "agents_on_call"); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(e.Stdout, "\nqueue %d, voice agents' calls %d\n\n", len(floor.Queue), len(floor.AICalls))
		return cmd.rows(e, floor.Agents, "extension", "display_name", "status", "current_call_uuid", "last_status_at")
	}
	if cmd.Columns != "" {
		return errors.New("events have no columns: use --json instead")
	}
	for event, err := range c.Supervisors.SupervisorFloorStream(ctx, "") {
		if ctx.Err() != nil {
			return nil // that is how it ends
		}
		if err == nil {
			err = cmd.told(e, event)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// floorLine is an event as it is printed in JSON.
type floorLine struct {
	ID     string              `json:"id"`
	Floor  *client.Floor       `json:"floor,omitempty"`
	Change *client.FloorChange `json:"change,omitempty"`
	Stale  bool                `json:"stale,omitempty"`
}

func (cmd floorCmd) told(e Env, event client.FloorEvent) error {
	if cmd.JSON {
		raw, err := json.Marshal(floorLine(event))
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		_, err = fmt.Fprintln(e.Stdout, printable(string(raw)))
		return err
	}
	at := time.Now().UTC().Format(time.TimeOnly)
	var agents []client.FloorAgent
	var calls []client.FloorAICall
	var figures *client.FloorKPIs
	switch {
	case event.Stale:
		_, err := fmt.Fprintf(e.Stdout, "%s  the floor can't be read just now\n", at)
		return err
	case event.Floor != nil:
		agents, calls, figures = event.Floor.Agents, event.Floor.AICalls, &event.Floor.Kpis
	case event.Change != nil:
		agents, calls, figures = event.Change.Agents, event.Change.AICalls, event.Change.Kpis
	}
	for _, a := range agents {
		_, _ = fmt.Fprintf(e.Stdout, "%s  agent %s  %s\n", at, Clean(a.Extension), Clean(string(a.Status)))
	}
	for _, c := range calls {
		asks := ""
		if c.Escalation != nil {
			asks = "  asks for a supervisor: " + Clean(c.Escalation.Reason)
		}
		_, _ = fmt.Fprintf(e.Stdout, "%s  voice agent's call %s%s\n", at, c.CallID, asks)
	}
	if figures == nil {
		return nil
	}
	_, err := fmt.Fprintf(e.Stdout, "%s  live %d, today %d, agents available %d, on a call %d\n",
		at, figures.CallsLive, figures.CallsToday, figures.AgentsAvailable, figures.AgentsOnCall)
	return err
}
