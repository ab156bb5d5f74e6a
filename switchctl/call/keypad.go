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
	// switchDigit is the length of a digit that the switch presses.
	switchDigit = 160 * time.Millisecond
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

// sendDTMF presses digits for the caller, over the media leg: the switch passes them on in the way of the caller's own leg.
func (k *keypad) sendDTMF(ctx context.Context, m controlCommand) error {
	if err := checkDigits(m.req.Digits); err != nil {
		return err
	}
	noLeg := &switchctl.StateError{State: k.state.String(), Event: m.req.Event, Detail: "the caller does not hear the voice agent now"}
	if !k.voice.ai.legUp {
		return noLeg
	}
	if k.conference.up() || k.bypass.phase == bypassOn && k.keys.known && k.keys.payload == 0 {
		return k.switchDTMF(ctx, m)
	}
	session := k.voice.ai.media
	return k.press(func() {
		err := session.SendDTMF(m.req.Digits, 0)
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

// switchDTMF has the switch press the digits: of a carrier without telephone-events that we talk to directly. They go as SIP
// INFO.
func (k *keypad) switchDTMF(ctx context.Context, m controlCommand) error {
	cmd := fs.SendDTMF(k.channel, m.req.Digits, switchDigit)
	link := k.c.link
	return k.press(func() {
		body, err := link.API(ctx, cmd)
		if err == nil && !strings.HasPrefix(body, "+OK") {
			err = &switchctl.CommandError{Command: cmd.Name(), Reply: strings.TrimSpace(body)}
		}
		m.reply <- controlResult{result: map[string]any{}, err: err}
	})
}
