package media

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/record"
)

// BenchmarkCalls runs calls with 16 kHz audio and stereo recording for some seconds each; the callers and an echoing AI
// are another process. It prints the CPU that this process spends on a second of a call, in microseconds and as a
// multiple of what the four system calls of a frame cost (floor), and the caller's audio round trip.
func BenchmarkCalls(b *testing.B) {
	for _, n := range []int{50, 200} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var cpu float64
			var res benchResult
			for b.Loop() {
				cpu, res = benchCalls(b, n, 8*time.Second)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(cpu, "cpu-us/call-s")
			b.ReportMetric(cpu/syscallFloor(b), "x-floor")
			b.ReportMetric(res.P50, "rtt-p50-ms")
			b.ReportMetric(res.P99, "rtt-p99-ms")
			b.ReportMetric(100*float64(res.Expected-res.Received)/float64(max(res.Expected, 1)), "missing-%")
		})
	}
}

// benchCalls returns the microseconds of CPU for each call-second, and what the callers have measured.
func benchCalls(b *testing.B, n int, d time.Duration) (float64, benchResult) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	peer := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	peer.Env = append(os.Environ(), benchPeerEnv+"=1")
	peer.Stderr = os.Stderr
	in, err := peer.StdinPipe()
	require.NoError(b, err)
	out, err := peer.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, peer.Start())
	lines := bufio.NewScanner(out)
	require.True(b, lines.Scan(), "the peer did not start")
	url := lines.Text()

	srv, err := New(Config{
		SIPAddr: "127.0.0.1:0", RTPPortMin: 30000, RTPPortMax: 59998,
		DialGuard: netguard.Policy{AllowLoopback: true}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(b, err)
	require.NoError(b, srv.Start(ctx))
	dir := b.TempDir()
	for i := range n {
		id := fmt.Sprintf("bench%d", i)
		_, err := srv.Open(ctx, SessionSpec{
			ID: id, CallID: id, URL: url, Metadata: json.RawMessage(`{}`),
			Recording: &record.Spec{Path: filepath.Join(dir, id+".wav"), Start: time.Now()},
		})
		require.NoError(b, err)
	}
	_, err = fmt.Fprintf(in, "%s %d %d\n", srv.SIPAddr(), n, int(d.Seconds()))
	require.NoError(b, err)
	require.True(b, lines.Scan(), "the peer's calls were not answered")
	before, start := processCPU(b), time.Now()
	require.True(b, lines.Scan(), "the peer has no result")
	spent, took := processCPU(b)-before, time.Since(start) // longer than d when the machine is busy
	var res benchResult
	require.NoError(b, json.Unmarshal(lines.Bytes(), &res))
	require.NoError(b, srv.Close(ctx))
	require.NoError(b, in.Close())
	_, err = io.Copy(io.Discard, out)
	require.NoError(b, err)
	require.NoError(b, peer.Wait())
	res.Expected = int(took/(20*time.Millisecond)) * n
	return float64(spent.Microseconds()) / (float64(n) * took.Seconds()), res
}

// processCPU is the processor time that this process has used.
func processCPU(b *testing.B) time.Duration {
	b.Helper()
	var ru unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &ru))
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// syscallFloor measures, in this process and at this moment, what a call-second of bare system calls costs: 50 times one
// UDP packet out and in and one TCP segment out and in.
func syscallFloor(b *testing.B) float64 {
	b.Helper()
	lo := net.IPv4(127, 0, 0, 1)
	u1, err := net.ListenUDP("udp4", &net.UDPAddr{IP: lo})
	require.NoError(b, err)
	u2, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(u1.LocalAddr().String())))
	require.NoError(b, err)
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: lo})
	require.NoError(b, err)
	t1, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(l.Addr().String())))
	require.NoError(b, err)
	t2, err := l.AcceptTCP()
	require.NoError(b, err)
	defer func() {
		for _, c := range []io.Closer{u1, u2, l, t1, t2} {
			_ = c.Close()
		}
	}()
	packet, segment, buf := make([]byte, 172), make([]byte, 648), make([]byte, 2048)
	const rounds = 20000
	before := processCPU(b)
	for range rounds {
		_, err = u2.Write(packet)
		require.NoError(b, err)
		_, err = u1.Read(buf)
		require.NoError(b, err)
		_, err = t1.Write(segment)
		require.NoError(b, err)
		_, err = io.ReadFull(t2, buf[:len(segment)])
		require.NoError(b, err)
	}
	return 50 * float64((processCPU(b) - before).Microseconds()) / rounds
}
