package simcarrier

import (
	"net/netip"
	"testing"

	"github.com/emiago/sipgo/sip"
	"github.com/stretchr/testify/require"
)

// watchedTx is a transaction that looks at the call as its answer leaves.
type watchedTx struct {
	sip.ServerTransaction
	look func(*sip.Response)
}

func (tx watchedTx) Respond(res *sip.Response) error {
	tx.look(res)
	return nil
}

// TestReinviteHoldsBeforeItsAnswer: the switch may send the next re-INVITE as soon as it has the answer, and the last one holds.
func TestReinviteHoldsBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	require.NoError(t, err)
	c := s.newCall(Callee, "id", "+918000000001", "+919845000000")
	c.stream = &stream{port: 4000}
	require.NoError(t, s.register(c))
	req := sip.NewRequest(sip.INVITE, sip.Uri{Scheme: "sip", User: c.number, Host: "127.0.0.1"})
	id, from, to := sip.CallIDHeader("id"), &sip.FromHeader{Params: sip.NewParams()}, &sip.ToHeader{Params: sip.NewParams()}
	to.Params.Add("tag", c.localTag)
	req.AppendHeader(from)
	req.AppendHeader(to)
	req.AppendHeader(&id)
	req.AppendHeader(&sip.CSeqHeader{SeqNo: 2, MethodName: sip.INVITE})
	req.AppendHeader(&sip.ContactHeader{Address: sip.Uri{Scheme: "sip", Host: "127.0.0.1", Port: 5060}})
	req.SetBody(localSDP("127.0.0.1", 5000, 1, 2, []string{codecPCMU}, 0, "sendrecv"))
	answered := false
	s.sip.handleReinvite(req, watchedTx{look: func(res *sip.Response) {
		n, active := c.stream.negotiated()
		require.True(t, active)
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, netip.MustParseAddrPort("127.0.0.1:5000"), n.remote)
		answered = true
	}}, c.localTag)
	require.True(t, answered)
}

// A call may end while a re-INVITE of it is answered: its SDP is written all the same.
func TestDescribesACallThatHasEnded(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	require.NoError(t, err)
	c := s.newCall(Callee, "id", "+918000000001", "+919845000000")
	c.port = 4000
	n, err := parseSDP(c.describe(nil), s.cfg.Codecs)
	require.NoError(t, err)
	require.EqualValues(t, 4000, n.remote.Port())
	require.Contains(t, string(c.describe(&n)), "m=audio 4000 ")
}
