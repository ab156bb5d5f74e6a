package remote

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type campaignsCmd struct {
	List   campaignsListCmd   `cmd:"" help:"List the campaigns."`
	Get    campaignsGetCmd    `cmd:"" help:"Show a campaign."`
	Create campaignsCreateCmd `cmd:"" help:"Create a campaign, as a draft."`
	Update campaignsUpdateCmd `cmd:"" help:"Edit a campaign that is not running."`
	Start  campaignsStartCmd  `cmd:"" help:"Start or resume a campaign."`
	Pause  campaignsPauseCmd  `cmd:"" help:"Pause a running campaign; its calls go on to their end."`
	Stop   campaignsStopCmd   `cmd:"" help:"Complete a campaign for good."`
	Delete campaignsDeleteCmd `cmd:"" help:"Delete a campaign that is not running."`
	Stats  campaignsStatsCmd  `cmd:"" help:"Show a campaign's figures, and why it dials nothing."`
	Scrub  campaignsScrubCmd  `cmd:"" help:"Check all leads against the do-not-call registry."`
}

// campaignColumns are those of lists of campaigns, and what comes first of one.
func campaignColumns() []string {
	return []string{"id", "name", "dial_mode", "status", "environment", "post_answer_action", "created_at"}
}

type campaignsListCmd struct{ flags }

// Help shows how it is used.
func (campaignsListCmd) Help() string {
	return example("campaigns list", "campaigns list --columns id,name,voice_agent_id")
}

// Run lists.
func (cmd campaignsListCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		all, err := c.Campaigns.ListCampaigns(ctx)
		if err != nil {
			return err
		}
		return cmd.rows(e, all, campaignColumns()...)
	})
}

// onCampaign are the flags and the argument of commands on one campaign.
type onCampaign struct {
	flags
	one
}

// show runs a command whose answer is the campaign.
func (o onCampaign) show(ctx context.Context, e Env, ask func(context.Context, *client.Client) (*client.Campaign, error)) error {
	return show(ctx, o.flags, e, campaignColumns(), ask)
}

type campaignsGetCmd struct{ onCampaign }

// Help shows how it is used.
func (campaignsGetCmd) Help() string { return example("campaigns get " + exampleID) }

// Run shows it.
func (cmd campaignsGetCmd) Run(ctx context.Context, e Env) error {
	return cmd.show(ctx, e, func(ctx context.Context, c *client.Client) (*client.Campaign, error) {
		return c.Campaigns.GetCampaign(ctx, cmd.ID)
	})
}

type campaignsCreateCmd struct {
	flags
	members
	Name       string    `arg:"" help:"Its name."`
	Mode       string    `enum:"preview,progressive,predictive" default:"progressive" help:"How it dials: preview, progressive or predictive."`
	VoiceAgent uuid.UUID `placeholder:"ID" xor:"who" help:"The voice agent that takes answered calls."`
	Flow       uuid.UUID `placeholder:"ID" xor:"who" help:"The flow that takes answered calls. Otherwise people do."`
}

// Help shows how it is used.
func (campaignsCreateCmd) Help() string {
	return example("campaigns create autumn --voice-agent "+exampleID,
		"campaigns create people --mode predictive --set wrap_up_s=30 --set caller_id=9180000001")
}

// Run creates it.
func (cmd campaignsCreateCmd) Run(ctx context.Context, e Env) error {
	body := client.CreateCampaignRequest{Name: cmd.Name, DialMode: client.DialMode(cmd.Mode)}
	switch {
	case cmd.VoiceAgent != uuid.Nil:
		body.PostAnswerAction, body.VoiceAgentID = some(client.PostAnswerActionConnectVoiceAgent), client.Set(cmd.VoiceAgent)
	case cmd.Flow != uuid.Nil:
		body.PostAnswerAction, body.FlowID = some(client.PostAnswerActionRunFlow), client.Set(cmd.Flow)
	}
	if err := cmd.fill(&body); err != nil {
		return err
	}
	return show(ctx, cmd.flags, e, campaignColumns(), func(ctx context.Context, c *client.Client) (*client.Campaign, error) {
		return c.Campaigns.CreateCampaign(ctx, body)
	})
}

type campaignsUpdateCmd struct {
	onCampaign
	members
}

// Help shows how it is used.
func (campaignsUpdateCmd) Help() string {
	return example("campaigns update " + exampleID + " --set max_concurrent=20 --set notes=null")
}

// Run edits it.
func (cmd campaignsUpdateCmd) Run(ctx context.Context, e Env) error {
	var body client.CampaignFields
	if err := cmd.fill(&body); err != nil {
		return err
	}
	return cmd.show(ctx, e, func(ctx context.Context, c *client.Client) (*client.Campaign, error) {
		return c.Campaigns.PatchCampaign(ctx, cmd.ID, body)
	})
}

type campaignsStartCmd struct{ onCampaign }

// Help shows how it is used.
func (campaignsStartCmd) Help() string { return example("campaigns start " + exampleID) }

// Run starts it.
func (cmd campaignsStartCmd) Run(ctx context.Context, e Env) error {
	return cmd.show(ctx, e, func(ctx context.Context, c *client.Client) (*client.Campaign, error) {
		return c.Campaigns.StartCampaign(ctx, cmd.ID)
	})
}

type campaignsPauseCmd struct{ onCampaign }

// Help shows how it is used.
func (campaignsPauseCmd) Help() string { return example("campaigns pause " + exampleID) }

// Run pauses it.
func (cmd campaignsPauseCmd) Run(ctx context.Context, e Env) error {
	return cmd.show(ctx, e, func(ctx context.Context, c *client.Client) (*client.Campaign, error) {
		return c.Campaigns.PauseCampaign(ctx, cmd.ID)
	})
}

type campaignsStopCmd struct{ onCampaign }

// Help shows how it is used.
func (campaignsStopCmd) Help() string { return example("campaigns stop " + exampleID) }

// Run stops it.
func (cmd campaignsStopCmd) Run(ctx context.Context, e Env) error {
	return cmd.show(ctx, e, func(ctx context.Context, c *client.Client) (*client.Campaign, error) {
		return c.Campaigns.StopCampaign(ctx, cmd.ID)
	})
}

type campaignsDeleteCmd struct{ onCampaign }

// Help shows how it is used.
func (campaignsDeleteCmd) Help() string { return example("campaigns delete " + exampleID) }

// Run deletes it.
func (cmd campaignsDeleteCmd) Run(ctx context.Context, e Env) error {
	return change(ctx, cmd.flags, e, "deleted", cmd.one, func(ctx context.Context, c *client.Client) error {
		return c.Campaigns.DeleteCampaign(ctx, cmd.ID)
	})
}

type campaignsStatsCmd struct{ onCampaign }

// Help shows how it is used.
func (campaignsStatsCmd) Help() string {
	return example("campaigns stats "+exampleID, "campaigns stats "+exampleID+" --columns leads.total,calls.live,pacing.waits_for")
}

// Run shows them.
func (cmd campaignsStatsCmd) Run(ctx context.Context, e Env) error {
	first := []string{"campaign_id", "leads.total", "calls.total", "calls.live", "answer_rate", "pacing.waits_for"}
	return show(ctx, cmd.flags, e, first, func(ctx context.Context, c *client.Client) (*client.CampaignStats, error) {
		return c.Campaigns.CampaignStats(ctx, cmd.ID)
	})
}

type campaignsScrubCmd struct{ onCampaign }

// Help shows how it is used.
func (campaignsScrubCmd) Help() string { return example("campaigns scrub " + exampleID) }

// Run scrubs.
func (cmd campaignsScrubCmd) Run(ctx context.Context, e Env) error {
	first := []string{"total", "scrubbed", "flagged", "pending"}
	return show(ctx, cmd.flags, e, first, func(ctx context.Context, c *client.Client) (*client.ScrubCampaignResult, error) {
		return c.Dialer.ScrubCampaign(ctx, cmd.ID)
	})
}
