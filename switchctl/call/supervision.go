package call

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// eventSupervise names in errors what a supervisor's session asks of a call.
const eventSupervise = "supervise"

// supervisors are the sessions of supervisors whose phones this controller has rung. Each has a goroutine of its own, which ends before the phones'
// do.
type supervisors struct {
	c        *host
	mu       sync.Mutex
	sessions map[uuid.UUID]*supervision
	// run starts a session; nil before accept and after end.
	run func(s *supervision)
}

func newSupervisors(c *host) *supervisors {
	return &supervisors{c: c, sessions: map[uuid.UUID]*supervision{}}
}

// accept lets sessions start; they live until ctx ends.
func (b *supervisors) accept(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run = func(s *supervision) { b.c.goes.Go(func() { s.run(ctx) }) }
}

// end lets no session start any more, ends those that run, and waits until their phones have been freed. One that was admitted before, and starts only
// now, would outlive the rest.
func (b *supervisors) end() {
	b.mu.Lock()
	b.run = nil
	all := make([]*supervision, 0, len(b.sessions))
	for _, s := range b.sessions {
		all = append(all, s)
	}
	b.mu.Unlock()
	for _, s := range all {
		s.post(supervisionStop{})
	}
	for _, s := range all {
		<-s.done // within listenTimeout for each command that is on its way
	}
}

// start takes a session and runs it.
func (b *supervisors) start(s *supervision) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.run == nil:
		return switchctl.ErrDraining
	case b.sessions[s.id] != nil:
		return &switchctl.StateError{State: "running", Event: eventSupervise, Detail: "the session runs already"}
	}
	b.sessions[s.id] = s
	b.run(s)
	return nil
}

// find gives a session that runs; nil when there is none.
func (b *supervisors) find(id uuid.UUID) *supervision {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id]
}

func (b *supervisors) forget(s *supervision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[s.id] == s {
		delete(b.sessions, s.id)
	}
}

// supervisionRing is how long a supervisor's phone rings.
const supervisionRing = 20 * time.Second

// StartSupervision rings the supervisor's phone and returns once it listens, or waits for its first call; see [switchctl.Supervisions].
func (c *Controller) StartSupervision(ctx context.Context, sp switchctl.Supervision) error {
	if err := c.CanOriginate(); err != nil {
		return err
	}
	if sp.CallID != uuid.Nil {
		if err := c.canSupervise(ctx, sp.TenantID, sp.CallID); err != nil {
			return err
		}
	}
	if err := c.phones.Check(sp.Phone); err != nil {
		return err
	}
	s := newSupervision(c.supervisors, sp)
	if err := c.supervisors.start(s); err != nil {
		return err
	}
	refused, err := rt.Ask(ctx, s.box, s.done, func(reply chan<- error) supervisionMessage { return supervisionStart{reply: reply} })
	if err == nil {
		return refused
	}
	s.post(supervisionEnd{reply: make(chan error, 1)}) // nobody waits for it any more
	return err
}

// canSupervise refuses a call that can't be listened to before a phone rings for it.
func (c *Controller) canSupervise(ctx context.Context, tenant, call uuid.UUID) error {
	if _, err := c.liveCall(ctx, tenant, call, eventSupervise); err != nil {
		return err
	}
	status, _, err := c.ledger.CallState(ctx, tenant, call)
	if err == nil && (status == ledger.StatusDialing || status == ledger.StatusRinging) {
		err = &switchctl.StateError{State: status, Event: eventSupervise, Detail: "the target call is " + status}
	}
	return err
}

// SuperviseCall has a session that follows an agent listen to the agent's next call.
func (c *Controller) SuperviseCall(ctx context.Context, session, call uuid.UUID) error {
	return c.askSupervision(ctx, session, func(reply chan<- error) supervisionMessage { return supervisionFollow{call: call, reply: reply} })
}

// ChangeSupervision gives a running session another mode. It returns when that is decided, which a session does in bounded time, whatever becomes of
// whoever asks: who hears a supervisor is recorded by the answer.
func (c *Controller) ChangeSupervision(ctx context.Context, session uuid.UUID, mode switchctl.SupervisorMode) error {
	ctx = context.WithoutCancel(ctx)
	return c.askSupervision(ctx, session, func(reply chan<- error) supervisionMessage { return supervisionMode{mode: mode, reply: reply} })
}

// EndSupervision hangs the supervisor's phone up. One that has ended already is what was wanted.
func (c *Controller) EndSupervision(ctx context.Context, session uuid.UUID) error {
	err := c.askSupervision(ctx, session, func(reply chan<- error) supervisionMessage { return supervisionEnd{reply: reply} })
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// askSupervision asks a running session; store.ErrNotFound when there is none.
func (c *Controller) askSupervision(ctx context.Context, session uuid.UUID, build func(reply chan<- error) supervisionMessage) error {
	s := c.supervisors.find(session)
	if s == nil {
		return store.ErrNotFound
	}
	refused, err := rt.Ask(ctx, s.box, s.done, build)
	if err == nil {
		err = refused
	}
	return err
}

// liveCall gives a tenant's call that runs here. Errors: store.ErrNotFound, and a [*switchctl.StateError] for one that has ended, or that is
// on another host.
func (c *host) liveCall(ctx context.Context, tenant, id uuid.UUID, event string) (*core, error) {
	if a := c.registry.call(id); a != nil && a.tenant == tenant {
		return a, nil
	}
	status, _, err := c.ledger.CallState(ctx, tenant, id)
	switch {
	case err != nil:
		return nil, err
	case status == ledger.StatusCompleted || status == ledger.StatusFailed:
		return nil, &switchctl.StateError{State: status, Event: event, Detail: "the target call has ended"}
	}
	return nil, &switchctl.StateError{State: status, Event: event, Detail: "the target call is on another host"}
}

// leftSupervision tells whether a channel is the leg of a supervisor whose session a crash of ours has ended: one that was rung for it, or a held one
// that listens.
func leftSupervision(ev *esl.Event) bool {
	return ev.Var(varSupervision) != "" && (ev.Var("rm_phone_mode") != string(phone.Held) || ev.Var("current_application") == fs.EavesdropApp)
}

// endLeftSupervision ends such a leg, and has the call that it listens to know.
func (c *Controller) endLeftSupervision(ctx context.Context, channel string, ev *esl.Event) error {
	c.log.WarnContext(ctx, "ending a supervisor's leg that the previous process left", "channel", channel,
		"supervision_id", ev.Var(varSupervision), "call_id", ev.Var(varSupervised))
	c.metrics.recovered.WithLabelValues("orphan_killed").Inc()
	err := fs.EndChannel(ctx, c.link, channel, ledger.CauseNormalClearing)
	if id, invalid := uuid.Parse(ev.Var(varSupervised)); err == nil && invalid == nil {
		if a := c.registry.call(id); a != nil {
			a.post(superviseLost{})
		}
	}
	return err
}
