package call

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// A destination that answers and hangs up before it is bridged: the endpoint has been told 200, which ends its subscription, and hears no more of it.
func TestReferIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipReferring(t)
		b.link.mu.Lock()
		b.link.dump = func(channel string) (string, bool) {
			return `{"variable_sip_blind_transfer_event":"refer;id=1"}`, channel == leg
		}
		b.link.mu.Unlock()
		b.refer(leg, "<tel:+919876500009>")
		b.unit = between(strings.Join(b.trace.take(), "\n"), "origination_uuid=")
		b.c.dispatch(b.legEvent(fs.ChannelAnswer, nil))
		b.play("reply originate +OK", "reply originate +OK")
		synctest.Wait()
		b.c.dispatch(b.legEvent(fs.ChannelHangupComplete, map[string]string{"Hangup-Cause": "NORMAL_CLEARING"}))
		synctest.Wait()
		time.Sleep(2 * notifyTime) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		did := strings.Join(b.trace.take(), "\n")
		t.Log(did)
		require.Contains(t, did, "SIP/2.0 200 OK")
		require.Equal(t, 1, strings.Count(did, "sendevent NOTIFY"))
		require.Contains(t, did, `{"refer":"NORMAL_CLEARING"`, "the session's log has it")
	})
}

// A REFER with Replaces, which the switch refuses, leaves that on the caller's channel. Whom the caller is bridged with next is not told to replace a call.
func TestReplacesGoesToNobody(t *testing.T) {
	t.Parallel()
	for was, unset := range map[string]bool{"a@b;to-tag=c;from-tag=d": true, "": false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			for _, line := range []string{"dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER"} {
				b.input(strings.Fields(line))
				synctest.Wait()
			}
			b.trace.take()
			b.sock = newFakeSocket(b.trace)
			b.c.registry.call(b.call.ID).post(socketUp{sock: b.sock, ev: b.event("CHANNEL_DATA", map[string]string{"variable_" + varReplaces: was})})
			synctest.Wait()
			did := strings.Join(b.trace.take(), "\n")
			t.Log(did)
			require.Contains(t, did, "execute bridge")
			before, _, _ := strings.Cut(did, "execute bridge")
			require.Equal(t, unset, strings.Contains(before, "execute unset "+varReplaces))
		})
	}
}
