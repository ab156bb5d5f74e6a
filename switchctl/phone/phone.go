package phone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// heldRing is how long a phone that is to be held may take to pick up, onHookRing one that is rung without a limit given.
	heldRing   = 20 * time.Second
	onHookRing = 20 * time.Second
	// redialMin and redialMax bound the pause before a held leg is dialed again. It doubles with each failure.
	redialMin = time.Second
	redialMax = 30 * time.Second
	// unregisteredPause is for a phone that is not registered: its registration has it dialed at once.
	unregisteredPause = 15 * time.Second
	// settledLeg is how long a leg must have lasted for its loss to be the first failure again.
	settledLeg = 10 * time.Second
	// checkEvery repeats a look for a leg whose end or answer is overdue.
	checkEvery = 5 * time.Second
	// strayTimeout is how long a leg that was found on the switch waits for somebody to hold its phone, or, of a phone on the hook, for its call.
	strayTimeout = time.Minute
	// ConnectTimeout is how long a caller, and an agent who dials, wait for a held phone that is being connected.
	ConnectTimeout = 5 * time.Second
	// mailboxLimit bounds what waits for one phone.
	mailboxLimit = 256
	// silence ends the leg of a phone that sends nothing any more (media_timeout).
	silence = 5 * time.Second
)

// legPhase is how far the leg of a phone is.
type legPhase int

const (
	legNone legPhase = iota
	legDialing
	legUp
	legEnding // it was killed; its end is still to come
)

type timerKind int

const (
	timerRedial  timerKind = iota // the held leg is due to be dialed
	timerOverdue                  // timeout of an originate, or of a killed leg's end
	timerStray                    // timeout of a found leg that nobody has
	timerWanted                   // timeout of a held leg that a caller waits for
)

// phone runs one agent's phone. All fields below the line belong to its goroutine.
type phone struct {
	book  *Book
	agent uuid.UUID
	box   *rt.Mailbox[message]
	log   *slog.Logger
	// state is what the watcher was told last.
	state atomic.Pointer[State]

	// ---
	spec Spec
	// held: somebody holds the phone; without that it ends when it has no leg and no call.
	held  bool
	phase legPhase
	leg   string // channel UUID
	// attempt numbers the originates; generation is the host link's that the newest was sent over.
	attempt    int
	generation uint64
	// picked: the newest attempt was picked up; placed: its originate has ended, and the switch has sent the leg where it goes by itself.
	picked, placed bool
	// wanted is the newest attempt while its leg is still wanted, else 0: for who looks where the phone is, before the switch is asked.
	wanted atomic.Int64
	// registeredIn is the newest attempt during which the phone has registered: the switch may have looked for it before.
	registeredIn int
	upSince      time.Time
	// reason is why the leg is not up.
	reason   string
	failures int
	claim    *claim
	ringing  bool
	// sounds keeps what is played on the leg, and what ends it, in order.
	sounds rt.Serial
	// redialing: the switch or we have ended the leg, through no fault of the phone's, and it is dialed again at once.
	redialing bool
	// contact is where the phone has registered, dialed where the leg's was; empty for what was not seen.
	contact  string
	dialed   string
	releases []chan<- struct{}
	timers   *rt.Timers[timerKind]
	// compared is the generation of the host link whose channels have been compared with the phone's leg.
	compared uint64
}

func newPhone(b *Book, spec Spec) *phone {
	p := &phone{
		book: b, agent: spec.AgentID, box: rt.NewMailbox[message](mailboxLimit, ErrUnknown, errFull), spec: spec,
		log: b.host.Log.With("agent_id", spec.AgentID.String(), "extension", spec.Extension),
	}
	p.timers = rt.NewTimers(b.host.Clock, func(kind timerKind, serial uint64) { p.post(timer{kind: kind, serial: serial}) })
	p.state.Store(&State{TenantID: spec.TenantID, AgentID: spec.AgentID, Up: spec.Mode == OnHook})
	return p
}

// run owns the phone until nobody needs it, or the controller stops. A leg that is up stays on the switch then.
func (p *phone) run(ctx context.Context) {
	defer func() {
		p.timers.Stop()
		for _, m := range p.book.drop(p) {
			p.refuse(m)
		}
		p.released()
	}()
	for {
		batch, ok := p.box.Next(ctx)
		if !ok {
			return
		}
		for i, m := range batch {
			if _, stop := m.(detach); stop {
				for _, late := range batch[i+1:] {
					p.refuse(late)
				}
				return
			}
			p.step(ctx, m)
			p.tell()
		}
		if !p.held && p.claim == nil && p.phase == legNone && p.book.retire(p) {
			return
		}
	}
}

// step takes one message; a panic is counted and costs the phone its leg, not the process.
func (p *phone) step(ctx context.Context, m message) {
	defer func() {
		if r := recover(); r != nil {
			p.book.host.Panics.Inc()
			p.log.ErrorContext(ctx, "panic in a phone", "panic", fmt.Sprint(r), "message", m.Name(), "stack", string(debug.Stack()))
			p.legOver(ctx, Lost)
		}
	}()
	switch m := m.(type) {
	case hold:
		p.hold(ctx, m.spec)
	case release:
		p.release(ctx, m.done)
	case claim:
		p.claimed(ctx, m)
	case free:
		p.freed(ctx, m)
	case ring:
		p.ring(ctx, m.on)
	case seen:
		p.registration(ctx, m)
	case legEvent:
		p.legEvent(ctx, m)
	case dialed:
		p.originateReply(ctx, m)
	case found:
		p.found(ctx, m)
	case compared:
		p.compared = m.generation
		if p.held && p.spec.Mode == Held && p.phase == legNone && !p.timers.Armed(timerRedial) { // it has waited for this
			p.dialHeld(ctx)
		}
	case swept:
		p.swept(ctx, m)
	case missing:
		if m.channel == p.leg && p.phase == legUp {
			p.check(ctx)
		}
	case checked:
		p.checked(ctx, m)
	case timer:
		p.due(ctx, m)
	default:
		p.log.WarnContext(ctx, "unexpected message for a phone", "message", m.Name())
	}
}

// post sends a message to the phone; one that comes too late is dealt with as refused.
func (p *phone) post(m message) {
	if err := p.box.Put(m); err != nil {
		p.refuse(m)
	}
}

// refuse answers what the phone will not read any more.
func (p *phone) refuse(m message) {
	switch m := m.(type) {
	case release:
		close(m.done)
	case claim:
		if m.channel != "" { // the call has the leg already, as it believes
			m.Call.LegGone(Lost)
			return
		}
		m.Call.LegRefused(Lost)
	}
}

// tell brings what has changed to the watcher.
func (p *phone) tell() {
	now := State{TenantID: p.spec.TenantID, AgentID: p.agent, Up: p.phase == legUp || p.redialing, Reason: p.reason}
	if p.spec.Mode == OnHook && p.reason == "" {
		now.Up = true
	}
	if now.Up {
		now.Reason = ""
	}
	if p.claim != nil {
		id := p.claim.Call.CallID()
		now.CallID = &id
	}
	before := p.state.Load()
	same := before.CallID == now.CallID || before.CallID != nil && now.CallID != nil && *before.CallID == *now.CallID
	if same && before.Up == now.Up && before.Reason == now.Reason && before.TenantID == now.TenantID {
		return
	}
	p.state.Store(&now)
	if before.Up != now.Up {
		p.log.Info("agent's phone state changed", "up", now.Up, "reason", now.Reason)
	}
	if w := p.book.host.Watcher; w != nil && p.held {
		w.PhoneChanged(now)
	}
}

// hold keeps the phone. A held one is dialed; one that was found with its leg up is as it should be.
func (p *phone) hold(ctx context.Context, spec Spec) {
	before := p.spec
	p.spec = spec
	if spec.Mode == Held {
		p.disarm(timerStray)
	}
	if account(before.Extension, before.Domain) != account(spec.Extension, spec.Domain) {
		p.book.rename(p, before, spec)
	}
	if !p.held {
		p.held = true
		p.reason, p.failures = "", 0
		p.announceState()
	}
	switch {
	case p.claim != nil:
	case before.Mode == OnHook && spec.Mode == OnHook && p.timers.Armed(timerStray): // its call is being found
	case p.phase != legNone && (spec.Mode == OnHook || before.Extension != spec.Extension || before.Domain != spec.Domain):
		p.hangup(ctx)
	case p.phase == legNone && spec.Mode == Held:
		p.dialHeld(ctx)
	}
}

// announceState tells a new holder how the phone stands, also when nothing has changed since the last one.
func (p *phone) announceState() {
	if p.phase == legUp || p.spec.Mode == OnHook {
		s := *p.state.Load()
		s.Up = false
		p.state.Store(&s)
	}
}

// release gives the phone up: its leg ends with the call that it is in.
func (p *phone) release(ctx context.Context, done chan<- struct{}) {
	p.held = false
	p.disarm(timerRedial)
	p.releases = append(p.releases, done)
	if p.claim != nil {
		return
	}
	if p.phase == legNone || !p.hangup(ctx) {
		p.released()
	}
}

func (p *phone) released() {
	for _, done := range p.releases {
		close(done)
	}
	p.releases = nil
}

// claimed takes the phone for a call.
func (p *phone) claimed(ctx context.Context, m claim) {
	switch {
	case m.channel != "":
		if p.phase != legUp || p.leg != m.channel {
			m.Call.LegGone(Lost)
			return
		}
		p.claim = &m
		p.disarm(timerStray)
	case p.claim != nil:
		m.Call.LegRefused(Busy)
	case p.phase == legUp:
		p.claim = &m
		p.quiet(ctx)
		m.Call.LegReady(p.leg)
	case p.spec.Mode == Held && p.phase == legDialing && (p.redialing || p.held), p.held && p.phase == legEnding:
		p.claim = &m
		p.arm(timerWanted, ConnectTimeout)
		m.Call.LegWaits()
	case p.spec.Mode == OnHook && p.phase == legNone:
		p.claim = &m
		m.Call.LegWaits()
		p.dial(ctx, p.ringTime())
	default:
		m.Call.LegRefused(cmp.Or(p.reason, NoAnswer))
	}
}

// ringTime is how long the phone rings.
func (p *phone) ringTime() time.Duration {
	switch {
	case p.spec.Mode == Held:
		return heldRing
	case p.claim != nil && p.claim.Ring > 0:
		return p.claim.Ring
	}
	return onHookRing
}

// freed ends a call's claim. A held leg goes back to its silence by itself.
func (p *phone) freed(ctx context.Context, m free) {
	if p.claim == nil || p.claim.Call != m.call {
		return
	}
	p.claim = nil
	p.disarm(timerWanted)
	switch {
	case p.phase == legNone || p.phase == legEnding:
	case p.phase == legDialing && p.spec.Mode == Held && p.held:
		// Nobody waits for it any more, and it comes up all the same.
	case p.spec.Mode == OnHook || !p.held:
		p.hangup(ctx)
	case p.moved():
		p.move(ctx)
	case m.Doubt:
		p.check(ctx)
	case m.Told && p.phase == legUp:
		p.sound(ctx, fs.StopPlaying(p.leg))
	}
}

// ring starts or ends ringback on the held leg.
func (p *phone) ring(ctx context.Context, on bool) {
	if !on {
		p.quiet(ctx)
		return
	}
	if p.phase != legUp || p.claim != nil || p.ringing {
		return
	}
	p.ringing = true
	p.sound(ctx, fs.Play(p.leg, fs.Ringback))
}

func (p *phone) quiet(ctx context.Context) {
	if p.ringing && p.phase == legUp {
		p.sound(ctx, fs.StopPlaying(p.leg))
	}
	p.ringing = false
}

// command sends what may fail without anything following from it: the leg's end is told by its events.
func (p *phone) command(ctx context.Context, cmd fs.Command) {
	p.book.host.Go(func() {
		if _, err := p.book.host.Link.API(ctx, cmd); err != nil {
			p.log.DebugContext(ctx, "command to an agent's phone failed", "error", err)
		}
	})
}

// sound starts or ends what the leg plays, one after the other: what ends a broadcast comes after it.
func (p *phone) sound(ctx context.Context, cmd fs.Command) {
	p.sounds.Add(p.book.host.Go, func() {
		if _, err := p.book.host.Link.Background(ctx, cmd); err != nil {
			p.log.DebugContext(ctx, "command to an agent's phone failed", "error", err)
		}
	})
}

// dialHeld brings a held leg up, unless the switch may have one from before: then the comparison with its channels does.
func (p *phone) dialHeld(ctx context.Context) {
	if p.knows() {
		p.dial(ctx, heldRing)
	}
}

// knows reports whether the leg that the switch may have from before is known, so that no second one is dialed beside it.
func (p *phone) knows() bool {
	generation := p.book.host.Link.Generation()
	return generation != 0 && p.compared == generation
}

// dial rings the phone.
func (p *phone) dial(ctx context.Context, ring time.Duration) {
	p.disarm(timerRedial)
	channel, err := uuid.NewV7()
	if err != nil {
		p.log.ErrorContext(ctx, "dialing the agent's phone failed", "error", err)
		p.legOver(ctx, Lost)
		return
	}
	p.attempt++
	p.picked, p.placed = false, false
	p.dialed = p.contact
	p.phase, p.leg, p.generation = legDialing, channel.String(), p.book.host.Link.Generation()
	p.book.bind(p, p.leg)
	p.arm(timerOverdue, ring+fs.OriginateSlack)
	attempt := p.attempt
	p.wanted.Store(int64(attempt))
	spec, v := p.spec, p.originate(p.leg, ring)
	p.book.host.Go(func() {
		done := func(body string, err error) { p.post(dialed{attempt: attempt, body: body, err: err}) }
		cmd, err := p.book.command(ctx, spec, v)
		var elsewhere *ContactError
		switch {
		case errors.As(err, &elsewhere):
			p.log.WarnContext(ctx, "agent's phone not dialed: invalid contact", "error", err)
			done("-ERR USER_NOT_REGISTERED", nil)
			return
		case errors.Is(err, errNotRegistered):
			done("-ERR USER_NOT_REGISTERED", nil)
			return
		case err == nil && p.wanted.Load() != int64(attempt):
			p.post(dialed{attempt: attempt, err: context.Canceled, unsent: true})
			return
		case err == nil:
			err = p.book.host.Link.BgAPI(ctx, cmd, done)
		}
		if err != nil {
			var unfit *fs.VariableError
			unsent := fs.IsUnsent(err) || errors.As(err, &unfit) || cmd.IsZero()
			p.post(dialed{attempt: attempt, err: err, unsent: unsent})
		}
	})
}

// originate are the variables of a leg that rings the phone: one that is held is asked to answer by itself.
func (p *phone) originate(channel string, ring time.Duration) fs.Variables {
	number, name := p.spec.Extension, "Ringmaster"
	if c := p.claim; c != nil && c.Number != "" {
		number = callerNumber(c.Number)
		name = cmp.Or(callerName(c.Caller), number)
	}
	v := fs.Variables{
		"origination_uuid":             channel,
		"originate_timeout":            fs.RingSeconds(ring),
		"ignore_early_media":           "true",
		"origination_caller_id_number": number,
		"origination_caller_id_name":   name,
		"media_timeout":                fs.Millis(silence),
		"rm_role":                      Role,
		"rm_node":                      p.book.host.NodeID,
		"rm_tenant_id":                 p.spec.TenantID.String(),
		"rm_agent_id":                  p.agent.String(),
		"rm_extension":                 p.spec.Extension,
		"rm_domain":                    p.spec.Domain,
		"rm_phone_mode":                string(p.spec.Mode),
	}.With(fs.WhileBridged()...)
	if p.spec.Mode == Held {
		v["sip_auto_answer"] = "true" // Call-Info with answer-after=0 (mod_sofia.c)
		v["sip_h_Alert-Info"] = "info=alert-autoanswer;delay=0"
	}
	return v
}

// Extension is the dialplan's, which plays silence to an agent's leg.
const Extension = "rm_agent"

// hangup ends the leg; false when that can't be asked for.
func (p *phone) hangup(ctx context.Context) bool {
	if p.book.host.Link.Generation() == 0 {
		return false
	}
	p.phase = legEnding
	p.wanted.Store(0)
	p.arm(timerOverdue, fs.KillTimeout)
	p.command(ctx, fs.Kill(p.leg, ledger.CauseNormalClearing))
	return true
}

func (p *phone) arm(kind timerKind, d time.Duration) { p.timers.Arm(kind, d) }

func (p *phone) disarm(kind timerKind) { p.timers.Disarm(kind) }
