package dialer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
)

// scrubAge is how long a lead's do-not-call mark holds.
const scrubAge = 7 * 24 * time.Hour

// fallbackChannels is the ceiling, per controller, of what nothing else bounds while no trunk is declared.
const fallbackChannels = 10

// gate is the one way to an originate.
type gate struct{ s *Service }

// Gate is what the call controller asks before every originate.
func (g *rules) Gate() switchctl.Gate { return gate{g.service} }

// registryAnswer is what the registry said of one number, or that it could not.
type registryAnswer struct {
	known, listed bool
}

// Admit applies every rule of dialing and, when all let the call through, commits its row, its unit, the lead's
// state and call.started together. Errors: *RefusalError, *DependencyError. A lead that may never be dialed is put
// into its terminal state by the refusal.
func (g gate) Admit(ctx context.Context, req switchctl.OriginateRequest) (switchctl.Admission, error) {
	adm, err := g.admit(ctx, req)
	var refusal *RefusalError
	if errors.As(err, &refusal) && refusal.fetch != "" && req.AgentID != nil && g.s.fetched(ctx, req.TenantID, refusal.fetch) {
		adm, err = g.admit(ctx, req)
	}
	switch {
	case errors.As(err, &refusal):
		g.s.metrics.refused.WithLabelValues(string(refusal.Reason)).Inc()
	case err == nil:
		g.s.metrics.admitted.WithLabelValues(string(req.Purpose)).Inc()
	}
	return adm, err
}

func (g gate) admit(ctx context.Context, req switchctl.OriginateRequest) (switchctl.Admission, error) {
	s, now := g.s, g.s.now()
	if req.Purpose == switchctl.PurposeTransfer && req.ToURI != "" {
		adm, refused, err := g.admitURI(ctx, req, now)
		switch {
		case err != nil:
			return switchctl.Admission{}, wrap("admit transfer", err)
		case refused != nil:
			return switchctl.Admission{}, refused
		}
		return adm, nil
	}
	if req.To.IsZero() {
		return switchctl.Admission{}, refuse(ReasonNumber, now, time.Time{}, "there is no number to dial")
	}
	if req.Environment == string(EnvironmentTest) && !single(req) {
		return switchctl.Admission{}, refuse(ReasonTestEnvironment, now, time.Time{}, "test keys place no calls")
	}
	registry, hash := g.registry(ctx, req.TenantID, req.To), s.st.PhoneHash(req.TenantID, req.To)
	var adm switchctl.Admission
	var refused *RefusalError
	err := s.st.InTenant(ctx, req.TenantID, func(tx *store.Tx) error {
		adm, refused = switchctl.Admission{}, nil
		if err := tx.Q.GateLockNumber(ctx, req.TenantID, hash); err != nil {
			return err
		}
		var err error
		adm, refused, err = g.decide(ctx, tx, req, hash, registry, now)
		if err != nil || refused == nil {
			return err
		}
		return g.settle(ctx, tx, req, refused, registry, now)
	})
	if err != nil {
		return switchctl.Admission{}, wrap("admit call", err)
	}
	if refused != nil {
		return switchctl.Admission{}, refused
	}
	return adm, nil
}

// registry asks the do-not-call registry about a number.
func (g gate) registry(ctx context.Context, tenant uuid.UUID, to store.Phone) registryAnswer {
	listed, err := g.s.listed(ctx, []store.Phone{to})
	if err != nil {
		g.s.log.WarnContext(ctx, "do-not-call registry can't answer", "tenant_id", tenant, "error", err)
		return registryAnswer{}
	}
	return registryAnswer{known: true, listed: listed[0]}
}

// decide runs under the locks of the tenant's gate and of the number.
func (g gate) decide(
	ctx context.Context, tx *store.Tx, req switchctl.OriginateRequest, hash []byte, registry registryAnswer, now time.Time,
) (switchctl.Admission, *RefusalError, error) {
	s, none := g.s, switchctl.Admission{}
	var parent db.Call
	var by answerTarget
	if req.Purpose == switchctl.PurposeTransfer {
		var refused *RefusalError
		var err error
		if parent, refused, err = g.parent(ctx, tx, req, now); refused != nil || err != nil {
			return none, refused, err
		}
		req.CampaignID, req.LeadID, req.VoiceAgentID = nil, nil, nil
	} else {
		var err error
		if by, err = g.taker(ctx, tx, req); err != nil {
			return none, nil, err
		}
		req.VoiceAgentID = by.voiceAgent
	}
	facts, err := tx.Q.GateFacts(ctx, db.GateFactsParams{
		TenantID: req.TenantID, PhoneHash: hash, CampaignID: req.CampaignID, LeadID: req.LeadID,
		VoiceAgentID: req.VoiceAgentID, Node: s.cfg.NodeID,
	})
	if err != nil {
		return none, nil, fmt.Errorf("read what the gate looks at: %w", err)
	}
	trunks, err := tx.TrunksInUse(ctx, req.TenantID)
	if err != nil {
		return none, nil, err
	}
	if refused := s.judge(req, facts, hash, registry, now); refused != nil {
		return none, refused, nil
	}
	if refused, err := g.judgeDay(ctx, tx, req, facts, judgedNumber{hash: hash}, now); refused != nil || err != nil {
		return none, refused, err
	}
	if refused := s.judgeModes(req, facts, by, now); refused != nil {
		return none, refused, nil
	}
	if refused := s.judgeCategory(req, now); refused != nil {
		return none, refused, nil
	}
	if refused := s.judgeAnnouncement(req, facts, now); refused != nil {
		return none, refused, nil
	}
	if refused := judgeCeilings(req, facts, trunks, now); refused != nil {
		return none, refused, nil
	}
	if refused := s.judgeAgents(req, facts, by, now); refused != nil {
		return none, refused, nil
	}
	routes, refused := s.routes(req, trunks, now)
	if refused != nil {
		return none, refused, nil
	}
	from, refused, err := g.callerID(ctx, tx, req, facts, routes, now)
	if refused != nil || err != nil {
		return none, refused, err
	}
	adm := switchctl.Admission{
		UnitID: newID(), Privacy: store.PrivacyMode(facts.PrivacyMode), To: req.To, From: from, Routes: routes,
		RingTimeout: ringTimeout(req, facts), Promised: LeadStatus(facts.LeadStatus) == LeadCallback,
	}
	if req.Environment == string(EnvironmentTest) {
		adm.Call, err = g.rehearse(ctx, tx, req, adm, facts, opening{hash: hash, registry: registry, now: now})
		adm.Routes = nil
		return adm, nil, err
	}
	if req.Purpose == switchctl.PurposeTransfer {
		adm.Call = parent
		return adm, nil, g.openTransfer(ctx, tx, req, adm)
	}
	adm.Call, err = g.open(ctx, tx, req, adm, facts, opening{hash: hash, registry: registry, now: now, people: by.people})
	if errors.Is(err, store.ErrNotFound) {
		return none, refuse(ReasonLead, now, time.Time{}, "the lead may no longer be dialed"), nil
	}
	if err == nil && req.AgentID != nil {
		err = s.dials(ctx, tx, req, adm.Call, now)
	}
	if first := routes[0].TrunkID; err == nil && first != nil && rests(trunks, *first) {
		err = tx.TryTrunk(ctx, req.TenantID, *first, adm.UnitID, now)
	}
	return adm, nil, err
}

func (g gate) parent(
	ctx context.Context, tx *store.Tx, req switchctl.OriginateRequest, now time.Time,
) (db.Call, *RefusalError, error) {
	over := refuse(ReasonCall, now, time.Time{}, "the call to transfer is over")
	if req.ParentCallID == nil {
		return db.Call{}, over, nil
	}
	parent, err := tx.Q.GateParent(ctx, req.TenantID, *req.ParentCallID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return parent, over, nil
	case err != nil:
		return parent, nil, err
	case parent.EndTime != nil:
		return parent, over, nil
	default:
		return parent, nil, nil
	}
}

// judge applies the rules that look at the number, the lead and the time, in the order in which they matter: what
// can never be dialed first.
func (g *rules) judge(
	req switchctl.OriginateRequest, f db.GateFactsRow, hash []byte, registry registryAnswer, now time.Time,
) *RefusalError {
	never := time.Time{}
	forLead := req.LeadID != nil
	if req.CampaignID != nil && f.CampaignStatus != string(CampaignRunning) {
		return refuse(ReasonCampaign, now, never, "the campaign is not running")
	}
	if req.CampaignID != nil && f.CampaignEnvironment == string(EnvironmentTest) {
		return refuse(ReasonTestEnvironment, now, never, "the campaign was started with a test key")
	}
	if req.Purpose == switchctl.PurposeLead && (!forLead || req.CampaignID == nil) {
		return refuse(ReasonLead, now, never, "no lead is named")
	}
	if forLead && !waits(LeadStatus(f.LeadStatus)) {
		return refuse(ReasonLead, now, never, "the lead is %s", orGone(f.LeadStatus))
	}
	if forLead && req.AgentID != nil && reservedForOther(f, *req.AgentID, now) {
		return refuse(ReasonLead, now, never, "the lead is reserved for another agent")
	}
	if forLead && !bytes.Equal(f.LeadHash, hash) {
		return refuse(ReasonNumber, now, never, "the number is not the lead's")
	}
	if f.Suppressed {
		return refuse(ReasonSuppressed, now, never, "the number has opted out")
	}
	marked := forLead && f.DndChecked && !f.DndClean
	fresh := forLead && f.DndClean && f.DndCheckedAt != nil && now.Sub(*f.DndCheckedAt) <= scrubAge
	switch {
	case marked || registry.listed:
		return refuse(ReasonDNC, now, never, "the number is on the do-not-call registry")
	case !registry.known && !fresh:
		return refuse(ReasonUnscrubbed, now, now.Add(time.Minute), "the do-not-call registry can't answer")
	}
	if forLead && f.Attempts >= f.MaxAttempts {
		return refuse(ReasonAttempts, now, never, "%d attempts were made", f.Attempts)
	}
	if open, at := g.mayRing(f.TenantWindow, f.CampaignWindow, f.Holidays, now, ringTimeout(req, f)); !open {
		return refuse(ReasonWindow, now, at, "numbers may not be called at this time of day")
	}
	if req.VoiceAgentID != nil && f.AgentStatus != string(VoiceAgentActive) {
		return refuse(ReasonVoiceAgent, now, now.Add(time.Minute), "the voice agent is %s", orGone(f.AgentStatus))
	}
	return nil
}

func orGone(status string) string {
	if status == "" {
		return "gone"
	}
	return status
}

// mayCall tells whether numbers may be called now, and when they next may be: in the campaign's window, or the
// tenant's, or the law's where neither is set, never outside the law's, and on none of the tenant's holidays. A stored window
// that can't be read leaves the law's.
func (g *rules) mayCall(tenantWindow, campaignWindow json.RawMessage, holidays []string, now time.Time) (bool, time.Time) {
	off := daysOff{zone: g.legal.Zone, days: holidays}
	for _, column := range []json.RawMessage{campaignWindow, tenantWindow} {
		w, set, err := g.windows.read(column)
		if err != nil {
			g.log.Error("stored calling window can't be read", "error", err)
			break
		}
		if set {
			return openAt(now, g.legal, off, w)
		}
	}
	return openAt(now, g.legal, off)
}

// mayRing is mayCall for a callee who rings that long: the last ring ends before the hours do.
func (g *rules) mayRing(
	tenantWindow, campaignWindow json.RawMessage, holidays []string, now time.Time, ring time.Duration,
) (bool, time.Time) {
	if open, at := g.mayCall(tenantWindow, campaignWindow, holidays, now); !open {
		return false, at
	}
	return g.mayCall(tenantWindow, campaignWindow, holidays, now.Add(ring))
}

// judgeCeilings applies the ceilings; the trunks' own are applied with the routes.
func judgeCeilings(req switchctl.OriginateRequest, f db.GateFactsRow, trunks []db.GateTrunksRow, now time.Time) *RefusalError {
	soon := time.Time{}
	switch {
	case req.VoiceAgentID != nil && f.AgentUsed >= int64(f.AgentMax):
		return refuse(ReasonAgentCeiling, now, soon, "the voice agent's %d slots are taken", f.AgentMax)
	case req.CampaignID != nil && f.CampaignMax != nil && f.CampaignUsed >= int64(*f.CampaignMax):
		return refuse(ReasonCampaignCeiling, now, soon, "the campaign's %d calls are up", *f.CampaignMax)
	}
	if len(trunks) > 0 {
		if total := channels(trunks); f.ChannelsUsed >= total {
			return refuse(ReasonChannels, now, soon, "the account's %d channels are taken", total)
		}
		return nil
	}
	here := f.LooseUsedHere
	if req.CampaignID != nil {
		here = f.CampaignUsedHere
	}
	if bounded := req.CampaignID != nil && f.CampaignMax != nil; !bounded && here >= fallbackChannels {
		return refuse(ReasonFallback, now, soon, "%d calls are up and no trunk is declared", here)
	}
	return nil
}

func channels(trunks []db.GateTrunksRow) int64 {
	var total int64
	for _, t := range trunks {
		total += int64(t.MaxChannels)
	}
	return total
}

func ringTimeout(req switchctl.OriginateRequest, f db.GateFactsRow) time.Duration {
	if req.RingTimeout > 0 {
		return req.RingTimeout
	}
	return campaignRing(f.RingTimeoutS)
}

// campaignRing is how long a campaign's callees ring; 0 is the default.
func campaignRing(seconds int32) time.Duration {
	return time.Duration(cmp.Or(seconds, defaultRingTimeoutS)) * time.Second
}

// settle ends a lead that was refused for good, in the transaction of the refusal.
func (g gate) settle(
	ctx context.Context, tx *store.Tx, req switchctl.OriginateRequest, refused *RefusalError, registry registryAnswer, now time.Time,
) error {
	if req.LeadID == nil || req.Purpose == switchctl.PurposeTransfer {
		return nil
	}
	var status LeadStatus
	switch refused.Reason {
	case ReasonSuppressed:
		status = LeadOptedOut
	case ReasonDNC:
		status = LeadDNC
	case ReasonAttempts:
		status = LeadExhausted
	case ReasonNumber, ReasonTestEnvironment, ReasonCampaign, ReasonLead, ReasonCall, ReasonUnscrubbed, ReasonMode, ReasonCategory, ReasonWindow, ReasonDailyCap,
		ReasonVoiceAgent, ReasonAnnouncement, ReasonAgents, ReasonAgentCeiling, ReasonCampaignCeiling, ReasonFallback, ReasonChannels, ReasonTrunkChannels,
		ReasonTrunkRate, ReasonTrunkFailures, ReasonRoute, ReasonCallerID, ReasonSIPHost:
		return nil
	}
	lead, err := tx.Q.LeadLock(ctx, req.TenantID, *req.LeadID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || !waits(LeadStatus(lead.Status)) {
		return err
	}
	if registry.listed {
		err := tx.Q.LeadsMarkScrubbed(ctx, db.LeadsMarkScrubbedParams{
			TenantID: req.TenantID, Now: now, Ids: []uuid.UUID{lead.ID}, Listed: []bool{true},
		})
		if err != nil {
			return err
		}
	}
	return g.s.finishLead(ctx, tx, lead, status, now)
}
