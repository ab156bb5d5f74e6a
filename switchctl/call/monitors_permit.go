package call

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// monitorPermitTimeout bounds the check of a monitor_start.
const monitorPermitTimeout = 5 * time.Second

// monitorMode ends the change of a running monitor's mode, once it is permitted.
type monitorMode struct {
	target uuid.UUID
	id     uuid.UUID
	mode   ledger.MonitorMode
	reply  chan<- controlResult
	err    error
}

func (monitorMode) Name() string    { return "monitor mode" }
func (monitorMode) Essential() bool { return true }

func (m monitorMode) refused(_ *core, err error) { m.reply <- controlResult{err: err} }

// permitMonitor asks whether a monitor may start, or change its mode, and has it audited.
func (ms *monitors) permitMonitor(ctx context.Context, start ledger.MonitorStart) error {
	ctx, cancel := context.WithTimeout(ctx, monitorPermitTimeout)
	defer cancel()
	return ms.c.ledger.PermitMonitor(ctx, start)
}

// changeMonitorMode changes what a running monitor may do; the reply comes when it is permitted.
func (ms *monitors) changeMonitorMode(ctx context.Context, mon *monitor, start ledger.MonitorStart, reply chan<- controlResult) {
	m := monitorMode{target: mon.target, id: mon.id, mode: start.Mode, reply: reply}
	ms.beside(func() {
		m.err = ms.permitMonitor(ctx, start)
		ms.post(m)
	})
}

// monitorModeIsPermitted takes the new mode of a monitor that still runs.
func (ms *monitors) monitorModeIsPermitted(ctx context.Context, m monitorMode) {
	mon := ms.of[m.target]
	switch {
	case m.err != nil:
		ms.c.metrics.rejected.Inc()
		m.reply <- controlResult{err: m.err}
		return
	case mon == nil || mon.id != m.id || mon.phase != monitorActive:
		m.reply <- controlResult{err: &switchctl.StateError{State: ms.state.String(), Event: VerbMonitorStart, Detail: "the monitor has ended"}}
		return
	}
	mon.mode = m.mode
	ms.monitorChanged(ctx, mon, changeMonitorStarted)
	m.reply <- controlResult{result: map[string]any{}}
}
