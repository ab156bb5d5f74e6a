package remote

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type webhooksCmd struct {
	List         webhooksListCmd         `cmd:"" help:"List the subscriptions."`
	Get          webhooksGetCmd          `cmd:"" help:"Show a subscription."`
	Create       webhooksCreateCmd       `cmd:"" help:"Subscribe a URL to events; the signing secret is shown once."`
	Update       webhooksUpdateCmd       `cmd:"" help:"Edit a subscription."`
	Delete       webhooksDeleteCmd       `cmd:"" help:"Remove a subscription; what is still to be delivered to it is dropped."`
	Test         webhooksTestCmd         `cmd:"" help:"Send a webhook.test event to a subscription."`
	Deliveries   webhooksDeliveriesCmd   `cmd:"" help:"List deliveries, the newest first."`
	Replay       webhooksReplayCmd       `cmd:"" help:"Deliver a finished delivery's event once more."`
	ReplayEvents webhooksReplayEventsCmd `cmd:"" help:"Deliver a span of time's events to a subscription again."`
	RotateSecret webhooksRotateSecretCmd `cmd:"" help:"Replace a signing secret; both sign for a while."`
	Events       webhooksEventsCmd       `cmd:"" help:"List what happened, delivered or not."`
	Listen       webhooksListenCmd       `cmd:"" help:"Show events as they come, and forward them to an address while one develops."`
}

func webhookColumns() []string {
	return []string{"id", "url", "event_types", "campaign_id", "is_active"}
}

func deliveryColumns() []string {
	return []string{"id", "event_type", "status", "subscription_id", "event_id", "created_at", "next_attempt_at"}
}

type webhooksListCmd struct{ flags }

// Help shows how it is used.
func (webhooksListCmd) Help() string { return example("webhooks list") }

// Run lists.
func (cmd webhooksListCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		found, err := c.Webhooks.ListWebhooks(ctx)
		if err != nil {
			return err
		}
		return cmd.rows(e, found.Items, webhookColumns()...)
	})
}

type webhooksGetCmd struct {
	flags
	one
}

// Help shows how it is used.
func (webhooksGetCmd) Help() string { return example("webhooks get " + exampleID) }

// Run shows it.
func (cmd webhooksGetCmd) Run(ctx context.Context, e Env) error {
	return show(ctx, cmd.flags, e, webhookColumns(), func(ctx context.Context, c *client.Client) (*client.Webhook, error) {
		return c.Webhooks.GetWebhook(ctx, cmd.ID)
	})
}

type webhooksCreateCmd struct {
	flags
	URL      string    `arg:"" help:"Where events are sent, http:// or https://."`
	Event    []string  `required:"" help:"A type of events, such as call.ended; ai_session.* has all of a kind. May be repeated."`
	Campaign uuid.UUID `placeholder:"ID" help:"Events of a campaign alone."`
}

// Help shows how it is used.
func (webhooksCreateCmd) Help() string {
	return example("webhooks create https://hooks.example/calls --event call.ended --event call.recording_ready")
}

// Run subscribes.
func (cmd webhooksCreateCmd) Run(ctx context.Context, e Env) error {
	body := client.CreateWebhookRequest{URL: cmd.URL, EventTypes: cmd.Event}
	if cmd.Campaign != uuid.Nil {
		body.CampaignID = client.Set(cmd.Campaign)
	}
	first := append(webhookColumns(), "signing_secret")
	return show(ctx, cmd.flags, e, first, func(ctx context.Context, c *client.Client) (*client.WebhookCreated, error) {
		made, err := c.Webhooks.CreateWebhook(ctx, body)
		switch {
		case err != nil:
		case strings.Contains(made.SigningSecret, "•"):
			e.say("the signing secret was lost on the way: delete the subscription %s and make another", made.ID)
		default:
			e.say("the signing secret is shown this once: keep it now")
		}
		return made, err
	})
}

type webhooksUpdateCmd struct {
	flags
	one
	members
}

// Help shows how it is used.
func (webhooksUpdateCmd) Help() string {
	return example(`webhooks update ` + exampleID + ` --set is_active=false --set event_types=["call.ended"]`)
}

// Run edits it.
func (cmd webhooksUpdateCmd) Run(ctx context.Context, e Env) error {
	var body client.WebhookFields
	if err := cmd.fill(&body); err != nil {
		return err
	}
	return show(ctx, cmd.flags, e, webhookColumns(), func(ctx context.Context, c *client.Client) (*client.Webhook, error) {
		return c.Webhooks.PatchWebhook(ctx, cmd.ID, body)
	})
}

type webhooksDeleteCmd struct {
	flags
	one
}

// Help shows how it is used.
func (webhooksDeleteCmd) Help() string { return example("webhooks delete " + exampleID) }

// Run removes it.
func (cmd webhooksDeleteCmd) Run(ctx context.Context, e Env) error {
	return change(ctx, cmd.flags, e, "deleted", cmd.one, func(ctx context.Context, c *client.Client) error {
		return c.Webhooks.DeleteWebhook(ctx, cmd.ID)
	})
}

type webhooksTestCmd struct {
	flags
	one
}

// Help shows how it is used.
func (webhooksTestCmd) Help() string { return example("webhooks test " + exampleID) }

// Run sends the event.
func (cmd webhooksTestCmd) Run(ctx context.Context, e Env) error {
	columns := append(deliveryColumns(), "response")
	return show(ctx, cmd.flags, e, columns, func(ctx context.Context, c *client.Client) (*client.WebhookTest, error) {
		return c.Webhooks.TestWebhook(ctx, cmd.ID)
	})
}

type webhooksDeliveriesCmd struct {
	flags
	page
	Webhook uuid.UUID `placeholder:"ID" help:"Those of a subscription."`
	Status  string    `enum:",pending,delivered,dead_lettered" default:"" placeholder:"STATUS" help:"Those in a state: pending, delivered or dead_lettered."`
	Event   string    `placeholder:"TYPE" help:"Those of a type of events."`
}

// Help shows how it is used.
func (webhooksDeliveriesCmd) Help() string {
	return example("webhooks deliveries --status dead_lettered")
}

// Run lists.
func (cmd webhooksDeliveriesCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		return list(cmd.flags, e, cmd.page, c.Webhooks.AllWebhookDeliveries(ctx, &client.ListWebhookDeliveriesParams{
			SubscriptionID: some(cmd.Webhook), Status: some(client.WebhookDeliveryStatus(cmd.Status)), EventType: some(cmd.Event), PageSize: cmd.size(),
		}), deliveryColumns()...)
	})
}

type webhooksReplayCmd struct {
	flags
	one
}

// Help shows how it is used.
func (webhooksReplayCmd) Help() string { return example("webhooks replay " + exampleID) }

// Run delivers it again.
func (cmd webhooksReplayCmd) Run(ctx context.Context, e Env) error {
	return show(ctx, cmd.flags, e, deliveryColumns(), func(ctx context.Context, c *client.Client) (*client.WebhookDelivery, error) {
		return c.Webhooks.ReplayWebhookDelivery(ctx, cmd.ID)
	})
}

type webhooksReplayEventsCmd struct {
	flags
	one
	From       time.Time `required:"" placeholder:"TIME" help:"From when on, as RFC 3339 has it."`
	To         time.Time `required:"" placeholder:"TIME" help:"Until before when."`
	Event      []string  `help:"A type of events; may be repeated. All without any."`
	OnlyFailed bool      `help:"Those alone that were not delivered."`
}

// Help shows how it is used.
func (webhooksReplayEventsCmd) Help() string {
	return example("webhooks replay-events " + exampleID + " --from 2026-11-25T00:00:00Z --to 2026-11-26T00:00:00Z --only-failed")
}

// Run queues them.
func (cmd webhooksReplayEventsCmd) Run(ctx context.Context, e Env) error {
	body := client.ReplayWebhookEventsRequest{From: cmd.From, To: cmd.To, EventTypes: cmd.Event, OnlyFailed: some(cmd.OnlyFailed)}
	return show(ctx, cmd.flags, e, []string{"queued"}, func(ctx context.Context, c *client.Client) (*client.WebhookReplay, error) {
		return c.Webhooks.ReplayWebhookEvents(ctx, cmd.ID, body)
	})
}

type webhooksRotateSecretCmd struct {
	flags
	one
	OverlapHours int `default:"24" help:"For how long the earlier secret signs as well, 168 at most."`
}

// Help shows how it is used.
func (webhooksRotateSecretCmd) Help() string { return example("webhooks rotate-secret " + exampleID) }

// Run replaces it.
func (cmd webhooksRotateSecretCmd) Run(ctx context.Context, e Env) error {
	body := &client.RotateWebhookSecretRequest{OverlapHours: &cmd.OverlapHours}
	return show(ctx, cmd.flags, e, []string{"signing_secret"}, func(ctx context.Context, c *client.Client) (*client.WebhookCreated, error) {
		made, err := c.Webhooks.RotateWebhookSecret(ctx, cmd.ID, body)
		switch {
		case err != nil:
		case strings.Contains(made.SigningSecret, "•"):
			e.say("the signing secret was lost on the way: rotate it again")
		default:
			e.say("the signing secret is shown this once: keep it now")
		}
		return made, err
	})
}

type webhooksEventsCmd struct {
	flags
	page
	Type string    `help:"Those of a type, such as call.ended."`
	Call uuid.UUID `placeholder:"ID" help:"Those of a call."`
	From string    `placeholder:"TIME" help:"From when on: a date, or a time as RFC 3339 has it."`
	To   string    `placeholder:"TIME" help:"Until before when."`
}

// Help shows how it is used.
func (webhooksEventsCmd) Help() string {
	return example("webhooks events --type call.ended --from 2026-11-25 --columns id,created_at,data.call_id")
}

// Run lists.
func (cmd webhooksEventsCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		return list(cmd.flags, e, cmd.page, c.Webhooks.AllEvents(ctx, &client.ListEventsParams{
			Type: some(cmd.Type), CallID: some(cmd.Call), From: some(cmd.From), To: some(cmd.To), PageSize: cmd.size(),
		}), "id", "type", "created_at", "data.call_id")
	})
}
