package gate

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/admission"
)

// candidate is a leg that is to be dialed, with all that the rules look at.
type candidate struct {
	gate *Gate
	req  admission.Request
	kind legs
	now  time.Time
	hash []byte
	// registry is what the do-not-call registry says of the number.
	registry Listing
	// by takes the call first; nobody in particular takes a transfer.
	by      campaigns.Target
	facts   db.GateFactsRow
	trunks  []db.GateTrunksRow
	numbers []db.GateNumbersRow
	// today are the calls that the number got today.
	today int64
	// counted are the calls that the number got today of which this leg is a part.
	counted int64

	// What checks have found: the call that is transferred, the ways to the number, and the number that the callee sees.
	parent db.Call
	way    *routing
	from   string
	// shown is the number whose turn it was; nil for one that was asked for.
	shown *uuid.UUID
}

// judge asks the rules, and returns the first refusal.
func (c *candidate) judge(ctx context.Context, tx *store.Tx) (*RefusalError, error) {
	for _, r := range ruleTable() {
		if r.of&c.kind == 0 {
			continue
		}
		denied, err := r.check(ctx, tx, c)
		if err != nil {
			return nil, err
		}
		if denied != nil {
			e := Refuse(r.reason, c.now, denied.at, "%s", denied.detail)
			e.fetch = denied.fetch
			return e, nil
		}
	}
	return nil, nil //nolint:nilnil // no refusal
}

// plain is a check that asks nothing of the database.
func plain(look func(c *candidate) *denial) check {
	return func(_ context.Context, _ *store.Tx, c *candidate) (*denial, error) { return look(c), nil }
}

func (c *candidate) transfer() bool { return c.req.Purpose == admission.PurposeTransfer }

// soon is when what somebody must see to is tried again.
func (c *candidate) soon() time.Time { return c.now.Add(time.Minute) }

func parentUp(ctx context.Context, tx *store.Tx, c *candidate) (*denial, error) {
	if !c.transfer() {
		return nil, nil //nolint:nilnil // no denial
	}
	over := deny("the call to transfer is over")
	if c.req.ParentCallID == nil {
		return over, nil
	}
	var err error
	c.parent, err = tx.Q.GateParent(ctx, c.req.TenantID, *c.req.ParentCallID)
	if errors.Is(err, store.ErrNotFound) || err == nil && c.parent.EndTime != nil {
		return over, nil
	}
	return nil, err
}

func campaignRuns(c *candidate) *denial {
	if c.req.CampaignID != nil && c.facts.CampaignStatus != string(campaigns.StatusRunning) {
		return deny("the campaign is not running")
	}
	return nil
}

func campaignIsLive(c *candidate) *denial {
	if c.req.CampaignID != nil && c.facts.CampaignEnvironment == string(campaigns.EnvironmentTest) {
		return deny("the campaign was started with a test key")
	}
	return nil
}

func leadWaits(c *candidate) *denial {
	forLead := c.req.LeadID != nil
	switch {
	case c.req.Purpose == admission.PurposeLead && (!forLead || c.req.CampaignID == nil):
		return deny("no lead is named")
	case forLead && !leads.Waits(leads.Status(c.facts.LeadStatus)):
		return deny("the lead is %s", orGone(c.facts.LeadStatus))
	case forLead && c.facts.LeadInCall: // what its voice agent says of it holds from the end of that call on
		return deny("the lead is in a call")
	case forLead && c.req.AgentID != nil && reservedForOther(c.facts, *c.req.AgentID, c.now):
		return deny("the lead is reserved for another agent")
	}
	return nil
}

func numberIsLeads(c *candidate) *denial {
	if c.req.LeadID != nil && !bytes.Equal(c.facts.LeadHash, c.hash) {
		return deny("the number is not the lead's")
	}
	return nil
}

func notSuppressed(c *candidate) *denial {
	if c.facts.Suppressed {
		return deny("the number is on the tenant's suppression list")
	}
	return nil
}

func notListed(c *candidate) *denial {
	if c.registry.listed || c.req.LeadID != nil && c.facts.DndChecked && !c.facts.DndClean {
		return deny("the number is on the do-not-call registry")
	}
	return nil
}

// clearedByRegistry lets a lead be dialed that was found clean of late, whether or not the registry answers now.
func clearedByRegistry(c *candidate) *denial {
	at := c.facts.DndCheckedAt
	fresh := c.req.LeadID != nil && c.facts.DndClean && at != nil && c.now.Sub(*at) <= ScrubAge
	if !c.registry.known && !fresh {
		return deny("the do-not-call registry can't answer").until(c.soon())
	}
	return nil
}

func attemptsLeft(c *candidate) *denial {
	if c.req.LeadID != nil && c.facts.Attempts >= c.facts.MaxAttempts {
		return deny("%d attempts were made", c.facts.Attempts)
	}
	return nil
}

func inWindow(c *candidate) *denial {
	f := c.facts
	open, at := c.gate.MayRing(f.TenantWindow, f.CampaignWindow, f.Holidays, c.now, c.ringTimeout())
	if !open {
		return deny("numbers may not be called at this time of day").until(at)
	}
	return nil
}

func voiceAgentTakesCalls(c *candidate) *denial {
	if c.req.VoiceAgentID != nil && c.facts.AgentStatus != string(voiceagents.StatusActive) {
		return deny("the voice agent is %s", orGone(c.facts.AgentStatus)).until(c.soon())
	}
	return nil
}

// underDailyCap refuses a number that has had its calls for today: leads', an agent's own and single ones count alike. A callback that
// the callee was promised is kept all the same. A leg to a third party counts neither way.
func underDailyCap(c *candidate) *denial {
	s, f := c.gate, c.facts
	limit := s.dailyCap(f.DailyCap)
	if limit == 0 || c.transfer() || leads.Status(f.LeadStatus) == leads.StatusCallback || c.today-c.counted < limit {
		return nil
	}
	began := s.dayBegan(c.now)
	y, m, d := began.Date()
	_, at := s.MayCall(f.TenantWindow, f.CampaignWindow, f.Holidays, time.Date(y, m, d+1, 0, 0, 0, 0, began.Location()))
	return deny("the number has had its %d calls for today", limit).until(at)
}

// categoryDeclared is for single calls, where the deployment asks for it; a campaign was asked at its start.
func categoryDeclared(c *candidate) *denial {
	if c.gate.RequireCategory && single(c.req) && c.req.Category == "" {
		return deny("the call must declare a call_category: promotional, service or transactional")
	}
	return nil
}

// announcementAtHand refuses a campaign's call whose callee could not be told what all are told.
func announcementAtHand(c *candidate) *denial {
	url := c.facts.AnnouncementUrl
	if c.req.CampaignID == nil || url == nil || c.gate.Audio.AtHand(*url, c.now) {
		return nil
	}
	d := deny("the campaign's announcement can't be played").until(c.now.Add(time.Second))
	d.fetch = *url
	return d
}

func voiceAgentHasSlot(c *candidate) *denial {
	if c.req.VoiceAgentID != nil && c.facts.AgentUsed >= int64(c.facts.AgentMax) {
		return deny("the voice agent's %d slots are taken", c.facts.AgentMax)
	}
	return nil
}

func underCampaignCeiling(c *candidate) *denial {
	if most := c.facts.CampaignMax; c.req.CampaignID != nil && most != nil && c.facts.CampaignUsed >= int64(*most) {
		return deny("the campaign's %d calls are up", *most)
	}
	return nil
}

func channelFree(c *candidate) *denial {
	if total := Channels(c.trunks); len(c.trunks) > 0 && c.facts.ChannelsUsed >= total {
		return deny("the account's %d channels are taken", total)
	}
	return nil
}

// underFallback is the ceiling of what nothing else bounds.
func underFallback(c *candidate) *denial {
	here, bounded := c.facts.LooseUsedHere, len(c.trunks) > 0
	if c.req.CampaignID != nil {
		here, bounded = c.facts.CampaignUsedHere, bounded || c.facts.CampaignMax != nil
	}
	if !bounded && here >= FallbackChannels {
		return deny("%d calls are up and no trunk is declared", here)
	}
	return nil
}

// agentFree bounds the calls on the way to agents: to those who are ready and can be asked for, and, for a campaign whose plan is
// to over-dial, to that plan. It is asked under the gate's lock, so that no two calls count on the same agent.
func agentFree(c *candidate) *denial {
	if !c.by.People {
		return nil
	}
	s, f := c.gate, c.facts
	var crew []acd.Member
	if s.Agents != nil {
		crew = s.Agents.Crew(c.req.TenantID) // only a held phone is there when the callee answers
	}
	asked := staffing.DemandOf(c.by.Demands, crew)
	_, atWork := asked.Scarcest(crew)
	ready, mine := staffing.Demand{{}}.Ready(crew), asked.Ready(crew)
	bound, overdials := 0, false
	if c.req.CampaignID != nil {
		bound, overdials = s.Plans.Overdial(*c.req.CampaignID, c.now)
	}
	switch {
	case atWork == 0:
		return deny("no agent who could take the call is logged in")
	case overdials && f.CampaignAwaitingHere >= int64(bound):
		return deny("%d calls are under way, and the plan allows %d", f.CampaignAwaitingHere, bound)
	case !overdials && f.CampaignAwaitingHere >= int64(mine):
		return deny("%d calls already wait for the %d ready agents who match", f.CampaignAwaitingHere, mine)
	case f.AwaitingHere >= int64(ready+s.Plans.Excess(c.req.TenantID, c.now)):
		return deny("%d calls already wait for the %d ready agents", f.AwaitingHere, ready)
	default:
		return nil
	}
}

func orGone(status string) string {
	if status == "" {
		return "gone"
	}
	return status
}

// reservedForOther tells whether somebody else holds a lead.
func reservedForOther(f db.GateFactsRow, agent uuid.UUID, now time.Time) bool {
	return f.LeadClaimedBy != nil && *f.LeadClaimedBy != acd.Claimant(agent) && f.LeadClaimedUntil != nil && f.LeadClaimedUntil.After(now)
}
