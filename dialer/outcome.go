package dialer

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// neverBegunWait keeps a lead whose call never reached the switch from being claimed again at once.
const neverBegunWait = 10 * time.Second

// outcomeOf reads a closed call's final record.
func outcomeOf(call db.Call) callOutcome {
	cause := ""
	if call.HangupCause != nil {
		cause = *call.HangupCause
	}
	if call.Status == ledger.StatusCompleted {
		if cause == ledger.CauseServiceUnavailable && (call.AgentID == nil || call.AgentConnectTime == nil) {
			return outcomeFailed // answered, but nobody took the call
		}
		if machineHadIt(call) {
			return outcomeMachine
		}
		if call.QueuedAt != nil && call.AgentID == nil && call.VoiceAgentID == nil {
			return outcomeFailed // left while waiting for an agent
		}
		return outcomeConversation
	}
	if ledger.NeverBegun(call) {
		return outcomeNeverBegun
	}
	return outcomeOfCause(cause)
}

// Ended gives a lead the outcome of its call, in the transaction that closes the call.
func (h *answering) Ended(ctx context.Context, tx *store.Tx, call db.Call) error {
	s := h
	onTrunk, err := s.endedOnTrunk(ctx, tx, call)
	if err != nil {
		return err
	}
	if s.cfg.Agents != nil {
		if err := s.cfg.Agents.CallEnded(ctx, tx, call); err != nil {
			return err
		}
	}
	unserved, err := h.unserved(ctx, tx, call)
	if err != nil {
		return err
	}
	if err := tx.Q.FlowRunsClose(ctx, *call.EndTime, call.TenantID, call.ID); err != nil {
		return err
	}
	if call.CampaignID != nil {
		s.signals.Campaign(*call.CampaignID)
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
	at := s.now()
	if call.EndTime != nil {
		at = *call.EndTime
	}
	if len(suppressed) > 0 {
		return s.complete(ctx, tx, lead, LeadOptedOut, at)
	}
	switch LeadStatus(lead.Status) {
	case LeadDialing, LeadConnected:
		outcome := outcomeOf(call)
		if unserved && outcome == outcomeConversation {
			outcome = outcomeFailed
		}
		if onTrunk && outcome != outcomeNeverBegun && lead.TrunkFailures < maxTrunkFailures {
			outcome = outcomeTrunk
		}
		if outcome != outcomeConversation && lead.DndChecked && !lead.DndClean { // a scrub during the call found the number listed
			return s.complete(ctx, tx, lead, LeadDNC, at)
		}
		if outcome == outcomeMachine {
			if outcome, err = machineOutcome(ctx, tx, call); err != nil {
				return err
			}
		}
		return s.applyOutcome(ctx, tx, lead, outcome, at)
	case LeadCompleted, LeadExhausted, LeadDNC, LeadOptedOut, LeadInvalid:
		return s.complete(ctx, tx, lead, LeadStatus(lead.Status), at)
	case LeadNew, LeadQueued, LeadCallback, LeadRetry:
		if lead.DndChecked && !lead.DndClean {
			return s.complete(ctx, tx, lead, LeadDNC, at)
		}
		return s.reopen(ctx, tx, lead, at)
	default:
		return nil
	}
}

// machineOutcome is what a call means that a machine is said to have answered: no conversation, unless the voice agent has
// passed it on to somebody, which nobody does with a mailbox.
func machineOutcome(ctx context.Context, tx *store.Tx, call db.Call) (callOutcome, error) {
	session, err := tx.Q.SessionLastOfCall(ctx, call.TenantID, call.ID)
	if errors.Is(err, store.ErrNotFound) {
		return outcomeMachine, nil
	}
	if err != nil {
		return outcomeMachine, err
	}
	if session.Outcome != nil && strings.HasPrefix(*session.Outcome, "transferred_") {
		return outcomeConversation, nil
	}
	return outcomeMachine, nil
}

// complete ends a lead once; whoever set its status during the call left the event to the call's end.
func (h *answering) complete(ctx context.Context, tx *store.Tx, lead db.Lead, status LeadStatus, at time.Time) error {
	if lead.CompletedAt != nil && lead.Status == string(status) {
		return nil
	}
	return h.leads.finishLead(ctx, tx, lead, status, at)
}

// reopen keeps a status that was set during the call, and gives it a time when it has none.
func (h *answering) reopen(ctx context.Context, tx *store.Tx, lead db.Lead, at time.Time) error {
	if lead.NextAttemptAt != nil {
		return nil
	}
	return h.retryOrExhaust(ctx, tx, lead, outcomeFailed, at)
}

func (h *answering) applyOutcome(ctx context.Context, tx *store.Tx, lead db.Lead, outcome callOutcome, at time.Time) error {
	switch outcome {
	case outcomeConversation:
		return h.complete(ctx, tx, lead, LeadCompleted, at)
	case outcomeInvalid:
		return h.complete(ctx, tx, lead, LeadInvalid, at)
	case outcomeNeverBegun:
		status, attempts := LeadRetry, max(0, lead.Attempts-1)
		if attempts == 0 {
			status = LeadQueued
		}
		return h.reschedule(ctx, tx, lead, status, attempts, 0, h.now().Add(neverBegunWait))
	case outcomeTrunk:
		return h.afterTrunkFault(ctx, tx, lead, at)
	case outcomeBusy, outcomeNoAnswer, outcomeCongestion, outcomeMachine, outcomeFailed:
		return h.retryOrExhaust(ctx, tx, lead, outcome, at)
	default:
		return h.retryOrExhaust(ctx, tx, lead, outcomeFailed, at)
	}
}

func (h *answering) retryOrExhaust(ctx context.Context, tx *store.Tx, lead db.Lead, outcome callOutcome, at time.Time) error {
	campaign, err := tx.Q.CampaignGet(ctx, lead.TenantID, lead.CampaignID)
	if err != nil {
		return err
	}
	if lead.Attempts >= campaign.MaxAttempts {
		return h.complete(ctx, tx, lead, LeadExhausted, at)
	}
	status := LeadRetry
	if lead.Status == string(LeadCallback) {
		status = LeadCallback
	}
	wait := retryPolicy(campaign.Retry).wait(outcome, lead.Attempts)
	return h.reschedule(ctx, tx, lead, status, lead.Attempts, 0, at.Add(wait))
}

func (h *answering) reschedule(
	ctx context.Context, tx *store.Tx, lead db.Lead, status LeadStatus, attempts, trunkFailures int32, next time.Time,
) error {
	return tx.Q.LeadReschedule(ctx, db.LeadRescheduleParams{
		TenantID: lead.TenantID, ID: lead.ID, Status: string(status), Attempts: attempts, NextAttemptAt: next, TrunkFailures: trunkFailures,
	})
}
