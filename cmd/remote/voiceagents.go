package remote

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type voiceAgentsCmd struct {
	List    voiceAgentsListCmd    `cmd:"" help:"List the voice agents."`
	Get     voiceAgentsGetCmd     `cmd:"" help:"Show a voice agent."`
	Create  voiceAgentsCreateCmd  `cmd:"" help:"Create a voice agent."`
	Update  voiceAgentsUpdateCmd  `cmd:"" help:"Edit a voice agent."`
	Archive voiceAgentsArchiveCmd `cmd:"" help:"Archive a voice agent: its id stays valid, new calls are not routed to it."`
	Delete  voiceAgentsDeleteCmd  `cmd:"" help:"Remove a voice agent that has no active session."`
	Default voiceAgentsDefaultCmd `cmd:"" help:"Show, set or clear the tenant's default."`
}

// voiceAgentColumns are those of lists of voice agents, and what comes first of one.
func voiceAgentColumns() []string {
	return []string{"id", "name", "status", "ws_url", "subprotocol", "max_concurrent"}
}

type voiceAgentsListCmd struct {
	flags
	Status string `enum:",active,paused,archived" default:"" placeholder:"STATUS" help:"Those in a state: active, paused or archived."`
}

// Help shows how it is used.
func (voiceAgentsListCmd) Help() string { return example("voice-agents list --status active") }

// Run lists.
func (cmd voiceAgentsListCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		found, err := c.VoiceAgents.ListVoiceAgents(ctx, &client.ListVoiceAgentsParams{Status: some(client.VoiceAgentStatus(cmd.Status))})
		if err != nil {
			return err
		}
		return cmd.rows(e, found.Items, voiceAgentColumns()...)
	})
}

type voiceAgentsGetCmd struct {
	flags
	one
}

// Help shows how it is used.
func (voiceAgentsGetCmd) Help() string { return example("voice-agents get " + exampleID) }

// Run shows it.
func (cmd voiceAgentsGetCmd) Run(ctx context.Context, e Env) error {
	return show(ctx, cmd.flags, e, voiceAgentColumns(), func(ctx context.Context, c *client.Client) (*client.VoiceAgent, error) {
		return c.VoiceAgents.GetVoiceAgent(ctx, cmd.ID)
	})
}

type voiceAgentsCreateCmd struct {
	flags
	members
	Name string `arg:"" help:"Its name."`
	URL  string `arg:"" name:"url" help:"Where its socket is, ws:// or wss://, or its SIP URI."`
}

// Help shows how it is used.
func (voiceAgentsCreateCmd) Help() string {
	return example("voice-agents create sales wss://ai.example/calls --set max_concurrent=50",
		"voice-agents create bot wss://bot.example/media --set transport=twilio",
		"voice-agents create reception sip:reception@ai.example",
		`voice-agents create desk 'wss://api.openai.com/v1/realtime?model=gpt-realtime' --set transport=openai_realtime --set auth_token=sk-… `+
			`--set 'transport_config={"session":{"instructions":"You answer the phone."},"greet":true,"functions":["transfer","hangup"]}'`)
}

// Run creates it.
func (cmd voiceAgentsCreateCmd) Run(ctx context.Context, e Env) error {
	body := client.CreateVoiceAgentRequest{Name: cmd.Name}
	if strings.HasPrefix(cmd.URL, "sip:") {
		body.Transport = client.Set(client.VoiceAgentTransportSIP)
		body.TransportConfig = client.Set(client.TransportConfig{SIPURI: &cmd.URL})
	} else {
		body.WsURL = client.Set(cmd.URL)
	}
	if err := cmd.fill(&body); err != nil {
		return err
	}
	return show(ctx, cmd.flags, e, voiceAgentColumns(), func(ctx context.Context, c *client.Client) (*client.VoiceAgent, error) {
		return c.VoiceAgents.CreateVoiceAgent(ctx, body)
	})
}

type voiceAgentsUpdateCmd struct {
	flags
	one
	members
}

// Help shows how it is used.
func (voiceAgentsUpdateCmd) Help() string {
	return example("voice-agents update " + exampleID + " --set status=paused")
}

// Run edits it.
func (cmd voiceAgentsUpdateCmd) Run(ctx context.Context, e Env) error {
	var body client.VoiceAgentFields
	if err := cmd.fill(&body); err != nil {
		return err
	}
	return show(ctx, cmd.flags, e, voiceAgentColumns(), func(ctx context.Context, c *client.Client) (*client.VoiceAgent, error) {
		return c.VoiceAgents.PatchVoiceAgent(ctx, cmd.ID, body)
	})
}

type voiceAgentsArchiveCmd struct {
	flags
	one
}

// Help shows how it is used.
func (voiceAgentsArchiveCmd) Help() string { return example("voice-agents archive " + exampleID) }

// Run archives it.
func (cmd voiceAgentsArchiveCmd) Run(ctx context.Context, e Env) error {
	return show(ctx, cmd.flags, e, voiceAgentColumns(), func(ctx context.Context, c *client.Client) (*client.VoiceAgent, error) {
		return c.VoiceAgents.ArchiveVoiceAgent(ctx, cmd.ID)
	})
}

type voiceAgentsDeleteCmd struct {
	flags
	one
}

// Help shows how it is used.
func (voiceAgentsDeleteCmd) Help() string { return example("voice-agents delete " + exampleID) }

// Run removes it.
func (cmd voiceAgentsDeleteCmd) Run(ctx context.Context, e Env) error {
	return change(ctx, cmd.flags, e, "deleted", cmd.one, func(ctx context.Context, c *client.Client) error {
		return c.VoiceAgents.DeleteVoiceAgent(ctx, cmd.ID)
	})
}

type voiceAgentsDefaultCmd struct {
	flags
	ID    uuid.UUID `arg:"" optional:"" help:"The voice agent that becomes the default; without one the default is shown."`
	Clear bool      `help:"Have none."`
}

// Help shows how it is used.
func (voiceAgentsDefaultCmd) Help() string {
	return example("voice-agents default", "voice-agents default "+exampleID)
}

// Run shows, sets or clears it.
func (cmd voiceAgentsDefaultCmd) Run(ctx context.Context, e Env) error {
	return show(ctx, cmd.flags, e, []string{"voice_agent_id"}, func(ctx context.Context, c *client.Client) (*client.DefaultVoiceAgent, error) {
		if cmd.ID == uuid.Nil && !cmd.Clear {
			return c.VoiceAgents.GetDefaultVoiceAgent(ctx)
		}
		return c.VoiceAgents.SetDefaultVoiceAgent(ctx, client.DefaultVoiceAgent{VoiceAgentID: some(cmd.ID)})
	})
}
