package call

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// refusedGrace waits for the end of the channel whose originate was refused; probeEvery repeats a look.
	refusedGrace = 500 * time.Millisecond
	refusedSeen  = 3 * time.Second
	probeEvery   = 5 * time.Second
	// rerouteGrace waits for the channel of the route before: its UUID is the next one's.
	rerouteGrace = time.Second
	// socketTimeout is how long an answered call may be without its socket.
	socketTimeout = 3 * time.Second
	maxReattach   = 5
	// maxMisses is how often an originate may be found to have no channel yet.
	maxMisses = 3
)

// origination is how far an outbound call's dialing has come.
type origination struct {
	*core
	ending   *ending
	handling *handling
	line     *callerLine
	machine  *machine
	rec      *recorder

	adm   admission.Terms
	route int
	// seen: the switch has shown a channel of this attempt.
	seen bool
	// refusal is the cause in the switch's -ERR; empty while there is none.
	refusal string
	// generation of the host link that the originate was sent over; 0 before that and for a recovered call.
	generation uint64
	// spent are the created-times of the channels of routes that have failed.
	spent     []string
	rerouting bool
	// choosing: the ledger is asked for the next route; failed is how the one before ended.
	choosing bool
	failed   ledger.FinalRecord
	misses   int
}

// isSpent tells an event of a channel that an earlier route had, from this attempt's: both have one UUID.
func (d *origination) isSpent(ev *esl.Event) bool {
	created := ev.Get("Caller-Channel-Created-Time")
	return created != "" && created != "0" && slices.Contains(d.spent, created)
}

// startDialing sends the originate for the current route.
func (d *origination) startDialing(ctx context.Context) state {
	if d.call.Environment == ledger.EnvironmentTest {
		return d.closeUnseen(ctx, ledger.CauseTestEnvironment)
	}
	d.attempt++
	d.seen, d.refusal, d.rerouting, d.choosing, d.misses = false, "", false, false, 0
	if d.route >= len(d.adm.Routes) {
		return d.closeUnseen(ctx, ledger.CauseNoRoute)
	}
	route := d.adm.Routes[d.route]
	vars := outboundVariables(d.c.callerVariables(d.core), d.channel, d.adm.From, d.adm.RingTimeout, route)
	cmd, err := fs.Originate(vars, route.Endpoint, fs.Extension("rm_call", d.c.cfg.Context))
	if err != nil {
		d.log.ErrorContext(ctx, "dialing the route failed", "route", d.route, "error", err)
		return d.closeUnseen(ctx, ledger.CauseNoRoute)
	}
	d.generation = d.c.link.Generation()
	d.arm(timerOriginate, d.adm.RingTimeout+fs.OriginateSlack)
	d.command(ctx, jobOriginate, cmd)
	if d.route == 0 { // the next ones log why they are tried
		d.log.InfoContext(ctx, "call dialed", "tenant_id", d.tenant.String())
	}
	return stateDialing
}

// closeUnseen ends a call that never had a channel.
func (d *origination) closeUnseen(ctx context.Context, cause string) state {
	return d.ending.beginClose(ctx, ledger.LostRecord(cause, d.c.clock.Now(), nil))
}

// refusedJob is the switch's refusal, or why it could not be asked; "" when it took the command.
func refusedJob(m jobDone) string { return fs.Refusal(m.body, m.err) }

// refusalCause is the cause in a reply such as "-ERR USER_BUSY".
func refusalCause(body string) string {
	return cmp.Or(fs.RefusalCause(body), ledger.CauseTemporaryFailure)
}

// originateReply: +OK says what the events say better. -ERR without a channel is all there will be.
func (d *origination) originateReply(ctx context.Context, m jobDone) state {
	if m.attempt != d.attempt || (d.state != stateDialing && d.state != stateRinging) {
		return d.state
	}
	switch {
	case m.unsent():
		d.log.WarnContext(ctx, "sending originate failed", "error", m.err)
		return d.closeUnseen(ctx, ledger.CauseNetworkOutOfOrder)
	case m.unknown():
		// Lost on the way: the next connection tells whether there is a channel.
		d.log.WarnContext(ctx, "reply to originate lost", "error", m.err)
		d.generation = 0
	case refusedJob(m) != "":
		d.refusal = refusalCause(m.body)
		grace := refusedGrace
		if d.seen {
			grace = refusedSeen
		}
		d.arm(timerRefused, grace)
	}
	return d.state
}

// refusedWithoutChannel closes a refused call whose channel's end did not come: from the call record when the switch
// wrote one, else with the refusal's cause.
func (d *origination) refusedWithoutChannel(ctx context.Context) state {
	if rec, err := d.c.cdrs.Read(d.channel); err == nil && len(d.spent) == 0 {
		return d.endedWith(ctx, rec.Final(), "")
	}
	return d.closeUnseen(ctx, d.refusal)
}

// ended takes CHANNEL_HANGUP_COMPLETE of the caller's channel.
func (d *origination) ended(ctx context.Context, ev *esl.Event) state {
	rec := cdr.Final(ev.Get, d.c.clock.Now())
	if d.ending.endUnwritten(ctx, ev, rec) {
		return d.state
	}
	return d.endedWith(ctx, rec, ev.Get("Caller-Channel-Created-Time"))
}

// endedWith closes the call, or goes on to the next route when only this one has failed.
func (d *origination) endedWith(ctx context.Context, rec ledger.FinalRecord, created string) state {
	unanswered := d.state == stateDialing || d.state == stateRinging
	if !unanswered || d.inbound || d.killCause != "" || !rec.FailsOver() || d.route+1 >= len(d.adm.Routes) {
		return d.ending.beginClose(ctx, rec)
	}
	d.log.InfoContext(ctx, "route failed, trying the next", "route", d.route, "hangup_cause", rec.Cause)
	if created != "" && created != "0" {
		d.spent = append(d.spent, created)
	}
	d.rerouting, d.failed = true, rec
	d.attempt++ // a late reply belongs to the route before
	d.disarm(timerRefused)
	d.disarm(timerOriginate)
	d.arm(timerReroute, rerouteGrace)
	return stateDialing
}

// nextRoute looks for another route once the channel of the one before is gone.
func (d *origination) nextRoute(ctx context.Context) state {
	if !d.rerouting || d.choosing {
		return d.state
	}
	d.disarm(timerReroute)
	if d.killCause != "" {
		return d.closeUnseen(ctx, d.killCause)
	}
	d.choosing = true
	d.chooseRoute(ctx, d.id, d.adm, failureOf(d.adm.Routes[d.route], d.failed), d.adm.Routes[d.route+1:])
	return d.state
}

// chooseRoute asks the ledger for the first of the routes whose trunk has room, if the leg may still be dialed: the gate looked before
// the first route was.
func (d *origination) chooseRoute(ctx context.Context, unit uuid.UUID, adm admission.Terms, failed *ledger.FailedRoute, routes []admission.Route) {
	at, trunks, chosen := d.c.clock.Now(), make([]*uuid.UUID, len(routes)), -1
	leg := ledger.Readmission{Call: d.call, UnitID: unit, To: adm.To, RingTimeout: adm.RingTimeout, Promised: adm.Promised}
	for i, route := range routes {
		trunks[i] = route.TrunkID
	}
	d.recordFor(ctx, decisionWait, "route", func(ctx context.Context) (err error) {
		chosen, err = d.c.ledger.Reroute(ctx, leg, failed, trunks, at)
		return err
	}, func(err error) { d.post(routeChosen{unit: unit, index: chosen, err: err}) })
}

// routeFound dials the route that was chosen. Without one the call ends as the last route did.
func (d *origination) routeFound(ctx context.Context, m routeChosen) (state, error) {
	switch {
	case m.unit != d.id || !d.choosing:
		return d.state, d.notTaken(m)
	case d.killCause != "":
		return d.closeUnseen(ctx, d.killCause), nil
	case m.err != nil || m.index < 0:
		return d.ending.beginClose(ctx, d.failed), nil //nolint:nilerr // the call ends as its last route did
	}
	d.route += 1 + m.index
	d.call.TrunkID = d.adm.Routes[d.route].TrunkID
	return d.startDialing(ctx), nil
}

func (d *origination) rings(ctx context.Context, at time.Time) state {
	if d.state != stateDialing || d.inbound {
		return d.state
	}
	d.noteRinging(ctx, at)
	return stateRinging
}

// answers moves an unanswered call on. What happens after answer is the handler's to say. at is the answer by the switch's clock, and ours by ours.
func (d *origination) answers(ctx context.Context, at, ours time.Time) state {
	d.disarm(timerOriginate)
	d.disarm(timerRefused)
	d.recovered = false
	if !d.call.Amd {
		d.c.metrics.answered.WithLabelValues(ledger.AnsweredByHuman, decidedOff).Inc()
	}
	d.noteAnswered(ctx, at, ours)
	d.line.answerWaiters(nil)
	d.machine.awaitVerdict()
	if d.sock == nil {
		d.arm(timerSocket, socketTimeout)
	}
	d.rec.recordWanted(ctx)
	d.handling.startHandler(ctx)
	return stateAnswered
}

// failureOf is what the record of a call that fails over says of the trunk that it was dialed over; nil for a host's.
func failureOf(route admission.Route, r ledger.FinalRecord) *ledger.FailedRoute {
	if route.TrunkID == nil {
		return nil
	}
	return &ledger.FailedRoute{Trunk: *route.TrunkID, Cause: r.Cause, Silent: r.SIPStatus != nil && *r.SIPStatus == 408}
}
