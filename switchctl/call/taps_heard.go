package call

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// audience is who on a call hears what a tap's socket sends.
type audience int

const (
	// audienceNone: it is dropped. Clips are heard by the partner all the same.
	audienceNone audience = iota
	// audiencePartner: whom the caller talks with, and not the caller.
	audiencePartner
	audienceAll
)

// mux is who hears a tap's leg. The first one is always heard by the partner, to whom it sends silence mostly; the second, of a tap of two channels,
// speaks to the caller.
func (t *tap) mux(leg int) fs.MuxMode {
	switch {
	case t.audience == audienceAll:
		return fs.MuxBoth
	case leg == 0:
		return fs.MuxPartner
	}
	return fs.MuxNobody
}

// tapHear gives a tap another audience.
type tapHear struct {
	id       uuid.UUID
	audience audience
	reply    chan<- error
}

func (tapHear) Name() string                 { return "tap's audience" }
func (tapHear) Essential() bool              { return false }
func (m tapHear) refused(_ *core, err error) { m.reply <- err }

// tapTuned tells how the switch took the change; reply is nil where nobody waits.
type tapTuned struct {
	id    uuid.UUID
	reply chan<- error
	err   error
}

func (tapTuned) Name() string    { return "tap tuned" }
func (tapTuned) Essential() bool { return true }

func (m tapTuned) refused(_ *core, err error) {
	if m.reply != nil {
		m.reply <- err
	}
}

// tapSay has a tap play a clip to the caller's partner.
type tapSay struct {
	id    uuid.UUID
	clip  *media.Clip
	reply chan<- error
}

func (tapSay) Name() string                 { return "tap plays" }
func (tapSay) Essential() bool              { return false }
func (m tapSay) refused(_ *core, err error) { m.reply <- err }

// errMonitorOver refuses what needs a monitor that has ended meanwhile.
func (ts *taps) errMonitorOver(event string) error {
	return ts.conflict(event, "the monitor has ended")
}

// hear gives a tap another audience. Until the switch has it nothing is said, so that nobody hears what is meant for others; what was said before is
// dropped.
func (ts *taps) hear(ctx context.Context, m tapHear) error {
	t := ts.tap(m.id)
	switch {
	case t == nil || t.fork == nil:
		return ts.errMonitorOver(VerbMonitorStart)
	case ts.c.link.Generation() == 0:
		return switchctl.ErrLinkDown
	case m.audience == audiencePartner && ts.parties.outsider():
		return ts.conflict(VerbMonitorStart, errOutsiderDetail)
	}
	if m.audience != audienceNone {
		ts.machine.othersHeard(ctx)
	}
	t.audience, t.hushed = m.audience, true
	t.legs[0].session.Speak(false)
	ts.tune(ctx, t, m.reply)
	return nil
}

// tune tells the switch who hears the legs that are up, where that has changed.
func (ts *taps) tune(ctx context.Context, t *tap, reply chan<- error) {
	type change struct {
		channel string
		mux     fs.MuxMode
	}
	var changes []change
	for i, l := range t.legs {
		if want := t.mux(i); l.up && l.mux != want {
			l.mux = want
			changes = append(changes, change{l.channel, want})
		}
	}
	if len(changes) == 0 && reply == nil {
		return
	}
	t.tuning++
	id := t.id
	ts.inTurn(&t.tunes, func() {
		ctx, cancel := context.WithTimeoutCause(ctx, tapTimeout, switchctl.ErrTimeout)
		defer cancel()
		var faults []error
		for _, ch := range changes {
			faults = append(faults, ts.c.setMux(ctx, ch.channel, ch.mux))
		}
		ts.post(tapTuned{id: id, reply: reply, err: errors.Join(faults...)})
	})
}

// setMux changes who hears a leg that runs eavesdrop, or is about to.
func (c *host) setMux(ctx context.Context, leg string, mode fs.MuxMode) error {
	_, err := c.link.API(ctx, mode.Set(leg))
	if err == nil {
		name, headers := mode.Change(leg)
		err = c.link.SendEvent(ctx, name, headers, "")
	}
	if err != nil && !fs.IsUnsent(err) {
		return fmt.Errorf("%w: %w", switchctl.ErrTimeout, err)
	}
	return err
}

// tapTuned: the audience is the one that was asked for. A tap of which nobody knows who hears it ends.
func (ts *taps) tapTuned(ctx context.Context, m tapTuned) {
	t := ts.tap(m.id)
	if t != nil {
		t.tuning--
	}
	switch {
	case t == nil:
		m.refused(ts.core, ts.errMonitorOver(VerbMonitorStart))
		return
	case m.err != nil:
		ts.log.ErrorContext(ctx, "changing who hears a tap failed, ending it", "tap_id", t.id.String(), "error", m.err)
		ts.endTap(ctx, t, media.CloseError)
	case t.hushed:
		ts.speak(t)
	}
	m.refused(ts.core, m.err)
}

// speak lets a tap be heard, if it has an audience, unless a leg is heard by another one still: its change is on its way, or it was dialed before.
func (ts *taps) speak(t *tap) {
	if t.tuning > 0 {
		return
	}
	for i, l := range t.legs {
		if l.dialing && l.mux != t.mux(i) {
			return
		}
	}
	t.hushed = false
	if t.audience != audienceNone {
		t.legs[0].session.Speak(true)
	}
}

// say plays a clip to the caller's partner.
func (ts *taps) say(ctx context.Context, m tapSay) {
	t := ts.tap(m.id)
	switch {
	case t == nil || t.fork == nil:
		m.reply <- ts.errMonitorOver(VerbWhisper)
	case t.audience == audienceAll:
		m.reply <- ts.conflict(VerbWhisper, errBargedDetail)
	case ts.parties.outsider():
		m.reply <- ts.conflict(VerbWhisper, errOutsiderDetail)
	case t.hushed:
		m.reply <- ts.conflict(VerbWhisper, "who hears the monitor is being changed")
	default:
		ts.machine.othersHeard(ctx)
		t.said = true
		m.reply <- ts.playFault(VerbWhisper, t.legs[0].session.Play(m.clip))
	}
}

// errBargedDetail refuses a whisper that the caller would hear, too.
const errBargedDetail = "the session has barged in, and the caller would hear it: monitor_start takes that back"

// playFault is an error of Play as a verb's client knows it.
func (k *core) playFault(event string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, media.ErrNoLeg):
		return k.conflict(event, "the call does not hear the voice agent now")
	case errors.Is(err, media.ErrPlayQueueFull):
		return errPlays
	}
	return switchctl.ErrSessionTerminated
}

// askTap asks the call that a tap is of, and tells the end of that call from the asker's own.
func (c *host) askTap(ctx context.Context, target uuid.UUID, event string, question func(reply chan<- error) message) error {
	a := c.registry.call(target)
	if a == nil {
		return targetError(ledger.ErrCallEnded, event)
	}
	refused, err := rt.Ask(ctx, a.box, a.done, question)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return targetError(err, event)
	}
	return targetError(refused, event)
}

// tapCommand builds the originate of a tap's leg, which dies with our endpoint. mux is who hears it; 0 for a leg that says nothing, which may then
// be one that costs the switch less.
func (c *host) tapCommand(callID, channel, session, caller string, side media.TapSide, codec string, mux fs.MuxMode) (fs.Command, error) {
	native := mux == 0 && side != media.TapMixed && (codec == "PCMU" || codec == "PCMA")
	codecs := legCodecs(codec)
	if native {
		codecs = codec
	}
	v := fs.Variables{
		"origination_uuid":      channel,
		"originate_timeout":     "5",
		"ignore_early_media":    "true",
		"media_timeout":         fs.Millis(legTimeout),
		"absolute_codec_string": codecs,
		"rm_role":               roleTap,
		"rm_call_id":            callID,
		"rm_node":               c.cfg.NodeID,
	}
	if mux != 0 {
		mux.MuxVariables(v)
	}
	app := fs.Eavesdrop(caller)
	switch {
	case side == media.TapMixed:
	case native && side == media.TapCaller:
		app = fs.NativeEavesdrop(caller, fs.Read)
	case native:
		app = fs.NativeEavesdrop(caller, fs.Write)
	default:
		v["eavesdrop_bridge_aleg"] = boolText(side == media.TapCaller)
		v["eavesdrop_bridge_bleg"] = boolText(side == media.TapOther)
	}
	return fs.Originate(v, "sofia/"+c.cfg.MediaProfile+"/"+session+"@"+c.media.SIPAddr(), app)
}
