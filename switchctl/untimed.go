package switchctl

import "context"

// The switch reads a leg by a timer of its own, or waits for the leg's packets. The timer costs it a quarter of a bridge (3.2 in
// place of 4.6 ms of CPU per call-second), and every caller up to 20 ms of delay. But a leg that is waited for and sends nothing can't
// be cut off: for 5 s the switch acts on no transfer, nor on the end of the other leg (switch_rtp.c, rtp_common_read; the packet by
// which it would wake itself comes from an address that it doesn't accept). So callers begin with the timer, and lose it once the
// media endpoint has heard that their silence comes as packets. The switch looks at the variable whenever a bridge begins, and an
// application that runs in mid-bridge is to it an end and a beginning.

// varNoTimer is the channel variable that says so.
const varNoTimer = "rtp_notimer_during_bridge"

// readWithoutTimer has the switch wait for the caller's packets, if those never stop. Audio that is to go past the switch keeps the
// timer: its packets stop. It is said once: whether a command that failed was carried out, nobody knows, and a timer that stays
// costs no more than before.
func (a *actor) readWithoutTimer(ctx context.Context) {
	if a.untimed || !a.bridgedWithAI() || !a.ai.steady || a.bypass.phase != bypassOff || a.bypassCodec() != "" || a.transfer != nil ||
		a.killCause != "" || a.c.link.Generation() == 0 {
		return
	}
	a.untimed = true
	link, channel := a.c.link, a.channel
	a.c.goes.Go(func() {
		if err := link.Execute(ctx, channel, "set", varNoTimer+"=true"); err != nil {
			a.log.DebugContext(ctx, "the switch keeps a caller's timer", "error", err)
		}
	})
}
