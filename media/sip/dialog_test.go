package sip

import (
	"log/slog"
	"testing"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media/rtp"
)

// watchedOwner counts what it is told. claimed is called with a leg that it has just taken.
type watchedOwner struct {
	claimed           func(l *Leg)
	negotiated, ended int
}

func (o *watchedOwner) Claim(l *Leg) bool {
	o.claimed(l)
	return true
}

func (o *watchedOwner) Release(*Leg)              {}
func (o *watchedOwner) Negotiated(Media)          { o.negotiated++ }
func (o *watchedOwner) Answered(rtp.Codec)        {}
func (o *watchedOwner) Ended(*Leg, string, bool)  { o.ended++ }
func (o *watchedOwner) Digit(byte, time.Duration) {}

// statusTx is a transaction that keeps the status of its response.
type statusTx struct {
	sip.ServerTransaction

	status int
}

func (tx *statusTx) Respond(res *sip.Response) error {
	tx.status = res.StatusCode
	return nil
}

// unserved is an endpoint that nobody reaches.
func unserved(o *watchedOwner) *Endpoint {
	log := slog.New(slog.DiscardHandler)
	return &Endpoint{log: log, legs: map[dialogKey]*Leg{}, cfg: Config{
		Log: log, Spawn: func(func()) {},
		Find:    func(id string) (Callee, bool) { return Callee{ID: id, Log: log, Owner: o}, true },
		Invites: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "invites_total", Help: "INVITEs."}, []string{"status"}),
	}}
}

const someOffer = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"

func invite(seq uint32) *sip.Request {
	req := sip.NewRequest(sip.INVITE, sip.Uri{Scheme: "sip", User: "known", Host: "127.0.0.1"})
	id, from, to := sip.CallIDHeader("id"), &sip.FromHeader{Params: sip.NewParams()}, &sip.ToHeader{Params: sip.NewParams()}
	from.Params.Add("tag", "switch")
	req.AppendHeader(from)
	req.AppendHeader(to)
	req.AppendHeader(&id)
	req.AppendHeader(&sip.CSeqHeader{SeqNo: seq, MethodName: sip.INVITE})
	req.AppendHeader(&sip.ContactHeader{Address: sip.Uri{Scheme: "sip", Host: "127.0.0.1", Port: 5060}})
	req.SetBody([]byte(someOffer))
	return req
}

// TestALegThatEndsAsItBegins: a session may close as its INVITE takes it. The switch is told, nothing of the leg is left, and no audio of it begins.
func TestALegThatEndsAsItBegins(t *testing.T) {
	t.Parallel()
	o := &watchedOwner{claimed: func(l *Leg) { l.Hangup("closed") }}
	e, tx := unserved(o), new(statusTx)
	e.onInvite(invite(1), tx)
	require.Equal(t, sip.StatusCallTransactionDoesNotExists, tx.status)
	require.Empty(t, e.legs)
	require.Equal(t, &watchedOwner{ended: 1}, &watchedOwner{negotiated: o.negotiated, ended: o.ended})
}

// TestReinviteBehindItsBye: each request has a goroutine of its own, and that of a re-INVITE may come behind the one of the BYE that followed it. It changes
// nothing any more: the session may have its next leg.
func TestReinviteBehindItsBye(t *testing.T) {
	t.Parallel()
	o := new(watchedOwner)
	e := unserved(o)
	l, req := newLeg(e, Callee{Log: e.log, Owner: o}, invite(1)), invite(2)
	require.True(t, l.fresh(req, new(statusTx)))
	require.True(t, l.ended("bye", true))
	_, status := l.negotiate(req.Body())
	require.Equal(t, sip.StatusCallTransactionDoesNotExists, status)
	require.Zero(t, o.negotiated)

	tx := new(statusTx)
	l.accept(req, tx, nil) // as far as that when the BYE came
	require.Equal(t, sip.StatusCallTransactionDoesNotExists, tx.status)
}
