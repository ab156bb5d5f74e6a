package simswitch

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emiago/sipgo/sip"
	"github.com/stretchr/testify/require"
)

// TestRefers holds what voice agents' transfers by REFER are built on.
func TestRefers(t *testing.T) {
	t.Parallel()
	onEachSwitch(t, map[string]func(b *bundle){
		"to the controller": referToController,
		"to nobody":         referToNobody,
		"attended":          referAttended,
		"alone":             referAlone,
		"and bye":           referAndBye,
	})
}

// refer sends a REFER and returns its answer.
func (c *peerCall) refer(to string) *sip.Response {
	c.peer.t.Helper()
	<-c.answered
	ctx, cancel := context.WithTimeout(c.peer.t.Context(), 20*time.Second)
	defer cancel()
	req := sip.NewRequest(sip.REFER, c.server.InviteRequest.Contact().Address)
	req.AppendHeader(sip.NewHeader("Refer-To", to))
	req.AppendHeader(sip.NewHeader("Referred-By", "<sip:peer@"+c.peer.addr+">"))
	res, err := c.server.Do(ctx, req)
	require.NoError(c.peer.t, err)
	return res
}

// notified is the NOTIFY that ends a REFER's subscription: its status line.
func (c *peerCall) notified() string {
	c.peer.t.Helper()
	select {
	case n := <-c.notifies:
		require.Regexp(c.peer.t, "^refer;id=[0-9]+$", n.GetHeader("Event").Value())
		require.Equal(c.peer.t, "terminated;reason=noresource", n.GetHeader("Subscription-State").Value())
		require.Regexp(c.peer.t, "^message/sipfrag", n.GetHeader("Content-Type").Value())
		return strings.TrimSpace(string(n.Body()))
	case <-time.After(waits):
		require.Fail(c.peer.t, "no NOTIFY came")
		return ""
	}
}

// referring bridges a caller with a voice agent that may send a REFER.
func (b *bundle) referring() (id, leg string, a, m *peerCall) {
	b.t.Helper()
	id, ctl, a, m := b.bridgedOver(voiceAgents, reattaches, "answer-425", "answer-1000",
		",deny_refer_requests=true,intercept_unanswered_only=false,intercept_unbridged_only=false")
	m.hears(425)
	a.hears(1000)
	require.NoError(b.t, ctl.conn.Close())
	return id, b.other(id), a, m
}

// Whatever a REFER names, the switch dials nobody: the caller comes to the controller, and the sender waits. The controller bridges them again, and
// tells the sender what it likes.
func referToController(b *bundle) {
	t := b.t
	id, leg, a, m := b.referring()
	for i, to := range []string{"+919876543210@127.0.0.1", "rm_reattach@127.0.0.1:9", "127.0.0.1", "a.b@[::1];x=y?X-H=1"} {
		since := time.Now()
		require.Equal(t, 202, m.refer("<sip:"+to+">").StatusCode)
		ctl, conn := b.accept()
		require.Equal(t, id, conn.get("Unique-ID"))
		require.Equal(t, "rm_refer", conn.get("Caller-Context"))
		require.Equal(t, leg, conn.v("blind_transfer_uuid"))
		require.Contains(t, conn.v("sip_refer_to"), strings.Split(to, "@")[0])
		require.Contains(t, b.esl.api("uuid_setvar_multi "+id+" blind_transfer_uuid=;sip_refer_to=;max_forwards="), "+OK")
		require.Contains(t, b.esl.api("uuid_bridge "+id+" "+leg), "+OK")
		m.hears(425)
		a.hearsJust(1000)
		m.hearsJust(425)
		t.Logf("REFER %d: the caller heard nothing for %s", i, a.gap(since))
		require.NoError(t, ctl.conn.Close())
		event := b.esl.api("uuid_getvar " + leg + " sip_blind_transfer_event")
		require.Regexp(t, "^refer;id=[0-9]+$", event)
		body := "SIP/2.0 486 Because\r\n"
		require.Contains(t, b.esl.cmd("sendevent NOTIFY\nuuid: "+leg+"\nevent-string: "+event+
			"\ncontent-type: message/sipfrag;version=2.0\ncontent-length: "+strconv.Itoa(len(body))+"\n\n"+body), "+OK ")
		require.Equal(t, "SIP/2.0 486 Because", m.notified())
	}
	m.hangup()
	_, conn := b.accept()
	require.Equal(t, "rm_reattach", conn.get("Caller-Destination-Number"))
	require.Empty(t, conn.v("blind_transfer_uuid"))
}

// Without a controller the REFER is refused, and both go on, however often.
func referToNobody(b *bundle) {
	t := b.t
	_, _, a, m := b.referring()
	for range 3 {
		require.Equal(t, 202, m.refer("<sip:+919876543210@127.0.0.1>").StatusCode)
		ctl, _ := b.accept()
		settlesAfter(t, 100*time.Millisecond) // FreeSWITCH doesn't see a socket that closes before it has begun to wait there
		require.NoError(t, ctl.conn.Close())
		require.Equal(t, "SIP/2.0 403 Forbidden", m.notified())
		m.hearsJust(425)
		a.hearsJust(1000)
	}
	a.hangup()
	<-m.bye
}

// A REFER that replaces a call, its own or one that isn't there, is refused, and nobody notices.
func referAttended(b *bundle) {
	t := b.t
	_, _, a, m := b.referring()
	since := time.Now()
	for _, call := range []string{"nobody%40x", m.invite.CallID().Value(), a.invite.CallID().Value()} {
		require.Equal(t, 202, m.refer("<sip:peer@"+b.peer.addr+"?Replaces="+call+"%3Bto-tag%3Da%3Bfrom-tag%3Db>").StatusCode)
		require.Equal(t, "SIP/2.0 403 Forbidden", m.notified())
		a.hearsJust(1000)
		m.hearsJust(425)
	}
	require.Less(t, a.gap(since), 500*time.Millisecond)
	require.Empty(t, b.peer.calls, "nobody is dialed")
}

// A leg that is with nobody can transfer nobody.
func referAlone(b *bundle) {
	t := b.t
	require.Contains(t, b.esl.bgapi("originate sofia/voice_agents/answer-1000@"+b.peer.addr+" rm_park XML ringmaster"), "+OK ")
	m := b.peer.next()
	require.Equal(t, 202, m.refer("<sip:+919876543210@127.0.0.1>").StatusCode)
	require.Equal(t, "SIP/2.0 403 Forbidden", m.notified())
}

// A sender that hangs up behind its REFER has sent the caller on all the same.
func referAndBye(b *bundle) {
	t := b.t
	for range 5 {
		id, leg, a, m := b.referring()
		require.Equal(t, 202, m.refer("<sip:+919876543210@127.0.0.1>").StatusCode)
		m.hangup()
		ctl, conn := b.accept()
		require.Equal(t, id, conn.get("Unique-ID"))
		require.Equal(t, "rm_refer", conn.get("Caller-Context"))
		require.Equal(t, leg, conn.v("blind_transfer_uuid"))
		require.Regexp(t, "^refer;id=", b.esl.event(leg, "CHANNEL_HANGUP_COMPLETE").v("sip_blind_transfer_event"))
		require.Equal(t, "+OK\n", b.esl.api("uuid_kill "+id))
		<-a.bye
		require.NoError(t, ctl.conn.Close())
	}
}
