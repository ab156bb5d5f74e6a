package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
)

const maxNumberLabel = 200

// NumberInput describes one of a tenant's numbers.
type NumberInput struct {
	// Number is as in a lead: ten digits, 0, 91 or +91 before them taken.
	Number, Label string
	FlowID        *uuid.UUID
	TrunkID       *uuid.UUID
}

// NumberEdit is the body of a number's creation or edit.
type NumberEdit struct {
	E164, Label, FlowID, TrunkID input.Opt[string]
	IsActive                     input.Opt[bool]
}

// Members gives the members of the body by their names.
func (in *NumberEdit) Members() map[string]json.Unmarshaler {
	return map[string]json.Unmarshaler{
		"e164": &in.E164, "label": &in.Label, "flow_id": &in.FlowID, "trunk_id": &in.TrunkID, "is_active": &in.IsActive,
	}
}

// apply checks the input's members and puts them into a number.
func (in *NumberEdit) apply(f *input.Form, to *db.Number) {
	if v, ok := input.Required(f, "e164", in.E164); ok {
		phone, err := store.ParsePhone(v)
		if err != nil {
			f.Fail("e164", "must be an Indian number, as +91 and ten digits")
		}
		to.E164 = phone.E164()
	}
	if v, ok := input.Clearable(f, "label", in.Label); ok {
		if to.Label = v; v != nil {
			f.Text("label", *v, 0, maxNumberLabel)
		}
	}
	for _, m := range []struct {
		field string
		value input.Opt[string]
		to    **uuid.UUID
	}{{"flow_id", in.FlowID, &to.FlowID}, {"trunk_id", in.TrunkID, &to.TrunkID}} {
		v, ok := input.Clearable(f, m.field, m.value)
		if !ok {
			continue
		}
		if *m.to = nil; v != nil {
			if id, ok := f.UUID(m.field, *v); ok {
				*m.to = &id
			}
		}
	}
	if v, ok := input.Given(f, "is_active", in.IsActive); ok {
		to.IsActive = v
	}
}

// checkNumber refuses a flow or trunk that the tenant doesn't have.
func checkNumber(ctx context.Context, tx *store.Tx, row db.Number) error {
	f := &input.Form{Edit: true}
	if row.FlowID != nil {
		exists, err := tx.Q.FlowExists(ctx, row.TenantID, *row.FlowID)
		if err != nil {
			return err
		}
		if !exists {
			f.Fail("flow_id", "is not the id of one of the tenant's flows")
		}
	}
	if row.TrunkID != nil {
		_, err := tx.Q.GetTrunk(ctx, row.TenantID, *row.TrunkID)
		if errors.Is(err, store.ErrNotFound) {
			f.Fail("trunk_id", "is not the id of one of the tenant's trunks")
		} else if err != nil {
			return err
		}
	}
	return f.Err()
}

// CreateNumber gives a number to a tenant.
func (s *Service) CreateNumber(ctx context.Context, tenantID uuid.UUID, in NumberInput) (db.Number, error) {
	return s.AddNumber(ctx, tenantID, NumberEdit{
		E164: input.Some(in.Number), Label: some(in.Label), FlowID: someID(in.FlowID), TrunkID: someID(in.TrunkID),
	})
}

func someID(id *uuid.UUID) input.Opt[string] {
	if id == nil {
		return input.Opt[string]{}
	}
	return input.Some(id.String())
}

// AddNumber gives a number to a tenant. Errors: *fault.Error.
func (s *Service) AddNumber(ctx context.Context, tenantID uuid.UUID, in NumberEdit) (db.Number, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return db.Number{}, fmt.Errorf("create number: %w", err)
	}
	row, f := db.Number{TenantID: tenantID, ID: id, IsActive: true}, new(input.Form)
	in.apply(f, &row)
	if err := f.Err(); err != nil {
		return db.Number{}, err
	}
	err = s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		if err := checkNumber(ctx, tx, row); err != nil {
			return err
		}
		var err error
		row, err = tx.Q.CreateNumber(ctx, db.CreateNumberParams{
			TenantID: tenantID, ID: id, E164: row.E164, Label: row.Label, FlowID: row.FlowID, TrunkID: row.TrunkID,
			IsActive: row.IsActive,
		})
		return err
	})
	return row, translate("create number", err)
}

// Numbers lists the numbers of a tenant.
func (s *Service) Numbers(ctx context.Context, tenantID uuid.UUID) ([]db.Number, error) {
	return list(ctx, s.store, tenantID, "list numbers", (*db.Queries).ListNumbers)
}

// Number gives one number. Errors: store.ErrNotFound.
func (s *Service) Number(ctx context.Context, tenantID, id uuid.UUID) (db.Number, error) {
	var out db.Number
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.GetNumber(ctx, tenantID, id)
		return err
	})
	return out, translate("find number", err)
}

// EditNumber changes a number. Errors: store.ErrNotFound, *fault.Error.
func (s *Service) EditNumber(ctx context.Context, tenantID, id uuid.UUID, in NumberEdit) (db.Number, error) {
	var out db.Number
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) error {
		row, err := tx.Q.LockNumber(ctx, tenantID, id)
		if err != nil {
			return err
		}
		f := &input.Form{Edit: true}
		in.apply(f, &row)
		if err := f.Err(); err != nil {
			return err
		}
		if err := checkNumber(ctx, tx, row); err != nil {
			return err
		}
		out, err = tx.Q.UpdateNumber(ctx, db.UpdateNumberParams{
			E164: row.E164, Label: row.Label, FlowID: row.FlowID, TrunkID: row.TrunkID, IsActive: row.IsActive,
			TenantID: tenantID, ID: id,
		})
		return err
	})
	return out, translate("edit number", err)
}

// DeleteNumber takes a number from its tenant. Errors: store.ErrNotFound.
func (s *Service) DeleteNumber(ctx context.Context, tenantID, id uuid.UUID) error {
	return one(ctx, s.store, tenantID, "delete number", func(q *db.Queries) (int64, error) {
		return q.DeleteNumber(ctx, tenantID, id)
	})
}

// SetNumberActive takes a number into use, or out of it.
func (s *Service) SetNumberActive(ctx context.Context, tenantID, id uuid.UUID, active bool) error {
	_, err := s.EditNumber(ctx, tenantID, id, NumberEdit{IsActive: input.Some(active)})
	return err
}

// VoiceAgentFlow is the flow that connects every call to one voice agent.
func VoiceAgentFlow(voiceAgentID uuid.UUID) (json.RawMessage, error) {
	type node struct {
		ID   string            `json:"id"`
		Type string            `json:"type"`
		Data map[string]any    `json:"data"`
		Next map[string]string `json:"next"`
	}
	out, err := json.Marshal([]node{
		{ID: "start", Type: "start", Data: map[string]any{}, Next: map[string]string{"default": "agent"}},
		{ID: "agent", Type: "connect_voice_agent", Data: map[string]any{"voice_agent_id": voiceAgentID}, Next: map[string]string{}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode flow: %w", err)
	}
	return out, nil
}
