package call

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// roleTap marks a leg that runs eavesdrop on a caller's channel.
	roleTap = "tap"
	// maxTaps bounds the taps of one call: each costs the switch about as much as half a bridge. Supervisors have places of their own, so that
	// voice agents' monitors can't keep them out.
	maxTaps        = 8
	maxSupervisors = 4
	// tapTimeout is how long a leg may take to come up, tapRetry the pause before it is dialed again, and tapStart how long
	// the first one may take in all, its socket included.
	tapTimeout = 3 * time.Second
	tapRetry   = 300 * time.Millisecond
	tapStart   = 9 * time.Second
	// maxTapTries is how often in a row a leg is dialed; one that was up for tapStable has earned them again.
	maxTapTries = 6
	tapStable   = 5 * time.Second
)

// tapRequest asks a call's actor for a fork of its audio.
type tapRequest struct {
	id   uuid.UUID
	spec media.SessionSpec
	// owner is the call that listens; nil when the call itself does.
	owner *core
	// audience is who hears its socket.
	audience audience
	// sameAgent: it may listen for as long as the call is with the owner's voice agent.
	sameAgent bool
}

// tapUp tells that a tap runs, and who was on the line when it began.
type tapUp struct {
	members []ledger.ConferenceMember
	err     error
}

// tap is a fork of a call's audio. The actor of the call that is tapped owns it: it dials the legs, dials them again when they
// die, and ends them with the call. All fields belong to the actor's goroutine.
type tap struct {
	id    uuid.UUID
	owner *core
	fork  *tapFork // nil until the media endpoint has opened it
	legs  []*tapLeg
	// reply is answered once, when all legs are up or the tap has failed; startBy is its deadline.
	reply   chan<- tapUp
	startBy time.Time
	cancel  context.CancelFunc // ends the dial of the socket
	closed  bool
	// held: the call's audio is kept on the switch for this tap.
	held bool
	// detects: it listens for a machine.
	detects bool
	// audience is who hears what its socket sends. tunes keeps the changes of that in order, and tuning counts those on their way; hushed: nothing
	// is said until the switch has the last one.
	audience audience
	tunes    rt.Serial
	tuning   int
	hushed   bool
	// said: it has played a clip.
	said bool
	// sameAgent is the request's.
	sameAgent bool
}

// tapLeg is one eavesdropping leg of the switch.
type tapLeg struct {
	forkLeg
	channel string
	up      bool
	dialing bool
	tries   int
	upAt    time.Time
	// mux is who hears the leg; 0 for one that says nothing.
	mux fs.MuxMode
	// due is when something must be done about a leg that is not up; zero while it waits for the call's audio to be taken
	// back from bypass.
	due time.Time
}

// taps fork this call's audio.
type taps struct {
	*core
	bypass  *bypass
	machine *machine
	parties *parties
	voice   *voice
	list    []*tap
}

// tapping is a message of a tap.
func (ts *taps) tapping(ctx context.Context, m message) (state, error) {
	switch m := m.(type) {
	case tapCommand:
		return ts.state, ts.startTap(ctx, m)
	case tapStop:
		if t := ts.tap(m.id); t != nil {
			t.owner = nil
			ts.endTap(ctx, t, m.reason)
		}
	case tapMetadata:
		if t := ts.tap(m.id); t != nil && t.fork != nil {
			t.legs[0].session.UpdateMetadata(m.metadata)
		}
	case tapOpened:
		ts.tapIsOpen(ctx, m)
	case tapReport:
		ts.tapReported(ctx, m)
	case tapRefused:
		ts.tapLegRefused(ctx, m)
	case tapHear:
		return ts.state, ts.hear(ctx, m)
	case tapTuned:
		ts.tapTuned(ctx, m)
	case tapSay:
		ts.say(ctx, m)
	}
	return ts.state, nil
}

func (ts *taps) tap(id uuid.UUID) *tap {
	i := slices.IndexFunc(ts.list, func(t *tap) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return ts.list[i]
}

// startTap opens the fork's socket beside the actor; the legs follow.
func (ts *taps) startTap(ctx context.Context, m tapCommand) error {
	switch {
	case ts.killCause != "":
		return ledger.ErrCallEnded
	case len(ts.list) >= maxTaps:
		return &switchctl.StateError{State: ts.state.String(), Event: m.Name(), Detail: "the call has as many taps as it may have"}
	}
	if m.req.audience == audiencePartner && ts.parties.outsider() {
		return ts.conflict(m.Name(), errOutsiderDetail)
	}
	t := &tap{
		id: m.req.id, owner: m.req.owner, reply: m.reply, startBy: ts.c.clock.Now().Add(tapStart), detects: m.req.spec.AMD != nil,
		audience: m.req.audience, sameAgent: m.req.sameAgent,
	}
	ts.list = append(ts.list, t)
	if t.audience != audienceNone {
		ts.machine.othersHeard(ctx)
	}
	ctx, t.cancel = context.WithCancel(ctx)
	cancel, spec := t.cancel, m.req.spec
	ts.beside(func() {
		defer cancel()
		fork, err := ts.c.media.OpenTap(ctx, spec)
		ts.post(tapOpened{id: t.id, fork: fork, err: err})
	})
	ts.armTaps()
	return nil
}

// tapIsOpen: the fork's socket is up; the switch is asked for the legs.
func (ts *taps) tapIsOpen(ctx context.Context, m tapOpened) {
	t := ts.tap(m.id)
	if t == nil {
		m.refused(ts.core, nil)
		return
	}
	if m.err != nil {
		ts.log.WarnContext(ctx, "opening a tap failed", "error", m.err)
		t.tell(tapUp{err: &switchctl.TapError{Err: m.err}})
		ts.endTap(ctx, t, media.CloseError)
		return
	}
	t.fork = m.fork
	for i, l := range m.fork.legs {
		leg := &tapLeg{forkLeg: l}
		t.legs = append(t.legs, leg)
		ts.beside(func() {
			for ev := range l.session.Events() {
				ts.post(tapReport{id: m.id, leg: i, ev: ev})
			}
		})
	}
	if t.fork.socket {
		ts.speak(t)
	}
	t.held = true
	ts.bypass.withSwitchMedia(ctx, func(ctx context.Context) {
		for i := range t.legs {
			if !t.closed {
				ts.dialTap(ctx, t, i)
			}
		}
		ts.armTaps()
	})
}

// dialTap asks the switch for one leg.
func (ts *taps) dialTap(ctx context.Context, t *tap, i int) {
	l := t.legs[i]
	channel, err := uuid.NewV7()
	if l.tries++; l.tries > maxTapTries || err != nil {
		ts.log.ErrorContext(ctx, "tap's leg did not come up", "tap_id", t.id.String(), "side", l.side.String(), "error", err)
		ts.endTap(ctx, t, media.CloseError)
		return
	}
	l.channel, l.dialing, l.due = channel.String(), true, ts.c.clock.Now().Add(tapTimeout)
	if t.fork.socket {
		l.mux = t.mux(i)
	}
	ts.c.registry.bind(ts.core, l.channel)
	ts.originateTap(ctx, t.id, i, l)
}

// originateTap sends the originate. What one side says is taken as it comes (native_eavesdrop) for a leg that says nothing, which costs the switch half
// of eavesdrop, and which needs the caller's own codec.
func (ts *taps) originateTap(ctx context.Context, id uuid.UUID, i int, l *tapLeg) {
	caller, channel, side, sip, codec, mux := ts.channel, l.channel, l.side, l.sip, ts.codec, l.mux
	refuse := func(reason string, unsent bool) {
		ts.post(tapRefused{id: id, leg: i, channel: channel, reason: reason, unsent: unsent})
	}
	done := func(body string, err error) {
		m := jobDone{body: body, err: err}
		if reason := refusedJob(m); reason != "" && !m.unknown() { // the media endpoint tells whether the leg has come up, or tapTimeout ends it
			refuse(reason, errors.Is(err, switchctl.ErrLinkDown))
		}
	}
	ts.beside(func() {
		cmd, err := ts.c.tapCommand(ts.id.String(), channel, sip, caller, side, codec, mux)
		if err != nil {
			refuse(err.Error(), false)
			return
		}
		if err := ts.c.link.BgAPI(ctx, cmd, done); err != nil {
			done("", err)
		}
	})
}

// tapReported is an event of a tap.
func (ts *taps) tapReported(ctx context.Context, m tapReport) {
	t := ts.tap(m.id)
	if t == nil || m.leg >= len(t.legs) {
		return
	}
	l := t.legs[m.leg]
	switch ev := m.ev.(type) {
	case media.LegAnswered:
		l.up, l.dialing, l.upAt = true, false, ts.c.clock.Now()
		if l.mux != 0 {
			ts.tune(ctx, t, nil) // the audience was changed while it was dialed
		}
		if t.hushed {
			ts.speak(t)
		}
		if !slices.ContainsFunc(t.legs, func(l *tapLeg) bool { return !l.up }) {
			t.tell(tapUp{members: ts.parties.members()})
		}
		ts.armTaps()
	case media.LegEnded:
		ts.tapLegEnded(l)
	case media.LegSilent:
		ts.log.WarnContext(ctx, "tap's leg is silent", "tap_id", t.id.String(), "side", l.side.String(), "for", ev.For)
		if ts.killCause == "" {
			ts.command(ctx, jobKillLeg, fs.Kill(l.channel, ledger.CauseNormalClearing)) // its end has it dialed again
		}
	case media.SocketClosed:
		ts.log.InfoContext(ctx, "tap's socket is closed", "tap_id", t.id.String(), "code", ev.Code, "clean", ev.Clean, "error", ev.Err)
		ts.endTap(ctx, t, media.CloseHangup)
	case media.Text:
		ts.tapText(ctx, t, ev)
	case media.AMD:
		ts.machine.machineHeard(ctx, ev)
		if !t.fork.socket { // it is there for that alone
			ts.machine.afterVerdict(ctx, t)
		}
	}
}

// tapText is a text frame on a tap's socket. Verbs belong on the call's own socket.
func (ts *taps) tapText(ctx context.Context, t *tap, ev media.Text) {
	switch ev.Type {
	case "disconnect":
		ts.endTap(ctx, t, media.CloseDisconnect)
	case "command":
		ts.voice.commandResult(t.legs[0].session, ev.ID, nil, &switchctl.StateError{
			State: ts.state.String(), Event: "command", Detail: "a monitor's socket takes no verbs, the call's own does",
		})
	default:
		ts.log.DebugContext(ctx, "text frame on a tap ignored", "type", ev.Type)
	}
}

// tapLegEnded: the switch has ended a leg. While the call lives, it is dialed again.
func (ts *taps) tapLegEnded(l *tapLeg) {
	ts.c.registry.unbind(l.channel)
	if l.up && ts.c.clock.Now().Sub(l.upAt) >= tapStable {
		l.tries = 0
	}
	l.up, l.dialing, l.due = false, false, ts.c.clock.Now().Add(tapRetry)
	ts.armTaps()
}

func (ts *taps) tapLegRefused(ctx context.Context, m tapRefused) {
	t := ts.tap(m.id)
	if t == nil || t.legs[m.leg].channel != m.channel || !t.legs[m.leg].dialing {
		return
	}
	l := t.legs[m.leg]
	ts.log.WarnContext(ctx, "tap's leg was refused", "tap_id", t.id.String(), "side", l.side.String(), "reply", m.reason)
	ts.tapLegEnded(l)
	if m.unsent {
		l.tries-- // the switch was not asked
		l.due = ts.c.clock.Now().Add(time.Second)
	}
	ts.armTaps()
}

// tapsDue looks after the legs whose time has come.
func (ts *taps) tapsDue(ctx context.Context) {
	now := ts.c.clock.Now()
	for _, t := range slices.Clone(ts.list) {
		if t.reply != nil && !now.Before(t.startBy) {
			t.tell(tapUp{err: &switchctl.TapError{Err: switchctl.ErrTimeout}})
			ts.endTap(ctx, t, media.CloseError)
			continue
		}
		for i, l := range t.legs {
			if l.up || t.closed || l.due.IsZero() || now.Before(l.due) || ts.killCause != "" {
				continue
			}
			if l.dialing {
				ts.c.registry.unbind(l.channel)
				ts.command(ctx, jobKillLeg, fs.Kill(l.channel, ledger.CauseNormalClearing))
			}
			ts.dialTap(ctx, t, i)
		}
	}
	ts.armTaps()
}

// armTaps sets the one timer of all taps to the earliest moment at which one needs it.
func (ts *taps) armTaps() {
	var next time.Time
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, t := range ts.list {
		if t.reply != nil {
			sooner(t.startBy)
		}
		for _, l := range t.legs {
			if !l.up && !l.due.IsZero() {
				sooner(l.due)
			}
		}
	}
	if next.IsZero() || ts.killCause != "" {
		ts.disarm(timerTap)
		return
	}
	ts.arm(timerTap, next.Sub(ts.c.clock.Now()))
}

// endTap closes a fork and its legs, and tells whoever listens.
func (ts *taps) endTap(ctx context.Context, t *tap, reason media.CloseReason) {
	if t.closed {
		return
	}
	t.closed = true
	ts.list = slices.DeleteFunc(ts.list, func(other *tap) bool { return other == t })
	t.cancel()
	t.tell(tapUp{err: ledger.ErrCallEnded})
	for _, l := range t.legs {
		if l.channel != "" {
			ts.c.registry.unbind(l.channel)
		}
		if l.dialing {
			ts.command(ctx, jobKillLeg, fs.Kill(l.channel, ledger.CauseNormalClearing))
		}
	}
	if fork := t.fork; fork != nil {
		ts.beside(func() { fork.close(reason) }) // the legs get their BYE from the endpoint
	}
	if t.owner != nil {
		t.owner.post(monitorOver{id: t.id, reason: monitorReason(reason)})
	}
	if t.held {
		ts.bypass.switchMediaDone(ctx)
	}
	ts.log.InfoContext(ctx, "tap ended", "tap_id", t.id.String(), "reason", string(reason))
	ts.armTaps()
}

// tapDetects reports whether a tap listens for a machine.
func (ts *taps) tapDetects() bool {
	return slices.ContainsFunc(ts.list, func(t *tap) bool { return t.detects })
}

// sessionEnds ends the taps that may listen to the call's voice agent alone.
func (ts *taps) sessionEnds(ctx context.Context) {
	for _, t := range slices.Clone(ts.list) {
		if t.sameAgent {
			ts.endTap(ctx, t, media.CloseHangup)
		}
	}
}

// endDetection ends the taps that are there for nothing else.
func (ts *taps) endDetection(ctx context.Context) {
	for _, t := range slices.Clone(ts.list) {
		if t.detects && t.fork != nil && !t.fork.socket {
			ts.endTap(ctx, t, media.CloseHangup)
		}
	}
}

// endTaps ends all taps of a call that is over, or that is let go.
func (ts *taps) endTaps(ctx context.Context, reason media.CloseReason) {
	for _, t := range slices.Clone(ts.list) {
		t.held = false // the call has no way of its audio to choose any more
		ts.endTap(ctx, t, reason)
	}
}

// tell answers who asked for the tap, once.
func (t *tap) tell(up tapUp) {
	if t.reply != nil {
		t.reply <- up
		t.reply = nil
	}
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// tapCall asks the call's actor for a tap and waits until it runs. The call may be of another controller one day: nothing but
// its id is known here.
func (c *host) tapCall(ctx context.Context, tenant, target uuid.UUID, req tapRequest) tapUp {
	a, err := c.liveCall(ctx, tenant, target, VerbMonitorStart)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return tapUp{err: ledger.ErrTargetNotFound}
	case err != nil:
		return tapUp{err: err}
	}
	up, err := rt.Ask(ctx, a.box, a.done, func(reply chan<- tapUp) message { return tapCommand{req: req, reply: reply} })
	switch {
	case err != nil && ctx.Err() != nil:
		return tapUp{err: err} // why the asker has stopped, which may be the end of its own call
	case err != nil:
		return tapUp{err: targetError(err, VerbMonitorStart)}
	}
	up.err = targetError(up.err, VerbMonitorStart)
	return up
}

// targetError tells the end of the target from that of the call that asks.
func targetError(err error, event string) error {
	var state *switchctl.StateError
	switch {
	case errors.Is(err, ledger.ErrCallEnded):
		return &switchctl.StateError{State: ledger.StatusCompleted, Event: event, Detail: "the target call has ended"}
	case errors.As(err, &state) && state.Detail == "":
		return &switchctl.StateError{State: state.State, Event: event, Detail: "the target call is " + state.State}
	}
	return err
}
