package call

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// errFault is the result of work that ended in a panic.
var errFault = errors.New("internal fault")

// superviseRetry is the pause before a loop of the controller that ended in a panic begins again.
const superviseRetry = time.Second

// goroutines are those that Close waits for. A panic in one of them is counted and logged, and does not end the process.
type goroutines struct {
	wg sync.WaitGroup
	// guard runs a function and reports whether it ended in a panic.
	guard func(fn func()) (faulty bool)
}

// Go runs fn beside the caller.
func (g *goroutines) Go(fn func()) { g.wg.Go(func() { g.guard(fn) }) }

// Wait returns when all have ended.
func (g *goroutines) Wait() { g.wg.Wait() }

// guard keeps a fault in fn from ending the process: it is counted and logged. It reports whether there was one.
func (c *host) guard(log *slog.Logger, fn func()) (faulty bool) {
	defer func() {
		if r := recover(); r != nil {
			faulty = true
			c.metrics.panics.Inc()
			log.Error("panic in call control's background work", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	fn()
	return false
}

// besideLink runs fn beside the link, which is waited for as that is: once the calls have ended nobody may add to theirs.
func (c *Controller) besideLink(fn func()) { c.running.Go(func() { c.guard(c.log, fn) }) }

// supervise runs a loop of the controller until it returns, and again when it ended in a panic.
func (c *Controller) supervise(ctx context.Context, fn func(ctx context.Context)) {
	for c.guard(c.log, func() { fn(ctx) }) {
		if rt.Pause(ctx, c.clock, superviseRetry) != nil {
			return
		}
	}
}

// besideFailed tells the actor that work of its own, whose result it waits for, ended in a panic.
type besideFailed struct{}

func (besideFailed) Name() string    { return "fault beside the call" }
func (besideFailed) Essential() bool { return true }

// beside runs work of the call next to its actor. A panic in it ends the call: its result will not come.
func (k *core) beside(fn func()) { k.c.goes.Go(k.guarded(fn)) }

// inTurn is beside, after what was queued there before.
func (k *core) inTurn(queue *rt.Serial, fn func()) { queue.Add(k.c.goes.Go, k.guarded(fn)) }

// guarded is fn, whose panic ends the call.
func (k *core) guarded(fn func()) func() {
	return func() {
		if k.c.guard(k.log, fn) {
			k.post(besideFailed{})
		}
	}
}

// endAfterFault ends a call whose work beside it has failed.
func (k *core) endAfterFault(ctx context.Context) state {
	if k.killCause == "" && k.state != stateClosing {
		k.kill(ctx, ledger.CauseTemporaryFailure)
	}
	return k.state
}

// try runs fn and returns its error, or errFault when it ended in a panic.
func (c *host) try(log *slog.Logger, fn func() error) (err error) {
	err = errFault
	c.guard(log, func() { err = fn() })
	return err
}
