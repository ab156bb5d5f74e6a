package remote

import (
	"context"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type usageCmd struct {
	flags
	From string `placeholder:"TIME" help:"From when on: a date, or a time as RFC 3339 has it; 30 days before the end by default."`
	To   string `placeholder:"TIME" help:"Until before when; now by default."`
	By   string `enum:"day,campaign,direction" default:"day" help:"What a row counts: a day of UTC, a campaign, or a direction."`
}

// Help shows how it is used.
func (usageCmd) Help() string { return example("usage --from 2026-11-01 --by campaign") }

// Run counts.
func (cmd usageCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		used, err := c.Calls.Usage(ctx, &client.UsageParams{From: some(cmd.From), To: some(cmd.To), GroupBy: some(client.GroupBy(cmd.By))})
		if err != nil {
			return err
		}
		return cmd.rows(e, used.Items, "group", "calls", "answered", "minutes")
	})
}
