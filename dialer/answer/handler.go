package answer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/audio"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// Service says what happens on a call that is up, and what its end means; the call controller asks it.
type Service struct {
	Store *store.Store
	Log   *slog.Logger
	Now   func() time.Time
	// Wake is told of calls that have ended.
	Wake *wake.Signals
	// NodeID names this controller.
	NodeID string
	// Web carries out the http_request nodes of flows; nil fails them.
	Web flow.Web
	// Guard says whether a voice agent's socket may be dialed at a URL (netguard.Policy.Check).
	Guard func(ctx context.Context, rawURL string) error
	// Agents are the people who take calls; nil for none.
	Agents       *acd.Service
	Gate         *gate.Gate
	Leads        *leads.Service
	Campaigns    *campaigns.Service
	Flows        *flows.Service
	VoiceAgents  *voiceagents.Service
	Suppressions *suppressions.Service
	Audio        *audio.Shelf
	Carriers     *carrier.Trunks
	// AdmittedTotal and RefusedTotal are the gate's; Announced counts announcements, by result.
	AdmittedTotal, RefusedTotal, Announced *prometheus.CounterVec
}

// Route finds the tenant of an inbound call's number and commits the call's row, its unit and call.started. The call
// takes the unit of the voice agent that it reaches first. Errors: switchctl.ErrUnknownNumber,
// *switchctl.BusyError, *fault.Error when nothing takes the call.
func (h *Service) Route(ctx context.Context, in switchctl.Inbound) (db.Call, error) {
	number, err := h.number(ctx, in.To)
	if err != nil {
		return db.Call{}, err
	}
	if err := h.Carriers.Sent(ctx, number, in.Peer); err != nil {
		h.Log.WarnContext(ctx, "inbound call didn't come over its number's trunk; switch.carrier_networks names carriers' other networks",
			"tenant_id", number.TenantID, "number_id", number.ID, "peer", in.Peer, "error", err)
		return db.Call{}, err
	}
	var call db.Call
	err = h.Store.InTenant(ctx, number.TenantID, func(tx *store.Tx) error {
		if err := tx.Later(ctx, func(q *db.Queries) error { return q.GateLock(ctx, number.TenantID) }); err != nil {
			return err
		}
		var err error
		call, err = h.admitInbound(ctx, tx, in, number)
		return err
	})
	var met *switchctl.BusyError
	switch {
	case errors.As(err, &met):
		h.RefusedTotal.WithLabelValues(string(gate.ReasonOf(gate.CeilingSource(met.Ceiling)))).Inc()
		return db.Call{}, err
	case err != nil:
		return db.Call{}, fault.Wrap("route inbound call", err)
	default:
		h.AdmittedTotal.WithLabelValues(gate.DirectionInbound).Inc()
		return call, nil
	}
}

// busy is the refusal of an inbound call that has met a ceiling.
func busy(reason gate.Reason) error { return &switchctl.BusyError{Ceiling: string(reason.Ceiling())} }

func (h *Service) number(ctx context.Context, dialedNumber string) (db.Number, error) {
	for _, candidate := range campaigns.Spellings(dialedNumber) {
		number, err := h.Store.ReadSystem().FindNumber(ctx, candidate)
		switch {
		case err == nil:
			return number, nil
		case !errors.Is(err, store.ErrNotFound):
			return number, fmt.Errorf("find the number of an inbound call: %w", err)
		}
	}
	return db.Number{}, switchctl.ErrUnknownNumber
}

func (h *Service) admitInbound(ctx context.Context, tx *store.Tx, in switchctl.Inbound, number db.Number) (db.Call, error) {
	s, tenant := h, number.TenantID
	agent, err := h.inboundAgent(ctx, tx, number)
	if err != nil {
		return db.Call{}, err
	}
	hash := []byte(nil)
	peer, parseErr := store.ParsePhone(in.From)
	if parseErr == nil {
		hash = s.Store.PhoneHash(tenant, peer)
	}
	var facts db.GateFactsRow
	var trunks []db.GateTrunksRow
	if err := tx.Together(ctx, func(q *db.Queries) (err error) {
		facts, err = q.GateFacts(ctx, db.GateFactsParams{TenantID: tenant, PhoneHash: hash, VoiceAgentID: agent.id, Node: s.NodeID})
		return err
	}, func(q *db.Queries) (err error) {
		trunks, err = store.TrunksInUse(ctx, q, tenant)
		return err
	}); err != nil {
		return db.Call{}, err
	}
	if len(trunks) > 0 && facts.ChannelsUsed >= gate.Channels(trunks) {
		return db.Call{}, busy(gate.ReasonChannels)
	}
	for _, t := range trunks {
		if number.TrunkID != nil && *number.TrunkID == t.ID && t.ChannelsUsed >= int64(t.MaxChannels) {
			return db.Call{}, busy(gate.ReasonTrunkChannels)
		}
	}
	if agent.id != nil && facts.AgentUsed >= int64(facts.AgentMax) {
		if !agent.handlesBusy {
			return db.Call{}, busy(gate.ReasonAgentCeiling)
		}
		agent.id = nil // the flow's own branch decides; the unit counts for the account alone
	}
	p := db.GateAdmitParams{
		TenantID: tenant, ID: in.CallID, VoiceAgentID: agent.id, TrunkID: number.TrunkID, Node: s.NodeID,
		FsUuid: in.FSUUID, Direction: gate.DirectionInbound, Environment: string(campaigns.EnvironmentLive),
		FromNumber: store.NewNumber(in.From), ToNumber: store.NewNumber(number.E164), PeerHash: hash, DialTime: inboundTime(in, s),
	}
	if in.NodeID != "" {
		p.Node = in.NodeID
	}
	privacy := store.PrivacyMode(facts.PrivacyMode)
	switch {
	case parseErr == nil:
		p.FromNumber = store.NewNumber(peer.EchoE164(privacy))
		if privacy == store.PrivacyStrict {
			if p.PeerSealed, err = tx.SealPhone(ctx, tenant, peer); err != nil {
				return db.Call{}, err
			}
		}
	case privacy == store.PrivacyStrict:
		p.FromNumber = store.NewNumber(store.NewNumber(in.From).Mask())
	}
	return gate.Open(ctx, tx, p)
}

func inboundTime(in switchctl.Inbound, s *Service) time.Time {
	if in.At.IsZero() {
		return s.Now()
	}
	return in.At
}

// inboundTarget is the voice agent that an inbound call reaches first; id is nil when a flow begins otherwise.
type inboundTarget struct {
	id          *uuid.UUID
	handlesBusy bool
}

func (h *Service) inboundAgent(ctx context.Context, tx *store.Tx, number db.Number) (inboundTarget, error) {
	var target inboundTarget
	var node *uuid.UUID
	if number.FlowID != nil {
		plan, err := h.Flows.Stored(ctx, tx, number.TenantID, *number.FlowID)
		if err != nil {
			return target, err
		}
		first := plan.Graph.FirstVoiceAgent(h.Now())
		if first == nil {
			return target, nil
		}
		node, target.handlesBusy = &first.VoiceAgentID, first.HandlesBusy
	}
	agent, err := h.VoiceAgents.Resolve(ctx, tx, number.TenantID, node, nil)
	target.id = &agent.ID
	return target, err
}

// decisionLimit is how long the database has to say who takes a caller that is on the line already.
const decisionLimit = 3 * time.Second

// Answered runs what follows answer: the number's flow or default voice agent for an inbound call, the campaign's
// action for an outbound one. A call that nothing takes ends with SERVICE_UNAVAILABLE.
func (h *Service) Answered(ctx context.Context, leg switchctl.Leg) error {
	call := leg.Call()
	deciding, cancel := context.WithTimeout(ctx, decisionLimit)
	plan, err := h.plan(deciding, call)
	cancel()
	if err != nil {
		h.Log.ErrorContext(ctx, "choosing who answers the call failed, hanging up", "call_id", call.ID, "tenant_id", call.TenantID, "error", err)
		return errors.Join(err, leg.Hangup(ctx, ledger.CauseServiceUnavailable))
	}
	wait, untold := h.greet(ctx, leg, plan)
	defer wait()
	switch {
	case h.forgone(ctx, leg):
		return switchctl.ErrMachine
	case untold:
		return nil
	}
	switch {
	case plan.people != nil:
		return h.connectPeople(ctx, leg, *plan.people)
	case plan.flow != nil:
		return h.runFlow(ctx, leg, plan.flow)
	}
	detects := plan.campaign == nil || plan.detectsBeside(h, plan.campaign)
	outcome, err := legOperations{h: h, leg: leg, detects: detects}.connectVoice(ctx, switchctl.VoiceConnect{Agent: plan.agent})
	if err != nil {
		return fmt.Errorf("connect the voice agent: %w", err)
	}
	return legOperations{h: h, leg: leg}.close(ctx, string(outcome))
}

// answerPlan is an agent, or a flow, or else a voice agent. campaign is the one whose call begins; nil for one that goes on in its
// flow after a restart.
type answerPlan struct {
	people   *peoplePlan
	flow     *flows.Plan
	agent    db.VoiceAgent
	campaign *db.Campaign
}

// plan asks the database once for a campaign's call that no flow takes: the callee waits.
func (h *Service) plan(ctx context.Context, call db.Call) (plan answerPlan, err error) {
	var run *db.FlowRun
	var campaign db.Campaign
	agent := h.admittedAgent(call)
	if err = h.Store.ReadTogether(ctx, call.TenantID, flows.OpenRun(ctx, call, &run), campaignOf(ctx, call, &campaign), agent.read(ctx)); err != nil {
		return plan, err
	}
	if run != nil {
		plan.flow, err = h.flowFrom(ctx, call, func(tx *store.Tx) (*flows.Plan, error) { return h.Flows.CutOff(ctx, tx, *run) })
		if err != nil || plan.flow != nil {
			return plan, err
		}
	}
	switch {
	case call.Direction == gate.DirectionInbound:
		return h.inboundPlan(ctx, call, agent)
	case call.CampaignID != nil:
		plan.campaign = &campaign
	}
	switch {
	case call.AgentID != nil:
		plan.people = &peoplePlan{campaign: plan.campaign}
	case plan.campaign != nil:
		switch campaigns.PostAnswerAction(campaign.PostAnswerAction) {
		case campaigns.ActionRunFlow:
			plan.flow, err = h.flowFrom(ctx, call, func(tx *store.Tx) (*flows.Plan, error) { return h.Campaigns.Flow(ctx, tx, campaign) })
		case campaigns.ActionConnectVoiceAgent:
			plan.agent, err = agent.or(ctx, campaign.VoiceAgentID)
		case campaigns.ActionConnectAgent:
			plan.people = &peoplePlan{campaign: &campaign}
		}
	case call.FlowID != nil:
		plan.flow, err = h.storedFlow(ctx, call, *call.FlowID)
	default:
		plan.agent, err = agent.or(ctx, nil)
	}
	return plan, err
}

// inboundPlan is that of a carrier's call: the number's flow, or else a voice agent.
func (h *Service) inboundPlan(ctx context.Context, call db.Call, agent *admittedAgent) (plan answerPlan, err error) {
	stored, err := h.Store.Read(call.TenantID).FlowOfNumber(ctx, call.TenantID, call.ToNumber.Reveal())
	switch {
	case err == nil:
		plan.flow, err = h.storedFlow(ctx, call, stored.ID)
	case errors.Is(err, store.ErrNotFound):
		plan.agent, err = agent.or(ctx, nil)
	}
	return plan, err
}

func (h *Service) storedFlow(ctx context.Context, call db.Call, id uuid.UUID) (*flows.Plan, error) {
	return h.flowFrom(ctx, call, func(tx *store.Tx) (*flows.Plan, error) { return h.Flows.Stored(ctx, tx, call.TenantID, id) })
}

func (h *Service) flowFrom(ctx context.Context, call db.Call, read func(tx *store.Tx) (*flows.Plan, error)) (plan *flows.Plan, err error) {
	err = h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) (err error) {
		plan, err = read(tx)
		return err
	})
	return plan, err
}

// campaignOf reads the campaign of a call that has one.
func campaignOf(ctx context.Context, call db.Call, campaign *db.Campaign) func(*db.Queries) error {
	return func(q *db.Queries) (err error) {
		if call.CampaignID != nil {
			*campaign, err = q.CampaignGet(ctx, call.TenantID, *call.CampaignID)
		}
		return err
	}
}

// admittedAgent is the voice agent whose unit a call holds, even if it was paused or archived since: the callee has answered.
type admittedAgent struct {
	h    *Service
	call db.Call
	row  *db.VoiceAgent // nil for none
}

func (h *Service) admittedAgent(call db.Call) *admittedAgent { return &admittedAgent{h: h, call: call} }

func (a *admittedAgent) read(ctx context.Context) func(*db.Queries) error {
	return func(q *db.Queries) error {
		if a.call.VoiceAgentID == nil {
			return nil
		}
		row, err := q.VoiceAgentGet(ctx, a.call.TenantID, *a.call.VoiceAgentID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		a.row = &row
		return err
	}
}

// or gives it, or the campaign's, or the tenant's.
func (a *admittedAgent) or(ctx context.Context, campaign *uuid.UUID) (agent db.VoiceAgent, err error) {
	if a.row != nil {
		return *a.row, nil
	}
	err = a.h.Store.InTenant(ctx, a.call.TenantID, func(tx *store.Tx) (err error) {
		agent, err = a.h.VoiceAgents.Resolve(ctx, tx, a.call.TenantID, nil, campaign)
		return err
	})
	return agent, err
}
