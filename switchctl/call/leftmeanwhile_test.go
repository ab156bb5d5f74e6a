package call

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// TestAgentWhoHangsUpWhileTheCallIsFound has an agent hang up while a controller that has just started finds their call: the switch has said that they
// are bridged, and the agent's leg is known to have ended before the call is its phone's, or as it becomes that. The call ends, as it does when they
// hang up before or after; one whose agent was lost goes on, and so does one whose flow has to hear of it.
func TestAgentWhoHangsUpWhileTheCallIsFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		joined      bool
		inFlow      bool
		disposition string
		ends        bool
	}{
		"before the call is found":      {disposition: "recv_bye", ends: true},
		"as the call is found":          {disposition: "recv_bye", joined: true, ends: true},
		"in a flow, before":             {disposition: "recv_bye", inFlow: true},
		"in a flow, as it is found":     {disposition: "recv_bye", joined: true, inFlow: true},
		"lost before the call is found": {disposition: "send_bye"},
		"lost as the call is found":     {disposition: "send_bye", joined: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.play("hold", "phone CHANNEL_ANSWER")
				if tc.inFlow {
					b.play("inflow", "steps agent keep=yes theirs=yes | wait for=60")
				}
				b.play("dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "connected", "socket down",
					"phoneleg there", "channel answered bridged=phoneleg")
				leg := b.phoneLeg()
				end := b.phoneEvent(fs.ChannelHangupComplete)
				end.Set("Hangup-Cause", "NORMAL_CLEARING")
				end.Set("variable_sip_hangup_disposition", tc.disposition)
				bridged := b.link.channels[b.call.FsUuid]
				part := func() {
					b.link.channels[b.call.FsUuid] = strings.Replace(bridged, `"variable_signal_bond":"`+leg, `"variable_last_bridge_to":"`+leg, 1)
					delete(b.link.channels, leg)
					b.writeCDRWith(leg, "NORMAL_CLEARING", map[string]string{"sip_hangup_disposition": tc.disposition})
				}
				looks := 0
				b.link.mu.Lock()
				b.link.dump = func(channel string) (string, bool) {
					if channel != b.call.FsUuid {
						return "", false
					}
					if looks++; looks == 2 { // the switch takes its time to part them
						b.link.dump = nil
					}
					if tc.joined || looks > 1 {
						return bridged, true
					}
					part()
					b.link.mu.Unlock()
					defer b.link.mu.Lock()
					b.c.dispatch(end)
					for b.c.phones.Agent(leg) != nil {
						runtime.Gosched()
					}
					return bridged, true
				}
				b.link.mu.Unlock()
				b.play("restart")
				if tc.joined { // the phone gets to know of its leg's end before it hears of the call
					b.link.mu.Lock()
					part()
					b.link.mu.Unlock()
					legClaim{b.c.registry.call(b.call.ID), 1}.LegGone(phone.Lost)
					b.c.dispatch(end)
				}
				b.play("sleep 10s")
				trace := strings.Join(b.trace.take(), "\n")
				require.Equal(t, tc.ends, strings.Contains(trace, "uuid_kill "+b.call.FsUuid+" "+ledger.CauseNormalClearing))
				require.Equal(t, !tc.ends, strings.Contains(trace, "uuid_transfer "+b.call.FsUuid+" "+reattachExtension))
				require.Equal(t, tc.inFlow, strings.Contains(trace, "handler: agent keep=yes theirs=yes: ended"))
			})
		})
	}
}
