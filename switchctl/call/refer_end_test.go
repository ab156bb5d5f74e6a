package call

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

// sipRinging is a bench whose caller waits for a SIP endpoint that may send a REFER.
func sipRinging(t *testing.T) (b *bench, leg string) {
	t.Helper()
	b = newBench(t)
	b.handler.agent.Transport = "sip"
	b.handler.agent.TransportConfig = json.RawMessage(`{"sip_uri":"sip:bot@192.0.2.9","refer":"transfer"}`)
	for _, line := range []string{"dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up"} {
		b.input(strings.Fields(line))
		synctest.Wait()
	}
	return b, b.sock.leg()
}

// sipReferring is a bench whose caller is bridged with a SIP endpoint that may send a REFER.
func sipReferring(t *testing.T) (b *bench, leg string) {
	t.Helper()
	b, leg = sipRinging(t)
	b.input([]string{"medialeg", "CHANNEL_ANSWER"})
	synctest.Wait()
	b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": leg}))
	synctest.Wait()
	time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
	b.trace.take()
	return b, leg
}

// A caller who hangs up while the switch has parked the endpoint's leg, for its REFER, takes that leg along.
func TestReferAndCallerHangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipReferring(t)
		b.c.registry.call(b.call.ID).post(socketUp{sock: newFakeSocket(b.trace), ev: b.event("CHANNEL_DATA", map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<tel:+919876500009>",
		})})
		synctest.Wait()
		b.c.dispatch(b.event(fs.ChannelHangupComplete, map[string]string{"Hangup-Cause": "NORMAL_CLEARING", "variable_sip_hangup_disposition": "recv_bye"}))
		synctest.Wait()
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		did := strings.Join(b.trace.take(), "\n")
		t.Log(did, b.state())
		require.Contains(t, did, "uuid_kill "+leg)
	})
}

// A REFER before the answer is a refusal: the switch has taken the caller from the ringing endpoint, which is not dialed again and again.
func TestReferBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipRinging(t)
		require.NotEmpty(t, leg)
		b.sipLeg("ringing", "")
		b.trace.take()
		b.callerComes(map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<tel:+919876500009>",
		})
		synctest.Wait()
		did := strings.Join(b.trace.take(), "\n")
		t.Log(did, b.state())
		require.Contains(t, did, "uuid_kill "+leg)
		require.NotContains(t, did, "execute bridge")
		require.NotContains(t, did, "originate")
		require.Contains(t, did, "uuid_kill "+b.call.FsUuid, "ws_disconnect_action is to hang up")
	})
}

// Word that the switch has bridged caller and endpoint for the first time comes behind a REFER that came after that: they are not together again yet.
func TestReferBeforeWordOfTheFirstBridge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipRinging(t)
		b.input([]string{"medialeg", "CHANNEL_ANSWER"})
		bridge := func() *esl.Event {
			return b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": leg})
		}
		first := bridge()
		synctest.Wait()
		b.trace.take()
		time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock
		b.callerComes(map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<tel:+919876500009>",
		})
		b.c.dispatch(first)
		synctest.Wait()
		did := strings.Join(b.trace.take(), "\n")
		require.Contains(t, did, "uuid_bridge")
		require.NotContains(t, did, "originate")
		b.c.dispatch(bridge())
		synctest.Wait()
		require.Contains(t, strings.Join(b.trace.take(), "\n"), "originate")
	})
}

// referAndLeave has an endpoint send a REFER and hang up right behind it: the caller comes back from the bridge that was made before the switch's reply to that
// is here. second is the socket that they come on.
func referAndLeave(t *testing.T, b *bench, leg string, second *fakeSocket, headers map[string]string) (first *fakeSocket) {
	t.Helper()
	b.link.mu.Lock()
	b.link.bridgeTakes = 50 * time.Millisecond
	b.link.mu.Unlock()
	a := b.c.registry.call(b.call.ID)
	first = newFakeSocket(b.trace)
	refer := map[string]string{"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<tel:+919876500009>"}
	a.post(socketUp{sock: first, order: 1, ev: b.event("CHANNEL_DATA", refer)})
	synctest.Wait()
	b.c.dispatch(b.event(fs.ChannelBridge, map[string]string{"Bridge-A-Unique-ID": b.call.FsUuid, "Bridge-B-Unique-ID": leg}))
	a.post(socketUp{sock: second, order: 2, ev: b.event("CHANNEL_DATA", headers)})
	b.c.dispatch(b.event(fs.ChannelHangupComplete, map[string]string{
		"Unique-ID": leg, "variable_rm_role": roleMedia, "Hangup-Cause": "NORMAL_CLEARING", "variable_sip_hangup_disposition": "recv_bye",
	}))
	synctest.Wait()
	time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
	synctest.Wait()
	return first
}

// The socket that the caller is on stays, and the one that brought the REFER, which they have left, is closed.
func TestReferAndTheCallerIsBackBeforeTheReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipReferring(t)
		second := newFakeSocket(b.trace)
		first := referAndLeave(t, b, leg, second, map[string]string{"Caller-Context": "ringmaster", "Caller-Destination-Number": "rm_reattach"})
		did := strings.Join(b.trace.take(), "\n")
		t.Log(did, b.state())
		require.Contains(t, did, "rm_role=transfer", "the REFER is carried out")
		require.Contains(t, did, "execute playback tone_stream", "and the caller hears ringback")
		require.True(t, isDone(first))
		require.False(t, isDone(second), "the caller is on it")
	})
}

// The caller's newest socket brought another REFER, which the switch refuses. Nobody knows where they have come from there: they are looked for.
func TestReferAndTheCallerIsOnNoSocket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, leg := sipReferring(t)
		second := newFakeSocket(b.trace)
		first := referAndLeave(t, b, leg, second, map[string]string{
			"Caller-Context": "rm_refer", "variable_blind_transfer_uuid": leg, "variable_sip_refer_to": "<tel:+919876500010>",
		})
		require.True(t, isDone(first))
		require.True(t, isDone(second))
		b.input(strings.Fields("channel answered"))
		b.trace.take()
		time.Sleep(socketTimeout) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		did := strings.Join(b.trace.take(), "\n")
		t.Log(did, b.state())
		require.Contains(t, did, "rm_reattach")
	})
}

func isDone(s *fakeSocket) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}
