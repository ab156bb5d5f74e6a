package call

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// A second REFER while the switch bridges caller and endpoint again: the leg has no partner, so that the switch refuses it. One that came in the moment
// before has parked the leg, and the caller waits for it: the bridge is asked for crosswise. The first REFER is carried out, the second refused.
func TestReferWhileBridging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipReferring(t)
		var refer atomic.Int32
		refer.Store(1)
		b.link.mu.Lock()
		b.link.dump = func(channel string) (string, bool) {
			return fmt.Sprintf(`{"Channel-State":"CS_PARK","variable_sip_blind_transfer_event":"refer;id=%d"}`, refer.Load()), channel == leg
		}
		b.link.mu.Unlock()
		b.c.registry.call(b.call.ID).post(socketUp{sock: newFakeSocket(b.trace), ev: b.event("CHANNEL_DATA", map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<tel:+919876500009>",
		})})
		synctest.Wait()
		did := strings.Join(b.trace.take(), "\n")
		t.Log(did)
		require.Contains(t, did, "uuid_bridge "+b.call.FsUuid+" "+leg+"\napi uuid_setvar_multi "+leg+" signal_bond=;transfer_history=", "it has no partner for now, and no history")
		require.Regexp(t, "uuid_setvar_multi "+b.call.FsUuid+" .*;transfer_history=;", did, "a history would grow with each REFER")

		refer.Store(2)
		time.Sleep(rebridgeTimeout) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		did = strings.Join(b.trace.take(), "\n")
		t.Log(did)
		require.Contains(t, did, "uuid_bridge "+leg+" "+b.call.FsUuid)
		require.Contains(t, did, "refer;id=2")
		require.Contains(t, did, "491 INVALID_STATE")
		require.NotContains(t, did, "uuid_kill")

		b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{
			"Unique-ID": leg, "variable_rm_role": roleMedia, "Bridge-A-Unique-ID": leg, "Bridge-B-Unique-ID": b.call.FsUuid,
		}))
		synctest.Wait()
		did = strings.Join(b.trace.take(), "\n")
		t.Log(did)
		require.Contains(t, did, "uuid_setvar "+leg+" signal_bond "+b.call.FsUuid, "it has its partner again")
		require.Contains(t, did, "originate", "the first is carried out")
	})
}

// A switch that is slow, whose leg is not parked, gets its time.
func TestReferOnASlowSwitch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipReferring(t)
		b.link.mu.Lock()
		b.link.dump = func(channel string) (string, bool) {
			return `{"Channel-State":"CS_RESET","variable_sip_blind_transfer_event":"refer;id=1"}`, channel == leg
		}
		b.link.mu.Unlock()
		b.c.registry.call(b.call.ID).post(socketUp{sock: newFakeSocket(b.trace), ev: b.event("CHANNEL_DATA", map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<tel:+919876500009>",
		})})
		synctest.Wait()
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": leg}))
		synctest.Wait()
		did := strings.Join(b.trace.take(), "\n")
		t.Log(did)
		require.NotContains(t, did, "uuid_bridge "+leg)
		require.NotContains(t, did, "uuid_kill")
		require.Contains(t, did, "originate")
	})
}

// REFERs without end that come to nothing leave room in the session's log.
func TestRefusedRefersFillNoLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipReferring(t)
		for range 3 * refusedNoted {
			b.c.registry.call(b.call.ID).post(socketUp{sock: newFakeSocket(b.trace), ev: b.event("CHANNEL_DATA", map[string]string{
				"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<nobody>",
			})})
			synctest.Wait()
			b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": leg}))
			synctest.Wait()
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		}
		require.Equal(t, refusedNoted, strings.Count(strings.Join(b.trace.take(), "\n"), `{"refer":`))
	})
}
