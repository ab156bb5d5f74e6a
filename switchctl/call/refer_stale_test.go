package call

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// A REFER that the switch has refused, since nobody listened, leaves its variables on both legs. The voice agent that hangs up later transfers nobody.
func TestReferThatWasRefusedIsNotDoneLater(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"hangup", "socket"} {
		t.Run(first+" first", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.handler.agent.Transport = "sip"
				b.handler.agent.TransportConfig = json.RawMessage(`{"sip_uri":"sip:bot@192.0.2.9","refer":"transfer"}`)
				do := func(line string) {
					b.input(strings.Fields(line))
					synctest.Wait()
				}
				for _, line := range []string{"dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up", "medialeg CHANNEL_ANSWER"} {
					do(line)
				}
				leg := b.sock.leg()
				require.NotEmpty(t, leg)
				b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": leg}))
				synctest.Wait()
				t.Log(b.trace.take())

				// A REFER came while the controller was away: the dialplan has answered 403 and bridged both again. Minutes later the voice agent hangs up.
				time.Sleep(3 * time.Minute) //nolint:forbidigo // the bubble's clock
				end := func() {
					b.c.dispatch(b.event(fs.ChannelHangupComplete, map[string]string{
						"Unique-ID": leg, "variable_rm_role": roleMedia, "Hangup-Cause": "NORMAL_CLEARING",
						"variable_sip_hangup_disposition": "recv_bye", "variable_sip_blind_transfer_event": "refer;id=5",
					}))
					synctest.Wait()
				}
				comes := func() {
					b.sock = newFakeSocket(b.trace)
					b.c.registry.call(b.call.ID).post(socketUp{sock: b.sock, ev: b.event("CHANNEL_DATA", map[string]string{
						"Caller-Context": "ringmaster", "Caller-Destination-Number": "rm_reattach",
						"variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<tel:+919876500009>",
					})})
					synctest.Wait()
				}
				if first == "hangup" {
					end()
					comes()
				} else {
					comes()
					end()
				}
				time.Sleep(3 * time.Second) //nolint:forbidigo // the bubble's clock
				synctest.Wait()
				did := strings.Join(b.trace.take(), "\n")
				t.Log(did)
				require.NotContains(t, did, "originate", "nobody is dialed")
			})
		})
	}
}
