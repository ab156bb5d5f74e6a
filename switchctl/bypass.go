package switchctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/mediapath"
)

// Bypass: carrier and media endpoint exchange the audio directly, and the switch keeps the signalling. Everything that needs
// the switch's media does nothing there, silently, so it goes through withSwitchMedia, which takes the media back first.

const (
	// bypassTimeout is how long the way into bypass may take: no reply of the switch, or no packet from the carrier, after
	// that is a failure.
	bypassTimeout = time.Second
	// takeBackTimeout bounds the way back, takeBackTries how often it is tried; mendPause lies between two tries.
	takeBackTimeout = 1500 * time.Millisecond
	takeBackTries   = 4
	mendPause       = 400 * time.Millisecond
	// heardTimeout is how long the first packet after the switch's reply is waited for: a caller may be silent.
	heardTimeout = 500 * time.Millisecond
)

type bypassPhase int

const (
	bypassOff       bypassPhase = iota // the audio goes through the switch
	bypassTrying                       // the carrier is asked by a re-INVITE that changes nothing
	bypassPreparing                    // the media leg is made ready
	bypassEntering                     // uuid_media off is on its way
	bypassOn                           // the audio goes past the switch
	bypassLeaving                      // uuid_media is on its way
)

// bypass is how a call's audio goes. All fields belong to the actor's goroutine.
type bypass struct {
	phase bypassPhase
	// serial numbers the changes of phase: the answers of an earlier one are late.
	serial int
	// bridged: caller and media leg are bridged by the switch.
	bridged bool
	// asked: the carrier was sent a re-INVITE of ours.
	asked bool
	// barred: bypass has failed on this call, and is not tried again.
	barred bool
	// holds are the operations that need the switch's media; waiting are those that wait for it.
	holds   int
	waiting []func(ctx context.Context)
	// replied and moved: the switch's reply has come, and the first packet on the new way.
	replied, moved bool
	// awaited: the switch has the audio back, and its first packet is still to come.
	awaited bool
	// stuck: the way into bypass was given up while the switch still works on it.
	stuck bool
	// left is the serial of the first try of the way back, tries how many there were.
	left, tries int
}

func (b *bypass) next(p bypassPhase) {
	b.phase = p
	b.serial++
	b.replied, b.moved = false, false
}

// bypassTried is the carrier's answer to the re-INVITE before bypass.
type bypassTried struct {
	serial int
	err    error
}

func (bypassTried) Name() string    { return "bypass tried" }
func (bypassTried) Essential() bool { return true }

// mediaBridged notes that the switch has bridged caller and media leg.
func (a *actor) mediaBridged(ctx context.Context, ev *esl.Event) {
	if a.ai.live() && a.ai.leg != "" && (ev.Get("Bridge-B-Unique-ID") == a.ai.leg || ev.Get("Bridge-A-Unique-ID") == a.ai.leg) {
		a.bypass.bridged = true
		a.leaveSocket()
		a.considerBypass(ctx)
	}
}

// codecOf notes which codec the carrier speaks, from whichever event tells it first.
func (a *actor) codecOf(ev *esl.Event) {
	if name := ev.Get("Channel-Read-Codec-Name"); name != "" {
		a.codec = name
	}
}

// bypassCodec is the codec of a media leg that is to go into bypass; empty when the call is not to.
func (a *actor) bypassCodec() string {
	if a.ai == nil || !a.ai.grant.bypass || a.bypass.barred || a.c.outOfBypass(a.call.TrunkID, a.ai.grantedAt) {
		return ""
	}
	switch a.codec {
	case "PCMU", "PCMA":
		return a.codec
	}
	return ""
}

// considerBypass takes the call past the switch, if its trunk is for that and nothing needs the switch's media. The carrier
// is tried first by a re-INVITE that does no harm: on the way into bypass a refusal would leave the call deaf.
func (a *actor) considerBypass(ctx context.Context) {
	b, s := &a.bypass, a.ai
	if b.phase != bypassOff || b.awaited || !b.bridged || b.holds > 0 || a.killCause != "" || s == nil || s.phase != phaseOpen || !s.legUp ||
		a.transfer != nil || a.bypassCodec() == "" {
		return
	}
	b.next(bypassTrying)
	b.asked = true
	link, channel, serial := a.c.link, a.channel, b.serial
	a.beside(func() {
		a.post(bypassTried{serial: serial, err: mediapath.Reinvite(ctx, link, channel)})
	})
}

// bypassAnswered: the carrier has answered the re-INVITE that changes nothing, or the media leg is ready.
func (a *actor) bypassAnswered(ctx context.Context, m bypassTried) (state, error) {
	b := &a.bypass
	if b.serial != m.serial {
		return a.state, nil
	}
	switch b.phase {
	case bypassTrying:
		a.carrierTried(ctx, m.err)
	case bypassPreparing:
		if m.err != nil {
			a.bypassUnprepared(ctx, m.err)
		} else {
			a.enterBypass(ctx)
		}
	case bypassOff, bypassEntering, bypassOn, bypassLeaving:
	}
	return a.state, nil
}

// carrierTried goes on to the media leg, or notes that the carrier is not for bypass.
func (a *actor) carrierTried(ctx context.Context, err error) {
	b := &a.bypass
	refused, wasRefused := errors.AsType[*mediapath.RefusedError](err)
	switch {
	case wasRefused:
		b.next(bypassOff)
		a.bypassFailed(ctx, fmt.Sprintf("re-INVITE refused with %d", refused.Status))
	case errors.Is(err, mediapath.ErrNoAnswer):
		b.next(bypassOff)
		a.bypassFailed(ctx, "re-INVITE not answered in "+mediapath.ReinviteTimeout.String())
	case err != nil: // the channel's end tells more, or the link is away
		b.next(bypassOff)
		a.log.DebugContext(ctx, "bypass not tried", "error", err)
	default:
		a.prepareBypass(ctx)
	}
}

// enterBypass asks for it.
func (a *actor) enterBypass(ctx context.Context) {
	b := &a.bypass
	b.next(bypassEntering)
	a.arm(timerBypass, bypassTimeout)
	codec := fs.SetVar(a.channel, "absolute_codec_string", a.codec) // each leg keeps the one codec that it has
	a.bypassCommand(ctx, jobBypass, fs.MediaOff(a.channel), codec)
}

// bypassCommand sends a background command once the quick ones before it are done, or refused: their leg may be gone.
func (a *actor) bypassCommand(ctx context.Context, job jobKind, cmd fs.Command, before ...fs.Command) {
	serial, first := a.bypass.serial, make(fs.Script, len(before))
	for i, quick := range before {
		first[i] = fs.Try(quick)
	}
	a.inOrder(ctx, first, cmd, func(body string, err error) { a.post(jobDone{job: job, attempt: serial, body: body, err: err}) })
}

// bypassReply is the switch's reply to the way into bypass.
func (a *actor) bypassReply(ctx context.Context, m jobDone) {
	b := &a.bypass
	reason := refusedJob(m)
	switch {
	case b.phase == bypassLeaving && b.stuck && m.attempt < b.serial:
		b.stuck = false // it has come to its end after all: now the way back is open
		a.takeMediaBack(ctx)
	case b.phase != bypassEntering || m.attempt != b.serial:
	case reason == "", errors.Is(m.err, errLinkLost): // without a reply the packets tell
		b.replied = true
		a.bypassSettled(ctx)
	default:
		a.breakBypass(ctx, "switch: "+reason)
	}
}

// takeBackReply is the switch's reply to the way back. It comes while the switch still bridges the legs anew; what waits for the
// media would fall into that, so it waits for the first packet as well.
func (a *actor) takeBackReply(ctx context.Context, m jobDone) {
	b := &a.bypass
	switch {
	case b.phase != bypassLeaving || m.attempt < b.left:
	case refusedJob(m) == "":
		b.replied = true
		if b.moved {
			a.mediaIsBack(ctx)
			return
		}
		a.pastSwitch(false)
		a.arm(timerBypass, heardTimeout)
	default:
		a.arm(timerBypass, mendPause)
	}
}

// legMoved: the caller's audio comes on a new way. The way back mostly shows after the switch has said that it is done.
func (a *actor) legMoved(ctx context.Context, ev media.LegMoved) {
	b := &a.bypass
	switch b.phase {
	case bypassEntering:
		b.moved = true
		a.pastSwitch(true)
		a.c.metrics.bypassGap.WithLabelValues("entered").Observe(ev.Gap.Seconds())
		a.log.DebugContext(ctx, "audio comes past the switch", "gap", ev.Gap)
		a.bypassSettled(ctx)
	case bypassLeaving:
		b.moved = true
		a.movedBack(ctx, ev)
		if b.replied {
			a.mediaIsBack(ctx)
		}
	case bypassOff:
		if b.awaited {
			b.awaited = false
			a.movedBack(ctx, ev)
			a.considerBypass(ctx)
		}
	case bypassTrying, bypassPreparing, bypassOn:
	}
}

// movedBack: the caller's audio comes from the switch again.
func (a *actor) movedBack(ctx context.Context, ev media.LegMoved) {
	a.pastSwitch(false)
	a.c.metrics.bypassGap.WithLabelValues("left").Observe(ev.Gap.Seconds())
	a.log.DebugContext(ctx, "audio comes from the switch", "gap", ev.Gap)
}

// bypassSettled: the call is in bypass once the switch says so and the carrier is heard directly.
func (a *actor) bypassSettled(ctx context.Context) {
	b := &a.bypass
	if !b.replied || !b.moved {
		return
	}
	a.disarm(timerBypass)
	b.next(bypassOn)
	a.c.metrics.bypass.WithLabelValues("entered").Inc()
	if len(b.waiting) > 0 {
		a.leaveBypass(ctx)
	}
}

// bypassDue: a change of the audio's way had to be done by now.
func (a *actor) bypassDue(ctx context.Context) {
	b := &a.bypass
	switch b.phase {
	case bypassEntering:
		reason := "no audio from the carrier in " + bypassTimeout.String()
		if !b.replied {
			reason = "no reply of the switch in " + bypassTimeout.String()
		}
		a.breakBypass(ctx, reason)
	case bypassLeaving:
		if b.replied {
			a.mediaIsBack(ctx) // of a caller who is silent
			return
		}
		a.takeMediaBack(ctx)
	case bypassOff, bypassTrying, bypassPreparing, bypassOn:
	}
}

// breakBypass gives up a way into bypass that does not come about: the trunk loses its flag, and the media is taken back.
func (a *actor) breakBypass(ctx context.Context, reason string) {
	b := &a.bypass
	b.stuck = !b.replied
	a.bypassFailed(ctx, reason)
	a.leaveBypass(ctx)
}

// bypassFailed notes that bypass has failed on this call, and takes its trunk out.
func (a *actor) bypassFailed(ctx context.Context, reason string) {
	a.bypass.barred = true
	a.c.metrics.bypass.WithLabelValues("failed").Inc()
	trunk := a.call.TrunkID
	if trunk == nil {
		return
	}
	a.log.ErrorContext(ctx, "bypass failed, the trunk's calls go through the switch from now on", "trunk_id", trunk.String(),
		"reason", reason)
	now := a.c.clock.Now().UTC()
	a.c.takeOutOfBypass(*trunk, now)
	tenant, id := a.tenant, *trunk
	a.recordFor(ctx, decisionWait, "bypass failure", func(ctx context.Context) error {
		return a.c.ledger.BypassFailed(ctx, tenant, id, now, reason)
	}, nil)
}

// bypassCallEnded: a carrier that refuses a re-INVITE with 500 and the like has ended the call with that. An answered call
// does not end by a refusal otherwise.
func (a *actor) bypassCallEnded(ctx context.Context, ev *esl.Event) {
	if !a.bypass.asked || a.bypass.barred {
		return
	}
	status := finalFrom(ev.Get, a.c.clock.Now()).SIPStatus
	if ev.Var("sip_hangup_disposition") == "recv_refuse" && status != nil && *status >= 400 {
		a.bypass.next(bypassOff)
		a.bypassFailed(ctx, fmt.Sprintf("re-INVITE refused with %d, which ended the call", *status))
	}
}

// leaveBypass takes the media back to the switch.
func (a *actor) leaveBypass(ctx context.Context) {
	b := &a.bypass
	b.next(bypassLeaving)
	b.left, b.tries = b.serial, 0
	a.takeMediaBack(ctx)
}

// takeMediaBack asks for it, a few times. A call whose media does not come back would stay deaf. While the switch is stuck on
// the way into bypass it waits for a carrier who has refused: asked again, that one may agree, which opens the way back.
func (a *actor) takeMediaBack(ctx context.Context) {
	b := &a.bypass
	b.serial++
	if a.c.link.Generation() == 0 {
		a.arm(timerBypass, takeBackTimeout)
		return
	}
	if b.tries++; b.tries > takeBackTries {
		a.log.ErrorContext(ctx, "media does not come back to the switch, hanging up", "tries", takeBackTries)
		a.bypassLost(ctx)
		return
	}
	if b.stuck {
		a.arm(timerBypass, mendPause)
		a.command(ctx, jobReneg, fs.Reinvite(a.channel))
		return
	}
	a.arm(timerBypass, takeBackTimeout)
	a.bypassCommand(ctx, jobMediaBack, fs.MediaOn(a.channel), a.endAsBefore(), fs.SetVar(a.channel, "bypass_media", "false"))
}

// bypassLost ends a call that nobody can hear.
func (a *actor) bypassLost(ctx context.Context) {
	a.bypass.next(bypassOff)
	a.bypass.waiting = nil
	a.kill(ctx, CauseTemporaryFailure)
}

// mediaIsBack: the switch has the audio again, and its own telephone-event number holds before the first packet shows that;
// what has waited goes on.
func (a *actor) mediaIsBack(ctx context.Context) {
	b := &a.bypass
	a.disarm(timerBypass)
	if b.phase == bypassLeaving {
		b.awaited = !b.moved
		a.c.metrics.bypass.WithLabelValues("left").Inc()
	}
	b.next(bypassOff)
	a.pastSwitch(false)
	waiting := b.waiting
	b.waiting = nil
	for _, do := range waiting {
		do(ctx)
	}
}

// withSwitchMedia runs do, on the actor's goroutine, once the audio goes through the switch: at once in most calls, after it
// was taken back from bypass in the others. It stays there until switchMediaDone has been called as often as this. do must
// look whether it is still wanted.
func (a *actor) withSwitchMedia(ctx context.Context, do func(ctx context.Context)) {
	b := &a.bypass
	b.holds++
	switch b.phase {
	case bypassTrying: // nothing has been changed yet
		b.next(bypassOff)
		do(ctx)
	case bypassOff:
		do(ctx)
	case bypassOn:
		b.waiting = append(b.waiting, do)
		a.leaveBypass(ctx)
	case bypassPreparing, bypassEntering, bypassLeaving:
		b.waiting = append(b.waiting, do)
	}
}

// switchMediaDone ends one operation that needed the switch's media; after the last one the call goes into bypass again.
func (a *actor) switchMediaDone(ctx context.Context) {
	a.bypass.holds = max(0, a.bypass.holds-1)
	a.considerBypass(ctx)
}

// bypassReset: the caller has no media leg any more, and its audio is the switch's.
func (a *actor) bypassReset(ctx context.Context) {
	b := &a.bypass
	b.bridged = false
	switch {
	case b.phase == bypassOff || b.phase == bypassTrying:
		b.next(bypassOff)
	case b.stuck:
		a.bypassLost(ctx) // the switch ends such a call some seconds later
	default:
		a.mediaIsBack(ctx)
	}
	b.awaited = false
}

// bypassSilent: a caller in bypass is not heard. The switch's media_timeout sees nothing there, so the media is taken back;
// it is no fault of the trunk's, whose carrier has been heard.
func (a *actor) bypassSilent(ctx context.Context) {
	if a.bypass.phase != bypassOn {
		return
	}
	a.c.metrics.bypass.WithLabelValues("silent").Inc()
	a.bypass.barred = true
	a.leaveBypass(ctx)
}
