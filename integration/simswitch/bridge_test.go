package simswitch

import (
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/wav"
)

// bridged originates a call, takes it over the outbound socket and bridges it to a media leg.
func (b *bundle) bridged(vars, caller, media, mediaVars string) (id string, ctl *client, a, m *peerCall) {
	b.t.Helper()
	return b.bridgedOver("internal", vars, caller, media, mediaVars)
}

// bridgedOver is bridged with the media leg over a SIP profile.
func (b *bundle) bridgedOver(profile, vars, caller, media, mediaVars string) (id string, ctl *client, a, m *peerCall) {
	b.t.Helper()
	id = uuid.NewString()
	require.Equal(b.t, "+OK "+id+"\n", b.originate(",origination_uuid="+id+",rm_call_id="+id+vars, caller, "rm_call XML ringmaster"))
	a = b.peer.next()
	ctl, conn := b.accept()
	require.Equal(b.t, id, conn.get("Unique-ID"))
	require.Equal(b.t, "+OK Events Enabled", ctl.cmd("myevents"))
	ctl.execute("bridge", "{rm_role=media"+mediaVars+"}sofia/"+profile+"/"+media+"@"+b.peer.addr, "event-lock: true", "Event-UUID: br1")
	m = b.peer.next()
	ctl.event(id, "CHANNEL_BRIDGE")
	return id, ctl, a, m
}

// other is the B leg of a channel's bridge.
func (b *bundle) other(id string) string {
	b.t.Helper()
	return b.esl.event(id, "CHANNEL_BRIDGE").get("Bridge-B-Unique-ID")
}

// TestBridgeAudio proves by tones that each side hears the other, in one codec and in two.
func TestBridgeAudio(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, caller, media string }{
		{"pass-through", "answer-425", "answer-1000"},
		{"transcoded", "answer-425-alaw", "answer-1000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, ctl, a, m := b.bridged("", tc.caller, tc.media, ",absolute_codec_string=PCMU\\,PCMA")
			m.hears(425)
			a.hears(1000)
			e := ctl.event(id, "CHANNEL_BRIDGE")
			other := b.other(id)
			require.Equal(t, id, e.get("Bridge-A-Unique-ID"))
			require.Equal(t, "originatee", e.get("Other-Type"))
			require.Equal(t, other, e.get("Other-Leg-Unique-ID"))
			require.NotEqual(t, "0", e.get("Caller-Channel-Bridged-Time"))
			require.Equal(t, "media", b.esl.api("uuid_getvar "+other+" rm_role"))
			require.Equal(t, "_undef_", b.esl.api("uuid_getvar "+other+" rm_call_id"))
			require.Equal(t, id, b.esl.api("uuid_getvar "+other+" call_uuid"))
			require.Contains(t, b.esl.api("show channels as json"), `"row_count":2,`)
			require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+id))
			require.Equal(t, "send_bye", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").v("sip_hangup_disposition"))
			require.Equal(t, "NORMAL_CLEARING", b.esl.event(other, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
			require.Eventually(t, func() bool { return b.sw.Live() == 0 }, 20*time.Second, 5*time.Millisecond)
			b.esl.event(id, "CHANNEL_DESTROY")
			require.Equal(t, []string{
				"CHANNEL_OUTGOING", "CHANNEL_CREATE", "CHANNEL_ORIGINATE", "CHANNEL_PROGRESS", "CHANNEL_ANSWER",
				"CHANNEL_EXECUTE socket", "CHANNEL_PARK", "CHANNEL_EXECUTE bridge", "CHANNEL_BRIDGE", "CHANNEL_HANGUP",
				"CHANNEL_UNBRIDGE", "CHANNEL_EXECUTE_COMPLETE bridge", "CHANNEL_UNPARK", "CHANNEL_EXECUTE_COMPLETE socket",
				"CHANNEL_HANGUP_COMPLETE", "CHANNEL_DESTROY",
			}, order(b.esl.all(id)))
			require.Equal(t, "br1", b.esl.app(id, "bridge").get("Application-UUID"))
			rec := b.record(id)
			require.Equal(t, b.sw.coreUUID, rec["core-uuid"])
			flow, _ := rec["callflow"].([]any)
			require.Len(t, flow, 2)
			vars, _ := b.record(other)["variables"].(map[string]any)
			require.Equal(t, other, vars["uuid"])
		})
	}
}

// TestControllerDies proves that a bridge goes on without its controller, and that the call parks after it.
func TestControllerDies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, ctl, a, m := b.bridged("", "answer-425", "answer-1000", "")
	m.hears(425)
	require.NoError(t, ctl.conn.Close())
	m.forget()
	a.forget()
	m.hears(425)
	a.hears(1000)
	m.hangup()
	b.esl.app(id, "bridge")
	b.esl.app(id, "socket")
	b.esl.wait(func(e ev) bool {
		return e.get("Unique-ID") == id && e.get("Event-Name") == "CHANNEL_EXECUTE" && e.get("Application") == "park"
	})
	require.Equal(t, "true", b.esl.api("uuid_exists "+id))
	a.forget()
	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+id+" rm_reattach XML ringmaster"))
	again, conn := b.accept()
	require.Equal(t, id, conn.get("Unique-ID"))
	require.Equal(t, "rm_reattach", conn.get("Channel-Destination-Number"))
	require.Equal(t, "async", conn.get("Socket-Mode"))
	require.Equal(t, "full", conn.get("Control"))
	again.cmd("myevents")
	again.execute("bridge", "sofia/internal/answer-700@"+b.peer.addr)
	b.peer.next()
	a.hears(700)
}

// TestMediaTimeoutReattaches proves the way back after a media endpoint's death: MEDIA_TIMEOUT on its leg, then the caller's
// transfer_after_bridge.
func TestMediaTimeoutReattaches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, ctl, a, m := b.bridged(",transfer_after_bridge=rm_reattach:XML:ringmaster", "answer-425", "answer-1000", ",media_timeout=2000")
	a.hears(1000)
	other := b.other(id)
	require.NoError(t, ctl.conn.Close())
	m.mu.Lock()
	m.silent = true
	m.mu.Unlock()
	h := b.esl.event(other, "CHANNEL_HANGUP_COMPLETE")
	require.Equal(t, "MEDIA_TIMEOUT", h.get("Hangup-Cause"))
	require.Equal(t, "send_bye", h.v("sip_hangup_disposition"))
	again, conn := b.accept()
	require.Equal(t, id, conn.get("Unique-ID"))
	require.Empty(t, conn.v("transfer_after_bridge"))
	require.Equal(t, "answered", conn.get("Answer-State"))
	again.cmd("myevents")
	again.execute("bridge", "sofia/internal/answer-700@"+b.peer.addr)
	b.peer.next()
	a.hears(700)
	require.Equal(t, "+OK", again.cmd("sendmsg\ncall-command: hangup\nhangup-cause: CALL_REJECTED"))
	require.Equal(t, "CALL_REJECTED", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
}

// TestReattachWithoutController parks the caller when nobody listens.
func TestReattachWithoutController(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, ctl, _, m := b.bridged(",transfer_after_bridge=rm_reattach:XML:ringmaster", "answer-425", "answer-1000", "")
	require.NoError(t, b.l.Close())
	require.NoError(t, ctl.conn.Close())
	m.hangup()
	b.esl.wait(func(e ev) bool {
		return e.get("Unique-ID") == id && e.get("Event-Name") == "CHANNEL_PARK" && e.get("Caller-Destination-Number") == "rm_reattach"
	})
	require.Equal(t, "true", b.esl.api("uuid_exists "+id))
}

// TestAfterBridge holds what the end of a bridge does to the caller.
func TestAfterBridge(t *testing.T) {
	t.Parallel()
	t.Run("hangup", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id, _, a, m := b.bridged(",hangup_after_bridge=true", "answer-425", "answer-1000", "")
		m.hangup()
		require.Equal(t, "NORMAL_CLEARING", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
		<-a.bye
	})
	t.Run("park", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id, _, _, m := b.bridged(",park_after_bridge=true,hangup_after_bridge=true", "answer-425", "answer-1000", "")
		m.hangup()
		b.esl.app(id, "socket")
		b.esl.wait(func(e ev) bool {
			return e.get("Unique-ID") == id && e.get("Event-Name") == "CHANNEL_PARK" && e.get("Channel-State") == "CS_PARK"
		})
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id := uuid.NewString()
		require.Contains(t, b.originate(",origination_uuid="+id, "answer-425", "rm_call XML ringmaster"), "+OK")
		ctl, _ := b.accept()
		ctl.cmd("myevents")
		ctl.execute("set", "continue_on_fail=USER_BUSY")
		ctl.execute("bridge", "sofia/internal/486@"+b.peer.addr, "Event-UUID: busy")
		e := ctl.app(id, "bridge")
		require.Equal(t, "USER_BUSY", e.v("originate_disposition"))
		require.Equal(t, "answered", e.get("Answer-State"))
		ctl.execute("bridge", "sofia/internal/603@"+b.peer.addr, "Event-UUID: declined")
		require.Equal(t, "CALL_REJECTED", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
	})
	t.Run("caller first", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		id, _, a, m := b.bridged(",transfer_after_bridge=rm_reattach:XML:ringmaster", "answer-425", "answer-1000", "")
		a.hangup()
		h := b.esl.event(id, "CHANNEL_HANGUP_COMPLETE")
		require.Equal(t, "recv_bye", h.v("sip_hangup_disposition"))
		require.Equal(t, "rm_reattach", h.get("Caller-Destination-Number"), "FreeSWITCH notes the transfer of a channel that is down")
		require.NotEqual(t, "0", h.get("Caller-Channel-Answered-Time"))
		<-m.bye
	})
}

// TestByeOfAnUntimedLeg: FreeSWITCH takes up the BYE of a leg that it reads without a timer with the leg's next packet.
func TestByeOfAnUntimedLeg(t *testing.T) {
	t.Parallel()
	for name, vars := range map[string][2]string{
		"caller": {",rtp_notimer_during_bridge=true", ""}, "media leg": {"", ",rtp_timer_name=none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, _, leg, m := b.bridged(vars[0], "answer-425", "answer-1000", vars[1])
			leg.hears(1000)
			m.hears(425)
			if vars[1] != "" {
				id, leg = b.other(id), m
			}
			leg.hush(true)
			settles(t, 5*frameDuration, b.sw.channel(id).media.rx.packets.Load)
			leg.goodbye()
			require.Eventually(t, func() bool { // the 200 goes out before the channel is told
				return b.esl.api("uuid_getvar "+id+" sip_hangup_disposition") == "recv_bye"
			}, 20*time.Second, time.Millisecond)
			require.Equal(t, "true", b.esl.api("uuid_exists "+id))
			leg.hush(false)
			require.Equal(t, "recv_bye", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").v("sip_hangup_disposition"))
			leg.end()
		})
	}
}

// TestUUIDBridge joins two parked calls, and leaves both parked-or-ended as their extensions say.
func TestUUIDBridge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ids []string
	var calls []*peerCall
	for _, user := range []string{"answer-425", "answer-1000"} {
		id := uuid.NewString()
		require.Contains(t, b.originate(",origination_uuid="+id, user, "rm_park XML ringmaster"), "+OK")
		calls = append(calls, b.peer.next())
		b.esl.event(id, "CHANNEL_PARK")
		ids = append(ids, id)
	}
	require.Equal(t, "+OK "+ids[1]+"\n", b.esl.api("uuid_bridge "+ids[0]+" "+ids[1]))
	require.Equal(t, "-ERR Invalid uuid\n", b.esl.api("uuid_bridge "+ids[0]+" nope"))
	e := b.esl.event(ids[0], "CHANNEL_BRIDGE")
	require.Equal(t, ids[1], e.get("Bridge-B-Unique-ID"))
	calls[0].hears(1000)
	calls[1].hears(425)
	require.Equal(t, "+OK\n", b.esl.api("uuid_transfer "+ids[0]+" -bleg rm_park XML ringmaster"))
	b.esl.event(ids[0], "CHANNEL_UNBRIDGE")
	require.Eventually(t, func() bool { return b.esl.api("uuid_exists "+ids[0]) == "false" }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "true", b.esl.api("uuid_exists "+ids[1]))
}

// TestUUIDBridgeOfOneWhoLeaves: the first of two ends while the switch looks at them. It stays ended.
func TestUUIDBridgeOfOneWhoLeaves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var legs []*channel
	for _, user := range []string{"answer-425", "answer-1000"} {
		id := uuid.NewString()
		require.Contains(t, b.originate(",origination_uuid="+id, user, "rm_park XML ringmaster"), "+OK")
		b.esl.event(id, "CHANNEL_PARK")
		legs = append(legs, b.sw.channel(id))
	}
	legs[1].mu.Lock() // it is asked whether it is there once the first was
	bridged := make(chan bool, 1)
	go func() { bridged <- b.sw.uuidBridge(legs[0], legs[1]) }()
	require.Never(t, func() bool { return len(bridged) > 0 }, 50*time.Millisecond, 10*time.Millisecond)
	legs[0].hangup(causeNormalClearing)
	<-legs[0].gone
	legs[1].mu.Unlock()
	require.False(t, <-bridged)
	require.True(t, legs[1].up())
	b.esl.api("uuid_kill " + legs[1].uuid)
	require.Eventually(t, func() bool { return b.sw.Live() == 0 }, 20*time.Second, 5*time.Millisecond)
}

// TestDTMF proves that digits are told as events and reach the other side, by RFC 4733 or by SIP INFO.
func TestDTMF(t *testing.T) {
	t.Parallel()
	for _, media := range []string{"answer-1000", "answer-1000-nodtmf"} {
		t.Run(media, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, ctl, a, m := b.bridged("", "answer-425", media, "")
			a.press('5', 160000)
			e := ctl.event(id, "DTMF")
			require.Equal(t, "5", e.get("DTMF-Digit"))
			require.Equal(t, "800", e.get("DTMF-Duration"))
			got := func() string {
				m.mu.Lock()
				defer m.mu.Unlock()
				return string(m.digits) + strings.Join(m.infos, "")
			}
			require.Eventually(t, func() bool { return strings.Contains(got(), "5") }, 20*time.Second, 10*time.Millisecond)
			require.Equal(t, "+OK "+id+" sent DTMF 12@80.\n", b.esl.api("uuid_send_dtmf "+id+" 12@80"))
			require.Eventually(t, func() bool {
				a.mu.Lock()
				defer a.mu.Unlock()
				return string(a.digits) == "12"
			}, 20*time.Second, 10*time.Millisecond)
			a.hears(1000)
		})
	}
}

// TestDTMFByINFO proves that an INFO is told on the host link in any case, and is a digit for the other side only when the
// caller has no telephone-events: as FreeSWITCH does.
func TestDTMFByINFO(t *testing.T) {
	t.Parallel()
	for caller, kind := range map[string]string{"answer-425": "rfc2833", "answer-425-nodtmf": "info"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, ctl, a, m := b.bridged("", caller, "answer-1000", "")
			require.Equal(t, kind, b.esl.event(id, "CHANNEL_ANSWER").get("variable_dtmf_type"))
			a.info("application/dtmf-relay", "Signal=5\r\nDuration=100\r\n")
			e := b.esl.event(id, "RECV_INFO")
			require.Equal(t, "application/dtmf-relay", e.get("SIP-Content-Type"))
			got := func() string {
				m.mu.Lock()
				defer m.mu.Unlock()
				return string(m.digits)
			}
			if kind == "info" {
				d := ctl.event(id, "DTMF")
				require.Equal(t, "5", d.get("DTMF-Digit"))
				require.Equal(t, "800", d.get("DTMF-Duration"))
				require.Equal(t, "ENDPOINT", d.get("DTMF-Source"))
				require.Eventually(t, func() bool { return got() == "5" }, 20*time.Second, 10*time.Millisecond)
				return
			}
			a.press('6', 160000)
			require.Eventually(t, func() bool { return got() == "6" }, 20*time.Second, 10*time.Millisecond)
		})
	}
}

// TestDivertedDTMF takes the digits from the host link.
func TestDivertedDTMF(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, ctl, a, _ := b.bridged("", "answer-425", "answer-1000", "")
	require.Equal(t, "+OK events diverted", ctl.cmd("divert_events on"))
	a.press('7', 320000)
	require.Equal(t, "7", ctl.event(id, "DTMF").get("DTMF-Digit"))
	require.Equal(t, "+OK events not diverted", ctl.cmd("divert_events off"))
	a.press('8', 480000)
	require.Equal(t, "8", b.esl.event(id, "DTMF").get("DTMF-Digit"))
}

// TestMuteAndHold silences one direction, and puts a leg on hold by re-INVITE.
func TestMuteAndHold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _, a, m := b.bridged("", "answer-425", "answer-1000", "")
	m.hears(425)
	require.Equal(t, "+OK\n", b.esl.api("uuid_audio "+id+" start read mute 1"))
	require.Eventually(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		n := len(m.heard)
		return n > 1600 && goertzel(m.heard[n-1600:], 425) < 1e6
	}, 20*time.Second, 10*time.Millisecond)
	a.hears(1000)
	require.Equal(t, "+OK\n", b.esl.api("uuid_audio "+id+" stop"))
	m.hears(425)

	require.Equal(t, "+OK Success\n", b.esl.api("uuid_hold "+id))
	require.Equal(t, "-ERR Operation failed\n", b.esl.api("uuid_hold "+id))
	require.Equal(t, "+OK Success\n", b.esl.api("uuid_hold nope"))
	b.esl.event(id, "CHANNEL_HOLD")
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.reinvites) == 1 && strings.Contains(a.reinvites[0], "a=sendonly")
	}, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		ch := b.sw.channel(id)
		ch.leg.mu.Lock()
		defer ch.leg.mu.Unlock()
		return !ch.leg.inviting
	}, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, "+OK Success\n", b.esl.api("uuid_hold off "+id))
	b.esl.event(id, "CHANNEL_UNHOLD")
	m.hears(425)
}

// TestRecordStereo proves left = what the party says, right = what it hears, and the masked stretch.
func TestRecordStereo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _, a, m := b.bridged("", "answer-425", "answer-1000", "")
	m.hears(425)
	a.hears(1000)
	path := filepath.Join(t.TempDir(), "sub", "a.wav")
	require.Equal(t, "+OK\n", b.esl.api("uuid_setvar "+id+" RECORD_STEREO true"))
	asked := time.Now()
	require.Equal(t, "+OK Success\n", b.esl.api("uuid_record "+id+" start "+path))
	require.Equal(t, path, b.esl.event(id, "RECORD_START").get("Record-File-Path"))
	start := time.Now()
	require.Eventually(t, func() bool { return time.Since(start) > 900*time.Millisecond }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "+OK Success\n", b.esl.api("uuid_record "+id+" mask "+path))
	require.Eventually(t, func() bool { return time.Since(start) > 1400*time.Millisecond }, 20*time.Second, 10*time.Millisecond)
	least := time.Since(start).Seconds()
	require.Equal(t, "+OK Success\n", b.esl.api("uuid_record "+id+" stop "+path))
	most := time.Since(asked).Seconds()
	require.Equal(t, path, b.esl.event(id, "RECORD_STOP").get("Record-File-Path"))
	require.Equal(t, "-ERR Cannot stop record session!\n", b.esl.api("uuid_record "+id+" stop "+path))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	pcm := raw[wav.HeaderSize:]
	var left, right []int16
	for i := 0; i+3 < len(pcm); i += 4 {
		left = append(left, int16(uint16(pcm[i])|uint16(pcm[i+1])<<8))
		right = append(right, int16(uint16(pcm[i+2])|uint16(pcm[i+3])<<8))
	}
	require.GreaterOrEqual(t, float64(len(left))/sampleRate, least-0.5)
	require.LessOrEqual(t, float64(len(left))/sampleRate, most+0.5)
	require.Positive(t, windows(left, 425))
	require.Positive(t, windows(right, 1000))
	require.Zero(t, windows(left, 1000))
	require.Zero(t, windows(right, 425))
	require.Less(t, goertzel(left[len(left)-1600:], 425), 1e6, "the masked stretch is silence")
}

// windows counts the stretches of 100 ms that are a tone of freq.
func windows(pcm []int16, freq float64) int {
	n := 0
	for i := 0; i+800 <= len(pcm); i += 800 {
		if tonal(pcm[i:i+800], freq) {
			n++
		}
	}
	return n
}

// TestHopDelay proves that a relayed packet rests in the switch.
func TestHopDelay(t *testing.T) {
	t.Parallel()
	for _, hop := range []time.Duration{-1, 60 * time.Millisecond} {
		b := setup(t, func(c *Config) { c.HopDelay = hop })
		_, _, a, m := b.bridged("", "answer-425-mute", "answer-1000-mute", "")
		a.mu.Lock()
		remote := a.remote
		a.mu.Unlock()
		packet := make([]byte, rtpHeader+frameSamples)
		packet[0] = 0x80
		before := m.count()
		var sent time.Time
		for n := range uint32(3) { // the first two are thrown away
			binary.BigEndian.PutUint32(packet[4:], n*frameSamples)
			sent = time.Now()
			_, err := a.rtp.WriteTo(packet, net.UDPAddrFromAddrPort(remote))
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { return m.count() > before }, 20*time.Second, time.Millisecond)
		if hop > 0 {
			require.Greater(t, time.Since(sent), hop-10*time.Millisecond)
		}
	}
}

// TestRinging holds what a caller hears while a voice agent over SIP rings.
func TestRinging(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, map[string]func(b *bundle){"ringing": callerHearsRinging})
}

func callerHearsRinging(b *bundle) {
	t := b.t
	id := uuid.NewString()
	require.Contains(t, b.originate(",origination_uuid="+id+",continue_on_fail=true", "answer-425", "rm_call XML ringmaster"), "+OK "+id)
	a := b.peer.next()
	ctl, _ := b.accept()
	bridge := func(user string) *peerCall {
		ctl.execute("bridge", "{bridge_early_media=true,ignore_early_media=false}sofia/external/"+user+"@"+b.peer.addr, "event-lock: true")
		return b.peer.next()
	}
	m := bridge("ring")
	a.hears(400)
	require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+b.leg(m)+" NO_ANSWER"))
	<-m.cancel
	m = bridge("early-1000")
	a.hears(1000)
	close(b.peer.accept)
	b.esl.event(id, "CHANNEL_BRIDGE")
	a.hears(1000)
	m.hears(425)
	require.NoError(t, ctl.conn.Close())
}

// leg is the channel of a peer's call.
func (b *bundle) leg(c *peerCall) string {
	b.t.Helper()
	return b.esl.wait(func(e ev) bool { return e.v("sip_call_id") == c.invite.CallID().Value() }).get("Unique-ID")
}
