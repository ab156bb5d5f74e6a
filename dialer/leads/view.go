package leads

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
)

// Filter chooses leads of a campaign; After is the one behind which they begin, the nil UUID for all.
type Filter struct {
	Status        *string
	After         uuid.UUID
	Limit, Offset int32
}

// ListLeads gives a page of a campaign's leads, in the order in which they came, and how many there are. Errors:
// store.ErrNotFound for the campaign.
func (l *Service) ListLeads(ctx context.Context, tenant, campaign uuid.UUID, f Filter) ([]Lead, int64, error) {
	var owner db.LeadOwnerRow
	var rows []db.Lead
	var total int64
	err := l.Store.ReadListByValues(ctx, tenant, func(q *db.Queries) (err error) {
		if owner, err = q.LeadOwner(ctx, campaign, tenant); err == nil && !owner.Found {
			err = store.ErrNotFound
		}
		return err
	}, func(q *db.Queries) (err error) {
		total, err = q.LeadCount(ctx, tenant, campaign, f.Status)
		return err
	}, func(q *db.Queries) (err error) {
		rows, err = q.LeadPage(ctx, db.LeadPageParams{
			TenantID: tenant, CampaignID: campaign, Status: f.Status, After: f.After, PageLimit: f.Limit, PageOffset: f.Offset,
		})
		return err
	})
	if err != nil {
		return nil, 0, fault.Wrap("list leads", err)
	}
	out := make([]Lead, len(rows))
	for i, row := range rows {
		out[i] = ViewOf(row, store.PrivacyMode(owner.PrivacyMode))
	}
	return out, total, nil
}

// GetLead gives one lead. Errors: store.ErrNotFound.
func (l *Service) GetLead(ctx context.Context, tenant, id uuid.UUID) (Lead, error) {
	row, err := l.Store.Read(tenant).LeadView(ctx, tenant, id)
	if err != nil {
		return Lead{}, fault.Wrap("get lead", err)
	}
	return ViewOf(row.Lead, store.PrivacyMode(row.PrivacyMode)), nil
}

func (l *Service) onLead(ctx context.Context, tenant uuid.UUID, attempt string, do func(*store.Tx) (db.Lead, error)) (Lead, error) {
	var out Lead
	err := l.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err := do(tx)
		if err != nil {
			return err
		}
		owner, err := tx.Q.GetTenant(ctx, tenant)
		out = ViewOf(row, store.PrivacyMode(owner.PrivacyMode))
		return err
	})
	if err != nil {
		return Lead{}, fault.Wrap(attempt, err)
	}
	return out, nil
}

// Edit is the body of a lead's edit: an absent member is left alone, null clears. A lead's number is what it was pushed with;
// its state is the dialer's.
type Edit struct {
	Name, Email, CRMLeadID input.Opt[string]
	Metadata, CustomFields input.Opt[input.Object]
	Priority               input.Opt[int]

	fixed []string // members sent that a lead has and no edit changes
}

// sent names the members that an edit changes; their values are personal.
func (in Edit) sent() []string {
	names := []string{}
	for name, set := range map[string]bool{
		"name": in.Name.Set, "email": in.Email.Set, "crm_lead_id": in.CRMLeadID.Set, "metadata": in.Metadata.Set,
		"custom_fields": in.CustomFields.Set, "priority": in.Priority.Set,
	} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// fixedLeadMembers lists what a lead has that no edit changes.
func fixedLeadMembers() []string {
	return []string{
		"id", "campaign_id", "dnd_checked", "dnd_clean", "dnd_checked_at", "status", "status_set_by", "attempts", "next_attempt_at",
		"last_call_id", "disposition", "created_at", "updated_at", "completed_at",
	}
}

// UnmarshalJSON takes the body.
func (in *Edit) UnmarshalJSON(b []byte) error {
	*in = Edit{}
	fixed := map[string]*input.Opt[json.RawMessage]{"phone": {}}
	for _, name := range fixedLeadMembers() {
		fixed[name] = &input.Opt[json.RawMessage]{}
	}
	members := map[string]json.Unmarshaler{
		"name": &in.Name, "email": &in.Email, "crm_lead_id": &in.CRMLeadID, "metadata": &in.Metadata,
		"custom_fields": &in.CustomFields, "priority": &in.Priority,
	}
	for name, sent := range fixed {
		members[name] = sent
	}
	err := input.Members(b, members)
	for name, sent := range fixed {
		if sent.Set {
			in.fixed = append(in.fixed, name)
		}
	}
	return err
}

// apply checks the input's members and puts them into a lead.
func (in Edit) apply(c *input.Form, to *db.Lead) {
	for _, name := range in.fixed {
		if name == "phone" {
			c.Fail(name, "can't be changed; push a new lead")
		} else {
			c.Fail(name, "can't be changed")
		}
	}
	for _, m := range []struct {
		field string
		value input.Opt[string]
		to    **string
		most  int
	}{
		{"name", in.Name, &to.Name, maxLeadName},
		{"email", in.Email, &to.Email, maxLeadEmail},
		{"crm_lead_id", in.CRMLeadID, &to.CrmLeadID, maxCRMLeadID},
	} {
		if v, ok := input.Clearable(c, m.field, m.value); ok && (v == nil || c.Text(m.field, *v, 0, m.most)) {
			if *m.to = v; v != nil && *v == "" {
				*m.to = nil
			}
		}
	}
	if v, ok := input.Given(c, "priority", in.Priority); ok && c.Between("priority", v, -maxPriority, maxPriority) {
		to.Priority = int32(v) //nolint:gosec // bounded
	}
	if v, ok := input.Clearable(c, "metadata", in.Metadata); ok {
		if to.Metadata = nil; v != nil {
			CheckMetadata(c, "metadata", *v)
			to.Metadata = json.RawMessage(*v)
		}
	}
	if v, ok := input.Given(c, "custom_fields", in.CustomFields); ok {
		CheckMetadata(c, "custom_fields", v)
		to.CustomFields = json.RawMessage(v)
	}
}

// PatchLead edits what is known of a lead. Errors: store.ErrNotFound, *fault.Error for a crm_lead_id that
// another lead of the campaign has.
func (l *Service) PatchLead(ctx context.Context, tenant, id uuid.UUID, in Edit) (Lead, error) {
	c := input.Form{Edit: true}
	in.apply(&c, &db.Lead{})
	if err := c.Err(); err != nil {
		return Lead{}, err
	}
	lead, err := l.onLead(ctx, tenant, "edit lead", func(tx *store.Tx) (db.Lead, error) {
		row, err := tx.Q.LeadLock(ctx, tenant, id)
		if err != nil {
			return row, err
		}
		in.apply(&input.Form{Edit: true}, &row)
		err = tx.Audit(ctx, store.AuditEntry{
			TenantID: tenant, Action: "lead.updated", ObjectID: id.String(), Details: map[string]any{"members": in.sent()},
		})
		if err != nil {
			return row, err
		}
		return tx.Q.LeadEdit(ctx, db.LeadEditParams{
			Name: row.Name, Email: row.Email, Metadata: row.Metadata, CrmLeadID: row.CrmLeadID, CustomFields: row.CustomFields,
			Priority: row.Priority, TenantID: tenant, ID: id,
		})
	})
	if store.IsConstraint(err, "leads_crm_lead_id_once") {
		return Lead{}, &fault.Error{Kind: fault.Conflict, Code: CodeDuplicateLead, Detail: "another lead of the campaign has this crm_lead_id"}
	}
	return lead, err
}

// DeleteLead removes a lead. What the tenant must remember of its number, an opt-out, stays. Errors: store.ErrNotFound,
// *fault.Error while it is being called.
func (l *Service) DeleteLead(ctx context.Context, tenant, id uuid.UUID) error {
	err := l.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err := tx.Q.LeadLock(ctx, tenant, id)
		if err != nil {
			return err
		}
		if InCall(row) {
			return &fault.Error{Kind: fault.Conflict, Code: CodeLeadInCall, Detail: "the lead is in a call"}
		}
		n, err := tx.Q.LeadDelete(ctx, tenant, id)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return tx.Audit(ctx, store.AuditEntry{
			TenantID: tenant, Action: "lead.deleted", ObjectID: id.String(),
			Details: map[string]any{"campaign_id": row.CampaignID, "status": row.Status},
		})
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fault.Wrap("delete lead", err)
	}
	return err
}
