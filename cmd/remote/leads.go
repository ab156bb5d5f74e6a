package remote

import (
	"context"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/httpapi/client"
)

type leadsCmd struct {
	List   leadsListCmd   `cmd:"" help:"List a campaign's leads, in the order in which they came."`
	Get    leadsGetCmd    `cmd:"" help:"Show a lead."`
	Push   leadsPushCmd   `cmd:"" help:"Add a lead to a campaign."`
	Import leadsImportCmd `cmd:"" help:"Add the leads of a CSV or XLSX file to a campaign."`
	Export leadsExportCmd `cmd:"" help:"Write a campaign's leads as CSV."`
	Update leadsUpdateCmd `cmd:"" help:"Edit what is known of a lead."`
	Delete leadsDeleteCmd `cmd:"" help:"Remove a lead."`
}

// leadColumns are those of lists of leads, and what comes first of one.
func leadColumns() []string {
	return []string{"id", "phone", "name", "crm_lead_id", "status", "attempts", "next_attempt_at", "disposition"}
}

// ofCampaign is the argument of commands on what a campaign has.
type ofCampaign struct {
	Campaign uuid.UUID `arg:"" help:"The campaign's id."`
}

// leadStatus is the filter of lists of leads.
type leadStatus struct {
	Status string `enum:",new,queued,dialing,connected,callback,retry,completed,exhausted,dnc,opted_out,invalid" default:"" placeholder:"STATUS" help:"Those in a state: new, queued, dialing, connected, callback, retry, completed, exhausted, dnc, opted_out or invalid."`
}

type leadsListCmd struct {
	flags
	page
	ofCampaign
	leadStatus
}

// Help shows how it is used.
func (leadsListCmd) Help() string { return example("leads list " + exampleID + " --status callback") }

// Run lists.
func (cmd leadsListCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		params := &client.ListLeadsParams{Status: some(client.LeadStatus(cmd.Status)), PageSize: cmd.size()}
		return list(cmd.flags, e, cmd.page, c.Leads.AllLeads(ctx, cmd.Campaign, params), leadColumns()...)
	})
}

type leadsGetCmd struct {
	flags
	one
}

// Help shows how it is used.
func (leadsGetCmd) Help() string { return example("leads get " + exampleID) }

// Run shows it.
func (cmd leadsGetCmd) Run(ctx context.Context, e Env) error {
	return show(ctx, cmd.flags, e, leadColumns(), func(ctx context.Context, c *client.Client) (*client.Lead, error) {
		return c.Leads.GetLead(ctx, cmd.ID)
	})
}

type leadsPushCmd struct {
	flags
	ofCampaign
	Phone     string `arg:"" help:"An Indian number of ten digits, with or without 0, 91 or +91."`
	Name      string `help:"Told to the voice agent as lead_name."`
	Email     string `help:"The address."`
	CRMLeadID string `name:"crm-lead-id" help:"The lead's id elsewhere; a campaign has each once."`
	Priority  int    `help:"From -100 to 100; the highest are called first."`
	Metadata  string `placeholder:"JSON" help:"An object that goes to webhooks and to the voice agent."`
}

// Help shows how it is used.
func (leadsPushCmd) Help() string {
	return example("leads push " + exampleID + " 9876543210 --name Asha --crm-lead-id CRM-1")
}

// Run pushes it.
func (cmd leadsPushCmd) Run(ctx context.Context, e Env) error {
	metadata, err := freeObject("--metadata", cmd.Metadata)
	if err != nil {
		return err
	}
	return show(ctx, cmd.flags, e, leadColumns(), func(ctx context.Context, c *client.Client) (*client.Lead, error) {
		return c.Leads.PushLead(ctx, cmd.Campaign, client.LeadInput{
			Phone: &cmd.Phone, Name: some(cmd.Name), Email: some(cmd.Email), CRMLeadID: some(cmd.CRMLeadID), Priority: some(cmd.Priority),
			Metadata: metadata,
		})
	})
}

type leadsUpdateCmd struct {
	flags
	one
	members
}

// Help shows how it is used.
func (leadsUpdateCmd) Help() string {
	return example("leads update " + exampleID + " --set name=Asha --set email=null --set priority=10")
}

// Run edits it.
func (cmd leadsUpdateCmd) Run(ctx context.Context, e Env) error {
	var body client.LeadEdit
	if err := cmd.fill(&body); err != nil {
		return err
	}
	return show(ctx, cmd.flags, e, leadColumns(), func(ctx context.Context, c *client.Client) (*client.Lead, error) {
		return c.Leads.PatchLead(ctx, cmd.ID, body)
	})
}

type leadsDeleteCmd struct {
	flags
	one
}

// Help shows how it is used.
func (leadsDeleteCmd) Help() string { return example("leads delete " + exampleID) }

// Run removes it.
func (cmd leadsDeleteCmd) Run(ctx context.Context, e Env) error {
	return change(ctx, cmd.flags, e, "deleted", cmd.one, func(ctx context.Context, c *client.Client) error {
		return c.Leads.DeleteLead(ctx, cmd.ID)
	})
}

type suppressionsCmd struct {
	List   suppressionsListCmd   `cmd:"" help:"List the numbers, the newest first."`
	Add    suppressionsAddCmd    `cmd:"" help:"Keep a number from being called ever again."`
	Delete suppressionsDeleteCmd `cmd:"" help:"Take back an entry of the tenant's own."`
}

type suppressionsListCmd struct {
	flags
	page
	Phone string `placeholder:"NUMBER" help:"This number's entry."`
}

// Help shows how it is used.
func (suppressionsListCmd) Help() string { return example("suppressions list --phone 9876543210") }

// Run lists.
func (cmd suppressionsListCmd) Run(ctx context.Context, e Env) error {
	return cmd.ofKey(ctx, e, func(ctx context.Context, c *client.Client) error {
		params := &client.ListSuppressionsParams{Phone: some(cmd.Phone), PageSize: cmd.size()}
		return list(cmd.flags, e, cmd.page, c.Leads.AllSuppressions(ctx, params), "id", "phone", "reason", "opted_out", "created_at")
	})
}

type suppressionsAddCmd struct {
	flags
	Phone  string `arg:"" help:"The number."`
	Reason string `help:"Why."`
}

// Help shows how it is used.
func (suppressionsAddCmd) Help() string {
	return example("suppressions add 9876543210 --reason complaint")
}

// Run adds it.
func (cmd suppressionsAddCmd) Run(ctx context.Context, e Env) error {
	return show(ctx, cmd.flags, e, []string{"id", "phone"}, func(ctx context.Context, c *client.Client) (*client.Suppression, error) {
		return c.Leads.AddSuppression(ctx, client.SuppressionInput{Phone: cmd.Phone, Reason: some(cmd.Reason)})
	})
}

type suppressionsDeleteCmd struct {
	flags
	one
}

// Help shows how it is used.
func (suppressionsDeleteCmd) Help() string { return example("suppressions delete " + exampleID) }

// Run takes it back.
func (cmd suppressionsDeleteCmd) Run(ctx context.Context, e Env) error {
	return change(ctx, cmd.flags, e, "deleted", cmd.one, func(ctx context.Context, c *client.Client) error {
		return c.Leads.DeleteSuppression(ctx, cmd.ID)
	})
}
