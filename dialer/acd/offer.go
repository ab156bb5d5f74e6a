package acd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/retry"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

const (
	// ringback is the music of a caller who is given to an agent: it sounds at once, without a file.
	ringback = ""
	// bridgeSoon is how long a caller may wait for a bridge in silence.
	bridgeSoon = 150 * time.Millisecond
)

// offer gives the caller to the agent chosen. Not done: the caller waits on.
func (v *serving) offer(ctx context.Context, a *seat, theirs bool) (done bool, outcome Outcome, err error) {
	s := v.s
	spec, up, ok := s.seatPhone(a)
	if theirs {
		s.answered(spec.AgentID)
	} else {
		err = s.claim(ctx, v.call, spec.AgentID, v.c.since, v.req.due())
		v.waits = v.waits && err != nil
	}
	var state *StateError
	switch {
	case errors.Is(err, errCallOver):
		return true, Unavailable, ledger.ErrCallEnded
	case errors.As(err, &state), errors.Is(err, store.ErrNotFound):
		s.metrics.offers.WithLabelValues("refused").Inc()
		s.doubt(v.c)
		return false, "", nil
	case err != nil:
		s.log.WarnContext(ctx, "claiming the agent failed", "call_id", v.call.ID, "agent_id", spec.AgentID, "error", err)
		s.doubt(v.c)
		return false, "", retry.Pause(ctx, offerPause)
	case !ok:
		v.settle(ctx, spec, TriggerPhoneLost, ReasonPhoneLost)
		return false, "", nil
	}
	if !up || spec.Mode == phone.OnHook || v.req.WhisperURL != "" {
		if err := v.play(ctx, ringback); err != nil {
			return true, Unavailable, err
		}
	}
	ring := s.cfg.RingTimeout
	if !theirs {
		ring = min(ring, time.Until(v.until))
	}
	got, err := v.connect(ctx, switchctl.AgentConnect{
		Phone: spec, WhisperURL: v.req.WhisperURL, RingTimeout: max(ring, time.Millisecond),
		CallerName: v.req.CallerName, KeepCaller: v.req.KeepCaller, Theirs: theirs,
	})
	return v.after(ctx, spec, got, err)
}

// connect is ConnectAgent. A caller whom the bridge keeps waiting hears that it rings.
func (v *serving) connect(ctx context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
	bridging := make(chan struct{})
	begun := sync.OnceFunc(func() { close(bridging) })
	req.Connecting = func() {
		v.s.metrics.waited.Observe(v.s.now().Sub(v.since).Seconds())
		begun()
	}
	if !v.music {
		var ringing sync.WaitGroup
		defer ringing.Wait()
		defer begun()
		ringing.Go(func() { v.ringIfSlow(ctx, bridging) })
	}
	return v.leg.ConnectAgent(ctx, req)
}

// ringIfSlow starts ringback unless the bridge begins soon. One that begins meanwhile refuses it, and is what was wanted.
func (v *serving) ringIfSlow(ctx context.Context, bridging <-chan struct{}) {
	soon := time.NewTimer(bridgeSoon)
	defer soon.Stop()
	select {
	case <-bridging:
		return
	case <-ctx.Done():
		return
	case <-soon.C:
	}
	select {
	case <-bridging: // it has begun, and this goroutine was late
		return
	default:
	}
	if err := v.leg.StartMusic(ctx, ringback); err != nil && ctx.Err() == nil {
		v.s.log.DebugContext(ctx, "playing ringback to the caller failed", "call_id", v.call.ID, "error", err)
	}
}

// after puts agent and caller where an offer's outcome leads.
func (v *serving) after(
	ctx context.Context, spec phone.Spec, got switchctl.AgentOutcome, failed error,
) (done bool, outcome Outcome, err error) {
	s := v.s
	if failed == nil {
		s.metrics.offers.WithLabelValues(string(got)).Inc()
	} else {
		s.metrics.offers.WithLabelValues("error").Inc()
	}
	v.music = false // the bridge has ended it, or it was ringback
	var other *switchctl.AgentOnCallError
	switch {
	case failed == nil && got == switchctl.AgentMachine:
		v.settle(ctx, spec, TriggerReturned, "")
		return true, Unavailable, switchctl.ErrMachine
	case failed == nil && got == switchctl.AgentTaken:
		v.settle(ctx, spec, TriggerEnded, "")
		return true, Unavailable, switchctl.ErrHandedOver
	case failed == nil && got == switchctl.AgentWithdrawn:
		v.settle(ctx, spec, TriggerReturned, "")
		return true, Unavailable, switchctl.ErrHandedOver
	case ctx.Err() != nil:
		return true, Unavailable, ctx.Err() // the call is over or left to the next start: its end, or that, frees the agent
	case errors.Is(failed, ledger.ErrCallEnded):
		return true, Unavailable, failed
	case errors.Is(failed, phone.ErrUnknown):
		v.settle(ctx, spec, TriggerPhoneLost, ReasonPhoneLost)
		return false, "", nil
	case errors.As(failed, &other): // found after a restart: the caller talks with that one
		v.settle(ctx, spec, TriggerReturned, "")
		return true, Ended, nil
	case failed != nil:
		s.log.WarnContext(ctx, "connecting the agent failed", "call_id", v.call.ID, "agent_id", spec.AgentID, "error", failed)
		v.settle(ctx, spec, TriggerReturned, "")
		return false, "", retry.Pause(ctx, offerPause)
	}
	switch got {
	case switchctl.AgentEnded:
		v.settle(ctx, spec, TriggerEnded, "")
		return true, Ended, nil
	case switchctl.AgentUnavailable:
		switch {
		case spec.Mode != phone.OnHook:
			v.settle(ctx, spec, TriggerPhoneLost, ReasonPhoneLost)
			return false, "", nil
		case time.Until(v.until) <= 0: // the caller's limit has cut the ringing short, which is not the agent's fault
			v.settle(ctx, spec, TriggerReturned, "")
			return false, "", nil
		}
		v.settle(ctx, spec, TriggerUnanswered, ReasonUnanswered)
		return false, "", nil
	case switchctl.AgentLost:
		v.music = true // the leg plays it by itself, at once
		v.again()
		v.settle(ctx, spec, TriggerPhoneLost, ReasonPhoneLost)
		return false, "", nil
	case switchctl.AgentMachine: // dealt with above, as the next are
		return true, Unavailable, switchctl.ErrMachine
	case switchctl.AgentTaken, switchctl.AgentWithdrawn:
		return true, Unavailable, switchctl.ErrHandedOver
	case switchctl.AgentCallerGone:
		return true, Unavailable, ledger.ErrCallEnded
	default:
		return true, Unavailable, fmt.Errorf("acd: unknown outcome %q of an agent's connection", got)
	}
}

// seatPhone names the phone of an agent, and tells whether it is up; not ok when the desk knows no extension.
func (s *Service) seatPhone(a *seat) (spec phone.Spec, up, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode := phone.Held
	if a.onHook {
		mode = phone.OnHook
	}
	return s.phoneSpec(a.row.TenantID, a.row.ID, a.extension, string(mode)), a.phoneUp, a.extension != ""
}
