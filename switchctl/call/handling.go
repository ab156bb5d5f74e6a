package call

import (
	"context"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// handling is the AnswerHandler's part of a call.
type handling struct {
	*core
	parties *parties
	// stopHandler ends the context of AnswerHandler.Answered; nil before it runs.
	stopHandler context.CancelCauseFunc
	// handled is true when AnswerHandler.Answered has run for this call, here or before a restart.
	handled bool
	// handler numbers the handlers that the call has had.
	handler int
	// over is closed when the newest has returned; nil before the first.
	over chan struct{}
}

// startHandler runs AnswerHandler.Answered beside the actor, once.
func (h *handling) startHandler(ctx context.Context) {
	if h.handled || h.killCause != "" {
		return
	}
	h.handled = true
	h.runBeside(ctx, func(ctx context.Context, l *leg) error { return h.c.handler.Answered(ctx, l) })
}

// runBeside runs a handler's operation beside the actor; there is one at a time.
func (h *handling) runBeside(ctx context.Context, handle func(ctx context.Context, l *leg) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	h.stopHandler = cancel
	h.handler++
	l := &leg{a: h.core, call: h.call, handler: h.handler}
	over := make(chan struct{})
	h.over = over
	h.beside(func() {
		defer close(over)
		defer cancel(nil)
		err := h.c.runHandler(ctx, l, handle)
		h.post(handlerDone{serial: l.handler, err: err})
	})
}

// replace ends the handler's part: somebody else steers the call from now on, and what it returns counts no more.
func (h *handling) replace() {
	h.handled = true
	h.handler++
	if h.stopHandler != nil {
		h.stopHandler(switchctl.ErrHandedOver)
	}
}

// handlerReturned: nobody steers the call any more. Without a voice agent on it, it ends.
func (h *handling) handlerReturned(ctx context.Context, m handlerDone) (state, error) {
	if m.serial != h.handler {
		return h.state, nil // its call was handed over
	}
	if m.err != nil && h.killCause == "" {
		h.log.ErrorContext(ctx, "handling the call failed", "error", m.err)
	}
	if h.killCause != "" || !h.parties.free(endWithHandler) {
		return h.state, nil
	}
	cause := ledger.CauseNormalClearing
	if m.err != nil {
		cause = handlerCause(m.err)
	}
	h.kill(ctx, cause)
	return h.state, nil
}
