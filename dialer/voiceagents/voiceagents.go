package voiceagents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/lanes"
	"github.com/ringmaster/ringmaster/switchctl/sipagent"
)

// Service keeps the voice agents of a tenant. It is safe for concurrent use.
type Service struct {
	Store *store.Store
	// Wake is told of ceilings that have changed.
	Wake *wake.Signals
	// Guard says which addresses a customer may configure, Hosts where SIP URIs may lead.
	Guard input.Guard
	Hosts carrier.Hosts
	// Subprotocols are those that this host serves.
	Subprotocols []string

	reads lanes.Reads[uuid.UUID, uuid.UUID, db.VoiceAgent] // by tenant
}

// Codes of faults.
const (
	CodeVoiceAgentInUse        = "VoiceAgentInUse"
	CodeVoiceAgentArchived     = "voice_agent_archived"
	CodeNoVoiceAgentConfigured = "NoVoiceAgentConfigured"
	CodeSubprotocolMismatch    = "subprotocol_mismatch"
	CodeVoiceAgents            = "too_many_voice_agents"
)

// CreateVoiceAgent adds a voice agent. Errors: *fault.Error when the tenant has all that it may have.
func (v *Service) CreateVoiceAgent(ctx context.Context, tenant uuid.UUID, in Input) (VoiceAgent, error) {
	row, c := newVoiceAgent(), input.Form{}
	row.TenantID = tenant
	in = in.withoutNulls()
	in.apply(ctx, &c, v.Guard, &row)
	if err := cmp.Or(c.Err(), v.checkTransferTarget(ctx, tenant, in), v.checkSIPTarget(ctx, tenant, in)); err != nil {
		return VoiceAgent{}, err
	}
	made, err := v.inAgent(ctx, tenant, "create voice agent", func(tx *store.Tx) (db.VoiceAgent, error) {
		if err := store.Quota(ctx, tx, tenant, CodeVoiceAgents, maxVoiceAgents, tx.Q.VoiceAgentCount); err != nil {
			return row, err
		}
		if err := v.sealToken(in, &row); err != nil {
			return row, err
		}
		return tx.Q.VoiceAgentInsert(ctx, voiceAgentParams(row))
	})
	if err == nil && made.AuthToken != nil {
		made.AuthToken = &in.AuthToken.Value // this once
	}
	return made, err
}

// checkTransferTarget refuses a transfer_destination that is a SIP URI which can't be dialed.
func (v *Service) checkTransferTarget(ctx context.Context, tenant uuid.UUID, in Input) error {
	if !in.TransferDestination.Has() || !strings.HasPrefix(in.TransferDestination.Value, "sip:") {
		return nil
	}
	bad, err := v.Hosts.Fault(ctx, tenant, in.TransferDestination.Value)
	if err != nil || bad == "" {
		return err
	}
	refusal := fault.InField("transfer_destination", bad)
	refusal.Code = carrier.CodeHostNotAllowed
	return refusal
}

// checkSIPTarget refuses a transport_config whose sip_uri can't be dialed.
func (v *Service) checkSIPTarget(ctx context.Context, tenant uuid.UUID, in Input) error {
	if !in.TransportConfig.Has() {
		return nil
	}
	config, err := sipagent.ParseConfig(in.TransportConfig.Value)
	if err != nil {
		return nil //nolint:nilerr // of another transport, or told by the form
	}
	bare, _, _ := sipagent.SplitTransport(config.SIPURI) // it was parsed
	_, err = v.SIPTarget(ctx, tenant, bare)
	bad, ok := errors.AsType[*carrier.URIError](err)
	if !ok {
		return err
	}
	refusal := fault.InField(fieldConfig+".sip_uri", "can't be dialed: "+bad.Detail)
	refusal.Code = carrier.CodeHostNotAllowed
	return refusal
}

// SIPTarget is where a voice agent's SIP URI leads: user@address:port. A number is none: numbers are dialed by transfers, which the gate judges. Errors are
// *carrier.URIError and those of the database.
func (v *Service) SIPTarget(ctx context.Context, tenant uuid.UUID, uri string) (string, error) {
	target, err := v.Hosts.Check(ctx, tenant, uri)
	if err == nil && !target.Number.IsZero() {
		err = &carrier.URIError{Detail: "its user is a phone number, which no voice agent has"}
	}
	if err != nil {
		return "", err
	}
	return target.Endpoint(), nil
}

// withoutNulls takes null members for absent ones, which are never modified; name and ws_url stay, since creation
// requires them.
func (in Input) withoutNulls() Input {
	in.AuthToken, in.AudioFormat = present(in.AuthToken), present(in.AudioFormat)
	in.ExternalAgentID, in.TransferDestination = present(in.ExternalAgentID), present(in.TransferDestination)
	in.MaxConcurrent, in.Status, in.TokenLifetime = present(in.MaxConcurrent), present(in.Status), present(in.TokenLifetime)
	in.Subprotocol, in.WSDisconnectAction = present(in.Subprotocol), present(in.WSDisconnectAction)
	in.MonitorScope, in.Transport, in.TransportConfig = present(in.MonitorScope), present(in.Transport), present(in.TransportConfig)
	in.ConnectURL = present(in.ConnectURL)
	return in
}

func present[T any](o input.Opt[T]) input.Opt[T] {
	if o.Null {
		return input.Opt[T]{}
	}
	return o
}

func (v *Service) sealToken(in Input, row *db.VoiceAgent) error {
	if !in.AuthToken.Has() {
		return nil
	}
	if row.AuthTokenSealed = nil; in.AuthToken.Value == "" {
		return nil
	}
	sealed, err := v.Store.Seal(store.AuthToken(row.ID), []byte(in.AuthToken.Value))
	row.AuthTokenSealed = sealed
	return err
}

// keepMaskedToken takes a token that comes back as it was shown, masked, for an absent one.
func (v *Service) keepMaskedToken(in Input, row db.VoiceAgent) (Input, error) {
	if !in.AuthToken.Has() || len(row.AuthTokenSealed) == 0 {
		return in, nil
	}
	shown, err := v.maskedToken(row)
	if err == nil && in.AuthToken.Value == shown {
		in.AuthToken = input.Opt[string]{}
	}
	return in, err
}

// maskedToken is what is shown of a voice agent's token after its creation.
func (v *Service) maskedToken(row db.VoiceAgent) (string, error) {
	token, err := v.Store.Unseal(store.AuthToken(row.ID), row.AuthTokenSealed)
	if err != nil {
		return "", fmt.Errorf("open the auth token of voice agent %s: %w", row.ID, err)
	}
	return store.MaskSecret(string(token)), nil
}

func (v *Service) inAgent(
	ctx context.Context, tenant uuid.UUID, attempt string, fn func(*store.Tx) (db.VoiceAgent, error),
) (VoiceAgent, error) {
	var row db.VoiceAgent
	err := v.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		var err error
		row, err = fn(tx)
		return err
	})
	if err != nil {
		return VoiceAgent{}, fault.Wrap(attempt, err)
	}
	return v.voiceAgentOf(row)
}

// ListVoiceAgents gives the tenant's voice agents, of one status where it is given. Errors: *fault.Error.
func (v *Service) ListVoiceAgents(ctx context.Context, tenant uuid.UUID, status *string) ([]VoiceAgent, error) {
	if status != nil && !slices.Contains([]Status{StatusActive, StatusPaused, StatusArchived}, Status(*status)) {
		return nil, fault.InField("status", "must be one of active, paused, archived")
	}
	rows, err := v.Store.Read(tenant).VoiceAgentList(ctx, tenant, status)
	if err != nil {
		return nil, fault.Wrap("list voice agents", err)
	}
	out := make([]VoiceAgent, len(rows))
	for i, row := range rows {
		if out[i], err = v.voiceAgentOf(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// GetVoiceAgent gives one voice agent. Errors: store.ErrNotFound.
func (v *Service) GetVoiceAgent(ctx context.Context, tenant, id uuid.UUID) (VoiceAgent, error) {
	q := v.Store.Read(tenant)
	row, err := v.reads.One(ctx, tenant, id, func(id uuid.UUID) (db.VoiceAgent, error) {
		return q.VoiceAgentGet(ctx, tenant, id)
	}, func(ids []uuid.UUID) (map[uuid.UUID]db.VoiceAgent, error) {
		rows, err := q.VoiceAgentsGet(ctx, tenant, ids)
		found := make(map[uuid.UUID]db.VoiceAgent, len(rows))
		for _, row := range rows {
			found[row.ID] = row
		}
		return found, err
	})
	if err != nil {
		return VoiceAgent{}, fault.Wrap("get voice agent", err)
	}
	return v.voiceAgentOf(row)
}

// PatchVoiceAgent edits a voice agent; absent and null members are not modified. Errors: store.ErrNotFound,
// *fault.Error when an archived agent's status is to change.
func (v *Service) PatchVoiceAgent(ctx context.Context, tenant, id uuid.UUID, in Input) (VoiceAgent, error) {
	in = in.withoutNulls()
	c := input.Form{Edit: true}
	if in.WSURL.Has() {
		c.Address(ctx, v.Guard, "ws_url", in.WSURL.Value, "ws", "wss")
	}
	if in.ConnectURL.Has() && in.ConnectURL.Value != "" {
		c.Address(ctx, v.Guard, "connect_url", in.ConnectURL.Value, "http", "https")
	}
	if err := c.Err(); err != nil {
		return VoiceAgent{}, err
	}
	if err := cmp.Or(v.checkTransferTarget(ctx, tenant, in), v.checkSIPTarget(ctx, tenant, in)); err != nil {
		return VoiceAgent{}, err
	}
	out, err := v.inAgent(ctx, tenant, "edit voice agent", func(tx *store.Tx) (db.VoiceAgent, error) {
		row, err := tx.Q.VoiceAgentLock(ctx, tenant, id)
		if err != nil {
			return row, err
		}
		if in.ConnectURL.Has() && row.ConnectUrl != nil && netguard.SameEnd(*row.ConnectUrl, in.ConnectURL.Value) {
			in.ConnectURL.Value = store.UnmaskURL(in.ConnectURL.Value, *row.ConnectUrl)
		}
		in, err := v.keepMaskedToken(in, row)
		if err != nil {
			return row, err
		}
		archived, c, before := row.Status == string(StatusArchived), input.Form{Edit: true}, row.WsUrl
		in.apply(ctx, &c, nil, &row)
		if len(row.AuthTokenSealed) > 0 && !in.AuthToken.Set && row.Transport != TransportSIP && !netguard.SameEnd(before, row.WsUrl) {
			c.Fail("auth_token", "is required when the host changes or TLS is dropped: the stored one isn't sent there; an empty one removes it")
		}
		if err := c.Err(); err != nil {
			return row, err
		}
		if archived && in.Status.Has() {
			return row, &fault.Error{Kind: fault.Conflict, Code: CodeVoiceAgentArchived, Detail: "an archived voice agent stays archived"}
		}
		if err := v.sealToken(in, &row); err != nil {
			return row, err
		}
		return tx.Q.VoiceAgentUpdate(ctx, voiceAgentUpdate(row))
	})
	if err == nil {
		v.Wake.Tenant(tenant)
	}
	return out, err
}

// ArchiveVoiceAgent takes a voice agent out of use for good; its id stays valid. Errors: store.ErrNotFound.
func (v *Service) ArchiveVoiceAgent(ctx context.Context, tenant, id uuid.UUID) (VoiceAgent, error) {
	return v.inAgent(ctx, tenant, "archive voice agent", func(tx *store.Tx) (db.VoiceAgent, error) {
		return tx.Q.VoiceAgentArchive(ctx, tenant, id)
	})
}

// DeleteVoiceAgent removes a voice agent that no call uses. Errors: store.ErrNotFound, *fault.Error.
func (v *Service) DeleteVoiceAgent(ctx context.Context, tenant, id uuid.UUID) error {
	err := v.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if err := tx.Q.GateLock(ctx, tenant); err != nil {
			return err
		}
		if _, err := tx.Q.VoiceAgentLock(ctx, tenant, id); err != nil {
			return err
		}
		busy, err := tx.Q.VoiceAgentInUse(ctx, tenant, id)
		if err != nil {
			return err
		}
		if busy {
			return &fault.Error{Kind: fault.Conflict, Code: CodeVoiceAgentInUse, Detail: "the voice agent has active sessions"}
		}
		if err := tx.Q.VoiceAgentUnsetDefault(ctx, tenant, id); err != nil {
			return err
		}
		_, err = tx.Q.VoiceAgentDelete(ctx, tenant, id)
		return err
	})
	if err != nil {
		return fault.Wrap("delete voice agent", err)
	}
	return nil
}

// DefaultVoiceAgent gives the tenant's default voice agent, or none.
func (v *Service) DefaultVoiceAgent(ctx context.Context, tenant uuid.UUID) (Default, error) {
	owner, err := v.Store.Read(tenant).GetTenant(ctx, tenant)
	if err != nil {
		return Default{}, fault.Wrap("get default voice agent", err)
	}
	return Default{VoiceAgentID: owner.DefaultVoiceAgentID}, nil
}

// SetDefaultVoiceAgent makes a voice agent the tenant's default; null clears it. Errors: *fault.Error,
// store.ErrNotFound for an id that the tenant doesn't have, *fault.Error for an archived agent.
func (v *Service) SetDefaultVoiceAgent(
	ctx context.Context, tenant uuid.UUID, in DefaultInput,
) (Default, error) {
	c, out := input.Form{}, Default{}
	if !in.VoiceAgentID.Set {
		c.Fail("voice_agent_id", "is required")
	}
	wanted, _ := input.Clearable(&c, "voice_agent_id", in.VoiceAgentID)
	if err := c.Err(); err != nil {
		return out, err
	}
	if wanted != nil {
		id, err := uuid.Parse(*wanted)
		if err != nil {
			return out, fmt.Errorf("set default voice agent: %w", store.ErrNotFound)
		}
		out.VoiceAgentID = &id
	}
	err := v.Store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		if out.VoiceAgentID != nil {
			row, err := tx.Q.VoiceAgentLock(ctx, tenant, *out.VoiceAgentID)
			if err != nil {
				return err
			}
			if row.Status == string(StatusArchived) {
				return &fault.Error{Kind: fault.Conflict, Code: CodeVoiceAgentArchived, Detail: "an archived voice agent takes no calls"}
			}
		}
		return tx.Q.SetTenantDefaultVoiceAgent(ctx, out.VoiceAgentID, tenant)
	})
	if err != nil {
		return Default{}, fault.Wrap("set default voice agent", err)
	}
	return out, nil
}

// Resolve finds the voice agent of a call: the flow node's, the campaign's, the tenant's default, or one made
// of the tenant's default address. An agent that is gone is passed over; one that is paused or archived takes no
// calls, and no other takes them in its place. Errors: *fault.Error.
func (v *Service) Resolve(
	ctx context.Context, tx *store.Tx, tenant uuid.UUID, node, campaign *uuid.UUID,
) (db.VoiceAgent, error) {
	for _, id := range []*uuid.UUID{node, campaign} {
		if agent, found, err := v.Usable(ctx, tx, tenant, id); found || err != nil {
			return agent, err
		}
	}
	owner, err := tx.Q.GetTenant(ctx, tenant)
	if err != nil {
		return db.VoiceAgent{}, err
	}
	if agent, found, err := v.Usable(ctx, tx, tenant, owner.DefaultVoiceAgentID); found || err != nil {
		return agent, err
	}
	return v.lazyAgent(ctx, tx, tenant)
}

// Look is a voice agent that was read with other things, in case that it is the one that takes a call.
type Look struct{ row *db.VoiceAgent }

// Read reads one; none is kept where there is none.
func (l *Look) Read(ctx context.Context, tenant, id uuid.UUID) func(*db.Queries) error {
	return func(q *db.Queries) error {
		row, err := q.VoiceAgentGet(ctx, tenant, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		l.row = &row
		return err
	}
}

// ResolveSeen is Resolve for a campaign's voice agent that may have been read.
func (v *Service) ResolveSeen(ctx context.Context, tx *store.Tx, tenant uuid.UUID, campaign *uuid.UUID, seen Look) (db.VoiceAgent, error) {
	if seen.row != nil && campaign != nil && seen.row.ID == *campaign {
		return *seen.row, v.checkAgent(*seen.row)
	}
	return v.Resolve(ctx, tx, tenant, nil, campaign)
}

// Usable reads one candidate and checks that it can take calls here.
func (v *Service) Usable(
	ctx context.Context, tx *store.Tx, tenant uuid.UUID, id *uuid.UUID,
) (db.VoiceAgent, bool, error) {
	if id == nil {
		return db.VoiceAgent{}, false, nil
	}
	agent, err := tx.Q.VoiceAgentGet(ctx, tenant, *id)
	if errors.Is(err, store.ErrNotFound) {
		return db.VoiceAgent{}, false, nil
	}
	if err != nil {
		return db.VoiceAgent{}, false, err
	}
	return agent, true, v.checkAgent(agent)
}

func (v *Service) checkAgent(agent db.VoiceAgent) error {
	if agent.Status != string(StatusActive) {
		return &fault.Error{Kind: fault.Dependency, Code: CodeNoVoiceAgentConfigured, Detail: fmt.Sprintf("voice agent %s is %s", agent.ID, agent.Status)}
	}
	if agent.Transport == TransportWebSocket && !slices.Contains(v.Subprotocols, agent.Subprotocol) {
		return &fault.Error{
			Kind: fault.Dependency, Code: CodeSubprotocolMismatch,
			Detail: fmt.Sprintf("voice agent %s requires %s; this host supports %s", agent.ID, agent.Subprotocol, strings.Join(v.Subprotocols, ", ")),
		}
	}
	return nil
}

// lazyAgent makes the tenant's default voice agent of its default address. The tenant's row is locked, so that of
// several calls that need it at once one makes it and the others find it.
func (v *Service) lazyAgent(ctx context.Context, tx *store.Tx, tenant uuid.UUID) (db.VoiceAgent, error) {
	owner, err := tx.Q.TenantLock(ctx, tenant)
	if err != nil {
		return db.VoiceAgent{}, err
	}
	if agent, found, err := v.Usable(ctx, tx, tenant, owner.DefaultVoiceAgentID); found || err != nil {
		return agent, err
	}
	if owner.VoiceAgentDefaultWsUrl == nil || !isWebSocketURL(*owner.VoiceAgentDefaultWsUrl) {
		return db.VoiceAgent{}, &fault.Error{
			Kind: fault.Dependency, Code: CodeNoVoiceAgentConfigured, Detail: "neither flow, campaign nor tenant names a voice agent",
		}
	}
	row := newVoiceAgent()
	row.TenantID, row.Name, row.WsUrl, row.MaxConcurrent = tenant, "Default voice agent", *owner.VoiceAgentDefaultWsUrl, lazyAgentCalls
	agent, err := tx.Q.VoiceAgentInsert(ctx, voiceAgentParams(row))
	if err != nil {
		return agent, err
	}
	err = tx.Q.SetTenantDefaultVoiceAgent(ctx, &agent.ID, tenant)
	if err != nil {
		return agent, err
	}
	return agent, v.checkAgent(agent)
}

func isWebSocketURL(s string) bool {
	return strings.HasPrefix(s, "ws://") || strings.HasPrefix(s, "wss://")
}

func voiceAgentParams(row db.VoiceAgent) db.VoiceAgentInsertParams {
	return db.VoiceAgentInsertParams{
		TenantID: row.TenantID, ID: row.ID, Name: row.Name, WsUrl: row.WsUrl, AuthTokenSealed: row.AuthTokenSealed,
		AudioFormat: row.AudioFormat, ExternalAgentID: row.ExternalAgentID, TransferDestination: row.TransferDestination,
		MaxConcurrent: row.MaxConcurrent, Status: row.Status, TokenLifetime: row.TokenLifetime, Subprotocol: row.Subprotocol,
		WsDisconnectAction: row.WsDisconnectAction, MonitorScope: row.MonitorScope, Transport: row.Transport,
		TransportConfig: row.TransportConfig, ConnectUrl: row.ConnectUrl,
	}
}

func voiceAgentUpdate(row db.VoiceAgent) db.VoiceAgentUpdateParams {
	return db.VoiceAgentUpdateParams{
		Name: row.Name, WsUrl: row.WsUrl, AuthTokenSealed: row.AuthTokenSealed, AudioFormat: row.AudioFormat,
		ExternalAgentID: row.ExternalAgentID, TransferDestination: row.TransferDestination,
		MaxConcurrent: row.MaxConcurrent, Status: row.Status, TokenLifetime: row.TokenLifetime,
		Subprotocol: row.Subprotocol, WsDisconnectAction: row.WsDisconnectAction, MonitorScope: row.MonitorScope, Transport: row.Transport,
		TransportConfig: row.TransportConfig, ConnectUrl: row.ConnectUrl, TenantID: row.TenantID, ID: row.ID,
	}
}

// maskedURL is a URL as it is shown.
func maskedURL(address *string) *string {
	if address == nil {
		return nil
	}
	return new(store.MaskURL(*address))
}

func (v *Service) voiceAgentOf(row db.VoiceAgent) (VoiceAgent, error) {
	out := VoiceAgent{
		ID: row.ID, TenantID: row.TenantID, Name: row.Name, WSURL: row.WsUrl, AudioFormat: audioOf(row),
		ExternalAgentID: row.ExternalAgentID, TransferDestination: row.TransferDestination,
		MaxConcurrent: int(row.MaxConcurrent), Status: Status(row.Status), TokenLifetime: row.TokenLifetime,
		Subprotocol: row.Subprotocol, WSDisconnectAction: row.WsDisconnectAction, MonitorScope: row.MonitorScope, Transport: row.Transport,
		TransportConfig: row.TransportConfig, ConnectURL: maskedURL(row.ConnectUrl), CreatedAt: row.CreatedAt.UTC(),
		UpdatedAt: row.UpdatedAt.UTC(),
	}
	if len(row.AuthTokenSealed) > 0 {
		token, err := v.maskedToken(row)
		if err != nil {
			return VoiceAgent{}, err
		}
		out.AuthToken = &token
	}
	return out, nil
}
