package simswitch

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// tap originates a leg that listens to a channel.
func (b *bundle) tap(vars, app string) (string, *peerCall) {
	b.t.Helper()
	id := uuid.NewString()
	// The spy talks too, and must not be heard.
	require.Contains(b.t, b.originate(",origination_uuid="+id+vars, "answer-1400", app), "+OK "+id)
	return id, b.peer.next()
}

// hearsBoth waits until a call's newest 200 ms are two tones and little else. A busy machine leaves gaps in either.
func (c *peerCall) hearsBoth(one, two float64) {
	c.peer.t.Helper()
	require.Eventually(c.peer.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.heard) < 1600 {
			return false
		}
		pcm, total := c.heard[len(c.heard)-1600:], 0.0
		for _, s := range pcm {
			total += float64(s) * float64(s)
		}
		a, b := goertzel(pcm, one)*2/1600, goertzel(pcm, two)*2/1600
		return a > 0.2*total && b > 0.2*total && a+b > 0.8*total
	}, 20*time.Second, 20*time.Millisecond, "not both %v and %v Hz", one, two)
}

// TestEavesdrop plays what FreeSWITCH does: both sides mixed, or one of them; the bridge is as before; the spy is not heard; its
// leg ends with the target, by NORMAL_CLEARING.
func TestEavesdrop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _, a, m := b.bridged("", "answer-425", "answer-1000", "")
	m.hears(425)
	_, both := b.tap("", "&eavesdrop("+id+")")
	both.hearsBoth(425, 1000)
	_, caller := b.tap(",eavesdrop_bridge_aleg=true,eavesdrop_bridge_bleg=false", "&eavesdrop("+id+")")
	caller.hears(425)
	_, other := b.tap(",eavesdrop_bridge_aleg=false,eavesdrop_bridge_bleg=true", "&eavesdrop("+id+")")
	other.hears(1000)
	_, read := b.tap("", "'&native_eavesdrop("+id+" read)'")
	read.hears(425)
	_, plain := b.tap("", "&native_eavesdrop("+id+")")
	plain.hears(425)
	last, write := b.tap("", "'&native_eavesdrop("+id+" write)'")
	write.hears(1000)
	// A spy that leaves changes nothing for the others.
	require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+last))
	b.esl.event(last, "CHANNEL_HANGUP_COMPLETE")
	m.forget()
	a.forget()
	m.hears(425)
	a.hears(1000)
	both.hearsBoth(425, 1000)
	a.hangup()
	require.Eventually(t, func() bool { return b.sw.Live() == 0 }, 20*time.Second, 5*time.Millisecond, "the spies end with their target")
}

// TestEavesdropNobody ends a spy at once whose target is not there.
func TestEavesdropNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, _ := b.tap("", "&eavesdrop("+uuid.NewString()+")")
	require.Equal(t, "NORMAL_CLEARING", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
	require.Eventually(t, func() bool { return b.sw.Live() == 0 }, 20*time.Second, 5*time.Millisecond)
}

// TestEavesdropMediaTimeout ends a spy whose far end has died.
func TestEavesdropMediaTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target, _, _, m := b.bridged("", "answer-425", "answer-1000", "")
	id, spy := b.tap(",media_timeout=2000", "&eavesdrop("+target+")")
	spy.hearsBoth(425, 1000)
	spy.end()
	require.Equal(t, "MEDIA_TIMEOUT", b.esl.event(id, "CHANNEL_HANGUP_COMPLETE").get("Hangup-Cause"))
	m.hears(425)
}
