package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
)

// What every seeded tenant has.
const (
	seedChannels      = 200
	seedCPS           = 50
	seedMaxConcurrent = 200
	seedRatePerMin    = 100_000
	seedPassword      = 16
)

type tenantSeed struct {
	name                         string
	number                       string
	agentExtension, superviseExt string
}

func tenantSeeds() []tenantSeed {
	return []tenantSeed{
		{name: "acme", number: "9180000001", agentExtension: "1001", superviseExt: "1009"},
		{name: "globex", number: "9180000002", agentExtension: "2001", superviseExt: "2009"},
	}
}

// seed creates the tenants, or on a folder that was used before points their trunks and voice agents at the addresses of today.
func (s *Stack) seed(ctx context.Context) error {
	st, err := store.Open(ctx, store.Config{URL: s.Bootstrap.DatabaseURL, MasterKey: s.MasterKey, Logger: s.cfg.Logger})
	if err != nil {
		return err
	}
	defer st.Close()
	if err := s.seedRegistry(); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(s.cfg.Dir, bootstrapFile))
	switch {
	case err == nil:
		var before Bootstrap
		if err := json.Unmarshal(text, &before); err != nil {
			return fmt.Errorf("read the bootstrap object of the last run: %w", err)
		}
		s.Bootstrap.Tenants = before.Tenants
		if err := s.refresh(ctx, st); err != nil {
			return err
		}
	case errors.Is(err, os.ErrNotExist):
		for _, t := range tenantSeeds() {
			seeded, err := s.seedTenant(ctx, st, t)
			if err != nil {
				return err
			}
			s.Bootstrap.Tenants = append(s.Bootstrap.Tenants, seeded)
		}
	default:
		return fmt.Errorf("read the bootstrap object of the last run: %w", err)
	}
	return s.saveBootstrap()
}

// NewTenant adds a tenant that has all that the seeded ones have, with a name, a number and extensions of its own. Safe for concurrent use.
func (s *Stack) NewTenant(ctx context.Context) (Tenant, error) {
	st, err := store.Open(ctx, store.Config{URL: s.Bootstrap.DatabaseURL, MasterKey: s.MasterKey, MaxConns: 1, Logger: s.cfg.Logger})
	if err != nil {
		return Tenant{}, err
	}
	defer st.Close()
	n := s.added.Add(1)
	return s.seedTenant(ctx, st, tenantSeed{
		name: fmt.Sprintf("tenant%d", n), number: fmt.Sprintf("918100%04d", n),
		agentExtension: fmt.Sprintf("50%03d1", n), superviseExt: fmt.Sprintf("50%03d9", n),
	})
}

func (s *Stack) seedTenant(ctx context.Context, st *store.Store, seed tenantSeed) (Tenant, error) {
	accounts := account.NewWithCost(st, s.cfg.PasswordCost)
	t, err := accounts.CreateTenant(ctx, seed.name, store.PrivacyStandard)
	if err != nil {
		return Tenant{}, err
	}
	out := Tenant{ID: t.ID, Name: t.Name, Numbers: []string{seed.number}}
	always := json.RawMessage(`{"timezone":"Asia/Kolkata","days":[],"from":"00:00","to":"24:00"}`)
	if err := accounts.SetCallingWindow(ctx, t.ID, always); err != nil {
		return Tenant{}, err
	}
	if _, err := accounts.SetSIPHosts(ctx, t.ID, []string{"127.0.0.0/8"}); err != nil {
		return Tenant{}, err
	}
	if out.LiveKey, out.TestKey, err = s.seedKeys(ctx, accounts, t.ID); err != nil {
		return Tenant{}, err
	}
	for _, u := range []User{
		{Email: "admin@" + t.Name + ".test", Role: "admin"},
		{Email: "agent1@" + t.Name + ".test", Role: "agent", Extension: seed.agentExtension},
		{Email: "super@" + t.Name + ".test", Role: "supervisor", Extension: seed.superviseExt},
	} {
		u.Password = account.Random(seedPassword)
		in := account.UserInput{Email: u.Email, Password: u.Password, Role: u.Role, Extension: u.Extension}
		if _, err := accounts.CreateUser(ctx, t.ID, in); err != nil {
			return Tenant{}, err
		}
		out.Users = append(out.Users, u)
	}
	host, _, err := net.SplitHostPort(s.CarrierSIP)
	if err != nil {
		return Tenant{}, fmt.Errorf("read the carrier's address: %w", err)
	}
	trunk, err := accounts.CreateTrunk(ctx, t.ID, account.TrunkInput{
		Name: "carrier", Host: host, Port: port(s.CarrierSIP), MaxChannels: seedChannels, CPS: seedCPS,
	})
	if err != nil {
		return Tenant{}, err
	}
	flowID, err := s.seedVoiceAgent(ctx, st, &out)
	if err != nil {
		return Tenant{}, err
	}
	_, err = accounts.CreateNumber(ctx, t.ID, account.NumberInput{
		Number: seed.number, Label: "main", FlowID: &flowID, TrunkID: &trunk.ID,
	})
	return out, err
}

// seedKeys issues a live key with every scope, the opt-in one too, and a test key.
func (s *Stack) seedKeys(ctx context.Context, accounts *account.Service, tenantID uuid.UUID) (live, test string, err error) {
	for _, k := range []struct {
		environment string
		to          *string
	}{{"live", &live}, {"test", &test}} {
		_, secret, err := accounts.CreateKey(ctx, tenantID, account.KeyInput{
			Label: k.environment + " key of the seed", Environment: k.environment, Scopes: account.Scopes(), RatePerMin: seedRatePerMin,
		})
		if err != nil {
			return "", "", err
		}
		*k.to = secret.Key
	}
	return live, test, nil
}

// seedVoiceAgent makes the echo AI the tenant's default voice agent, and a flow that connects it.
func (s *Stack) seedVoiceAgent(ctx context.Context, st *store.Store, t *Tenant) (flowID uuid.UUID, err error) {
	ids := [2]uuid.UUID{}
	for i := range ids {
		if ids[i], err = uuid.NewV7(); err != nil {
			return uuid.Nil, fmt.Errorf("seed the voice agent: %w", err)
		}
	}
	t.VoiceAgentID, flowID = ids[0], ids[1]
	nodes, err := account.VoiceAgentFlow(t.VoiceAgentID)
	if err != nil {
		return uuid.Nil, err
	}
	return flowID, st.InTenant(ctx, t.ID, func(tx *store.Tx) error {
		_, err := tx.Q.VoiceAgentInsert(ctx, db.VoiceAgentInsertParams{
			TenantID: t.ID, ID: t.VoiceAgentID, Name: "echo", WsUrl: s.Bootstrap.AIWSURL, MaxConcurrent: seedMaxConcurrent, Transport: "websocket",
			AudioFormat: json.RawMessage(`{"encoding":"pcm_s16le","sample_rate_hz":16000,"channels":1,"frame_ms":20}`),
			Status:      "active", TokenLifetime: "30min_with_refresh", Subprotocol: "audio.alpha.org", WsDisconnectAction: "hangup", MonitorScope: "tenant",
		})
		if err != nil {
			return err
		}
		if err := tx.Q.SetTenantDefaultVoiceAgent(ctx, &t.VoiceAgentID, t.ID); err != nil {
			return err
		}
		_, err = tx.Q.FlowInsert(ctx, db.FlowInsertParams{TenantID: t.ID, ID: flowID, Name: "main", Nodes: nodes})
		return err
	})
}

// refresh points what was seeded at the addresses of today.
func (s *Stack) refresh(ctx context.Context, st *store.Store) error {
	return st.InSystem(ctx, func(tx *store.Tx) error {
		host, _, err := net.SplitHostPort(s.CarrierSIP)
		if err != nil {
			return fmt.Errorf("read the carrier's address: %w", err)
		}
		for _, t := range s.Bootstrap.Tenants {
			if _, err := tx.Pgx().Exec(ctx, "UPDATE trunks SET host = $2, port = $3 WHERE tenant_id = $1 AND name = 'carrier'",
				t.ID, host, port(s.CarrierSIP)); err != nil {
				return fmt.Errorf("refresh the trunk: %w", err)
			}
			if _, err := tx.Pgx().Exec(ctx, "UPDATE voice_agents SET ws_url = $3 WHERE tenant_id = $1 AND id = $2",
				t.ID, t.VoiceAgentID, s.Bootstrap.AIWSURL); err != nil {
				return fmt.Errorf("refresh the voice agent: %w", err)
			}
		}
		return nil
	})
}

// seedRegistry writes the registry's file, unless there is one: one number, since an empty registry is taken for a broken one. The
// numbers ending in 90 to 99 are barred by the pattern in the controller's configuration.
func (s *Stack) seedRegistry() error {
	dir := filepath.Join(s.cfg.Dir, "dnc")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the registry's folder: %w", err)
	}
	name := filepath.Join(dir, "registry.csv")
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	if err := os.WriteFile(name, []byte("phone\n9876543290\n"), 0o600); err != nil {
		return fmt.Errorf("write the registry: %w", err)
	}
	return nil
}
