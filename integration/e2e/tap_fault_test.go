package e2e

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/echoai"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// kill -9 of the controller ends a fork, by its leg's media time-out or at the restart; the calls go on, and the AI may listen
// again.
func TestMonitorDiesWithTheController(t *testing.T) {
	withOwnStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		const callee, listener = "9876900000", "9876900001"
		target := c.live(t, callee, "/tone?hz=1000&delay=0s")
		monitor := c.live(t, listener, "/tone?hz=700&delay=0s")
		c.monitor(t, http.StatusOK, monitor, "monitor_start", target)
		eventually(t, 20*time.Second, "the switch lists the leg", func() bool {
			taps, channels := c.tapLegs(t, target, monitor)
			return taps == 1 && channels == 5
		})
		require.NoError(t, c.KillController())
		require.NoError(t, c.StartController(t.Context()))
		eventually(t, 20*time.Second, "the calls are back, and no leg eavesdrops", func() bool {
			taps, channels := c.tapLegs(t, target, monitor)
			return taps == 0 && channels == 4
		})
		eventually(t, 20*time.Second, "both sessions are resumed", func() bool {
			return len(c.sessions(t, target)) == 2 && len(c.sessions(t, monitor)) == 3
		})
		// The relationship has not outlived the process that held it: the AI, dialed with reconnect, asks for it again.
		problem := c.monitor(t, http.StatusForbidden, monitor, "monitor_stop", target)
		require.Equal(t, "no_relationship", problem["code"])
		c.monitor(t, http.StatusOK, monitor, "monitor_start", target)
		eventually(t, 20*time.Second, "both parties reach the monitor again", func() bool {
			heard, ok := c.monitorSession(t, monitor, target)
			return ok && len(onsets(heard.Heard, callerHz)) > 0 && len(onsets(heard.Heard, agentHz)) > 0
		})
		for _, id := range []string{monitor, target} {
			c.control(t, http.StatusOK, id, map[string]any{"event": "hangup"})
			c.endedCall(t, id)
		}
		eventually(t, 20*time.Second, "no channel is left", func() bool {
			_, channels := c.tapLegs(t, target, monitor)
			return channels == 0
		})
		c.atRest(t)
	})
}

// A call in bypass has no audio on the switch: it is taken back for the fork, and goes past the switch again afterwards.
func TestMonitorOfACallInBypass(t *testing.T) {
	withPlainStack(t, stack.Config{}, func(t *testing.T, c *customer) {
		require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), "UPDATE trunks SET media_mode = 'bypass'")
			return err
		}))
		const callee, listener = "9876910000", "9876910001"
		target := c.live(t, callee, "/tone?hz=1000&delay=0s")
		monitor := c.live(t, listener, "/tone?hz=700&delay=0s")
		past := func() bool {
			report, ok := c.report(t, "+91"+callee)
			return ok && report.Reinvites > 0
		}
		eventually(t, 20*time.Second, "the target goes past the switch", past)
		c.monitor(t, http.StatusOK, monitor, "monitor_start", target)
		var heard echoai.Session
		eventually(t, 20*time.Second, "both parties reach the monitor", func() bool {
			var ok bool
			heard, ok = c.monitorSession(t, monitor, target)
			return ok && len(onsets(heard.Heard, callerHz)) > 0 && len(onsets(heard.Heard, agentHz)) > 0
		})
		report, _ := c.report(t, "+91"+callee)
		before := report.Reinvites
		c.monitor(t, http.StatusOK, monitor, "monitor_stop", target)
		eventually(t, 20*time.Second, "the target goes past the switch again", func() bool {
			report, _ := c.report(t, "+91"+callee)
			return report.Reinvites > before && report.HearsNow
		})
		for _, id := range []string{monitor, target} {
			c.control(t, http.StatusOK, id, map[string]any{"event": "hangup"})
			c.endedCall(t, id)
		}
		c.atRest(t)
	})
}

// A tap without a socket gives the machine detector what the caller says: the greeting of a machine is told from its length.
func TestTapToMachineDetection(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		server, err := media.New(media.Config{SIPAddr: "127.0.0.1:0", RTPPortMin: 50000, RTPPortMax: 50998, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		require.NoError(t, server.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, server.Close(context.Background())) })
		conn, err := esl.Dial(t.Context(), c.Bootstrap.Switch.ESL, c.SwitchPassword(), esl.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })

		const machine = "9876920072"
		campaign := c.campaign(t, c.voiceAgent(t, "/silent", nil), map[string]any{"amd": false})
		c.push(t, campaign, machine)
		c.start(t, campaign)
		var callID string
		eventually(t, 20*time.Second, "the call is answered", func() bool {
			calls := c.calls(t, campaign)
			if len(calls) == 1 {
				callID = calls[0].FSUUID
			}
			return len(calls) == 1 && calls[0].AnswerTime != nil
		})
		tap, err := server.OpenTap(t.Context(), media.SessionSpec{ID: uuid.NewString(), CallID: callID, AMD: &amd.Config{}})
		require.NoError(t, err)
		t.Cleanup(func() { tap.Close(media.CloseHangup) })
		leg := tap.Legs[0].Session
		out, err := conn.API(t.Context(), "originate {ignore_early_media=true,absolute_codec_string=PCMU,media_timeout=2000}sofia/internal/"+
			strings.TrimPrefix(leg.URI(), "sip:")+" '&native_eavesdrop("+callID+" read)'")
		require.NoError(t, err, out)
		var verdict media.AMD
		deadline := time.After(20 * time.Second)
		for verdict.Kind != amd.KindVerdict {
			select {
			case ev := <-leg.Events():
				if found, ok := ev.(media.AMD); ok {
					verdict = found
				}
			case <-deadline:
				require.FailNow(t, "no verdict")
			}
		}
		t.Logf("verdict %s, confidence %.2f, after %s of audio", verdict.Class, verdict.Confidence, verdict.At)
		require.Equal(t, amd.ClassMachine, verdict.Class)
		tap.Close(media.CloseHangup)
		c.hangUp(t, "+91"+machine)
		c.ended(t, campaign, 1, 10*time.Second)
		c.atRest(t)
	})
}
