package call

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// leg is the caller's leg in an AnswerHandler's hands.
type leg struct {
	a    *core
	call db.Call
	// handler numbers the handler that has the leg.
	handler int
}

func (l *leg) Call() db.Call { return l.call }

func (l *leg) Answer(ctx context.Context) error {
	if l.call.Direction != ledger.DirectionInbound {
		return nil
	}
	return l.a.ask(ctx, func(reply chan<- error) message { return answerCommand{reply: reply} })
}

func (l *leg) ConnectVoiceAgent(ctx context.Context, connect switchctl.VoiceConnect) (switchctl.Outcome, error) {
	if err := l.Answer(ctx); err != nil {
		return switchctl.OutcomeFailed, fmt.Errorf("switchctl: answer the leg: %w", err)
	}
	r, err := rt.Ask(ctx, l.a.box, l.a.done, func(reply chan<- connectResult) message {
		return connectCommand{VoiceConnect: connect, reply: reply}
	})
	if err != nil {
		return unanswered(err), err
	}
	return r.outcome, r.err
}

// unanswered is the outcome of an operation that the call has not answered.
func unanswered(err error) switchctl.Outcome {
	if errors.Is(err, switchctl.ErrMailboxFull) {
		return switchctl.OutcomeFailed
	}
	return switchctl.OutcomeEnded
}

func (l *leg) DetectMachine(ctx context.Context) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	spec := media.SessionSpec{ID: id.String(), CallID: l.a.id.String(), Owner: l.a.tenant.String(), AMD: &amd.Config{}}
	up := l.a.c.tapCall(ctx, l.a.tenant, l.a.id, tapRequest{id: id, spec: spec})
	if up.err != nil && ctx.Err() != nil {
		return context.Cause(ctx) // the call may be over by then as well: why the handler is stopped says more
	}
	return up.err
}

func (l *leg) Hangup(ctx context.Context, cause string) error {
	return l.a.ask(ctx, func(reply chan<- error) message { return hangupCommand{cause: cause, reply: reply} })
}

// runHandler runs an operation of the AnswerHandler; its panic costs its own call only.
func (c *host) runHandler(ctx context.Context, l *leg, handle func(ctx context.Context, l *leg) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			c.metrics.panics.Inc()
			l.a.log.ErrorContext(ctx, "panic in a call's answer handler", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			err = fmt.Errorf("switchctl: handle call: panic: %v", r)
		}
	}()
	return handle(ctx, l)
}

// handlerCause is the cause that a call ends with when its handler failed.
func handlerCause(err error) string {
	var busy *switchctl.BusyError
	switch {
	case errors.As(err, &busy):
		return ledger.CauseUserBusy
	case errors.Is(err, switchctl.ErrUnknownNumber):
		return ledger.CauseUnallocated
	}
	return ledger.CauseServiceUnavailable
}
