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
	// Turns gives a leg that somebody waits for a place before the campaigns of its tenant that wait for a trunk's calls per second; nil refuses it at once.
	Turns func(tenant uuid.UUID) Turn
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

// Listing is what the do-not-call registry said of one number, or that it could not.
type Listing struct {
	to            store.Phone
	at            time.Time
	known, listed bool
}

// Known tells whether the registry has answered.
func (l *Listing) Known() bool { return l.known }

// Admit applies every rule of dialing and, when all let the call through, commits its row, its unit, the lead's
// state and call.started together. Errors: *RefusalError, *fault.Error. A lead that may never be dialed is put
// into its terminal state by the refusal.
func (g *Gate) Admit(ctx context.Context, req admission.Request) (*admission.Admission, error) {
	return g.AdmitListed(ctx, req, nil)
}

// AdmitListed is Admit for a number that the registry was just asked about (Ask).
func (g *Gate) AdmitListed(ctx context.Context, req admission.Request, listing *Listing) (*admission.Admission, error) {
	adm, err := g.admit(ctx, req, listing)
	var refusal *RefusalError
	if errors.As(err, &refusal) && refusal.fetch != "" && req.AgentID != nil && g.Audio.Fetch(ctx, req.TenantID, refusal.fetch) {
		adm, err = g.admit(ctx, req, listing)
	}
	if errors.As(err, &refusal) && refusal.Reason == ReasonTrunkRate && awaited(req) && g.Turns != nil {
		adm, err = g.admitInTurn(ctx, req, listing, refusal)
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

func (g *Gate) admit(ctx context.Context, req admission.Request, listing *Listing) (*admission.Admission, error) {
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
		if listing == nil || listing.to != c.req.To {
			listing = g.Ask(ctx, req.TenantID, c.req.To)
		}
		c.registry, c.hash = *listing, s.Store.PhoneHash(req.TenantID, c.req.To)
	}
	var out outcome
	err := s.Store.InTenant(ctx, req.TenantID, func(tx *store.Tx) error {
		out, c.now = outcome{}, g.Now() // the registry may have taken some seconds, and so may a transaction that is tried again
		if err := c.lock(ctx, tx); err != nil {
			return err
		}
		if err := g.decide(ctx, tx, *c, target, &out); err != nil || out.refused == nil {
			return err
		}
		return g.settle(ctx, tx, *c, out.refused)
	})
	if err != nil {
		return nil, fault.Wrap("admit call", err)
	}
	if out.refused != nil {
		return nil, out.refused
	}
	return admission.Grant(out.terms), nil
}

// outcome is what becomes of a candidate: a refusal, or the terms of its admission. It is complete once the transaction has ended.
type outcome struct {
	refused *RefusalError
	terms   admission.Terms
}

// lock takes the gate's lock, and that of the number where there is one, with the first statement that follows.
func (c *candidate) lock(ctx context.Context, tx *store.Tx) error {
	return tx.Later(ctx, func(q *db.Queries) error {
		if c.hash == nil {
			return q.GateLock(ctx, c.req.TenantID)
		}
		return q.GateLockNumber(ctx, c.req.TenantID, c.hash)
	})
}

// Ask asks the do-not-call registry about a number, which may take a remote provider some seconds.
func (g *Gate) Ask(ctx context.Context, tenant uuid.UUID, to store.Phone) *Listing {
	at := g.Now()
	listed, err := g.Leads.Listed(ctx, []store.Phone{to})
	if err != nil {
		g.Log.WarnContext(ctx, "asking the do-not-call registry failed", "tenant_id", tenant, "error", err)
		return &Listing{to: to, at: at}
	}
	return &Listing{to: to, at: at, known: true, listed: listed[0]}
}

// decide runs under the candidate's locks. It is given a candidate of its own, since the transaction may be repeated.
func (g *Gate) decide(ctx context.Context, tx *store.Tx, c candidate, target carrier.Target, out *outcome) error {
	var err error
	if c.transfer() {
		c.req.CampaignID, c.req.LeadID, c.req.VoiceAgentID = nil, nil, nil
	} else {
		if c.by, err = g.taker(ctx, tx, c.req); err != nil {
			return err
		}
		c.req.VoiceAgentID = c.by.VoiceAgent
	}
	if err := c.read(ctx, tx); err != nil {
		return err
	}
	if out.refused, err = c.judge(ctx, tx); out.refused != nil || err != nil {
		return err
	}
	out.terms = admission.Terms{
		Purpose: c.req.Purpose, UnitID: store.NewID(), Privacy: store.PrivacyMode(c.facts.PrivacyMode), To: c.req.To, From: c.from,
		RingTimeout: c.ringTimeout(), Promised: leads.Status(c.facts.LeadStatus) == leads.StatusCallback,
	}
	switch {
	case c.kind&toURI != 0: // one route, and no number that another could be judged by
		out.terms.To, out.terms.Routes = store.Phone{}, []admission.Route{{Endpoint: "sofia/" + g.CarrierProfile + "/" + target.Endpoint()}}
	default:
		out.terms.Routes = c.way.routes
	}
	if shown := c.shown; shown != nil {
		if err := tx.Later(ctx, func(q *db.Queries) error { return q.GateNumberShown(ctx, c.req.TenantID, *shown) }); err != nil {
			return err
		}
	}
	switch {
	case c.req.Environment == string(campaigns.EnvironmentTest) && !c.transfer():
		return g.rehearse(ctx, tx, &c, out)
	case c.transfer():
		out.terms.Call = c.parent
		return g.openTransfer(ctx, tx, c.req, out.terms)
	}
	trunk := out.terms.Routes[0].TrunkID
	if trunk != nil {
		out.terms.Room, out.terms.NextAt = roomAfter(c.trunks, *trunk, g.Now())
	}
	tries := trunk != nil && rests(c.trunks, *trunk)
	if c.req.AgentID == nil && !tries { // nothing else depends on the lead's being there
		return g.openLast(ctx, tx, &c, out)
	}
	if err := g.open(ctx, tx, &c, out); err != nil || out.refused != nil {
		return err
	}
	if c.req.AgentID != nil && g.Agents == nil {
		return ErrNoAgents
	}
	if c.req.AgentID != nil {
		if err := g.Agents.Dials(ctx, tx, c.req.TenantID, *c.req.AgentID, out.terms.Call.ID, c.now); err != nil {
			return err
		}
	}
	if tries {
		return tx.TryTrunk(ctx, c.req.TenantID, *trunk, out.terms.UnitID, c.now)
	}
	return nil
}

// read reads what the rules look at, in one round trip.
func (c *candidate) read(ctx context.Context, tx *store.Tx) error {
	tenant := c.req.TenantID
	var campaign *db.Campaign
	asks := []func(q *db.Queries) error{func(q *db.Queries) (err error) {
		c.facts, err = q.GateFacts(ctx, db.GateFactsParams{
			TenantID: tenant, PhoneHash: c.hash, CampaignID: c.req.CampaignID, LeadID: c.req.LeadID,
			VoiceAgentID: c.req.VoiceAgentID, Node: c.gate.NodeID,
		})
		return err
	}, c.campaignModes(ctx, &campaign)}
	if !c.transfer() && c.hash != nil {
		began := c.gate.dayBegan(c.now)
		asks = append(asks, func(q *db.Queries) (err error) {
			c.today, err = q.GateDialedToday(ctx, db.GateDialedTodayParams{
				// Ids are made by the host's clock, whatever clock the rules go by.
				TenantID: tenant, PhoneHash: c.hash, FromID: store.IDFloor(time.Now().Add(began.Sub(c.now) - store.ClockSkew)), Since: began,
				Cap: int32(c.gate.DailyCap), //nolint:gosec // a handful of calls
			})
			return err
		})
	}
	if c.kind&toAnything != 0 {
		asked := []string{}
		if c.req.From != "" {
			asked = campaigns.Spellings(c.req.From)
		}
		asks = append(asks, func(q *db.Queries) (err error) {
			c.trunks, err = store.TrunksInUse(ctx, q, tenant)
			return err
		}, func(q *db.Queries) (err error) {
			c.numbers, err = q.GateNumbers(ctx, db.GateNumbersParams{
				TenantID: tenant, CampaignID: c.req.CampaignID, Series: campaigns.AllSeries(), Asked: asked,
			})
			return err
		})
	}
	if err := tx.Together(ctx, asks...); err != nil {
		return fmt.Errorf("read what the gate looks at: %w", err)
	}
	if campaign == nil {
		return nil
	}
	var err error
	c.by.Modes, err = c.gate.Campaigns.Modes(ctx, tx, *campaign)
	return err
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
	if err != nil || !leads.Waits(leads.StatusOf(lead)) {
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
