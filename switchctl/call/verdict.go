package call

import (
	"context"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

const (
	// verdictTimeout is how long after answer call.answered waits for machine detection.
	verdictTimeout = 4 * time.Second
	// detectWithin is how long after answer a session may begin that still hears how the call was answered.
	detectWithin = 10 * time.Second
)

// What ended the wait for a verdict, as the metric names it.
const (
	decidedOff     = "detection_off"
	decidedVerdict = "verdict"
	decidedTimeout = "timeout"
	decidedHangup  = "hangup"
	decidedOthers  = "others" // are heard beside the caller
)

// detects reports whether the session that is about to open hears the caller's first seconds.
func (mc *machine) detects() bool {
	return mc.call.Amd && mc.answerAt != nil && !mc.voice.ai.resumed && mc.call.AmdClass == nil && !mc.others && !mc.taps.tapDetects() &&
		mc.c.clock.Now().Sub(*mc.answerAt) < detectWithin
}

// awaitVerdict gives machine detection what is left of its time. A call that was found again waits no longer than it would
// have without the interruption: its detector's audio is lost.
func (mc *machine) awaitVerdict() {
	if ledger.AwaitsVerdict(mc.call) {
		mc.arm(timerVerdict, mc.answerAt.Add(verdictTimeout).Sub(mc.c.clock.Now()))
	}
}

// machineHeard is a finding of machine detection. The first verdict is kept on the call's record; it decides what
// call.answered says when that still waits, and what becomes of the call where a machine is not to be kept.
func (mc *machine) machineHeard(ctx context.Context, ev media.AMD) {
	if ev.Machine == amd.MachineMailbox && !mc.beeped.IsZero() && ev.Heard.Sub(mc.beeped) <= echoTime {
		mc.log.InfoContext(ctx, "machine detection ends without a verdict, since it has heard a beep of ours")
		mc.taps.endDetection(ctx)
		return
	}
	told := ev.Machine != amd.MachineUntold && mc.call.AmdMachine == nil && !mc.others
	if told {
		mc.noteMachine(string(ev.Machine))
	}
	if ev.Kind != amd.KindVerdict {
		mc.log.DebugContext(ctx, "machine detection report", "event", string(ev.Kind), "class", string(ev.Class))
		if told && mc.call.AmdClass != nil {
			mc.writeVerdict(ctx)
			mc.considerMachine(ctx)
		}
		mc.greetingHeard(ctx, ev.Kind)
		return
	}
	if mc.call.AmdClass != nil || mc.answerAt == nil || mc.others {
		return
	}
	after := max(0, ev.Heard.Sub(*mc.answerAt))
	class, confidence, ms := string(ev.Class), ev.Confidence, int32(min(after, detectWithin+time.Minute).Milliseconds()) //nolint:gosec // bounded
	mc.noteVerdict(class, confidence, ms)
	mc.log.InfoContext(ctx, "machine detection verdict", "class", class, "confidence", confidence, "after_ms", ms)
	mc.c.metrics.verdict.WithLabelValues(class).Observe(after.Seconds())
	if ledger.AwaitsVerdict(mc.call) {
		mc.decideAnswer(ctx, decidedVerdict)
	} else {
		mc.writeVerdict(ctx)
	}
	mc.considerMachine(ctx)
}

// othersHeard: from now on the voice agent's session, and with it machine detection, hears others beside the caller: a whisper, who has barged in, a
// conference's members. A verdict would be of them, so there will be none: a person has answered. A beep after the verdict may be theirs, too.
func (mc *machine) othersHeard(ctx context.Context) {
	if mc.others || !mc.call.Amd || !mc.voice.ai.live() || mc.taps.tapDetects() {
		return
	}
	mc.others = true
	if mc.call.AmdClass != nil {
		return
	}
	if mc.voice.ai.media != nil {
		mc.voice.ai.media.StopMachineDetection()
	}
	mc.log.InfoContext(ctx, "machine detection ends without a verdict, since others are heard beside the caller")
	mc.decideAnswer(ctx, decidedOthers)
}

// decideAnswer ends the wait for a verdict: call.answered is committed, and the events behind it.
func (mc *machine) decideAnswer(ctx context.Context, how string) {
	if !ledger.AwaitsVerdict(mc.call) {
		return
	}
	mc.disarm(timerVerdict)
	by := ledger.AnsweredBy(mc.call)
	mc.noteAnsweredBy(by)
	mc.c.metrics.answered.WithLabelValues(by, how).Inc()
	mc.writeVerdict(ctx)
}
