package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/fairshare"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/cluster"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/hostlink"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// Controller runs the calls of one switch host.
type Controller struct {
	host
	// supervisors are those whose phones listen to calls.
	supervisors *supervisors
	nodes       cluster.Ledger // nil: other controllers are none of this one's business
	// runLink keeps the link up until its context ends.
	runLink func(ctx context.Context)
	// ping asks the database for a sign of life.
	ping func(ctx context.Context) error

	draining atomic.Bool

	mu       sync.Mutex
	listener *esl.Listener
	running  sync.WaitGroup // listener, link, reconcile, and what they start beside themselves
	// stopIO ends listener and link, stopCalls what calls still do; nil before Start.
	stopIO    context.CancelFunc
	stopCalls context.CancelFunc
	closed    bool

	starts sync.Mutex // guards run and late: no actor starts once Close waits for all
	// run runs an actor; nil before Start and once Close waits.
	run func(a *actor)
	// late gives a unit back for a call that has ended; nil before Start.
	late func(a *core, unit uuid.UUID)
}

// New makes a controller. It does nothing before Start.
func New(cfg Config, st *store.Store, m *media.Server, gate admission.Gate, h switchctl.AnswerHandler) (*Controller, error) {
	c, err := build(cfg, gate, h)
	if err != nil {
		return nil, err
	}
	l := ledger.New(st, gate, h, c.log, cfg.TokenKeys)
	l.ReachedBy(cfg.Peer)
	c.nodes = l
	c.ping = st.Ping
	link := hostlink.New(hostlink.Options{
		Addr: c.cfg.ESLAddr, Password: c.cfg.ESLPassword, Log: c.log, Clock: c.clock, Metrics: c.metrics.link,
		OnEvent: c.dispatch, OnUp: c.resync, OnSkew: c.skewed, Sight: c.sight,
	})
	c.runLink = link.Run
	c.wire(l, mediaAdapter{server: m}, link)
	return c, nil
}

// build checks the configuration, with all faults at once, and makes a controller without its ports.
func build(cfg Config, gate admission.Gate, h switchctl.AnswerHandler) (*Controller, error) {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, errors.New("switchctl: configuration: "+what))
		}
	}
	need(cfg.NodeID != "", "NodeID is empty")
	need(fs.CheckVariable("rm_node", cfg.NodeID) == nil, "NodeID can't be a channel variable")
	need(cfg.TokenKeys != nil, "TokenKeys is missing")
	need(cfg.ControlURL != nil, "ControlURL is not set")
	need(cfg.RecordDir != "", "RecordDir is empty")
	need(gate != nil && h != nil, "gate and answer handler are needed")
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	cfg.Context = cmp.Or(cfg.Context, "ringmaster")
	cfg.CarrierProfile = cmp.Or(cfg.CarrierProfile, "external")
	cfg.VoiceAgentProfile = cmp.Or(cfg.VoiceAgentProfile, "voice_agents")
	cfg.MediaProfile = cmp.Or(cfg.MediaProfile, "internal")
	if cfg.SocketPeers == nil {
		cfg.SocketPeers = netguard.Loopback()
	}
	cfg.NodeGrace = cmp.Or(cfg.NodeGrace, cluster.DefaultGrace)
	if len(cfg.Subprotocols) == 0 {
		cfg.Subprotocols = []string{media.SubprotocolAlpha, media.SubprotocolBeta}
	}
	if cfg.Clock == nil {
		cfg.Clock = rt.SystemClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Controller{host: host{
		cfg: cfg, log: cfg.Logger, clock: cfg.Clock, gate: gate, handler: h, registry: newRegistry(), sight: hostlink.NewSight(""),
	}}
	c.cdrs = cdr.NewFolder(cfg.CDRDir, cfg.Clock, cfg.Logger, c.liveChannel)
	c.releaseLate = c.giveBackLate
	c.logBytes = fairshare.NewBytes(tenantLogBytes)
	c.goes.guard = func(fn func()) bool { return c.guard(c.log, fn) }
	var err error
	c.metrics, err = newMetrics(cfg.Registerer, func() float64 { return float64(c.registry.len()) })
	if err != nil {
		return nil, fmt.Errorf("switchctl: register metrics: %w", err)
	}
	return c, nil
}

// wire gives the controller its ports.
func (c *Controller) wire(l callLedgers, m mediaServer, link switchLink) {
	c.ledger, c.media, c.link = l, m, link
	c.phones = phone.NewBook(phone.Host{
		NodeID: c.cfg.NodeID, Context: c.cfg.Context, Profile: c.cfg.MediaProfile, Link: link, CDRs: c.cdrs, Watcher: c.cfg.Phones,
		Clock: c.clock, Log: c.log, Go: c.goes.Go, Metrics: c.metrics.phones, Panics: c.metrics.panics, Recovered: c.metrics.recovered,
		Draining: switchctl.ErrDraining,
	})
	c.supervisors = newSupervisors(&c.host)
}

// Start binds the outbound listener (a second controller on its port ends here), finds the calls that are open, and
// links to the switch. It returns once sockets are taken; the link comes up beside it, see Ready. ctx bounds the start
// only.
func (c *Controller) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.listener != nil {
		return errors.New("switchctl: start: controller was started before")
	}
	listener, err := esl.Listen(ctx, c.cfg.OutboundListen, c.cfg.SocketPeers.Allow)
	if err != nil {
		return err
	}
	life := context.WithoutCancel(ctx)
	calls, stopCalls := context.WithCancel(life)
	c.accept(calls)
	if err := c.recover(ctx); err != nil {
		c.refuseStarts()
		stopCalls()
		c.goes.Wait()
		return errors.Join(err, listener.Close())
	}
	io, stopIO := context.WithCancel(life)
	c.listener, c.stopIO, c.stopCalls = listener, stopIO, stopCalls
	c.running.Go(func() {
		if err := listener.Serve(io, esl.Options{Logger: c.log}, c.serveSocket); err != nil {
			c.log.ErrorContext(io, "outbound listener ended", "error", err)
		}
	})
	c.running.Go(func() { c.supervise(io, c.runLink) })
	c.running.Go(func() { c.supervise(io, c.reconcile) })
	c.running.Go(func() { c.supervise(io, c.keepPresent) })
	c.running.Go(func() { c.supervise(io, c.cdrs.KeepDeleting) })
	if c.nodes != nil {
		c.running.Go(func() { c.supervise(io, c.keeper(c.nodes).Run) })
	}
	c.log.InfoContext(ctx, "call control is up", "outbound_addr", listener.Addr().String(), "node", c.cfg.NodeID)
	return nil
}

// accept lets actors start; they live until ctx ends.
func (c *Controller) accept(ctx context.Context) {
	c.starts.Lock()
	defer c.starts.Unlock()
	c.run = func(a *actor) { c.goes.Go(func() { a.run(ctx) }) }
	c.phones.Accept(ctx)
	c.supervisors.accept(ctx)
	c.late = func(a *core, unit uuid.UUID) {
		a.record(ctx, "late transfer unit", func(ctx context.Context) error {
			return c.ledger.ReleaseUnit(ctx, a.tenant, unit)
		}, nil)
	}
}

func (c *Controller) refuseStarts() {
	c.starts.Lock()
	defer c.starts.Unlock()
	c.run = nil
	c.phones.Refuse()
}

// start runs an actor. After Close has begun it does not: the call's row stays open, and the next start finds it.
func (c *Controller) start(a *actor) bool {
	c.starts.Lock()
	defer c.starts.Unlock()
	if c.run == nil {
		c.registry.remove(a.core)
		return false
	}
	c.run(a)
	return true
}

// recover makes actors for the node's open calls; what they do waits for the switch. It waits for PostgreSQL.
func (c *Controller) recover(ctx context.Context) error {
	for {
		before, err := c.ledger.NodeStarted(ctx, c.cfg.NodeID, c.clock.Now())
		if err == nil {
			c.sight.Left(before)
			if _, err = c.adopt(ctx, 0); err == nil {
				return nil
			}
		}
		if !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		c.log.WarnContext(ctx, "database unavailable, call control waits", "error", err)
		if paused := rt.Pause(ctx, c.clock, time.Second); paused != nil {
			return errors.Join(err, paused)
		}
	}
}

// OutboundAddr is where the dialplan's socket application must connect to; nil before Start.
func (c *Controller) OutboundAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listener == nil {
		return nil
	}
	return c.listener.Addr()
}

// CanOriginate tells why calls can't be placed just now: [switchctl.ErrDraining], [switchctl.ErrLinkDown]; nil when they can.
func (c *Controller) CanOriginate() error {
	switch {
	case c.draining.Load():
		return switchctl.ErrDraining
	case c.link.Generation() == 0:
		return switchctl.ErrLinkDown
	}
	return nil
}

// errStopped is of a call that was admitted and not dialed: its record is closed by the next start. It is not [switchctl.ErrDraining], after
// which the same request may be made again: there would be two records of it.
var errStopped error = &fault.Error{
	Kind: fault.Unavailable, Code: "service_unavailable", Detail: "This host stopped while it placed the call.", Text: "the controller has stopped",
}

// Originate dials one admitted call. It is up to the switch when it returns; its fate comes as events. Of a test key's call there is
// the record alone, which ends at once. A transfer's leg is its call's to dial. Errors: [admission.ErrUsed], and a [*fault.Error] (503) when the controller
// stopped meanwhile.
func (c *Controller) Originate(ctx context.Context, adm *admission.Admission) (db.Call, error) {
	terms, err := adm.Use()
	if err != nil {
		return db.Call{}, fmt.Errorf("switchctl: originate: %w", err)
	}
	if terms.Purpose == admission.PurposeTransfer {
		return db.Call{}, fmt.Errorf("switchctl: originate: the admission is for a transfer of call %s", terms.Call.ID)
	}
	a := c.newActor(terms.Call, terms.Call.ID.String())
	if terms.RingTimeout <= 0 {
		terms.RingTimeout = defaultRing
	}
	a.dial.adm = terms
	if !c.registry.add(a.core) {
		return db.Call{}, fmt.Errorf("switchctl: originate: call %s is live already", terms.Call.ID)
	}
	a.post(begin{})
	if !c.start(a) {
		return terms.Call, fmt.Errorf("switchctl: originate: call %s: %w", terms.Call.ID, errStopped)
	}
	return terms.Call, nil
}

// Runs tells whether this controller has a call of a tenant's.
func (c *Controller) Runs(tenantID, callID uuid.UUID) bool {
	a := c.registry.call(callID)
	return a != nil && a.tenant == tenantID
}

// Live is the number of calls that this controller runs.
func (c *Controller) Live() int { return c.registry.len() }

// SweepCallRecords deletes the switch's call records of this host that are older than a day, except those of calls that are open, and
// tells how many. A folder that can't be read or written is a warning.
func (c *Controller) SweepCallRecords(ctx context.Context, now time.Time) (deleted int) {
	return c.cdrs.Sweep(ctx, now)
}

// liveChannel tells whether a channel belongs to a call or a phone that is not over.
func (c *Controller) liveChannel(channel string) bool {
	return c.registry.find(channel, "") != nil || c.phones.Agent(channel) != nil
}

// Ready tells why calls can't be placed just now; nil when they can.
func (c *Controller) Ready(ctx context.Context) error {
	var faults []error
	if c.draining.Load() {
		faults = append(faults, switchctl.ErrDraining)
	}
	if c.link.Generation() == 0 {
		faults = append(faults, switchctl.ErrLinkDown)
	}
	if c.ping != nil {
		if err := c.ping(ctx); err != nil {
			faults = append(faults, fmt.Errorf("switchctl: database: %w", err))
		}
	}
	return errors.Join(faults...)
}

// Drain stops taking calls and waits until those that live have ended, or ctx has. With DrainHangup it ends them, and the legs of
// agents' phones, which stay up otherwise for the next start.
func (c *Controller) Drain(ctx context.Context) error {
	c.draining.Store(true)
	for {
		if c.cfg.DrainHangup {
			for _, a := range c.registry.all() {
				// One that can't be told is told on the next round.
				_ = a.box.Put(hangupCommand{cause: ledger.CauseNormalClearing, reply: make(chan error, 1)})
			}
		}
		again := make(chan struct{})
		t := c.clock.AfterFunc(time.Second, func() { close(again) })
		select {
		case <-c.registry.empty():
			t.Stop()
			if c.cfg.DrainHangup {
				c.supervisors.end()
				return c.phones.ReleaseAll(ctx)
			}
			return nil
		case <-again:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("switchctl: drain: %d calls are up: %w", c.registry.len(), context.Cause(ctx))
		}
	}
}

// Close lets go of the calls, which stay up on the switch and are found again by the next start, and ends what runs:
// sockets and link, then what calls still write (until ctx ends). It may be called more than once, and before Start.
func (c *Controller) Close(ctx context.Context) error {
	c.draining.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.listener == nil {
		c.closed = true
		return nil
	}
	c.closed = true
	err := c.listener.Close()
	c.refuseStarts()
	c.supervisors.end() // while calls and phones are still there to hear of it
	for _, a := range c.registry.all() {
		a.post(detach{})
	}
	c.phones.LetGo()
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		c.goes.Wait()
	}()
	select {
	case <-settled:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("switchctl: close: calls still had work: %w", context.Cause(ctx)))
	}
	c.stopIO()
	c.running.Wait()
	c.stopCalls()
	<-settled
	return err
}

// giveBackLate gives back the unit of a transfer that was admitted after its call's end.
func (c *Controller) giveBackLate(a *core, unit uuid.UUID) {
	c.starts.Lock()
	late := c.late
	c.starts.Unlock()
	if late != nil {
		late(a, unit)
	}
}
