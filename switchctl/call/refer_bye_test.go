package call

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// refer brings a REFER of the leg, and has the switch bridge it with the caller again.
func (b *bench) refer(leg, to string) {
	b.c.registry.call(b.call.ID).post(socketUp{sock: newFakeSocket(b.trace), ev: b.event("CHANNEL_DATA", map[string]string{
		"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": to,
	})})
	synctest.Wait()
	b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": leg}))
	synctest.Wait()
}

// An endpoint that hangs up once its REFER is being carried out, as most do: the caller hears ringback at once, and the recording goes on.
func TestReferAndByeLater(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"hangup", "socket"} {
		t.Run(first+" first", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, leg := sipReferring(t)
				b.refer(leg, "<tel:+919876500009>")
				require.Contains(t, strings.Join(b.trace.take(), "\n"), "originate")
				end := func() {
					b.c.dispatch(b.event(fs.ChannelHangupComplete, map[string]string{
						"Unique-ID": leg, "variable_rm_role": roleMedia, "Hangup-Cause": "NORMAL_CLEARING", "variable_sip_hangup_disposition": "recv_bye",
					}))
					synctest.Wait()
				}
				if first == "hangup" {
					end()
				}
				b.sock = newFakeSocket(b.trace)
				b.c.registry.call(b.call.ID).post(socketUp{sock: b.sock, ev: b.event("CHANNEL_DATA", map[string]string{
					"Caller-Context": "ringmaster", "Caller-Destination-Number": "rm_reattach",
				})})
				synctest.Wait()
				if first == "socket" {
					end()
				}
				did := strings.Join(b.trace.take(), "\n")
				t.Log(did)
				require.Contains(t, did, "playback tone_stream")
				require.NotContains(t, did, "stop", "the recording goes on")
			})
		})
	}
}

// A REFER right behind the answer finds its leg gone, as the switch has not bridged that yet: what it names at the switch's own address is still known.
func TestReferRightBehindTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipRinging(t)
		b.input([]string{"medialeg", "CHANNEL_ANSWER", "variable_sip_from_host=198.51.100.7"})
		synctest.Wait()
		b.trace.take()
		b.refer(leg, "<sip:1001@198.51.100.7>")
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		did := strings.Join(b.trace.take(), "\n")
		t.Log(did)
		require.NotContains(t, did, "originate", "it is an agent's extension, not a SIP URI")
		require.Contains(t, did, "no_agent_available")
	})
}
