package dialer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// overflowMessage bounds the message of a callee whom no agent took.
const overflowMessage = 2 * time.Minute

// taker is who takes a campaign's calls first: a voice agent, people, who are then asked for, or, with neither, a flow that begins
// otherwise.
type answerTarget struct {
	voiceAgent *uuid.UUID
	people     bool
	demands    []flow.Ask
	// modes are the kinds of the campaign's calls, where the gate looks at them.
	modes dnc.Modes
}

// answerTargetOf tells who takes a campaign's answered calls first.
func (p *pacers) answerTargetOf(ctx context.Context, tx *store.Tx, row db.Campaign) (answerTarget, error) {
	agent, ok, err := p.campaigns.actionAgent(ctx, tx, row)
	switch {
	case err != nil:
		return answerTarget{}, err
	case ok:
		return answerTarget{voiceAgent: &agent.ID}, nil
	case PostAnswerAction(row.PostAnswerAction) == ActionConnectAgent:
		return answerTarget{people: true, demands: staffing.AnyAgent()}, nil
	}
	plan, err := p.campaigns.campaignFlow(ctx, tx, row)
	if err != nil {
		return answerTarget{}, err
	}
	asks := plan.graph.AsksAgent(p.now())
	return answerTarget{people: len(asks) > 0, demands: asks}, nil
}

// taker tells who takes the call that is asked for; nobody in particular takes one that an agent dials.
func (g gate) taker(ctx context.Context, tx *store.Tx, req admission.Request) (answerTarget, error) {
	by := answerTarget{voiceAgent: req.VoiceAgentID}
	looks := g.s.cfg.DNCPolicy.Modes != 0
	if req.FlowID != nil && single(req) {
		return g.s.flowTaker(ctx, tx, req.TenantID, *req.FlowID)
	}
	if req.CampaignID == nil || req.AgentID != nil || by.voiceAgent != nil && !looks {
		return by, nil
	}
	campaign, err := tx.Q.CampaignGet(ctx, req.TenantID, *req.CampaignID)
	if errors.Is(err, store.ErrNotFound) {
		return by, nil // the campaign's absence is judged with the other facts
	}
	if err == nil && by.voiceAgent == nil {
		by, err = g.s.answerTargetOf(ctx, tx, campaign)
	}
	if err == nil && looks {
		by.modes, err = g.s.callModes(ctx, tx, campaign)
	}
	return by, err
}

// peoplePlan is a call that goes to an agent; campaign is nil for one that belongs to none.
type peoplePlan struct{ campaign *db.Campaign }

// connectPeople brings an answered call to an agent: the one who dialed it, else whoever is ready.
func (h handler) connectPeople(ctx context.Context, leg switchctl.Leg, p peoplePlan) error {
	if h.s.cfg.Agents == nil {
		return errors.Join(errNoAgents, leg.Hangup(ctx, ledger.CauseServiceUnavailable))
	}
	req := acd.Request{}
	if c := p.campaign; c != nil {
		req.Campaign = true
		req.MaxWait = maxWait(*c)
		req.Due = h.s.now().Add(inTime(*c))
		if call := leg.Call(); c.AnnouncementUrl == nil && call.AnswerTime != nil { // else the wait begins after what all are told
			req.Due = call.AnswerTime.Add(inTime(*c))
		}
		req.CallerName = c.Name
		if c.AgentWhisperUrl != nil {
			req.WhisperURL = *c.AgentWhisperUrl
		}
	}
	outcome, err := h.s.cfg.Agents.Connect(ctx, leg, req)
	if err != nil || outcome == acd.Ended {
		return err
	}
	return h.overflow(ctx, leg, p.campaign)
}

var errNoAgents = &fault.Error{Kind: fault.Dependency, Code: "NoAgentAvailable", Detail: "no agent is logged in"}

// overflow is what becomes of a call that no agent took: its campaign's overflow action, or the end.
func (h handler) overflow(ctx context.Context, leg switchctl.Leg, c *db.Campaign) error {
	if c == nil {
		return leg.Hangup(ctx, ledger.CauseServiceUnavailable)
	}
	switch c.OverflowAction {
	case overflowFlow:
		var plan *flowPlan
		err := h.s.st.InTenant(ctx, c.TenantID, func(tx *store.Tx) error {
			var err error
			plan, err = h.s.campaignFlow(ctx, tx, *c)
			return err
		})
		if err != nil {
			return errors.Join(err, leg.Hangup(ctx, ledger.CauseServiceUnavailable))
		}
		return h.runFlow(ctx, leg, plan)
	case overflowVoicemail:
		greeting := ""
		for _, url := range []*string{c.VoicemailMessageUrl, c.OverflowGreetingUrl} {
			if url != nil {
				greeting = *url
			}
		}
		if err := (legOperations{h: h, leg: leg}).Voicemail(ctx, greeting, overflowMessage); err != nil {
			return fmt.Errorf("record a message: %w", err)
		}
		return nil
	default:
		return leg.Hangup(ctx, ledger.CauseServiceUnavailable)
	}
}

// ConnectAgent queues the caller.
func (o legOperations) ConnectAgent(ctx context.Context, q flow.AgentQueue) (string, error) {
	if o.h.s.cfg.Agents == nil {
		return flow.OutcomeUnavailable, nil
	}
	return o.queue(ctx, acd.Request{
		Tags: q.Tags, Priority: q.Priority, MaxWait: q.MaxWait, MusicURL: q.MusicURL, Announce: q.AnnouncePosition,
		KeepCaller: q.KeepCaller,
	})
}

// queue has the caller wait for an agent. One whom nobody took hears the flow again, and no more music.
func (o legOperations) queue(ctx context.Context, req acd.Request) (string, error) {
	call := o.leg.Call()
	req.Campaign = call.CampaignID != nil && call.Direction == directionOutbound
	if limit, due, predictive := o.h.s.calleesWait(ctx, call); limit > 0 {
		if req.Due = o.h.s.now().Add(due); predictive && (req.MaxWait <= 0 || limit < req.MaxWait) {
			req.MaxWait = limit
		}
	}
	outcome, err := o.h.s.cfg.Agents.Connect(ctx, o.leg, req)
	if err == nil && outcome != acd.Ended {
		err = o.leg.StopMusic(ctx)
	}
	return string(outcome), err
}

// calleesWait is how long a callee whom a campaign has dialed for its agents may wait, in a flow that asks for one, until when the wait
// is in time, and whether a predictive campaign, which lets nobody wait longer; 0 for any other caller.
func (p *pacers) calleesWait(ctx context.Context, call db.Call) (limit, due time.Duration, predictive bool) {
	if call.CampaignID == nil || call.Direction != directionOutbound || call.AgentID != nil || call.VoiceAgentID != nil {
		return 0, 0, false
	}
	err := p.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		row, err := tx.Q.CampaignGet(ctx, call.TenantID, *call.CampaignID)
		if err != nil {
			return err
		}
		taker, err := p.answerTargetOf(ctx, tx, row)
		if taker.people {
			limit, due, predictive = maxWait(row), inTime(row), row.DialMode == string(DialPredictive)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "reading the campaign of a waiting callee failed", "call_id", call.ID, "error", err)
	}
	return limit, due, predictive
}

// CanQueue tells whether somebody could take a caller. Errors: switchctl.ErrNobodyLoggedIn, switchctl.ErrUnknownExtension.
func (h handler) CanQueue(ctx context.Context, tenant uuid.UUID, req switchctl.QueueRequest) error {
	wanted, err := h.queueRequest(ctx, tenant, req)
	if err != nil {
		return err
	}
	if !h.s.cfg.Agents.Staffed(tenant, wanted) {
		return switchctl.ErrNobodyLoggedIn
	}
	return nil
}

// Queue brings a caller whom a voice agent has handed over to an agent. One whom nobody takes is hung up.
func (h handler) Queue(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
	wanted, err := h.queueRequest(ctx, leg.Call().TenantID, req)
	if err != nil {
		return err
	}
	if _, err := h.s.cfg.Agents.Connect(ctx, leg, wanted); err != nil {
		return fmt.Errorf("queue the caller: %w", err)
	}
	return nil
}

func (h handler) queueRequest(ctx context.Context, tenant uuid.UUID, req switchctl.QueueRequest) (acd.Request, error) {
	out := acd.Request{Tags: req.Tags, Priority: req.Priority, MaxWait: req.MaxWait, MusicURL: req.MusicURL}
	if h.s.cfg.Agents == nil {
		return out, switchctl.ErrNobodyLoggedIn
	}
	if req.Extension != "" {
		id, err := h.s.cfg.Agents.ByExtension(ctx, tenant, req.Extension)
		out.AgentID = &id
		return out, err
	}
	out.Tags = staffing.QueueSkills(req.Queue, req.Tags)
	return out, nil
}
