package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/cdr"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/mediapath"
)

// Bypass: carrier and media endpoint exchange the audio directly, and the switch keeps the signalling. Everything that needs
// the switch's media does nothing there, silently, so it goes through withSwitchMedia, which takes the media back first.

const (
	// bypassTimeout is how long the way into bypass may take: no reply of the switch, or no packet from the carrier, after
	// that is a failure.
	bypassTimeout = time.Second
	// mediaBackTimeout bounds the way back, mediaBackTries how often it is tried; mediaBackPause lies between two tries.
	mediaBackTimeout = 1500 * time.Millisecond
	mediaBackTries   = 4
	mediaBackPause   = 400 * time.Millisecond
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
	*core
	keypad    *keypad
	line      *callerLine
	refers    *referrals
	transfers *transfers
	voice     *voice
	bypassState
}

// bypassState is how the audio goes now, and where it is on its way to.
type bypassState struct {
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
	// unheard: the link was lost behind the command that leads past the switch. overdue is since when a look at the switch tells whether it was carried out.
	unheard bool
	overdue time.Time
	// awaited: the switch has the audio back, and its first packet is still to come.
	awaited bool
	// stuck: the way into bypass was given up while the switch still works on it.
	stuck bool
	// left is the serial of the first try of the way back, tries how many there were.
	left, tries int
}

// forget: the caller's bridge is another one, whose media is the switch's.
func (b *bypass) forget() {
	b.bypassState = bypassState{serial: b.serial + 1}
	b.disarm(timerBypass)
}

func (b *bypass) next(p bypassPhase) {
	b.phase = p
	b.serial++
	b.replied, b.moved = false, false
	b.unheard, b.overdue = false, time.Time{}
}

// bypassTried is the carrier's answer to the re-INVITE before bypass.
type bypassTried struct {
	serial int
	err    error
}

func (bypassTried) Name() string    { return "bypass tried" }
func (bypassTried) Essential() bool { return true }

// mediaBridged notes that the switch has bridged caller and media leg.
func (b *bypass) mediaBridged(ctx context.Context, ev *esl.Event) {
	if b.voice.ai.live() && b.voice.ai.leg != "" && (ev.Get("Bridge-B-Unique-ID") == b.voice.ai.leg || ev.Get("Bridge-A-Unique-ID") == b.voice.ai.leg) {
		b.bridged, b.voice.ai.bridgeDue, b.voice.ai.bridgedAt = true, false, b.c.clock.Now()
		if m := b.voice.ai.media; m != nil {
			m.LegBridged()
		}
		b.refers.bridged(ctx, ev)
		b.voice.verbs.tryAgain()
		b.line.leaveSocket()
		b.considerBypass(ctx)
	}
}

// codecOf notes which codec the carrier speaks, from whichever event tells it first.
func (b *bypass) codecOf(ev *esl.Event) {
	if name := ev.Get("Channel-Read-Codec-Name"); name != "" {
		b.codec = name
	}
}

// bypassCodec is the codec of a media leg that is to go into bypass; empty when the call is not to.
func (b *bypass) bypassCodec() string {
	if b.voice.ai == nil || !b.voice.ai.grant.Bypass || b.barred || b.c.outOfBypass(b.call.TrunkID, b.voice.ai.grantedAt) {
		return ""
	}
	switch b.codec {
	case "PCMU", "PCMA":
		return b.codec
	}
	return ""
}

// considerBypass takes the call past the switch, if its trunk is for that and nothing needs the switch's media. The carrier
// is tried first by a re-INVITE that does no harm: on the way into bypass a refusal would leave the call deaf.
func (b *bypass) considerBypass(ctx context.Context) {
	s := b.voice.ai
	if b.phase != bypassOff || b.awaited || !b.bridged || b.holds > 0 || b.killCause != "" || s == nil || s.phase != phaseOpen || !s.legUp ||
		b.transfers.now != nil || b.bypassCodec() == "" {
		return
	}
	b.next(bypassTrying)
	b.asked = true
	link, channel, serial := b.c.link, b.channel, b.serial
	b.beside(func() {
		b.post(bypassTried{serial: serial, err: mediapath.Reinvite(ctx, link, channel)})
	})
}

// bypassAnswered: the carrier has answered the re-INVITE that changes nothing, or the media leg is ready.
func (b *bypass) bypassAnswered(ctx context.Context, m bypassTried) (state, error) {
	if b.serial != m.serial {
		return b.state, nil
	}
	switch b.phase {
	case bypassTrying:
		b.carrierTried(ctx, m.err)
	case bypassPreparing:
		if m.err != nil {
			b.bypassUnprepared(ctx, m.err)
		} else {
			b.enterBypass(ctx)
		}
	case bypassOff, bypassEntering, bypassOn, bypassLeaving:
	}
	return b.state, nil
}

// carrierTried goes on to the media leg, or notes that the carrier is not for bypass.
func (b *bypass) carrierTried(ctx context.Context, err error) {
	refused, wasRefused := errors.AsType[*mediapath.RefusedError](err)
	switch {
	case wasRefused:
		b.next(bypassOff)
		b.bypassFailed(ctx, fmt.Sprintf("re-INVITE refused with %d", refused.Status))
	case errors.Is(err, mediapath.ErrNoAnswer):
		b.next(bypassOff)
		b.bypassFailed(ctx, "re-INVITE not answered in "+mediapath.ReinviteTimeout.String())
	case err != nil: // the channel's end tells more, or the link is away
		b.next(bypassOff)
		b.log.DebugContext(ctx, "bypass skipped", "error", err)
	default:
		b.prepareBypass(ctx)
	}
}

// enterBypass asks for it.
func (b *bypass) enterBypass(ctx context.Context) {
	b.next(bypassEntering)
	b.arm(timerBypass, bypassTimeout)
	codec := fs.SetVar(b.channel, "absolute_codec_string", b.codec) // each leg keeps the one codec that it has
	b.bypassCommand(ctx, jobBypass, fs.MediaOff(b.channel), codec)
}

// bypassCommand sends a background command once the quick ones before it are done, or refused: their leg may be gone.
func (b *bypass) bypassCommand(ctx context.Context, job jobKind, cmd fs.Command, before ...fs.Command) {
	serial, first := b.serial, make(fs.Script, len(before))
	for i, quick := range before {
		first[i] = fs.Try(quick)
	}
	b.inOrder(ctx, first, cmd, func(body string, err error) { b.post(jobDone{job: job, attempt: serial, body: body, err: err}) })
}

// bypassReply is the switch's reply to the way into bypass.
func (b *bypass) bypassReply(ctx context.Context, m jobDone) {
	reason := refusedJob(m)
	switch {
	case b.phase == bypassLeaving && b.stuck && m.attempt < b.serial:
		b.stuck, b.tries = false, 0 // it has come to its end after all: now the way back is open, and not tried yet
		b.takeMediaBack(ctx)
	case b.phase != bypassEntering || m.attempt != b.serial:
	case reason == "", m.unknown(): // without a reply the packets tell
		b.replied, b.unheard = true, reason != ""
		b.bypassSettled(ctx)
	case m.unsent():
		b.bypassUnprepared(ctx, m.err)
	default:
		b.breakBypass(ctx, "switch: "+reason)
	}
}

// mediaBackReply is the switch's reply to the way back. It comes while the switch still bridges the legs anew; what waits for the
// media would fall into that, so it waits for the first packet as well.
func (b *bypass) mediaBackReply(ctx context.Context, m jobDone) {
	switch {
	case b.phase != bypassLeaving || m.attempt < b.left:
	case refusedJob(m) == "":
		b.replied = true
		if b.moved {
			b.mediaIsBack(ctx)
			return
		}
		b.keypad.pastSwitch(false)
		b.arm(timerBypass, heardTimeout)
	default:
		b.arm(timerBypass, mediaBackPause)
	}
}

// legMoved: the caller's audio comes on a new way. The way back mostly shows after the switch has said that it is done.
func (b *bypass) legMoved(ctx context.Context, ev media.LegMoved) {
	switch b.phase {
	case bypassEntering:
		b.moved = true
		b.keypad.pastSwitch(true)
		b.c.metrics.bypassGap.WithLabelValues("entered").Observe(ev.Gap.Seconds())
		b.log.DebugContext(ctx, "entered bypass media", "gap", ev.Gap)
		b.bypassSettled(ctx)
	case bypassLeaving:
		b.moved = true
		b.movedBack(ctx, ev)
		if b.replied {
			b.mediaIsBack(ctx)
		}
	case bypassOff:
		if b.awaited {
			b.awaited = false
			b.movedBack(ctx, ev)
			b.considerBypass(ctx)
		}
	case bypassTrying, bypassPreparing, bypassOn:
	}
}

// movedBack: the caller's audio comes from the switch again.
func (b *bypass) movedBack(ctx context.Context, ev media.LegMoved) {
	b.keypad.pastSwitch(false)
	b.c.metrics.bypassGap.WithLabelValues("left").Observe(ev.Gap.Seconds())
	b.log.DebugContext(ctx, "left bypass media", "gap", ev.Gap)
}

// bypassSettled: the call is in bypass once the switch says so and the carrier is heard directly.
func (b *bypass) bypassSettled(ctx context.Context) {
	if !b.replied || !b.moved {
		return
	}
	b.disarm(timerBypass)
	b.next(bypassOn)
	b.c.metrics.bypass.WithLabelValues("entered").Inc()
	if len(b.waiting) > 0 {
		b.leaveBypass(ctx)
	}
}

// bypassDue: entering or leaving bypass media timed out.
func (b *bypass) bypassDue(ctx context.Context) {
	switch b.phase {
	case bypassEntering:
		if b.unheard {
			if b.overdue.IsZero() {
				b.overdue = b.c.clock.Now()
			}
			b.arm(timerBypass, bypassTimeout) // the switch may be out of reach
			b.probe(ctx)
			return
		}
		reason := "no audio from the carrier in " + bypassTimeout.String()
		if !b.replied {
			reason = "no reply of the switch in " + bypassTimeout.String()
		}
		b.breakBypass(ctx, reason)
	case bypassLeaving:
		if b.replied {
			b.mediaIsBack(ctx) // of a caller who is silent
			return
		}
		b.takeMediaBack(ctx)
	case bypassOff, bypassTrying, bypassPreparing, bypassOn:
	}
}

// looked: the switch, asked at a time of our clock, says whether the caller's audio goes past it. Asked to take back what it has, it would refuse.
func (b *bypass) looked(ctx context.Context, past bool, asked time.Time) {
	if b.phase != bypassEntering || !b.unheard || b.overdue.IsZero() || asked.Before(b.overdue) {
		return
	}
	if b.unheard = false; past {
		b.bypassDue(ctx)
	} else {
		b.bypassUnprepared(ctx, errNotPast)
	}
}

var errNotPast = errors.New("switchctl: the switch has lost the command with its link")

// breakBypass gives up a way into bypass that does not come about: the trunk loses its flag, and the media is taken back.
func (b *bypass) breakBypass(ctx context.Context, reason string) {
	b.stuck = !b.replied
	b.bypassFailed(ctx, reason)
	b.leaveBypass(ctx)
}

// bypassFailed notes that bypass has failed on this call, and takes its trunk out.
func (b *bypass) bypassFailed(ctx context.Context, reason string) {
	b.barred = true
	b.c.metrics.bypass.WithLabelValues("failed").Inc()
	trunk := b.call.TrunkID
	if trunk == nil {
		return
	}
	b.log.ErrorContext(ctx, "bypass failed, the trunk's calls go through the switch from now on", "trunk_id", trunk.String(),
		"reason", reason)
	now := b.c.clock.Now().UTC()
	b.c.takeOutOfBypass(*trunk, now)
	tenant, id := b.tenant, *trunk
	b.recordFor(ctx, decisionWait, "bypass failure", func(ctx context.Context) error {
		return b.c.ledger.BypassFailed(ctx, tenant, id, now, reason)
	}, nil)
}

// bypassCallEnded: a carrier that refuses a re-INVITE with 500 and the like has ended the call with that. An answered call
// does not end by a refusal otherwise.
func (b *bypass) bypassCallEnded(ctx context.Context, ev *esl.Event) {
	if !b.asked || b.barred {
		return
	}
	status := cdr.Final(ev.Get, b.c.clock.Now()).SIPStatus
	if ev.Var("sip_hangup_disposition") == "recv_refuse" && status != nil && *status >= 400 {
		b.next(bypassOff)
		b.bypassFailed(ctx, fmt.Sprintf("re-INVITE refused with %d, which ended the call", *status))
	}
}

// leaveBypass takes the media back to the switch.
func (b *bypass) leaveBypass(ctx context.Context) {
	b.next(bypassLeaving)
	b.left, b.tries = b.serial, 0
	b.takeMediaBack(ctx)
}

// takeMediaBack asks for it, a few times. A call whose media does not come back would stay deaf. While the switch is stuck on
// the way into bypass it waits for a carrier who has refused: asked again, that one may agree, which opens the way back.
func (b *bypass) takeMediaBack(ctx context.Context) {
	b.serial++
	if b.c.link.Generation() == 0 {
		b.arm(timerBypass, mediaBackTimeout)
		return
	}
	if b.tries++; b.tries > mediaBackTries {
		b.log.ErrorContext(ctx, "leaving bypass media failed, hanging up", "tries", mediaBackTries)
		b.bypassLost(ctx)
		return
	}
	if b.stuck {
		b.arm(timerBypass, mediaBackPause)
		b.command(ctx, jobReneg, fs.Reinvite(b.channel))
		return
	}
	b.arm(timerBypass, mediaBackTimeout)
	b.bypassCommand(ctx, jobMediaBack, fs.MediaOn(b.channel), b.endAsBefore(), fs.SetVar(b.channel, "bypass_media", "false"))
}

// bypassLost ends a call that nobody can hear.
func (b *bypass) bypassLost(ctx context.Context) {
	b.next(bypassOff)
	b.waiting = nil
	b.kill(ctx, ledger.CauseTemporaryFailure)
}

// mediaIsBack: the switch has the audio again, and its own telephone-event number holds before the first packet shows that;
// what has waited goes on.
func (b *bypass) mediaIsBack(ctx context.Context) {
	b.disarm(timerBypass)
	if b.phase == bypassLeaving {
		b.awaited = !b.moved
		b.c.metrics.bypass.WithLabelValues("left").Inc()
	}
	b.next(bypassOff)
	b.keypad.pastSwitch(false)
	waiting := b.waiting
	b.waiting = nil
	for _, do := range waiting {
		do(ctx)
	}
}

// withSwitchMedia runs do, on the actor's goroutine, once the audio goes through the switch: at once in most calls, after it
// was taken back from bypass in the others. It stays there until switchMediaDone has been called as often as this. do must
// look whether it is still wanted.
func (b *bypass) withSwitchMedia(ctx context.Context, do func(ctx context.Context)) {
	b.holds++
	switch b.phase {
	case bypassTrying: // nothing has been changed yet
		b.next(bypassOff)
		do(ctx)
	case bypassOff:
		do(ctx)
	case bypassOn:
		b.waiting = append(b.waiting, do)
		b.leaveBypass(ctx)
	case bypassPreparing, bypassEntering, bypassLeaving:
		b.waiting = append(b.waiting, do)
	}
}

// switchMediaDone ends one operation that needed the switch's media; after the last one the call goes into bypass again.
func (b *bypass) switchMediaDone(ctx context.Context) {
	b.holds = max(0, b.holds-1)
	b.considerBypass(ctx)
}

// bypassReset: the caller has no media leg any more, and its audio is the switch's.
func (b *bypass) bypassReset(ctx context.Context) {
	b.bridged = false
	switch {
	case b.phase == bypassOff || b.phase == bypassTrying:
		b.next(bypassOff)
	case b.stuck:
		b.bypassLost(ctx) // the switch ends such a call some seconds later
	default:
		b.mediaIsBack(ctx)
	}
	b.awaited = false
}

// bypassSilent: a caller in bypass is not heard. The switch's media_timeout sees nothing there, so the media is taken back;
// it is no fault of the trunk's, whose carrier has been heard.
func (b *bypass) bypassSilent(ctx context.Context) {
	if b.phase != bypassOn {
		return
	}
	b.c.metrics.bypass.WithLabelValues("silent").Inc()
	b.barred = true
	b.leaveBypass(ctx)
}
