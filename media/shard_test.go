package media

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pion "github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
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

// opening is a session whose AI has spoken at once, and whose leg is up, but was not heard yet; its own slot is so many ahead.
func opening(t *testing.T, ahead int) *portRig {
	t.Helper()
	r := newPortRig(t, eightKHz())
	sh := r.p.sh
	r.connect()
	r.send(aiAudio(dsptest.Tone(1000, dsp.SampleRate, dsp.SampleRate)))
	r.p.leg.setLeg(sip.Media{Remote: r.caller.Local, Codec: rtp.PCMU, Rate: dsp.SampleRate, Dir: sip.Direction{Send: true, Recv: true}}, r.now)
	for range 2 * slots {
		r.pass()
		require.Empty(t, r.packets(), "before the leg is heard")
	}
	sh.slot = (r.p.slot + slots - ahead) % slots
	return r
}

// pass lets a slot pass.
func (r *portRig) pass() {
	r.p.sh.step(r.now, r.now)
	r.now += slotNS
}

// hears sends the leg's first packet.
func (r *portRig) hears() {
	b, err := (&pion.Header{Version: 2, SSRC: 7}).Marshal()
	require.NoError(r.t, err)
	to := netio.NewPeer(r.p.s.rtpAddr)
	require.NoError(r.t, r.caller.Send(append(b, make([]byte, dsp.FrameSamples)...), &to))
}

// requirePrimed: silence is sent, and in the next slot the first word, then a frame each 20 ms, of one stream.
func (r *portRig) requirePrimed() {
	r.t.Helper()
	r.pass()
	sent := r.packets()
	require.Len(r.t, sent, primeFrames)
	for _, pk := range sent {
		require.Empty(r.t, bytes.Trim(pk.p, "\xff"), "silence")
	}
	r.requireSpeaks(sent[primeFrames-1])
}

// requireSpeaks: in this slot and each fourth there is a frame of the word, behind the packet before.
func (r *portRig) requireSpeaks(last heardPacket) {
	r.t.Helper()
	for n := range 3 * slots {
		r.pass()
		sent := r.packets()
		if n%slots != 0 {
			require.Empty(r.t, sent)
			continue
		}
		require.Len(r.t, sent, 1)
		require.NotEmpty(r.t, bytes.Trim(sent[0].p, "\xff"))
		require.Equal(r.t, last.h.SequenceNumber+1, sent[0].h.SequenceNumber)
		require.EqualValues(r.t, dsp.FrameSamples, sent[0].h.Timestamp-last.h.Timestamp)
		last = sent[0]
	}
}

// The first word leaves behind some silence, in the slot after the one in which the leg is first heard, and the session stays there, unless it is crowded.
func TestFirstWordLeavesAtOnce(t *testing.T) {
	t.Parallel()
	for ahead := range slots {
		t.Run(fmt.Sprintf("%d slots before its own", ahead), func(t *testing.T) {
			t.Parallel()
			r := opening(t, ahead)
			r.hears()
			r.requirePrimed()
		})
	}
}

// A packet that a late thread finds is older than the slot: the word stays behind the silence all the same.
func TestFirstWordBehindALatePacket(t *testing.T) {
	t.Parallel()
	r := opening(t, 0)
	b, err := (&pion.Header{Version: 2, SSRC: 7}).Marshal()
	require.NoError(t, err)
	r.p.leg.packet(append(b, make([]byte, dsp.FrameSamples)...), r.caller.Local, r.now-2*slotNS)
	r.requirePrimed()
}

// A late thread makes up for it in slots that follow each other at once: the word isn't sent along with the silence.
func TestFirstWordOfALateThread(t *testing.T) {
	t.Parallel()
	r := opening(t, 0)
	b, err := (&pion.Header{Version: 2, SSRC: 7}).Marshal()
	require.NoError(t, err)
	r.p.leg.packet(append(b, make([]byte, dsp.FrameSamples)...), r.caller.Local, r.now-slotNS+1)
	const atOnce = slotNS / 10
	for range slots {
		r.p.sh.step(r.now, r.now)
		r.now += atOnce
	}
	r.now += slotNS - slots*atOnce
	sent := r.packets()
	require.Len(t, sent, primeFrames)
	r.requireSpeaks(sent[primeFrames-1])
}

// A switch that tells of its bridge reads the leg.
func TestFirstWordOfABridgedLeg(t *testing.T) {
	t.Parallel()
	for ahead := range slots {
		t.Run(fmt.Sprintf("%d slots before its own", ahead), func(t *testing.T) {
			t.Parallel()
			r := opening(t, ahead)
			r.p.s.LegBridged()
			r.p.sh.drain()
			r.p.s.LegBridged()
			r.p.sh.drain()
			r.requirePrimed()
			r.p.s.LegBridged()
			r.p.sh.drain()
			r.hears()
			r.pass()
			require.LessOrEqual(t, len(r.packets()), 1, "nothing more once it has spoken")
		})
	}
	t.Run("heard meanwhile", func(t *testing.T) {
		t.Parallel()
		r := opening(t, 2)
		r.p.s.LegBridged()
		r.p.sh.drain()
		r.pass()
		sent := r.packets()
		require.Len(t, sent, primeFrames)
		r.hears()
		r.requireSpeaks(sent[primeFrames-1])
	})
	t.Run("without a leg", func(t *testing.T) {
		t.Parallel()
		r := newPortRig(t, eightKHz())
		r.p.s.LegBridged()
		r.p.sh.drain()
		r.pass()
		require.Empty(t, r.packets())
	})
	t.Run("neither heard nor bridged", func(t *testing.T) {
		t.Parallel()
		r := opening(t, 0)
		r.now += speakLimit - 2*slots*slotNS
		for range slots {
			r.pass()
		}
		require.Len(t, r.packets(), 1)
	})
}

func TestCrowdedSlotTakesNoMore(t *testing.T) {
	t.Parallel()
	r := newPortRig(t, eightKHz())
	r.call()
	sh, own := r.p.sh, r.p.slot
	sh.slot = (own + 1) % slots
	sh.ports[sh.slot] = make([]*port, 2+slotSlack)
	sh.opens = []*port{r.p}
	sh.beginSpeaking(r.now, r.now)
	require.Equal(t, own, r.p.slot)
	require.Empty(t, sh.opens)
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

// Who asks something of a tick thread that ends meanwhile is told that it was done, and not before.
func TestShardEndsAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv, err := New(Config{SIPAddr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		sh, err := newShard(srv)
		require.NoError(t, err)
		sh.wg.Add(1)
		go sh.run()
		working, gate, answer := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
		go func() { answer <- sh.do(func() { close(working); <-gate }) }()
		<-working
		close(sh.quit)
		synctest.Wait()
		require.Empty(t, answer, "the thread is still at it")
		close(gate)
		sh.wg.Wait()
		require.True(t, <-answer)
		sh.end()
	})
}
