package simswitch

import (
	"context"
	"encoding/binary"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRelay measures the CPU of one bridged call of PCMU, both ways, per second of call: packets of two senders through the
// switch to two receivers, whose own cost is part of the figure.
func BenchmarkRelay(b *testing.B) {
	const calls = 200
	sw, err := New(Config{ESLAddr: "127.0.0.1:0", ExternalSIPAddr: "127.0.0.1:0", InternalSIPAddr: "127.0.0.1:0"})
	require.NoError(b, err)
	require.NoError(b, sw.Start(context.Background()))
	defer func() { require.NoError(b, sw.Close()) }()
	far, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP("127.0.0.1")})
	require.NoError(b, err)
	defer func() { require.NoError(b, far.Close()) }()
	received := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, maxPacket)
		for {
			if _, _, err := far.ReadFromUDPAddrPort(buf); err != nil {
				return
			}
			received++
		}
	})
	var ports []*mediaPort
	addr := localPort(far).AddrPort()
	for range calls {
		var pair []*mediaPort
		for range 2 {
			m, err := sw.newMediaPort()
			require.NoError(b, err)
			m.owner = sw.newChannel(uuid.NewString(), true)
			m.announce()
			m.connect(addr, codecPCMU, 101)
			pair = append(pair, m)
		}
		bridgeMedia(pair[0], pair[1])
		ports = append(ports, pair...)
	}
	packet := make([]byte, rtpHeader+frameSamples)
	packet[0] = 0x80
	b.ResetTimer()
	start, began := cpuTime(), time.Now()
	sent := 0
	tick := time.NewTicker(frameDuration)
	defer tick.Stop()
	for n := 0; b.Loop(); n++ {
		<-tick.C
		binary.BigEndian.PutUint16(packet[2:], uint16(n))
		binary.BigEndian.PutUint32(packet[4:], uint32(n*frameSamples))
		for _, m := range ports {
			_, _ = far.WriteToUDP(packet, &net.UDPAddr{IP: net.ParseIP("127.0.0.1"), Port: m.port()})
			sent++
		}
	}
	used, wall := cpuTime()-start, time.Since(began)
	b.ReportMetric(float64(used.Microseconds())/(calls*wall.Seconds()), "cpu-us/call-s")
	for _, m := range ports {
		m.close()
	}
	_ = far.SetReadDeadline(time.Now())
	wg.Wait()
	b.ReportMetric(float64(received)/float64(max(sent, 1)), "delivered")
}

// TestManyCalls bridges many calls at once and lets them end: every one is told, nothing is left.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	const calls = 20
	b := setup(t)
	ids := make([]string, calls)
	for i := range ids {
		ids[i] = uuid.NewString()
		b.esl.write("bgapi originate {ignore_early_media=true,origination_uuid=" + ids[i] + "}sofia/external/answer-425-mute@" + b.peer.addr +
			" '&bridge(sofia/internal/answer-1000-mute@" + b.peer.addr + ")'\nJob-UUID: many-" + strconv.Itoa(i) + "\n\n")
	}
	for range ids {
		require.Contains(t, b.esl.nextReply().head["reply-text"], "+OK")
	}
	for _, id := range ids {
		b.esl.event(id, "CHANNEL_BRIDGE")
	}
	require.Equal(t, 2*calls, b.sw.Live())
	for _, id := range ids {
		require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+id))
	}
	for _, id := range ids {
		require.Equal(t, "NORMAL_CLEARING", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
		b.record(id)
	}
	require.Eventually(t, func() bool { return b.sw.Live() == 0 }, 30*time.Second, 5*time.Millisecond)
}
