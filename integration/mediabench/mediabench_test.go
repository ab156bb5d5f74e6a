package mediabench

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// sipgo answers a retransmission that comes while its listener closes from a new socket, which it then never closes.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}

// inProcess runs the parts as goroutines of the test.
func inProcess(ctx context.Context, p Part) (io.WriteCloser, io.Reader, func() error, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := RunPart(ctx, p, inR, outW, slog.New(slog.DiscardHandler))
		_ = outW.CloseWithError(err)
		done <- err
	}()
	return inW, outR, func() error { return <-done }, nil
}

// TestRun measures a few calls: every packet comes back, the markers among them, and the recordings have both sides' size.
func TestRun(t *testing.T) { //nolint:paralleltest // a measurement has the machine to itself
	for name, o := range map[string]Options{
		"alpha":  {Calls: 4, Seconds: 2, Warm: 1, Record: true, Dir: t.TempDir()},
		"beta":   {Calls: 4, Seconds: 2, Warm: 1, Subprotocol: "audio.beta.org"},
		"pcmu":   {Calls: 4, Seconds: 2, Warm: 1, Encoding: "pcmu"},
		"twilio": {Calls: 4, Seconds: 2, Warm: 1, Transport: "twilio"},
	} {
		t.Run(name, func(t *testing.T) {
			var r *Result
			for n := 0; n < 10 && (r == nil || r.LostIn != 0 || r.LostOut != 0 || r.Dropped != 0); n++ {
				var err error
				r, err = Run(t.Context(), inProcess, o)
				require.NoError(t, err)
			}
			require.Zero(t, r.LostIn)
			require.Zero(t, r.LostOut)
			require.Zero(t, r.Dropped)
			require.Greater(t, r.Packets, uint64(2*4*2*50))
			require.GreaterOrEqual(t, r.Markers, 4)
			require.Greater(t, r.RoundTripMS.P50, 0.0)
			require.Greater(t, r.DeviationMS.Max, 0.0)
			for _, p := range Parts() {
				require.Greater(t, r.Parts[p].CPUPerCallSecond, 0.0)
			}
			if o.Record {
				require.Greater(t, r.RecordingBytes, int64(4*2*8000*4))
			}
			var out bytes.Buffer
			require.NoError(t, r.Print(&out))
			for _, want := range []string{"endpoint", "callers", "grid deviation", "round trip", "allocations per frame"} {
				require.Contains(t, out.String(), want)
			}
		})
	}
}

// TestHostile has one hostile agent of each kind beside the calls: their sessions are closed and opened again, their handshakes refused,
// and no packet of the others is lost.
func TestHostile(t *testing.T) { //nolint:paralleltest // a measurement has the machine to itself
	var r *Result
	for n := 0; n < 10 && (r == nil || r.LostIn != 0 || r.LostOut != 0); n++ {
		var err error
		r, err = Run(t.Context(), inProcess, Options{Calls: 2, Seconds: 3, Warm: 1, Hostile: len(hostileKinds()), CPUBound: 1})
		require.NoError(t, err)
	}
	require.Zero(t, r.LostIn)
	require.Zero(t, r.LostOut)
	require.Greater(t, r.Struck, int64(6))
	require.Greater(t, r.Refused, int64(2))
	require.Positive(t, r.HeapGrowthMB)
	var out bytes.Buffer
	require.NoError(t, r.Print(&out))
	require.Contains(t, out.String(), "hostile agents")
}

// TestFaultsAreReported asks a part for what it can't do.
func TestFaultsAreReported(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), inProcess, Options{Calls: 1, Seconds: 1, Subprotocol: "none"})
	require.ErrorIs(t, err, ErrPart)
	require.ErrorContains(t, err, "none")
	require.Error(t, RunPart(t.Context(), "chorus", strings.NewReader(""), io.Discard, slog.New(slog.DiscardHandler)))
	p, err := startPeer(t.Context(), inProcess, PartAI)
	require.NoError(t, err)
	_, err = p.ask(command{Do: doCall})
	require.ErrorIs(t, err, ErrPart)
	require.NoError(t, p.end())
}

func TestFaults(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&Result{DeviationMS: Quantiles{P99: 5}}).Faults())
	for _, r := range []*Result{
		{LostIn: 1}, {LostOut: 1}, {HeapGrowthMB: 201}, {Dropped: 1}, {FailedRecordings: 1}, {DeviationMS: Quantiles{P99: 5.1}},
	} {
		require.Len(t, r.Faults(), 1)
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	require.Equal(t, Quantiles{}, quantiles(nil))
	v := make([]float64, 1000)
	for i := range v {
		v[i] = float64(999 - i)
	}
	require.Equal(t, Quantiles{P50: 500, P99: 990, P999: 999, Max: 999}, quantiles(v))
}

// TestEcho takes frames apart wherever they are cut.
func TestEcho(t *testing.T) {
	t.Parallel()
	payloads := [][]byte{bytes.Repeat([]byte{7}, 5), bytes.Repeat([]byte{9}, 640), bytes.Repeat([]byte{3}, 70_000), nil}
	var in, want []byte
	for _, p := range payloads {
		in = append(in, masked(opBinary, p)...)
		var c echoConn
		c.answer(0x80|opBinary, []byte{0, 0, 0, 0}, p)
		want = append(want, c.out...)
	}
	in = append(in, masked(0x1, []byte("text"))...)
	in = append(in, masked(opClose, []byte{3, 232})...)
	for _, size := range []int{1, 3, 1000, len(in)} {
		var c echoConn
		open := true
		for at := 0; at < len(in); {
			to := at + size
			if at > 2000 { // within the longest payload
				to = at + max(size, 1000)
			}
			require.True(t, open)
			b := slices.Concat(c.in, in[at:min(to, len(in))])
			var used int
			used, open = c.frames(b)
			c.in = append([]byte(nil), b[used:]...)
			at = to
		}
		require.False(t, open)
		require.Equal(t, append(append([]byte(nil), want...), 0x80|opClose, 2, 3, 232), c.out, "pieces of %d", size)
	}
}

func masked(op byte, p []byte) []byte {
	var c echoConn
	c.answer(0x80|opBinary, []byte{1, 2, 3, 4}, p) // masking is its own inverse, and what is binary is echoed whatever it says
	head := c.out[:len(c.out)-len(p)]
	head[0], head[1] = 0x80|op, head[1]|0x80
	return append(append(append([]byte(nil), head...), 1, 2, 3, 4), c.out[len(head):]...)
}
