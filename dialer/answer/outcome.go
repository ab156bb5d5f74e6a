package answer

import (
	"context"
	"errors"
	"strings"
	"time"

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
		if cause == ledger.CauseServiceUnavailable && (call.AgentID == nil || call.AgentConnectTime == nil) {
			return leads.OutcomeFailed // answered, but nobody took the call
		}
		if machineHadIt(call) {
			return leads.OutcomeMachine
		}
		if call.QueuedAt != nil && call.AgentID == nil && call.VoiceAgentID == nil {
			return leads.OutcomeFailed // left while waiting for an agent
		}
		return leads.OutcomeConversation
	}
	if ledger.NeverBegun(call) {
		return leads.OutcomeNeverBegun
	}
	return leads.OutcomeOfCause(cause)
}

// Ended gives a lead the outcome of its call, in the transaction that closes the call.
func (h *Service) Ended(ctx context.Context, tx *store.Tx, call db.Call) error {
	s := h
	onTrunk, err := s.endedOnTrunk(ctx, tx, call)
	if err != nil {
		return err
	}
	if s.Agents != nil {
		if err := s.Agents.CallEnded(ctx, tx, call); err != nil {
			return err
		}
	}
	unserved, err := h.unserved(ctx, tx, call)
	if err != nil {
		return err
	}
	if err := tx.CallEnds(ctx, call); err != nil {
		return err
	}
	if call.CampaignID != nil {
		s.Wake.Campaign(*call.CampaignID)
	}
	if call.LeadID == nil {
		return nil
	}
	lead, err := tx.Q.LeadLock(ctx, call.TenantID, *call.LeadID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if lead.LastCallID == nil || *lead.LastCallID != call.ID {
		return nil // a later call decides
	}
	if call.Disposition != nil {
		if err := tx.Q.LeadSetDisposition(ctx, call.Disposition, lead.TenantID, lead.ID); err != nil {
			return err
		}
	}
	suppressed, err := tx.Q.SuppressedHashes(ctx, lead.TenantID, [][]byte{lead.PhoneHash})
	if err != nil {
		return err
	}
	at := s.Now()
	if call.EndTime != nil {
		at = *call.EndTime
	}
	if len(suppressed) > 0 {
		return s.complete(ctx, tx, lead, leads.StatusOptedOut, at)
	}
	switch leads.Status(lead.Status) {
	case leads.StatusDialing, leads.StatusConnected:
		outcome := outcomeOf(call)
		if unserved && outcome == leads.OutcomeConversation {
			outcome = leads.OutcomeFailed
		}
		if onTrunk && outcome != leads.OutcomeNeverBegun && lead.TrunkFailures < MaxTrunkFailures {
			outcome = leads.OutcomeTrunk
		}
		if outcome != leads.OutcomeConversation && lead.DndChecked && !lead.DndClean { // a scrub during the call found the number listed
			return s.complete(ctx, tx, lead, leads.StatusDNC, at)
		}
		if outcome == leads.OutcomeMachine {
			if outcome, err = machineOutcome(ctx, tx, call); err != nil {
				return err
			}
		}
		return s.applyOutcome(ctx, tx, lead, outcome, at)
	case leads.StatusCompleted, leads.StatusExhausted, leads.StatusDNC, leads.StatusOptedOut, leads.StatusInvalid:
		return s.complete(ctx, tx, lead, leads.Status(lead.Status), at)
	case leads.StatusNew, leads.StatusQueued, leads.StatusCallback, leads.StatusRetry:
		if lead.DndChecked && !lead.DndClean {
			return s.complete(ctx, tx, lead, leads.StatusDNC, at)
		}
		return s.reopen(ctx, tx, lead, at)
	default:
		return nil
	}
}

// machineOutcome is what a call means that a machine is said to have answered: no conversation, unless the voice agent has
// passed it on to somebody, which nobody does with a mailbox.
func machineOutcome(ctx context.Context, tx *store.Tx, call db.Call) (leads.Outcome, error) {
	session, err := tx.Q.SessionLastOfCall(ctx, call.TenantID, call.ID)
	if errors.Is(err, store.ErrNotFound) {
		return leads.OutcomeMachine, nil
	}
	if err != nil {
		return leads.OutcomeMachine, err
	}
	if session.Outcome != nil && strings.HasPrefix(*session.Outcome, "transferred_") {
		return leads.OutcomeConversation, nil
	}
	return leads.OutcomeMachine, nil
}

// complete ends a lead once; whoever set its status during the call left the event to the call's end.
func (h *Service) complete(ctx context.Context, tx *store.Tx, lead db.Lead, status leads.Status, at time.Time) error {
	if lead.CompletedAt != nil && lead.Status == string(status) {
		return nil
	}
	return h.Leads.Finish(ctx, tx, lead, status, at)
}

// reopen keeps a status that was set during the call, and gives it a time when it has none: the one that was promised, unless that is over.
func (h *Service) reopen(ctx context.Context, tx *store.Tx, lead db.Lead, at time.Time) error {
	if lead.NextAttemptAt != nil {
		return nil
	}
	if due := lead.CallbackAt; due != nil {
		if due.Before(at) {
			due = &at
		}
		return h.reschedule(ctx, tx, lead, leads.StatusCallback, lead.Attempts, 0, *due)
	}
	return h.retryOrExhaust(ctx, tx, lead, leads.OutcomeFailed, at)
}

func (h *Service) applyOutcome(ctx context.Context, tx *store.Tx, lead db.Lead, outcome leads.Outcome, at time.Time) error {
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
		return h.afterTrunkFault(ctx, tx, lead, at)
	case leads.OutcomeBusy, leads.OutcomeNoAnswer, leads.OutcomeCongestion, leads.OutcomeMachine, leads.OutcomeFailed:
		return h.retryOrExhaust(ctx, tx, lead, outcome, at)
	default:
		return h.retryOrExhaust(ctx, tx, lead, leads.OutcomeFailed, at)
	}
}

func (h *Service) retryOrExhaust(ctx context.Context, tx *store.Tx, lead db.Lead, outcome leads.Outcome, at time.Time) error {
	campaign, err := tx.Q.CampaignGet(ctx, lead.TenantID, lead.CampaignID)
	if err != nil {
		return err
	}
	if lead.Attempts >= campaign.MaxAttempts {
		return h.complete(ctx, tx, lead, leads.StatusExhausted, at)
	}
	status := leads.StatusRetry
	if lead.Status == string(leads.StatusCallback) {
		status = leads.StatusCallback
	}
	wait := leads.StoredPolicy(campaign.Retry).Wait(outcome, lead.Attempts)
	return h.reschedule(ctx, tx, lead, status, lead.Attempts, 0, at.Add(wait))
}

func (h *Service) reschedule(
	ctx context.Context, tx *store.Tx, lead db.Lead, status leads.Status, attempts, trunkFailures int32, next time.Time,
) error {
	return tx.Q.LeadReschedule(ctx, db.LeadRescheduleParams{
		TenantID: lead.TenantID, ID: lead.ID, Status: string(status), Attempts: attempts, NextAttemptAt: next, TrunkFailures: trunkFailures,
	})
}
