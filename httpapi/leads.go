package httpapi

import (
	"context"
	"encoding/json"

	"github.com/ringmaster/ringmaster/dialer"
)

func (s *Server) pushLead(ctx context.Context, r *request) (reply, error) {
	campaignID, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	var in dialer.LeadInput
	if err := r.decode(&in); err != nil {
		return reply{}, err
	}
	lead, err := s.deps.Dialer.PushLead(ctx, r.who.tenantID, campaignID, in)
	return created(lead), err
}

func (s *Server) pushLeads(ctx context.Context, r *request) (reply, error) {
	campaignID, err := r.pathID("campaign_id", campaignNoun)
	if err != nil {
		return reply{}, err
	}
	var in dialer.BulkInput
	if err := decodeJSON(r.rc.PostBody(), &in); err != nil {
		return reply{}, err
	}
	for i, row := range in.Leads.Value {
		// A row that can't be kept is an invalid row, and fails no other.
		if unstorable(row) {
			in.Leads.Value[i] = json.RawMessage("null")
		}
	}
	result, err := s.deps.Dialer.PushLeads(ctx, r.who.tenantID, campaignID, in)
	result.Results = orEmpty(result.Results)
	return ok(result), err
}
