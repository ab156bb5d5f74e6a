package media

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/rtp"
	"github.com/ringmaster/ringmaster/media/sip"
)

func TestLeastLoadedShard(t *testing.T) {
	t.Parallel()
	shards := []*shard{{}, {}, {}}
	took := func(from int) int {
		best := leastLoaded(shards, from)
		best.sessions.Add(1)
		for i, sh := range shards {
			if sh == best {
				return i
			}
		}
		return -1
	}
	require.Equal(t, 1, took(1), "the next one in turn while they are equal")
	require.Equal(t, 2, took(1), "not the loaded one")
	require.Equal(t, 0, took(2))
	shards[1].sessions.Add(-1)
	require.Equal(t, 1, took(0), "where a session has ended")
}

// The first word leaves in the slot in which the leg is first heard or said to be bridged, and the session stays there, unless the slot is crowded.
func TestFirstWordLeavesAtOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sign string
		give func(t *testing.T, r *portRig)
	}{
		{"heard", func(t *testing.T, r *portRig) {
			t.Helper()
			b, err := (&pion.Header{Version: 2, SSRC: 7}).Marshal()
			require.NoError(t, err)
			to := netio.NewPeer(r.p.s.rtpAddr)
			require.NoError(t, r.caller.Send(append(b, make([]byte, dsp.FrameSamples)...), &to))
		}},
		{"bridged", func(_ *testing.T, r *portRig) {
			r.p.s.LegBridged()
			r.p.sh.drain()
		}},
	} {
		for ahead := range slots {
			t.Run(fmt.Sprintf("%s, %d slots before its own", tc.sign, ahead), func(t *testing.T) {
				t.Parallel()
				firstWord(t, ahead, tc.give)
			})
		}
	}
}

func firstWord(t *testing.T, ahead int, give func(t *testing.T, r *portRig)) {
	t.Helper()
	r := newPortRig(t, eightKHz())
	sh := r.p.sh
	r.p.s.LegBridged()
	sh.drain() // it tells of no leg that is still to come
	r.connect()
	r.send(aiAudio(make([]int16, dsp.FrameSamples)))
	r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.PCMU, Rate: dsp.SampleRate, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
	for range 2 * slots {
		sh.step(r.now, r.now)
		r.now += slotNS
		require.Empty(t, r.heard(), "before there is a sign")
	}
	sh.slot = (r.p.slot + slots - ahead) % slots
	now := sh.slot
	give(t, r)
	sh.step(r.now, r.now)
	require.Len(t, r.heard(), dsp.FrameSamples, "one frame, in the same slot")
	require.Equal(t, now, r.p.slot)
	for range slots - 1 {
		r.now += slotNS
		sh.step(r.now, r.now)
		require.Empty(t, r.heard())
	}
	r.now += slotNS
	sh.step(r.now, r.now)
	require.Len(t, r.heard(), dsp.FrameSamples, "20 ms later the next")
}

func TestCrowdedSlotTakesNoMore(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.call()
	sh, own := r.p.sh, r.p.slot
	sh.slot = (own + 1) % slots
	sh.ports[sh.slot] = make([]*port, 2+slotSlack)
	sh.heard = []*port{r.p}
	sh.beginSpeaking(r.now, r.now)
	require.Equal(t, own, r.p.slot)
	require.Empty(t, sh.heard)
	sh.ports[sh.slot] = nil
}

// What others ask of a tick thread doesn't wait for its next slot, which is an hour away here.
func TestShardIsWoken(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	sh := r.p.sh
	var clock atomic.Int64
	clock.Store(netio.Monotonic() + int64(time.Hour))
	sh.now = clock.Load
	sh.wg.Add(1)
	go sh.run()
	for range 3 {
		require.True(t, sh.do(func() {}))
	}
	clock.Add(slotNS)
	close(sh.quit)
	sh.sleep.Wake()
	sh.wg.Wait()
	sh.now = func() int64 { return r.now }
}
