package mediapath

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/media"
)

func TestMain(m *testing.M) {
	// sipgo answers a retransmission that comes while its listener closes from a new socket, which it then never closes.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}

// TestAwaitMove: a change is not shown by audio of an earlier one, whether it was told before or late.
func TestAwaitMove(t *testing.T) {
	t.Parallel()
	carrier := media.LegMoved{Remote: netip.MustParseAddrPort("127.0.0.1:41000"), Gap: 40 * time.Millisecond}
	back := media.LegMoved{Remote: netip.MustParseAddrPort("127.0.0.1:20000"), Gap: 20 * time.Millisecond}
	p := &probe{moved: make(chan media.LegMoved, 16)}
	p.moved <- back
	p.forgetMoves()
	require.Empty(t, p.moved)
	due := make(chan time.Time, 1)
	p.moved <- carrier
	got, err := p.awaitMove(t.Context(), due)
	require.NoError(t, err)
	require.Equal(t, carrier, got)
	p.moved <- carrier
	p.moved <- back
	got, err = p.awaitMove(t.Context(), due)
	require.NoError(t, err)
	require.Equal(t, back, got)
	due <- time.Time{}
	_, err = p.awaitMove(t.Context(), due)
	require.ErrorIs(t, err, ErrNoAudio)
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	require.Equal(t, "no audio from the carrier; a; b", oneLine(errors.Join(ErrNoAudio, errors.New("a\r\nb"))))
}
