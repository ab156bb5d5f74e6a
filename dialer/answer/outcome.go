package answer

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// neverBegunWait keeps a lead whose call never reached the switch from being claimed again at once.
const neverBegunWait = 10 * time.Second

// outcomeOf reads a closed call's final record.
func outcomeOf(call db.Call) leads.Outcome {
	cause := ""
	if call.HangupCause != nil {
		cause = *call.HangupCause
	}
	if call.Status == ledger.StatusCompleted {
		if cause == ledger.CauseServiceUnavailable && !metPerson(call) {
			return leads.OutcomeFailed // answered, but nobody took the call
		}
		if machineHadIt(call) {
			return leads.OutcomeMachine
		}
		if call.QueuedAt != nil && call.AgentID == nil && call.VoiceAgentID == nil && call.ServedAt == nil {
			return leads.OutcomeFailed // left while waiting for an agent
		}
		return leads.OutcomeConversation
	}
	if ledger.NeverBegun(call) {
		return leads.OutcomeNeverBegun
	}
	return leads.OutcomeOfCause(cause)
}

// endOfCall is what a call's end is decided by.
type endOfCall struct {
	// call is the closed row.
	call db.Call
	// at is when it ended.
	at time.Time
	// trunk is the call's, locked, when its end is no sign of life; nil else, as are lead and campaign where there is none.
	trunk    *db.Trunk
	agents   []db.Agent // locked
	campaign *db.Campaign
	hadFlow  bool
	// lead is locked.
	lead       *db.Lead
	suppressed bool
	// session is the call's last, where that decides.
	session *db.AiSession
}

// ofLead gives the campaign of the call's lead, which is the call's.
func (e *endOfCall) ofLead(ctx context.Context, tx *store.Tx) (db.Campaign, error) {
	if e.campaign != nil && e.campaign.ID == e.lead.CampaignID {
		return *e.campaign, nil
	}
	return tx.Q.CampaignGet(ctx, e.lead.TenantID, e.lead.CampaignID)
}

// readEnd reads it, locks in the order trunk, agents, lead.
func (h *Service) readEnd(ctx context.Context, tx *store.Tx, call db.Call) (*endOfCall, error) {
	e := &endOfCall{call: call, at: h.Now()}
	if call.EndTime != nil {
		e.at = *call.EndTime
	}
	var reads []func(*db.Queries) error
	if sign, _ := SignOf(call); sign == TrunkSilent || sign == TrunkFault {
		reads = append(reads, found(&e.trunk, func(q *db.Queries) (db.Trunk, error) {
			return q.TrunkHealth(ctx, call.TenantID, *call.TrunkID)
		}))
	}
	if h.Agents != nil {
		reads = append(reads, func(q *db.Queries) (err error) {
			e.agents, err = q.AgentsLockOnCall(ctx, call.TenantID, call.ID)
			return err
		})
	}
	if maybeUnserved(call) {
		reads = append(reads, func(q *db.Queries) (err error) {
			e.hadFlow, err = q.CallHadFlow(ctx, call.TenantID, call.ID)
			return err
		})
	}
	if call.CampaignID != nil {
		reads = append(reads, found(&e.campaign, func(q *db.Queries) (db.Campaign, error) {
			return q.CampaignGet(ctx, call.TenantID, *call.CampaignID)
		}))
	}
	if call.LeadID != nil {
		reads = append(reads, found(&e.lead, func(q *db.Queries) (db.Lead, error) {
			return q.LeadLock(ctx, call.TenantID, *call.LeadID)
		}), func(q *db.Queries) (err error) { // by itself: it is to see what was committed before the lead was locked
			e.suppressed, err = q.LeadSuppressed(ctx, call.TenantID, *call.LeadID)
			return err
		})
		if outcomeOf(call) == leads.OutcomeMachine {
			reads = append(reads, found(&e.session, func(q *db.Queries) (db.AiSession, error) {
				return q.SessionLastOfCall(ctx, call.TenantID, call.ID)
			}))
		}
	}
	return e, tx.Together(ctx, reads...)
}

// found reads a row that may be missing.
func found[Row any](to **Row, read func(*db.Queries) (Row, error)) func(*db.Queries) error {
	return func(q *db.Queries) error {
		row, err := read(q)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		*to = &row
		return err
	}
}

// WasAnswered has a lead be connected, in the transaction that answers its call.
func (h *Service) WasAnswered(ctx context.Context, tx *store.Tx, call db.Call) error {
	if call.LeadID == nil {
		return nil
	}
	return tx.Later(ctx, func(q *db.Queries) error {
		_, err := q.LeadMarkConnected(ctx, call.TenantID, *call.LeadID, call.ID)
		return err
	})
}

// Ended gives a lead the outcome of its call, in the transaction that closes the call.
func (h *Service) Ended(ctx context.Context, tx *store.Tx, call db.Call) error {
	e, err := h.readEnd(ctx, tx, call)
	if err != nil {
		return err
	}
	onTrunk, err := h.endedOnTrunk(ctx, tx, e)
	if err != nil {
		return err
	}
	if h.Agents != nil {
		if err := h.Agents.CallEnded(ctx, tx, call, e.campaign, e.agents); err != nil {
			return err
		}
	}
	unserved, err := h.unserved(ctx, tx, e)
	if err != nil {
		return err
	}
	if err := tx.CallEnds(ctx, call); err != nil {
		return err
	}
	if call.CampaignID != nil {
		h.Wake.Campaign(*call.CampaignID)
	}
	if e.lead == nil || e.lead.LastCallID == nil || *e.lead.LastCallID != call.ID {
		return nil // or a later call decides
	}
	return h.leadEnded(ctx, tx, e, onTrunk, unserved)
}

// leadEnded gives the call's lead what has come of the call.
func (h *Service) leadEnded(ctx context.Context, tx *store.Tx, e *endOfCall, onTrunk, unserved bool) error {
	call, lead := e.call, e.lead
	if call.Disposition != nil {
		lead.Disposition = call.Disposition
		err := tx.Later(ctx, func(q *db.Queries) error { return q.LeadSetDisposition(ctx, call.Disposition, lead.TenantID, lead.ID) })
		if err != nil {
			return err
		}
	}
	if e.suppressed {
		return h.complete(ctx, tx, *lead, leads.StatusOptedOut, e.at)
	}
	switch leads.StatusOf(*lead) {
	case leads.StatusDialing, leads.StatusConnected:
		outcome := outcomeOf(call)
		if unserved && outcome == leads.OutcomeConversation {
			outcome = leads.OutcomeFailed
		}
		if onTrunk && outcome != leads.OutcomeNeverBegun && lead.TrunkFailures < MaxTrunkFailures {
			outcome = leads.OutcomeTrunk
		}
		if outcome != leads.OutcomeConversation && lead.DndChecked && !lead.DndClean { // a scrub during the call found the number listed
			return h.complete(ctx, tx, *lead, leads.StatusDNC, e.at)
		}
		if outcome == leads.OutcomeMachine && (passedOn(e.session) || leftToAgent(e)) {
			outcome = leads.OutcomeConversation
		}
		return h.applyOutcome(ctx, tx, e, outcome)
	case leads.StatusCompleted, leads.StatusExhausted, leads.StatusDNC, leads.StatusOptedOut, leads.StatusInvalid:
		return h.complete(ctx, tx, *lead, leads.Status(lead.Status), e.at)
	case leads.StatusNew, leads.StatusQueued, leads.StatusCallback, leads.StatusRetry:
		if lead.DndChecked && !lead.DndClean {
			return h.complete(ctx, tx, *lead, leads.StatusDNC, e.at)
		}
		return h.reopen(ctx, tx, e)
	default:
		return nil
	}
}

// passedOn tells whether the voice agent of a call that a machine is said to have answered has passed it on to somebody, which nobody does with
// a mailbox.
func passedOn(session *db.AiSession) bool {
	return session != nil && session.Outcome != nil && strings.HasPrefix(*session.Outcome, "transferred_")
}

// leftToAgent tells whether an agent has had a call that a machine is said to have answered for as long as they liked: they had dialed it by hand, or
// the campaign connects machines as persons.
func leftToAgent(e *endOfCall) bool {
	call := e.call
	if call.AgentID == nil || call.AgentConnectTime == nil {
		return false
	}
	return dialedByAgent(call) || e.campaign == nil || e.campaign.VoicemailAction == campaigns.VoicemailConnect
}

// complete ends a lead once; whoever set its status during the call left the event to the call's end.
func (h *Service) complete(ctx context.Context, tx *store.Tx, lead db.Lead, status leads.Status, at time.Time) error {
	if lead.CompletedAt != nil && lead.Status == string(status) {
		return nil
	}
	return h.Leads.Finish(ctx, tx, lead, status, at)
}

// reopen keeps a status that was set during the call, and gives it a time when it has none: the one that was promised, unless that is over.
func (h *Service) reopen(ctx context.Context, tx *store.Tx, e *endOfCall) error {
	lead := *e.lead
	if lead.NextAttemptAt != nil {
		return nil
	}
	if due := lead.CallbackAt; due != nil {
		if due.Before(e.at) {
			due = &e.at
		}
		return h.reschedule(ctx, tx, lead, leads.StatusCallback, lead.Attempts, 0, *due)
	}
	return h.retryOrExhaust(ctx, tx, e, leads.OutcomeFailed)
}

func (h *Service) applyOutcome(ctx context.Context, tx *store.Tx, e *endOfCall, outcome leads.Outcome) error {
	lead, at := *e.lead, e.at
	switch outcome {
	case leads.OutcomeConversation:
		return h.complete(ctx, tx, lead, leads.StatusCompleted, at)
	case leads.OutcomeInvalid:
		return h.complete(ctx, tx, lead, leads.StatusInvalid, at)
	case leads.OutcomeNeverBegun:
		status, attempts := leads.StatusRetry, max(0, lead.Attempts-1)
		if attempts == 0 {
			status = leads.StatusQueued
		}
		return h.reschedule(ctx, tx, lead, status, attempts, 0, h.Now().Add(neverBegunWait))
	case leads.OutcomeTrunk:
		return h.afterTrunkFault(ctx, tx, e)
	case leads.OutcomeBusy, leads.OutcomeNoAnswer, leads.OutcomeCongestion, leads.OutcomeMachine, leads.OutcomeFailed:
		return h.retryOrExhaust(ctx, tx, e, outcome)
	default:
		return h.retryOrExhaust(ctx, tx, e, leads.OutcomeFailed)
	}
}

func (h *Service) retryOrExhaust(ctx context.Context, tx *store.Tx, e *endOfCall, outcome leads.Outcome) error {
	campaign, err := e.ofLead(ctx, tx)
	if err != nil {
		return err
	}
	lead, at := *e.lead, e.at
	if lead.Attempts >= campaign.MaxAttempts {
		return h.complete(ctx, tx, lead, leads.StatusExhausted, at)
	}
	status := leads.StatusRetry
	if leads.StatusOf(lead) == leads.StatusCallback {
		status = leads.StatusCallback
	}
	wait := leads.StoredPolicy(campaign.Retry).Wait(outcome, lead.Attempts)
	return h.reschedule(ctx, tx, lead, status, lead.Attempts, 0, at.Add(wait))
}

func (h *Service) reschedule(
	ctx context.Context, tx *store.Tx, lead db.Lead, status leads.Status, attempts, trunkFailures int32, next time.Time,
) error {
	return tx.Later(ctx, func(q *db.Queries) error {
		return q.LeadReschedule(ctx, db.LeadRescheduleParams{
			TenantID: lead.TenantID, ID: lead.ID, Status: string(status), Attempts: attempts, NextAttemptAt: next, TrunkFailures: trunkFailures,
		})
	})
}
