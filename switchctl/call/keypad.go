package call

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/dtmf"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

const (
	// switchDigit is the length of a digit that the switch presses, and switchGap at least the silence behind it.
	switchDigit = 160 * time.Millisecond
	switchGap   = 60 * time.Millisecond
	// switchQueue is how many digits wait in the switch: it drops what is more (switch_rtp.c, dtmf_queue).
	switchQueue = 99
	// maxPresses bounds the send_dtmf of one call that wait for an earlier one.
	maxPresses = 64
)

// callerKeys is how the caller's leg carries digits, as the switch has negotiated it with the carrier.
type callerKeys struct {
	known bool
	// payload is the carrier's telephone-event number; 0: it has none, and digits go as SIP INFO, or come as tones.
	payload uint8
}

// keypad is the digits of a call: how the caller's leg carries them, and those on their way to the caller.
type keypad struct {
	*core
	conference *conference
	bypass     *bypass
	voice      *voice
	keys       callerKeys
	presses    rt.Serial
	// waiting is by when the switch has pressed each of the digits that it was given, and sessionUntil by when the session has.
	waiting      []time.Time
	sessionUntil time.Time
}

// noteKeys reads it from the caller's channel. The media leg has telephone-events in any case, since the switch offers them.
func (k *keypad) noteKeys(ev *esl.Event) {
	kind := ev.Var("dtmf_type")
	if kind == "" {
		return
	}
	keys := callerKeys{known: true}
	if n, err := strconv.ParseUint(ev.Var("rtp_2833_send_payload"), 10, 7); err == nil && kind == "rfc2833" {
		keys.payload = uint8(n)
	}
	if keys != k.keys {
		k.keys = keys
		k.applyKeys()
	}
}

// applyKeys has the session listen for tones when nothing else can bring the caller's digits.
func (k *keypad) applyKeys() {
	if k.voice.ai.live() && k.voice.ai.media != nil && k.keys.known {
		k.voice.ai.media.SetToneDetection(k.keys.payload == 0)
	}
}

// pastSwitch tells the session whose telephone-event number holds: the carrier's while the audio goes past the switch, which
// translates between the two legs otherwise.
func (k *keypad) pastSwitch(on bool) {
	if !k.voice.ai.live() || k.voice.ai.media == nil {
		return
	}
	if on {
		k.voice.ai.media.SetEventPayload(k.keys.payload)
	} else {
		k.voice.ai.media.SetEventPayload(0)
	}
}

// callerInfo is a SIP INFO of the caller. The switch drops its digit when the leg has telephone-events, and passes it on when
// it has not; the session tells a digit that comes twice.
func (k *keypad) callerInfo(ev *esl.Event) {
	digit, dur, ok := dtmf.ParseInfo(ev.Get("SIP-Content-Type"), ev.Body())
	if ok && k.voice.ai.live() && k.voice.ai.media != nil {
		k.voice.ai.media.HeardDTMF(digit, dur)
	}
}

// parseDigits reads the digits of a [VerbSendDTMF], as the switch presses them.
func parseDigits(digits string) ([]dtmf.Key, error) {
	keys, err := dtmf.Parse(digits, switchDigit)
	if err != nil {
		return nil, switchctl.MalformedControl("digits", strings.TrimPrefix(err.Error(), "digits "))
	}
	return keys, nil
}

// press runs a verb that presses digits beside the actor, after those before it.
func (k *keypad) press(do func()) error {
	if !k.presses.TryAdd(maxPresses, k.c.goes.Go, k.guarded(do)) {
		return switchctl.ErrDTMFQueueFull
	}
	return nil
}

// sendDTMF presses digits for the caller. The switch presses them at once, in the way of the caller's leg; over the media leg it waits for the end
// of each before it passes it on. That is the way all the same of digits with pauses and of those behind them, which the switch may wait out in the
// thread that takes our commands, and of calls on trunks with bypass: what waits in the switch is lost on the way past it.
func (k *keypad) sendDTMF(ctx context.Context, m controlCommand) error {
	keys, err := parseDigits(m.req.Digits)
	if err != nil {
		return err
	}
	noLeg := &switchctl.StateError{State: k.state.String(), Event: m.req.Event, Detail: "the caller does not hear the voice agent now"}
	if !k.voice.ai.legUp {
		return noLeg
	}
	now := k.c.clock.Now()
	deaf := k.voice.ai.overSIP() || k.conference.up() || k.bypass.phase == bypassOn && k.keys.known && k.keys.payload == 0 // to the media leg's digits
	bySwitch := deaf || !k.voice.ai.grant.Bypass && !withPauses(m.req.Digits) && !now.Before(k.sessionUntil)
	waiting, until := k.waiting, k.sessionUntil
	if bySwitch {
		if waiting = pressed(waiting, keys, now); len(waiting) > switchQueue {
			return switchctl.ErrDTMFQueueFull
		}
	} else {
		behind := pressed([]time.Time{until}, keys, now)
		until = behind[len(behind)-1]
	}
	session := k.voice.ai.media
	err = k.press(func() {
		err := error(nil)
		if bySwitch {
			err = k.bySwitch(ctx, m)
		}
		if !bySwitch || errors.Is(err, fs.ErrLinkDown) && !deaf {
			err = session.SendDTMF(m.req.Digits, 0)
		}
		switch {
		case errors.Is(err, media.ErrNoLeg):
			err = noLeg
		case errors.Is(err, dtmf.ErrQueueFull):
			err = switchctl.ErrDTMFQueueFull
		case errors.Is(err, media.ErrSessionClosed), errors.Is(err, media.ErrServerClosed):
			err = switchctl.ErrSessionTerminated
		}
		m.reply <- controlResult{result: map[string]any{}, err: err}
	})
	if err == nil {
		k.waiting, k.sessionUntil = waiting, until
	}
	return err
}

func withPauses(digits string) bool { return strings.ContainsAny(digits, "wW") }

// pressed adds to those times of waiting digits that are still to come the times by which keys have been pressed behind them.
func pressed(waiting []time.Time, keys []dtmf.Key, now time.Time) []time.Time {
	var out []time.Time
	last := now
	for _, done := range waiting {
		if done.After(now) {
			out, last = append(out, done), done
		}
	}
	for _, key := range keys {
		last = last.Add(key.Duration() + switchGap)
		out = append(out, last)
	}
	return out
}

// bySwitch has the switch press digits on the caller's leg: as telephone-events, or as SIP INFO where the carrier has none. Pauses between those it
// waits out itself: in a job of its own, so that no other command waits with it, and nobody for the end of that.
func (k *keypad) bySwitch(ctx context.Context, m controlCommand) error {
	cmd := fs.SendDTMF(k.channel, m.req.Digits, switchDigit)
	if withPauses(m.req.Digits) {
		return k.c.link.BgAPI(ctx, cmd, func(body string, err error) {
			if err != nil || !strings.HasPrefix(body, "+OK") {
				k.log.WarnContext(ctx, "pressing digits failed", "reply", strings.TrimSpace(body), "error", err)
			}
		})
	}
	body, err := k.c.link.API(ctx, cmd)
	switch {
	case err != nil || strings.HasPrefix(body, "+OK"):
		return err
	case strings.HasPrefix(body, "-ERR"): // the digits are sound: the caller has just hung up
		return switchctl.ErrSessionTerminated
	default:
		return &switchctl.CommandError{Command: cmd.Name(), Reply: strings.TrimSpace(body)}
	}
}
