package answer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// overflowMessage bounds the message of a callee whom no agent took.
const overflowMessage = 2 * time.Minute

// peoplePlan is a call that goes to an agent; campaign is nil for one that belongs to none.
type peoplePlan struct{ campaign *db.Campaign }

// connectPeople brings an answered call to an agent: the one who dialed it, else whoever is ready.
func (h *Service) connectPeople(ctx context.Context, leg switchctl.Leg, p peoplePlan) error {
	if h.Agents == nil {
		return errors.Join(gate.ErrNoAgents, leg.Hangup(ctx, ledger.CauseServiceUnavailable))
	}
	req := acd.Request{}
	if c := p.campaign; c != nil {
		req.Campaign = true
		req.MaxWait = campaigns.MaxWait(*c)
		req.Due = h.Now().Add(campaigns.InTime(*c))
		if call := leg.Call(); c.AnnouncementUrl == nil && call.AnswerTime != nil { // else the wait begins after what all are told
			req.Due = call.AnswerTime.Add(campaigns.InTime(*c))
		}
		req.CallerName = c.Name
		if c.AgentWhisperUrl != nil {
			req.WhisperURL = *c.AgentWhisperUrl
		}
	}
	outcome, err := h.Agents.Connect(ctx, leg, req)
	if err != nil || outcome == acd.Ended {
		return err
	}
	return h.overflow(ctx, leg, p.campaign)
}

// overflow is what becomes of a call that no agent took: its campaign's overflow action, or the end.
func (h *Service) overflow(ctx context.Context, leg switchctl.Leg, c *db.Campaign) error {
	if c == nil {
		return leg.Hangup(ctx, ledger.CauseServiceUnavailable)
	}
	switch c.OverflowAction {
	case campaigns.OverflowFlow:
		var plan *flows.Plan
		err := h.Store.InTenant(ctx, c.TenantID, func(tx *store.Tx) error {
			var err error
			plan, err = h.Campaigns.Flow(ctx, tx, *c)
			return err
		})
		if err != nil {
			return errors.Join(err, leg.Hangup(ctx, ledger.CauseServiceUnavailable))
		}
		return h.runFlow(ctx, leg, plan)
	case campaigns.OverflowVoicemail:
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
	if o.h.Agents == nil {
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
	req.Campaign = call.CampaignID != nil && call.Direction == gate.DirectionOutbound
	if limit, due, predictive := o.h.calleesWait(ctx, call); limit > 0 {
		if req.Due = o.h.Now().Add(due); predictive && (req.MaxWait <= 0 || limit < req.MaxWait) {
			req.MaxWait = limit
		}
	}
	outcome, err := o.h.Agents.Connect(ctx, o.leg, req)
	if err == nil && outcome != acd.Ended {
		err = o.leg.StopMusic(ctx)
	}
	return string(outcome), err
}

// calleesWait is how long a callee whom a campaign has dialed for its agents may wait, in a flow that asks for one, until when the wait
// is in time, and whether a predictive campaign, which lets nobody wait longer; 0 for any other caller.
func (h *Service) calleesWait(ctx context.Context, call db.Call) (limit, due time.Duration, predictive bool) {
	if call.CampaignID == nil || call.Direction != gate.DirectionOutbound || call.AgentID != nil || call.VoiceAgentID != nil {
		return 0, 0, false
	}
	err := h.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		row, err := tx.Q.CampaignGet(ctx, call.TenantID, *call.CampaignID)
		if err != nil {
			return err
		}
		taker, err := h.Campaigns.TargetOf(ctx, tx, row)
		if taker.People {
			limit, due, predictive = campaigns.MaxWait(row), campaigns.InTime(row), row.DialMode == string(campaigns.DialPredictive)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		h.Log.WarnContext(ctx, "reading the campaign of a waiting callee failed", "call_id", call.ID, "error", err)
	}
	return limit, due, predictive
}

// CanQueue tells whether somebody could take a caller. Errors: switchctl.ErrNobodyLoggedIn, switchctl.ErrUnknownExtension.
func (h *Service) CanQueue(ctx context.Context, tenant uuid.UUID, req switchctl.QueueRequest) error {
	wanted, err := h.queueRequest(ctx, tenant, req)
	if err != nil {
		return err
	}
	if !h.Agents.Staffed(tenant, wanted) {
		return switchctl.ErrNobodyLoggedIn
	}
	return nil
}

// Queue brings a caller whom a voice agent has handed over to an agent. One whom nobody takes is hung up.
func (h *Service) Queue(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
	wanted, err := h.queueRequest(ctx, leg.Call().TenantID, req)
	if err != nil {
		return err
	}
	if _, err := h.Agents.Connect(ctx, leg, wanted); err != nil {
		return fmt.Errorf("queue the caller: %w", err)
	}
	return nil
}

// JoinAgent implements [switchctl.AnswerHandler].
func (h *Service) JoinAgent(
	ctx context.Context, call db.Call, extension string,
	connect func(ctx context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error),
) error {
	if h.Agents == nil {
		return switchctl.ErrNobodyLoggedIn
	}
	agent, err := h.Agents.ByExtension(ctx, call.TenantID, extension)
	if err != nil {
		return err
	}
	return h.Agents.Join(ctx, call, agent, connect)
}

// SupervisorPhone implements [switchctl.AnswerHandler].
func (h *Service) SupervisorPhone(ctx context.Context, tenant uuid.UUID, extension string) (phone.Spec, error) {
	if h.Agents == nil {
		return phone.Spec{}, switchctl.ErrUnknownExtension
	}
	return h.Agents.ManagerPhone(ctx, tenant, extension)
}

func (h *Service) queueRequest(ctx context.Context, tenant uuid.UUID, req switchctl.QueueRequest) (acd.Request, error) {
	out := acd.Request{Tags: req.Tags, Priority: req.Priority, MaxWait: req.MaxWait, MusicURL: req.MusicURL, WhisperURL: req.AnnounceURL}
	if h.Agents == nil {
		return out, switchctl.ErrNobodyLoggedIn
	}
	if req.Extension != "" {
		id, err := h.Agents.ByExtension(ctx, tenant, req.Extension)
		out.AgentID = &id
		return out, err
	}
	out.Tags = staffing.QueueSkills(req.Queue, req.Tags)
	return out, nil
}
