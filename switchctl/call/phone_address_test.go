package call

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPhoneThatIsGivenUpWhileItIsLookedFor has an agent go home while the switch is slow to say where the phone is: it isn't rung.
func TestPhoneThatIsGivenUpWhileItIsLookedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := talkingCall(t)
		b.link.lookTakes = 3 * time.Second
		b.play("hold", "sleep 500ms", "release", "sleep 15s")
		require.Zero(t, count(b.trace.take(), "originate"))
	})
}

// TestPhoneThatRegistersWhileItIsLookedFor has the switch find no phone and be slow to say so, and the phone register meanwhile: it is rung at once,
// one that is held and one that rings for a caller, who stays with it.
func TestPhoneThatRegistersWhileItIsLookedFor(t *testing.T) {
	t.Parallel()
	for name, setup := range map[string][]string{
		"held":    {"hold"},
		"on hook": {"hook", "dial", "event CHANNEL_CREATE", "event CHANNEL_ANSWER", "socket up"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				absent := func(yes bool) {
					b.link.mu.Lock()
					defer b.link.mu.Unlock()
					b.link.unregistered = yes
				}
				absent(true)
				b.link.lookTakes = time.Second
				b.play(setup...)
				b.trace.take()
				b.play("sleep 500ms")
				absent(false)
				b.play("registers contact=<sip:1001@10.0.0.9:5062>", "sleep 400ms")
				require.Zero(t, count(b.trace.take(), "originate"), "the first look still lasts")
				b.play("sleep 1200ms")
				lines := b.trace.take()
				require.Equal(t, 1, count(lines, "bgapi originate", "rm_role=agent"))
				require.Zero(t, count(lines, "connect_agent"))
				require.Zero(t, count(lines, "phone up=false"))
				b.play("phone CHANNEL_ANSWER")
				require.True(t, b.c.Phones()[0].Up)
			})
		})
	}
}

// TestPhoneThatRegistersInVain is found nowhere although it has registered: it is looked for again once, and then after the pause.
func TestPhoneThatRegistersInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.link.unregistered = true
		b.link.lookTakes = time.Second
		b.play("hold", "sleep 500ms", "registers contact=<sip:1001@10.0.0.9:5062>", "sleep 2s")
		require.Equal(t, 2, b.link.looked())
		b.play("sleep 12s")
		require.Equal(t, 2, b.link.looked())
		b.play("sleep 4s")
		require.Equal(t, 3, b.link.looked())
	})
}
