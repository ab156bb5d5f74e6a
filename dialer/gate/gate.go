package gate

import (
	"context"
	"encoding/json"
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
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/dialer/week"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// Gate applies the rules of dialing. It is safe for concurrent use.
type Gate struct {
	Store *store.Store
	Log   *slog.Logger
	Now   func() time.Time
	// NodeID names this controller, CarrierProfile the switch's SIP profile towards carriers.
	NodeID, CarrierProfile string
	// Legal is the time of day outside which nobody is called.
	Legal week.Window
	// DNCPolicy says for which kinds of calls the registry's answers hold.
	DNCPolicy dnc.Policy
	// DailyCap is the most calls that a number gets on one day from one tenant; 0 for any number.
	DailyCap int
	// RequireCategory refuses single calls that don't declare what they are for.
	RequireCategory bool
	// HostTrunk carries the calls of tenants that declare no trunk; nil refuses them.
	HostTrunk *carrier.HostTrunk
	// Hosts says where SIP URIs may lead.
	Hosts carrier.Hosts
	// Agents are the people who take calls; nil for none.
	Agents      *acd.Service
	VoiceAgents *voiceagents.Service
	Campaigns   *campaigns.Service
	Flows       *flows.Service
	Leads       *leads.Service
	Audio       *audio.Shelf
	Plans       Plans
	// AdmittedTotal counts the calls that were let through, by purpose; RefusedTotal the others, by reason.
	AdmittedTotal, RefusedTotal *prometheus.CounterVec
	// Admitted, unless nil, is told of each leg that may be dialed. Set it before there are any.
	Admitted func(req admission.Request, terms admission.Terms)

	windows windowCache
}

// ScrubAge is how long a lead's do-not-call mark holds.
const ScrubAge = 7 * 24 * time.Hour

// FallbackChannels is the ceiling, per controller, of what nothing else bounds while no trunk is declared.
const FallbackChannels = 10

// registryAnswer is what the registry said of one number, or that it could not.
type registryAnswer struct {
	known, listed bool
}

// Admit applies every rule of dialing and, when all let the call through, commits its row, its unit, the lead's
// state and call.started together. Errors: *RefusalError, *fault.Error. A lead that may never be dialed is put
// into its terminal state by the refusal.
func (g *Gate) Admit(ctx context.Context, req admission.Request) (*admission.Admission, error) {
	adm, err := g.admit(ctx, req)
	var refusal *RefusalError
	if errors.As(err, &refusal) && refusal.fetch != "" && req.AgentID != nil && g.Audio.Fetch(ctx, req.TenantID, refusal.fetch) {
		adm, err = g.admit(ctx, req)
	}
	switch {
	case errors.As(err, &refusal):
		g.RefusedTotal.WithLabelValues(string(refusal.Reason)).Inc()
	case err == nil:
		g.AdmittedTotal.WithLabelValues(string(req.Purpose)).Inc()
		if g.Admitted != nil {
			g.Admitted(req, adm.Terms())
		}
	}
	return adm, err
}

func (g *Gate) admit(ctx context.Context, req admission.Request) (*admission.Admission, error) {
	s, c := g, &candidate{gate: g, req: req, kind: toNumber, now: g.Now()}
	var target carrier.Target
	switch {
	case req.Purpose == admission.PurposeTransfer && req.ToURI != "":
		var refused *RefusalError
		var err error
		if target, refused, err = g.uriTarget(ctx, req, c.now); err != nil {
			return nil, fault.Wrap("admit transfer", err)
		} else if refused != nil {
			return nil, refused
		}
		c.kind, c.req.To = toURI, target.Number
		if !target.Number.IsZero() {
			c.kind |= numberURI
		}
	case req.To.IsZero():
		return nil, Refuse(ReasonNumber, c.now, time.Time{}, "there is no number to dial")
	case req.Environment == string(campaigns.EnvironmentTest) && !single(req):
		return nil, Refuse(ReasonTestEnvironment, c.now, time.Time{}, "test keys place no calls")
	}
	if !c.req.To.IsZero() {
		c.registry, c.hash = g.registry(ctx, req.TenantID, c.req.To), s.Store.PhoneHash(req.TenantID, c.req.To)
	}
	var adm admission.Terms
	var refused *RefusalError
	err := s.Store.InTenant(ctx, req.TenantID, func(tx *store.Tx) error {
		adm, refused = admission.Terms{}, nil
		if err := c.lock(ctx, tx); err != nil {
			return err
		}
		var err error
		adm, refused, err = g.decide(ctx, tx, *c, target)
		if err != nil || refused == nil {
			return err
		}
		return g.settle(ctx, tx, *c, refused)
	})
	if err != nil {
		return nil, fault.Wrap("admit call", err)
	}
	if refused != nil {
		return nil, refused
	}
	return admission.Grant(adm), nil
}

// lock takes the gate's lock, and that of the number where there is one.
func (c *candidate) lock(ctx context.Context, tx *store.Tx) error {
	if c.hash == nil {
		return tx.Q.GateLock(ctx, c.req.TenantID)
	}
	return tx.Q.GateLockNumber(ctx, c.req.TenantID, c.hash)
}

// registry asks the do-not-call registry about a number.
func (g *Gate) registry(ctx context.Context, tenant uuid.UUID, to store.Phone) registryAnswer {
	listed, err := g.Leads.Listed(ctx, []store.Phone{to})
	if err != nil {
		g.Log.WarnContext(ctx, "asking the do-not-call registry failed", "tenant_id", tenant, "error", err)
		return registryAnswer{}
	}
	return registryAnswer{known: true, listed: listed[0]}
}

// decide runs under the candidate's locks. It is given a candidate of its own, since the transaction may be repeated.
func (g *Gate) decide(ctx context.Context, tx *store.Tx, c candidate, target carrier.Target) (admission.Terms, *RefusalError, error) {
	none := admission.Terms{}
	var err error
	if c.transfer() {
		c.req.CampaignID, c.req.LeadID, c.req.VoiceAgentID = nil, nil, nil
	} else {
		if c.by, err = g.taker(ctx, tx, c.req); err != nil {
			return none, nil, err
		}
		c.req.VoiceAgentID = c.by.VoiceAgent
	}
	if err := c.readFacts(ctx, tx); err != nil {
		return none, nil, err
	}
	if c.trunks, err = tx.TrunksInUse(ctx, c.req.TenantID); err != nil {
		return none, nil, err
	}
	if refused, err := c.judge(ctx, tx); refused != nil || err != nil {
		return none, refused, err
	}
	adm := admission.Terms{
		Purpose: c.req.Purpose, UnitID: store.NewID(), Privacy: store.PrivacyMode(c.facts.PrivacyMode), To: c.req.To, From: c.from,
		RingTimeout: c.ringTimeout(), Promised: leads.Status(c.facts.LeadStatus) == leads.StatusCallback,
	}
	switch {
	case c.kind&toURI != 0: // one route, and no number that another could be judged by
		adm.To, adm.Routes = store.Phone{}, []admission.Route{{Endpoint: "sofia/" + g.CarrierProfile + "/" + target.Endpoint()}}
	default:
		adm.Routes = c.way.routes
	}
	switch {
	case c.req.Environment == string(campaigns.EnvironmentTest) && !c.transfer():
		adm.Call, err = g.rehearse(ctx, tx, &c, adm)
		adm.Routes = nil
		return adm, nil, err
	case c.transfer():
		adm.Call = c.parent
		return adm, nil, g.openTransfer(ctx, tx, c.req, adm)
	}
	adm.Call, err = g.open(ctx, tx, &c, adm)
	if errors.Is(err, store.ErrNotFound) {
		return none, Refuse(ReasonLead, c.now, time.Time{}, "the lead may no longer be dialed"), nil
	}
	if err == nil && c.req.AgentID != nil && g.Agents == nil {
		err = ErrNoAgents
	} else if err == nil && c.req.AgentID != nil {
		err = g.Agents.Dials(ctx, tx, c.req.TenantID, *c.req.AgentID, adm.Call.ID, c.now)
	}
	if first := adm.Routes[0].TrunkID; err == nil && first != nil && rests(c.trunks, *first) {
		err = tx.TryTrunk(ctx, c.req.TenantID, *first, adm.UnitID, c.now)
	}
	return adm, nil, err
}

// readFacts reads what the rules look at.
func (c *candidate) readFacts(ctx context.Context, tx *store.Tx) error {
	var err error
	c.facts, err = tx.Q.GateFacts(ctx, db.GateFactsParams{
		TenantID: c.req.TenantID, PhoneHash: c.hash, CampaignID: c.req.CampaignID, LeadID: c.req.LeadID,
		VoiceAgentID: c.req.VoiceAgentID, Node: c.gate.NodeID,
	})
	if err != nil {
		return fmt.Errorf("read what the gate looks at: %w", err)
	}
	return nil
}

// MayCall tells whether numbers may be called now, and when they next may be: in the campaign's window, or the
// tenant's, or the law's where neither is set, never outside the law's, and on none of the tenant's holidays. A stored window
// that can't be read leaves the law's.
func (g *Gate) MayCall(tenantWindow, campaignWindow json.RawMessage, holidays []string, now time.Time) (bool, time.Time) {
	off := daysOff{zone: g.Legal.Zone, days: holidays}
	for _, column := range []json.RawMessage{campaignWindow, tenantWindow} {
		w, set, err := g.windows.read(column)
		if err != nil {
			g.Log.Error("reading the stored calling window failed, the legal hours apply", "error", err)
			break
		}
		if set {
			return openAt(now, g.Legal, off, w)
		}
	}
	return openAt(now, g.Legal, off)
}

// MayRing is mayCall for a callee who rings that long: the last ring ends before the hours do.
func (g *Gate) MayRing(
	tenantWindow, campaignWindow json.RawMessage, holidays []string, now time.Time, ring time.Duration,
) (bool, time.Time) {
	if open, at := g.MayCall(tenantWindow, campaignWindow, holidays, now); !open {
		return false, at
	}
	return g.MayCall(tenantWindow, campaignWindow, holidays, now.Add(ring))
}

// Channels counts those of all trunks together.
func Channels(trunks []db.GateTrunksRow) int64 {
	var total int64
	for _, t := range trunks {
		total += int64(t.MaxChannels)
	}
	return total
}

func (c *candidate) ringTimeout() time.Duration {
	if c.req.RingTimeout > 0 {
		return c.req.RingTimeout
	}
	return campaigns.RingTimeout(c.facts.RingTimeoutS)
}

// settle ends a lead that was refused for good, in the transaction of the refusal.
func (g *Gate) settle(ctx context.Context, tx *store.Tx, c candidate, refused *RefusalError) error {
	status := ruleOf(refused.Reason).lead
	if status == "" || c.req.LeadID == nil || c.transfer() {
		return nil
	}
	lead, err := tx.Q.LeadLock(ctx, c.req.TenantID, *c.req.LeadID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || !leads.Waits(leads.Status(lead.Status)) {
		return err
	}
	if c.registry.listed {
		err := tx.Q.LeadsMarkScrubbed(ctx, db.LeadsMarkScrubbedParams{
			TenantID: c.req.TenantID, Now: c.now, Ids: []uuid.UUID{lead.ID}, Listed: []bool{true},
		})
		if err != nil {
			return err
		}
	}
	return g.Leads.Finish(ctx, tx, lead, status, c.now)
}

// Plans are the present plans of the campaigns that over-dial.
type Plans interface {
	// Overdial is how many calls of a campaign may be on the way to an agent where its plan is to over-dial; else not ok.
	Overdial(campaign uuid.UUID, now time.Time) (bound int, ok bool)
	// Excess is how many calls the tenant's over-dialing campaigns may have on the way beyond their agents who are ready.
	Excess(tenant uuid.UUID, now time.Time) int
}
