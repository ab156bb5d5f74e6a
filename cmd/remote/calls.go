package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type callsCmd struct {
	List    callsListCmd    `cmd:"" help:"List calls, the newest first."`
	Get     callsGetCmd     `cmd:"" help:"Show a call, or follow it to its end."`
	Start   callsStartCmd   `cmd:"" help:"Place a call, under every rule of dialing."`
	Hangup  callsHangupCmd  `cmd:"" help:"End a live call."`
	Control callsControlCmd `cmd:"" help:"Have the voice agent's call do something: transfer, hold, play_audio and the other verbs."`
}

// callColumns are those of lists of calls, and what comes first of one.
func callColumns() []string {
	return []string{"id", "direction", "from", "to", "status", "dial_time", "talk_duration_s", "hangup_cause", "disposition"}
}

type callsListCmd struct {
	flags
	page
	Campaign    uuid.UUID `placeholder:"ID" help:"Those of a campaign."`
	Agent       uuid.UUID `placeholder:"ID" help:"Those of an agent."`
	Status      string    `enum:",dialing,ringing,answered,agent_connected,completed,failed" default:"" placeholder:"STATUS" help:"Those in a state: dialing, ringing, answered, agent_connected, completed or failed."`
	Direction   string    `enum:",outbound,inbound" default:"" placeholder:"WAY" help:"outbound or inbound."`
	Disposition string    `help:"Those with a disposition."`
	From        string    `placeholder:"TIME" help:"Those that began then or later: a date, or a time as RFC 3339 has it."`
	To          string    `placeholder:"TIME" help:"Those that began before then."`
}

// Help shows how it is used.
func (callsListCmd) Help() string {
	return example("calls list --status answered", "calls list --from 2026-11-01 --columns id,to,talk_duration_s,quality.inbound.mos")
}

// Run lists.
func (cmd callsListCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		return list(cmd.flags, e, cmd.page, c.Calls.AllCalls(ctx, &client.ListCallsParams{
			CampaignID: some(cmd.Campaign), AgentID: some(cmd.Agent), Status: some(client.CallStatus(cmd.Status)),
			Direction: some(client.Direction(cmd.Direction)), Disposition: some(cmd.Disposition), From: some(cmd.From), To: some(cmd.To),
			PageSize: cmd.size(),
		}), callColumns()...)
	})
}

// watch are the flags of commands that can follow a call.
type watch struct {
	Watch bool          `short:"w" help:"Follow the call to its end. The exit code is 1 when it has failed."`
	Every time.Duration `default:"1s" hidden:"" help:"How often to look."`
}

type callsGetCmd struct {
	flags
	one
	watch
}

// Help shows how it is used.
func (callsGetCmd) Help() string {
	return example("calls get "+exampleID, "calls get "+exampleID+" --watch")
}

// Run shows a call.
func (cmd callsGetCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		call, err := c.Calls.GetCall(ctx, cmd.ID)
		if err != nil {
			return err
		}
		return cmd.show(ctx, e, c, cmd.flags, call)
	})
}

// show shows a call, or follows it.
func (w watch) show(ctx context.Context, e Env, c *client.Client, f flags, call *client.Call) error {
	if !w.Watch {
		return f.object(e, call, callColumns()...)
	}
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	var before client.CallStatus
	for {
		if call.Status != before {
			e.say("%s  %s  %s", time.Now().UTC().Format(time.TimeOnly), call.ID, call.Status)
			before = call.Status
		}
		if call.EndTime != nil {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var err error
		if call, err = c.Calls.GetCall(ctx, call.ID); err != nil {
			return err
		}
	}
	if err := f.object(e, call, callColumns()...); err != nil {
		return err
	}
	if call.Status == client.CallStatusFailed {
		cause := "no cause is known"
		if call.HangupCause != nil {
			cause = *call.HangupCause
		}
		return errors.New("the call has failed: " + cause)
	}
	return nil
}

type callsStartCmd struct {
	flags
	watch
	Number         string    `arg:"" name:"to" help:"Whom to call: an Indian number of ten digits, with or without 0, 91 or +91."`
	From           string    `placeholder:"NUMBER" help:"The number that is shown, one of the tenant's; without one they take turns."`
	VoiceAgent     uuid.UUID `placeholder:"ID" help:"The voice agent that talks; otherwise the tenant's default."`
	Flow           uuid.UUID `placeholder:"ID" help:"The flow that runs, in place of a voice agent."`
	Category       string    `enum:",promotional,service,transactional" default:"" placeholder:"WHAT" help:"What the call is for: promotional, service or transactional."`
	Metadata       string    `placeholder:"JSON" help:"What is kept with the call, and told to the voice agent and in webhooks."`
	IdempotencyKey string    `placeholder:"KEY" help:"Within 24 hours the same key places no second call."`
}

// Help shows how it is used.
func (callsStartCmd) Help() string {
	return example(`calls start 9876543210 --watch`, `calls start 9876543210 --metadata {"variables":{"name":"Asha"}}`)
}

// Run places the call.
func (cmd callsStartCmd) Run(ctx context.Context, e Env) error {
	metadata, err := freeObject("--metadata", cmd.Metadata)
	if err != nil {
		return err
	}
	if cmd.IdempotencyKey != "" {
		ctx = client.WithIdempotencyKey(ctx, cmd.IdempotencyKey)
	}
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		call, err := c.Calls.PlaceCall(ctx, client.PlaceCall{
			To: cmd.Number, From: some(cmd.From), VoiceAgentID: some(cmd.VoiceAgent), FlowID: some(cmd.Flow),
			CallCategory: some(client.CallCategory(cmd.Category)), Metadata: metadata,
		})
		if err != nil {
			return err
		}
		return cmd.show(ctx, e, c, cmd.flags, call)
	})
}

type callsHangupCmd struct {
	flags
	one
}

// Help shows how it is used.
func (callsHangupCmd) Help() string {
	return example("calls hangup " + exampleID)
}

// Run ends the call.
func (cmd callsHangupCmd) Run(ctx context.Context, e Env) error {
	return change(ctx, cmd.flags, e, "hung up", cmd.one, func(ctx context.Context, c *client.Client) error {
		_, err := c.Calls.HangupCall(ctx, cmd.ID)
		return err
	})
}

type callsControlCmd struct {
	flags
	one
	Verb    string   `arg:"" help:"The verb, such as transfer, hold, unhold, mute, send_dtmf, play_audio, set_disposition, get_call_state, hangup."`
	Members []string `arg:"" optional:"" help:"Its members as NAME=VALUE: texts as they are, all else as JSON."`
}

// Help shows how it is used.
func (callsControlCmd) Help() string {
	return "The key must have the scope ai_sessions:control_admin. /docs of the service lists the verbs with their members.\n\n" +
		example("calls control "+exampleID+" transfer destination_type=e164 destination=+919876543210",
			"calls control "+exampleID+" get_call_state --json")
}

// Run sends the verb.
func (cmd callsControlCmd) Run(ctx context.Context, e Env) error {
	verb := client.NewVerb(cmd.Verb)
	if verb == nil {
		return fmt.Errorf("there is no verb %s; the verbs are %s", cmd.Verb, strings.Join(client.Verbs(), ", "))
	}
	if err := assign(verb, cmd.Members); err != nil {
		return err
	}
	return show(ctx, cmd.flags, e, nil, func(ctx context.Context, c *client.Client) (*client.ControlResponse, error) {
		return c.AISessions.ControlCall(ctx, cmd.ID, verb)
	})
}
