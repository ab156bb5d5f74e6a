package simswitch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMediaTimeoutOnTheWayBack: a leg whose audio has gone past the switch for longer than its media_timeout ends on the way back.
// One that a re-INVITE has given a longer one before does not, though the variable has its old value again.
func TestMediaTimeoutOnTheWayBack(t *testing.T) {
	t.Parallel()
	const limit = 1500 * time.Millisecond
	for name, prepared := range map[string]bool{"as it was": false, "prepared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, _, a, m := b.bridged(",transfer_after_bridge=rm_reattach:XML:ringmaster", "answer-425", "answer-1000", ",media_timeout=1500")
			a.hears(1000)
			leg := b.other(id)
			setLimit := func(ms string) { require.Equal(t, "+OK\n", b.esl.api("uuid_setvar "+leg+" media_timeout "+ms)) }
			if prepared {
				setLimit("60000")
				require.Equal(t, operationOK, b.esl.api("uuid_media_reneg "+leg))
				require.Eventually(t, func() bool { return b.sw.channel(leg).bypass.mediaLimit() == time.Minute }, 20*time.Second, 10*time.Millisecond)
			}
			require.Equal(t, operationOK, b.esl.api("uuid_media off "+id))
			silence := func(on bool) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.silent = on
			}
			silence(true)
			ch := b.sw.channel(leg)
			require.Eventually(t, func() bool { return ch.media.silentFor(time.Time{}, time.Now()) > limit }, 20*time.Second, 10*time.Millisecond)
			setLimit("1500")
			if !prepared {
				require.Equal(t, operationOK, b.esl.api("uuid_media "+id))
				require.Equal(t, "MEDIA_TIMEOUT", b.esl.event(leg, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
				_, conn := b.accept()
				require.Equal(t, id, conn.get("Unique-ID"), "the caller asks for another leg")
				return
			}
			silence(false)
			require.Equal(t, operationOK, b.esl.api("uuid_media "+id))
			require.Equal(t, leg, b.other(id))
			require.Equal(t, limit, ch.bypass.mediaLimit())
			m.hears(425)
		})
	}
}
