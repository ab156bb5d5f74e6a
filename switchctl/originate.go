package switchctl

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

const (
	// originateSlack is how long after the ring time-out an originate must be decided.
	originateSlack = 10 * time.Second
	// refusedGrace waits for the end of the channel whose originate was refused; probeEvery repeats a look.
	refusedGrace = 500 * time.Millisecond
	refusedSeen  = 3 * time.Second
	probeEvery   = 5 * time.Second
	// rerouteGrace waits for the channel of the route before: its UUID is the next one's.
	rerouteGrace = time.Second
	// socketTimeout is how long an answered call may be without its socket.
	socketTimeout = 3 * time.Second
	killTimeout   = 2 * time.Second
	maxReattach   = 5
	// maxMisses is how often an originate may be found to have no channel yet.
	maxMisses = 3
)

// dialProgress is how far an outbound call's dialing has come.
type dialProgress struct {
	adm     Admission
	route   int
	attempt int
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
	failed   finalRecord
	misses   int
}

// isSpent tells an event of a channel that an earlier route had, from this attempt's: both have one UUID.
func (d *dialProgress) isSpent(ev *esl.Event) bool {
	created := ev.Get("Caller-Channel-Created-Time")
	return created != "" && created != "0" && slices.Contains(d.spent, created)
}

// environmentTest is that of test keys, whose calls never reach the telephone network.
const environmentTest = "test"

// startDialing sends the originate for the current route.
func (a *actor) startDialing(ctx context.Context) state {
	d := &a.dial
	if a.call.Environment == environmentTest {
		return a.closeUnseen(ctx, CauseTestEnvironment)
	}
	d.attempt++
	d.seen, d.refusal, d.rerouting, d.choosing, d.misses = false, "", false, false, 0
	if d.route >= len(d.adm.Routes) {
		return a.closeUnseen(ctx, CauseNoRoute)
	}
	route := d.adm.Routes[d.route]
	vars := outboundVariables(a.c.callerVariables(a), a.channel, d.adm.From, d.adm.RingTimeout, route)
	cmd, err := fs.Originate(vars, route.Endpoint, fs.Extension("rm_call", a.c.cfg.Context))
	if err != nil {
		a.log.ErrorContext(ctx, "route can't be dialed", "route", d.route, "error", err)
		return a.closeUnseen(ctx, CauseNoRoute)
	}
	d.generation = a.c.link.Generation()
	a.arm(timerOriginate, d.adm.RingTimeout+originateSlack)
	a.command(ctx, jobOriginate, cmd)
	return stateDialing
}

// closeUnseen ends a call that never had a channel.
func (a *actor) closeUnseen(ctx context.Context, cause string) state {
	return a.beginClose(ctx, lostRecord(cause, a.c.clock.Now(), nil))
}

// command sends a background command; its reply comes as a message. Replies of different commands may change places,
// so what depends on an order is sent in one goroutine (see transfer.go).
func (a *actor) command(ctx context.Context, job jobKind, cmd fs.Command) {
	attempt := a.dial.attempt
	a.beside(func() {
		err := a.c.link.BgAPI(ctx, cmd, func(body string, err error) {
			a.post(jobDone{job: job, attempt: attempt, body: body, err: err})
		})
		if err != nil {
			var refused *esl.ReplyError
			unsent := errors.Is(err, ErrLinkDown) || errors.As(err, &refused) || errors.Is(err, esl.ErrInvalidCommand)
			a.post(jobDone{job: job, attempt: attempt, err: err, unsent: unsent})
		}
	})
}

// inOrder sends commands of which each waits for the one before, and the last in the background: done is called once, with its reply or with
// what kept it away.
func (a *actor) inOrder(ctx context.Context, first fs.Script, last fs.Command, done func(body string, err error)) {
	link := a.c.link
	a.beside(func() {
		err := first.Run(ctx, link)
		if err == nil {
			err = link.BgAPI(ctx, last, done)
		}
		if err != nil {
			done("", err)
		}
	})
}

// jobReply is the switch's reply to a command of the call.
func (a *actor) jobReply(ctx context.Context, m jobDone) (state, error) {
	switch m.job {
	case jobOriginate:
		return a.originateReply(ctx, m), nil
	case jobTransferOriginate, jobTransferBridge:
		return a.transferReply(ctx, m)
	case jobKill:
		if refusedJob(m) != "" {
			a.probe(ctx) // there is no such channel: how did it end?
		}
	case jobReattach:
		if reason := refusedJob(m); reason != "" {
			a.log.WarnContext(ctx, "call could not be taken back", "reply", reason)
			a.probe(ctx)
		}
	case jobMask:
		if reason := refusedJob(m); reason != "" {
			a.log.ErrorContext(ctx, "recording by the switch is not paused", "reply", reason)
		}
	case jobBypass:
		a.bypassReply(ctx, m)
	case jobMediaBack:
		a.takeBackReply(ctx, m)
	case jobAgentBridge:
		a.agentBridgeReply(ctx, m)
	case jobPhone:
		// A phone's own.
	case jobKillLeg, jobReneg, jobStopRecord:
		// A leg that was gone already is what was wanted; how a re-INVITE goes is seen by what follows.
	}
	return a.state, nil
}

// refusedJob is the switch's refusal, or why it could not be asked; "" when it took the command.
func refusedJob(m jobDone) string {
	if m.err != nil {
		return m.err.Error()
	}
	body := strings.TrimSpace(m.body)
	if strings.HasPrefix(body, "-ERR") || strings.HasPrefix(body, "-USAGE") {
		return body
	}
	return ""
}

// refusalCause is the cause in a reply such as "-ERR USER_BUSY".
func refusalCause(body string) string {
	_, cause, _ := strings.Cut(strings.TrimSpace(body), " ")
	cause = strings.TrimSpace(cause)
	if cause == "" || strings.ContainsFunc(cause, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		return CauseTemporaryFailure
	}
	return cause
}

// originateReply: +OK says what the events say better. -ERR without a channel is all there will be.
func (a *actor) originateReply(ctx context.Context, m jobDone) state {
	if m.attempt != a.dial.attempt || (a.state != stateDialing && a.state != stateRinging) {
		return a.state
	}
	switch {
	case m.unsent:
		a.log.WarnContext(ctx, "originate was not sent", "error", m.err)
		return a.closeUnseen(ctx, CauseNetworkOutOfOrder)
	case m.err != nil:
		// Lost on the way: the next connection tells whether there is a channel.
		a.log.WarnContext(ctx, "reply to originate is lost", "error", m.err)
		a.dial.generation = 0
	case refusedJob(m) != "":
		a.dial.refusal = refusalCause(m.body)
		grace := refusedGrace
		if a.dial.seen {
			grace = refusedSeen
		}
		a.arm(timerRefused, grace)
	}
	return a.state
}

// refusedWithoutChannel closes a refused call whose channel's end did not come: from the call record when the switch
// wrote one, else with the refusal's cause.
func (a *actor) refusedWithoutChannel(ctx context.Context) state {
	if rec, err := readCDR(a.c.cfg.CDRDir, a.channel); err == nil && len(a.dial.spent) == 0 {
		return a.endedWith(ctx, rec.final(), "")
	}
	return a.closeUnseen(ctx, a.dial.refusal)
}

// ended takes CHANNEL_HANGUP_COMPLETE of the caller's channel.
func (a *actor) ended(ctx context.Context, ev *esl.Event) state {
	rec := finalFrom(ev.Get, a.c.clock.Now())
	if a.endUnwritten(ctx, ev, rec) {
		return a.state
	}
	return a.endedWith(ctx, rec, ev.Get("Caller-Channel-Created-Time"))
}

// endedWith closes the call, or goes on to the next route when only this one has failed.
func (a *actor) endedWith(ctx context.Context, rec finalRecord, created string) state {
	d := &a.dial
	unanswered := a.state == stateDialing || a.state == stateRinging
	if !unanswered || a.inbound || a.killCause != "" || !rec.failsOver() || d.route+1 >= len(d.adm.Routes) {
		return a.beginClose(ctx, rec)
	}
	a.log.InfoContext(ctx, "route failed, trying the next", "route", d.route, "hangup_cause", rec.Cause)
	if created != "" && created != "0" {
		d.spent = append(d.spent, created)
	}
	d.rerouting, d.failed = true, rec
	d.attempt++ // a late reply belongs to the route before
	a.disarm(timerRefused)
	a.disarm(timerOriginate)
	a.arm(timerReroute, rerouteGrace)
	return stateDialing
}

// nextRoute looks for another route once the channel of the one before is gone.
func (a *actor) nextRoute(ctx context.Context) state {
	d := &a.dial
	if !d.rerouting || d.choosing {
		return a.state
	}
	a.disarm(timerReroute)
	if a.killCause != "" {
		return a.closeUnseen(ctx, a.killCause)
	}
	d.choosing = true
	a.chooseRoute(ctx, a.id, d.adm, d.failed.ofRoute(d.adm.Routes[d.route]), d.adm.Routes[d.route+1:])
	return a.state
}

// chooseRoute asks the ledger for the first of the routes whose trunk has room, if the leg may still be dialed: the gate looked before
// the first route was.
func (a *actor) chooseRoute(ctx context.Context, unit uuid.UUID, adm Admission, failed *failedRoute, routes []Route) {
	at, trunks, chosen := a.c.clock.Now(), make([]*uuid.UUID, len(routes)), -1
	leg := Readmission{Call: a.call, UnitID: unit, To: adm.To, RingTimeout: adm.RingTimeout, Promised: adm.Promised}
	for i, route := range routes {
		trunks[i] = route.TrunkID
	}
	a.recordFor(ctx, decisionWait, "route", func(ctx context.Context) (err error) {
		chosen, err = a.c.ledger.Reroute(ctx, leg, failed, trunks, at)
		return err
	}, func(err error) { a.post(routeChosen{unit: unit, index: chosen, err: err}) })
}

// routeFound dials the route that was chosen. Without one the call ends as the last route did.
func (a *actor) routeFound(ctx context.Context, m routeChosen) (state, error) {
	d := &a.dial
	switch {
	case m.unit != a.id || !d.choosing:
		return a.state, a.notTaken(m)
	case a.killCause != "":
		return a.closeUnseen(ctx, a.killCause), nil
	case m.err != nil || m.index < 0:
		return a.beginClose(ctx, d.failed), nil //nolint:nilerr // the call ends as its last route did
	}
	d.route += 1 + m.index
	a.call.TrunkID = d.adm.Routes[d.route].TrunkID
	return a.startDialing(ctx), nil
}
