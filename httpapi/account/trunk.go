package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// TrunkInput describes a carrier's trunk (CONTRACT 4). Zero values are the defaults: port 5060, udp, e164, 10
// channels, 10 calls per second, bridge.
type TrunkInput struct {
	Name, Host         string
	Port               int
	Transport          string
	Username, Password string
	Register           bool
	NumberFormat       string
	MaxChannels, CPS   int
	Priority           int
	MediaMode          string
}

func (in *TrunkInput) defaults() {
	set := func(v *string, d string) {
		if *v == "" {
			*v = d
		}
	}
	setInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&in.Transport, "udp")
	set(&in.NumberFormat, "e164")
	set(&in.MediaMode, "bridge")
	setInt(&in.Port, 5060)
	setInt(&in.MaxChannels, 10)
	setInt(&in.CPS, 10)
}

func (in *TrunkInput) validate() error {
	switch {
	case in.Name == "":
		return &InvalidError{"name", "is required"}
	case in.Host == "":
		return &InvalidError{"host", "is required"}
	case in.Port < 1 || in.Port > 65535:
		return &InvalidError{"port", "is 1 to 65535"}
	case !slices.Contains([]string{"udp", "tcp", "tls"}, in.Transport):
		return &InvalidError{"transport", "is udp, tcp or tls"}
	case !slices.Contains([]string{"e164", "national", "0national"}, in.NumberFormat):
		return &InvalidError{"number_format", "is e164, national or 0national"}
	case !slices.Contains([]string{"bridge", "bypass"}, in.MediaMode):
		return &InvalidError{"media_mode", "is bridge or bypass"}
	case in.MaxChannels < 1:
		return &InvalidError{"max_channels", "is at least 1"}
	case in.CPS < 1:
		return &InvalidError{"cps", "is at least 1"}
	case in.Register && in.Username == "":
		return &InvalidError{"username", "is required to register"}
	}
	return nil
}

// trunkSecret is the context that a trunk's password is sealed in.
func trunkSecret(id uuid.UUID) string { return "trunk:" + id.String() }

// CreateTrunk declares a trunk; the password is kept encrypted.
func (s *Service) CreateTrunk(ctx context.Context, tenantID uuid.UUID, in TrunkInput) (db.Trunk, error) {
	in.defaults()
	if err := in.validate(); err != nil {
		return db.Trunk{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return db.Trunk{}, fmt.Errorf("create trunk: %w", err)
	}
	var sealed []byte
	if in.Password != "" {
		if sealed, err = s.store.Seal(trunkSecret(id), []byte(in.Password)); err != nil {
			return db.Trunk{}, fmt.Errorf("create trunk: %w", err)
		}
	}
	var out db.Trunk
	err = s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.CreateTrunk(ctx, db.CreateTrunkParams{
			TenantID: tenantID, ID: id, Name: in.Name, Host: in.Host, Port: int32(in.Port), Transport: in.Transport,
			Username: optional(in.Username), PasswordSealed: sealed, Register: in.Register, NumberFormat: in.NumberFormat,
			MaxChannels: int32(in.MaxChannels), Cps: int32(in.CPS), Priority: int32(in.Priority), MediaMode: in.MediaMode,
		})
		return err
	})
	return out, translate("create trunk "+in.Name, err)
}

// Trunks lists the trunks of a tenant, by priority.
func (s *Service) Trunks(ctx context.Context, tenantID uuid.UUID) ([]db.Trunk, error) {
	return list(ctx, s.store, tenantID, "list trunks", (*db.Queries).ListTrunks)
}

// SetTrunkMediaMode configures how a trunk's audio goes: bridge, or bypass, which also gives a trunk that has failed another
// chance.
func (s *Service) SetTrunkMediaMode(ctx context.Context, tenantID, id uuid.UUID, mode string) error {
	if !slices.Contains([]string{"bridge", "bypass"}, mode) {
		return &InvalidError{"media_mode", "is bridge or bypass"}
	}
	return one(ctx, s.store, tenantID, "set trunk's media mode", func(q *db.Queries) (int64, error) {
		return q.SetTrunkMediaMode(ctx, mode, tenantID, id)
	})
}

// TrunkBypassProven sets the flag that a probe has earned: the trunk's calls go past the switch from now on.
func (s *Service) TrunkBypassProven(ctx context.Context, tenantID, id uuid.UUID, at time.Time) error {
	return one(ctx, s.store, tenantID, "set trunk's bypass", func(q *db.Queries) (int64, error) {
		return q.TrunkBypassProven(ctx, at, tenantID, id)
	})
}

// TrunkBypassFailed takes a trunk out of bypass, whatever is configured, and keeps why.
func (s *Service) TrunkBypassFailed(ctx context.Context, tenantID, id uuid.UUID, at time.Time, failure string) error {
	err := one(ctx, s.store, tenantID, "clear trunk's bypass", func(q *db.Queries) (int64, error) {
		return q.TrunkBypassFailed(ctx, db.TrunkBypassFailedParams{TenantID: tenantID, ID: id, At: at, Failure: failure})
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // it is out already, and its first failure is kept
	}
	return err
}

// SetTrunkActive takes a trunk into use, or out of it.
func (s *Service) SetTrunkActive(ctx context.Context, tenantID, id uuid.UUID, active bool) error {
	return one(ctx, s.store, tenantID, "set trunk active", func(q *db.Queries) (int64, error) {
		return q.SetTrunkActive(ctx, active, tenantID, id)
	})
}

// Gateway gives a trunk in the form that the switch's configuration needs, its password in the clear.
func (s *Service) Gateway(ctx context.Context, tenantID, id uuid.UUID) (conf.Gateway, error) {
	var t db.Trunk
	err := s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		t, err = tx.Q.GetTrunk(ctx, tenantID, id)
		return err
	})
	if err != nil {
		return conf.Gateway{}, translate("find trunk", err)
	}
	g := conf.Gateway{
		Name: "rm_" + t.ID.String(), Host: t.Host, Port: int(t.Port), Transport: t.Transport, Register: t.Register,
	}
	if t.Username != nil {
		g.Username = *t.Username
	}
	if len(t.PasswordSealed) > 0 {
		password, err := s.store.Unseal(trunkSecret(t.ID), t.PasswordSealed)
		if err != nil {
			return conf.Gateway{}, fmt.Errorf("open the password of trunk %s: %w", t.Name, err)
		}
		g.Password = string(password)
	}
	return g, nil
}

// NumberInput describes one of a tenant's numbers.
type NumberInput struct {
	// Number is as in a lead: ten digits, 0, 91 or +91 before them taken.
	Number, Label string
	FlowID        *uuid.UUID
	TrunkID       *uuid.UUID
}

// CreateNumber gives a number to a tenant.
func (s *Service) CreateNumber(ctx context.Context, tenantID uuid.UUID, in NumberInput) (db.Number, error) {
	phone, err := store.ParsePhone(in.Number)
	if err != nil {
		return db.Number{}, &InvalidError{"number", err.Error()}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return db.Number{}, fmt.Errorf("create number: %w", err)
	}
	var out db.Number
	err = s.store.InTenant(ctx, tenantID, func(tx *store.Tx) (err error) {
		out, err = tx.Q.CreateNumber(ctx, db.CreateNumberParams{
			TenantID: tenantID, ID: id, E164: phone.E164(), Label: optional(in.Label), FlowID: in.FlowID, TrunkID: in.TrunkID,
		})
		return err
	})
	return out, translate("create number", err)
}

// Numbers lists the numbers of a tenant.
func (s *Service) Numbers(ctx context.Context, tenantID uuid.UUID) ([]db.Number, error) {
	return list(ctx, s.store, tenantID, "list numbers", (*db.Queries).ListNumbers)
}

// SetNumberActive takes a number into use, or out of it.
func (s *Service) SetNumberActive(ctx context.Context, tenantID, id uuid.UUID, active bool) error {
	return one(ctx, s.store, tenantID, "set number active", func(q *db.Queries) (int64, error) {
		return q.SetNumberActive(ctx, active, tenantID, id)
	})
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
