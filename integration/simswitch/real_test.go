package simswitch

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/integration/freeswitch"
)

// freeswitchVariable names a real switch, on which the tests of onEachSwitch run as well.
const freeswitchVariable = "RINGMASTER_FREESWITCH"

// onEachSwitch runs tests on a simulated switch each, and on a real one, all on the same.
func onEachSwitch(t *testing.T, tests map[string]func(b *bundle)) {
	t.Helper()
	for name, test := range tests {
		t.Run("simswitch/"+name, func(t *testing.T) {
			t.Parallel()
			test(setup(t))
		})
	}
	t.Run("freeswitch", func(t *testing.T) {
		t.Parallel()
		binary := os.Getenv(freeswitchVariable)
		if binary == "" {
			t.Skip("NO REAL SWITCH: set " + freeswitchVariable + "=/path/to/freeswitch to run this")
		}
		l := listen(t)
		dir := t.TempDir()
		sw, err := freeswitch.Start(context.WithoutCancel(t.Context()), freeswitch.Config{Binary: binary, Dir: dir, Params: conf.Params{
			ESLPassword: "ClueCon", SocketAddr: l.Addr().String(), CDRDir: filepath.Join(dir, "cdr"), DirectoryURL: "http://127.0.0.1:9/",
		}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, sw.Stop()) })
		for name, test := range tests {
			t.Run(name, func(t *testing.T) { //nolint:paralleltest // one switch, and one place where its socket application calls
				b := &bundle{t: t, peer: newPeer(t), l: l}
				b.peer.mu.Lock()
				b.peer.taken = func(string) {}
				b.peer.mu.Unlock()
				b.esl = b.connectTo(sw.ESLAddr())
				defer b.esl.api("hupall")
				test(b)
			})
		}
	})
}

// waits is how long a test waits for what must come.
const waits = 20 * time.Second

// note keeps that the call has heard something. The caller holds mu.
func (c *peerCall) note(pcm []int16) {
	sum := 0.0
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	if sum/float64(len(pcm)) > 1e5 {
		c.loud = append(c.loud, time.Now())
	}
}

// gap is the longest time without sound since then, until the newest packet that had any.
func (c *peerCall) gap(since time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest, last := time.Duration(0), since
	for _, at := range c.loud {
		if at.After(since) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

// palette has the tones of the tests: none is a multiple of another, so that clipping makes none of one.
func palette() []float64 { return []float64{425, 620, 700, 1000, 1400, 1800, 2200} }

// tones are those of the palette that pcm has.
func tones(pcm []int16) []float64 {
	found := []float64{}
	for _, f := range palette() {
		// The amplitude, of 8000 that a peer sends: half of it, since a cut tone may be in it.
		if n := float64(len(pcm)); goertzel(pcm, f) > 3000*3000*n*n/4 {
			found = append(found, f)
		}
	}
	return found
}

// hearsJust waits until 200 ms that come from now on are these tones, and no others of the palette.
func (c *peerCall) hearsJust(freqs ...float64) {
	c.peer.t.Helper()
	c.forget()
	var got []float64
	require.Eventually(c.peer.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.heard) < 1600 {
			return false
		}
		got = tones(c.heard[len(c.heard)-1600:])
		return equalTones(got, freqs)
	}, 20*time.Second, 20*time.Millisecond, "not %v; was last seen to hear %v", freqs, &got)
}

func equalTones(got, want []float64) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i] != want[i] {
			return false
		}
	}
	return true
}

// staysWith is hearsJust, and then no other tone for half a second.
func (c *peerCall) staysWith(freqs ...float64) {
	c.peer.t.Helper()
	c.hearsJust(freqs...)
	c.forget()
	settlesAfter(c.peer.t, 500*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 0; i+1600 <= len(c.heard); i += 800 {
		require.Subset(c.peer.t, freqs, tones(c.heard[i:i+1600]))
	}
}

// hearsNothing waits until the call has heard nothing for half a second: silence, or no packets.
func (c *peerCall) hearsNothing() {
	c.peer.t.Helper()
	c.forget()
	since := time.Now()
	require.Eventually(c.peer.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.loud); n > 0 && c.loud[n-1].After(since) {
			since = c.loud[n-1]
		}
		return time.Since(since) > 500*time.Millisecond
	}, 20*time.Second, 20*time.Millisecond, "it goes on hearing something")
}

// settlesAfter waits.
func settlesAfter(t *testing.T, d time.Duration) {
	t.Helper()
	start := time.Now()
	require.Eventually(t, func() bool { return time.Since(start) >= d }, 20*time.Second, 10*time.Millisecond)
}

// listen is where a switch's socket application calls.
func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	tcp, ok := l.(*net.TCPListener)
	require.True(t, ok)
	return tcp
}
