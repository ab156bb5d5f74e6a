package call

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// monitorPermitTimeout bounds the check of what a monitor is about to do.
const monitorPermitTimeout = 5 * time.Second

// monitorMode ends the change of who hears a running monitor, once it is permitted and the target's actor has made it.
type monitorMode struct {
	target uuid.UUID
	id     uuid.UUID
	start  ledger.MonitorStart
	reply  chan<- controlResult
	err    error
}

func (monitorMode) Name() string    { return "monitor mode" }
func (monitorMode) Essential() bool { return true }

func (m monitorMode) refused(_ *core, err error) { m.reply <- controlResult{err: err} }

// monitorWhispered ends a whisper.
type monitorWhispered struct {
	target uuid.UUID
	id     uuid.UUID
	source string
	reply  chan<- controlResult
	err    error
}

func (monitorWhispered) Name() string    { return "monitor whispered" }
func (monitorWhispered) Essential() bool { return true }

func (m monitorWhispered) refused(_ *core, err error) { m.reply <- controlResult{err: err} }

// modeAudience is who hears a monitor's socket.
func modeAudience(mode ledger.MonitorMode) audience {
	if mode == ledger.MonitorWhisper {
		return audiencePartner
	}
	return audienceNone
}

// audited is what the audit is told of a verb.
func (ms *monitors) audited(req switchctl.ControlRequest, target uuid.UUID, mode ledger.MonitorMode) ledger.MonitorStart {
	return ledger.MonitorStart{
		Call: ms.call, Session: ms.voice.ai.id, VoiceAgentID: ms.voice.ai.agent.ID, Target: target, Mode: mode, Source: req.Source, By: req.By,
		At: ms.c.clock.Now().UTC(),
	}
}

// permitMonitor asks whether a monitor may do that, and has it audited.
func (ms *monitors) permitMonitor(ctx context.Context, start ledger.MonitorStart) error {
	ctx, cancel := context.WithTimeout(ctx, monitorPermitTimeout)
	defer cancel()
	return ms.c.ledger.PermitMonitor(ctx, start)
}

// barge has caller and partner of the target hear the monitor's socket, which goes on hearing both. Once more is no fault.
func (ms *monitors) barge(ctx context.Context, req switchctl.ControlRequest, reply chan<- controlResult) error {
	target, err := ms.monitorTarget(req)
	if err != nil {
		return err
	}
	mon, err := ms.monitoring(target)
	if err != nil {
		return err
	}
	if mon.barged && !mon.busy {
		reply <- controlResult{result: map[string]any{}}
		return nil
	}
	start := ms.audited(req, target, mon.mode)
	start.Act = ledger.MonitorBarges
	return ms.changeMonitor(ctx, mon, start, reply)
}

// changeMonitor changes who hears a running monitor: to that of another mode, or to a barge. The reply comes when it is done.
func (ms *monitors) changeMonitor(ctx context.Context, mon *monitor, start ledger.MonitorStart, reply chan<- controlResult) error {
	if mon.busy {
		return ms.conflict(VerbMonitorStart, "the monitor is being changed")
	}
	mon.busy = true
	heard := modeAudience(start.Mode)
	if start.Act == ledger.MonitorBarges {
		heard = audienceAll
	}
	m := monitorMode{target: mon.target, id: mon.id, start: start, reply: reply}
	ms.beside(func() {
		if m.err = ms.permitMonitor(ctx, start); m.err == nil {
			m.err = ms.c.askTap(ctx, m.target, VerbMonitorStart, func(reply chan<- error) message {
				return tapHear{id: m.id, audience: heard, reply: reply}
			})
		}
		ms.post(m)
	})
	return nil
}

// monitorModeChanged takes the new mode of a monitor that still runs.
func (ms *monitors) monitorModeChanged(ctx context.Context, m monitorMode) {
	mon := ms.of[m.target]
	ours := mon != nil && mon.id == m.id
	if ours {
		mon.busy = false
		defer func() {
			if mon.fell && mon.phase == monitorActive && mon.mode == ledger.MonitorWhisper && !mon.barged {
				ms.listensAlone(ctx, mon)
			}
			mon.fell = false
		}()
	}
	switch {
	case m.err != nil:
		ms.c.metrics.rejected.Inc()
		m.reply <- controlResult{err: m.err}
		return
	case !ours || mon.phase != monitorActive:
		m.reply <- controlResult{err: ms.conflict(VerbMonitorStart, "the monitor has ended")}
		return
	}
	change := changeMonitorStarted
	if mon.barged = m.start.Act == ledger.MonitorBarges; mon.barged {
		change = changeBarge
	}
	mon.mode = m.start.Mode
	ms.monitorChanged(ctx, mon, change, m.start.Source)
	m.reply <- controlResult{result: map[string]any{}}
}

// whisper plays the audio of an address to the target's other party, once it has been fetched. That the session monitors the target is what it needs,
// in whichever mode.
func (ms *monitors) whisper(ctx context.Context, cmd controlCommand) error {
	target, err := ms.monitorTarget(cmd.req)
	if err != nil {
		return err
	}
	mon, err := ms.monitoring(target)
	switch {
	case err != nil:
		return err
	case mon.barged:
		return ms.conflict(VerbWhisper, errBargedDetail)
	}
	start := ms.audited(cmd.req, target, mon.mode)
	start.Act = ledger.MonitorWhispers
	m := monitorWhispered{target: target, id: mon.id, source: cmd.req.Source, reply: cmd.reply}
	fetch := func() {
		m.err = ms.whisperTo(ctx, start, m.id, cmd.req.AudioURL)
		ms.post(m)
	}
	if !ms.whispers.TryAdd(maxPlays, ms.c.goes.Go, ms.guarded(fetch)) {
		return errPlays
	}
	return nil
}

// whisperTo fetches the audio and gives it to the target's tap.
func (ms *monitors) whisperTo(ctx context.Context, start ledger.MonitorStart, tap uuid.UUID, url string) error {
	clip, err := ms.c.clipOf(ctx, ms.tenant, url)
	if err != nil {
		ms.log.InfoContext(ctx, "fetching a whisper's audio failed", "target_call_id", start.Target.String(), "error", err)
		return audioFailed(err)
	}
	if err := ms.permitMonitor(ctx, start); err != nil {
		return err
	}
	return ms.c.askTap(ctx, start.Target, VerbWhisper, func(reply chan<- error) message { return tapSay{id: tap, clip: clip, reply: reply} })
}

// hasWhispered tells of a whisper that is being heard.
func (ms *monitors) hasWhispered(ctx context.Context, m monitorWhispered) {
	if m.err != nil {
		ms.c.metrics.rejected.Inc()
		m.reply <- controlResult{err: m.err}
		return
	}
	if mon := ms.of[m.target]; mon != nil && mon.id == m.id && mon.phase == monitorActive {
		ms.monitorChanged(ctx, mon, changeWhisper, m.source)
	}
	m.reply <- controlResult{result: map[string]any{}}
}
