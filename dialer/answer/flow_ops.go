package answer

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// legOperations offers a leg's operations to a flow.
type legOperations struct {
	h   *Service
	leg switchctl.Leg
	// detects says that machine detection listens already.
	detects bool
}

func (o legOperations) ConnectVoiceAgent(ctx context.Context, id uuid.UUID) (string, error) {
	call := o.leg.Call()
	var agent db.VoiceAgent
	deciding, cancel := context.WithTimeout(ctx, decisionLimit)
	defer cancel()
	err := o.h.Store.InTenant(deciding, call.TenantID, func(tx *store.Tx) error {
		var err error
		agent, err = o.h.VoiceAgents.Resolve(deciding, tx, call.TenantID, &id, nil)
		return err
	})
	_, missing := fault.As(err, fault.Dependency)
	if missing || err != nil && ctx.Err() == nil {
		o.h.Log.WarnContext(ctx, "resolving the flow's voice agent failed", "call_id", call.ID, "voice_agent_id", id, "error", err)
		o.h.recordFlow(ctx, o.leg)
		return flow.OutcomeFailed, nil
	}
	if err != nil {
		return flow.OutcomeFailed, err
	}
	outcome, err := o.connectVoice(ctx, switchctl.VoiceConnect{Agent: agent, KeepCaller: true})
	if err == nil && outcome != switchctl.OutcomeEnded {
		o.h.recordFlow(ctx, o.leg)
	}
	return string(outcome), err
}

func (o legOperations) PlayAudio(ctx context.Context, url string) (string, error) {
	switch err := o.leg.Play(ctx, url); {
	case errors.Is(err, switchctl.ErrAudio):
		o.silent(ctx, err)
		return flow.OutcomeFailed, nil
	case err != nil:
		return flow.OutcomeFailed, err
	}
	return flow.OutcomeDefault, nil
}

// Gather asks for digits; a prompt that can't be had is no reason not to.
func (o legOperations) Gather(ctx context.Context, g flow.Gather) (string, error) {
	pressed, err := o.leg.Gather(ctx, switchctl.Gather(g))
	if errors.Is(err, switchctl.ErrAudio) {
		o.silent(ctx, err)
		g.URL = ""
		return o.leg.Gather(ctx, switchctl.Gather(g))
	}
	return pressed, err
}

func (o legOperations) silent(ctx context.Context, err error) {
	o.h.Log.WarnContext(ctx, "playing the flow's audio failed", "call_id", o.leg.Call().ID, "error", err)
}

// Transfer leads the caller to a number, a SIP URI, a queue or one agent.
func (o legOperations) Transfer(ctx context.Context, destinationType, destination string) (string, error) {
	switch destinationType {
	case flow.DestinationQueue, flow.DestinationAgent:
		return o.toPeople(ctx, destinationType, destination)
	}
	outcome, err := o.leg.Transfer(ctx, destinationType, destination)
	if _, unreached := errors.AsType[*switchctl.UnreachedError](err); unreached {
		return string(outcome), nil
	}
	return string(outcome), err
}

// toPeople waits for an agent; nobody there is a transfer that failed.
func (o legOperations) toPeople(ctx context.Context, destinationType, destination string) (string, error) {
	req := switchctl.QueueRequest{Queue: destination}
	if destinationType == flow.DestinationAgent {
		req = switchctl.QueueRequest{Extension: destination}
	}
	wanted, err := o.h.queueRequest(ctx, o.leg.Call().TenantID, req)
	switch {
	case errors.Is(err, switchctl.ErrNobodyLoggedIn), errors.Is(err, switchctl.ErrUnknownExtension):
		return flow.OutcomeFailed, nil
	case err != nil:
		return flow.OutcomeFailed, err
	}
	outcome, err := o.queue(ctx, wanted)
	if err == nil && outcome != flow.OutcomeEnded {
		return flow.OutcomeFailed, nil
	}
	return outcome, err
}

// Voicemail takes a message, without a greeting when that can't be had.
func (o legOperations) Voicemail(ctx context.Context, greetingURL string, longest time.Duration) error {
	err := o.leg.RecordVoicemail(ctx, switchctl.Voicemail{GreetingURL: greetingURL, Max: longest})
	if errors.Is(err, switchctl.ErrAudio) && greetingURL != "" {
		o.silent(ctx, err)
		return o.leg.RecordVoicemail(ctx, switchctl.Voicemail{Max: longest})
	}
	return err
}

// SetDisposition sets the call's. One that the tenant's list has lost since the flow was saved is left out.
func (o legOperations) SetDisposition(ctx context.Context, disposition string) error {
	call, s := o.leg.Call(), o.h
	err := s.Store.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		row, err := tx.Q.CallLock(ctx, call.TenantID, call.ID)
		if err != nil {
			return err
		}
		_, err = leads.SetDisposition(ctx, tx, row, leads.Disposing{Disposition: disposition, Source: leads.SourceSystem, At: s.Now()})
		return err
	})
	if _, refused := fault.As(err, fault.Invalid); refused && !errors.Is(err, store.ErrValue) {
		s.Log.WarnContext(ctx, "setting the flow's disposition failed: the tenant has no such disposition", "call_id", call.ID, "disposition", disposition)
		return nil
	}
	return err
}

func (o legOperations) Hangup(ctx context.Context, cause string) error {
	return o.leg.Hangup(ctx, cause)
}

// close ends a call whose last step did not take it. After an ended conversation the controller ends what is left.
func (o legOperations) close(ctx context.Context, outcome string) error {
	switch outcome {
	case flow.OutcomeBusy:
		return o.leg.Hangup(ctx, ledger.CauseUserBusy)
	case flow.OutcomeFailed:
		return o.leg.Hangup(ctx, ledger.CauseServiceUnavailable)
	default:
		return nil
	}
}
