package call

import (
	"context"
	"errors"
	"slices"
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
	// waiting is by when the switch has pressed each of the digits that it was given.
	waiting []time.Time
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

// checkDigits tells what is wrong with the digits of a [VerbSendDTMF]; nil when nothing is.
func checkDigits(digits string) error {
	if err := dtmf.Check(digits); err != nil {
		return switchctl.MalformedControl("digits", strings.TrimPrefix(err.Error(), "digits "))
	}
	return nil
}

// press runs a verb that presses digits beside the actor, after those before it.
func (k *keypad) press(do func()) error {
	if !k.presses.TryAdd(maxPresses, k.c.goes.Go, k.guarded(do)) {
		return switchctl.ErrDTMFQueueFull
	}
	return nil
}

// sendDTMF presses digits for the caller. While the audio goes through the switch, the switch presses them, in the way of the caller's leg: over the
// media leg it would wait for the end of each before it passes it on. Past the switch the session does, if the carrier has telephone-events.
func (k *keypad) sendDTMF(ctx context.Context, m controlCommand) error {
	if err := checkDigits(m.req.Digits); err != nil {
		return err
	}
	noLeg := &switchctl.StateError{State: k.state.String(), Event: m.req.Event, Detail: "the caller does not hear the voice agent now"}
	if !k.voice.ai.legUp {
		return noLeg
	}
	session := k.voice.ai.media
	direct := k.bypass.phase >= bypassEntering && (!k.keys.known || k.keys.payload != 0) && !k.conference.up()
	if !direct && !k.room(m.req.Digits) {
		return switchctl.ErrDTMFQueueFull
	}
	return k.press(func() {
		var err error
		if !direct {
			err = k.bySwitch(ctx, m.req.Digits)
		}
		if direct || errors.Is(err, fs.ErrLinkDown) {
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
}

// room tells whether the switch's queue has room for digits, and counts them to it.
func (k *keypad) room(digits string) bool {
	keys, err := dtmf.Parse(digits, switchDigit)
	now := k.c.clock.Now()
	k.waiting = slices.DeleteFunc(k.waiting, func(done time.Time) bool { return !done.After(now) })
	if err != nil || len(k.waiting)+len(keys) > switchQueue {
		return false
	}
	last := now
	if n := len(k.waiting); n > 0 {
		last = k.waiting[n-1]
	}
	for _, key := range keys {
		last = last.Add(key.Duration() + switchGap)
		k.waiting = append(k.waiting, last)
	}
	return true
}

// bySwitch has the switch press digits on the caller's leg: as telephone-events, or as SIP INFO where the carrier has none.
func (k *keypad) bySwitch(ctx context.Context, digits string) error {
	cmd := fs.SendDTMF(k.channel, digits, switchDigit)
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
