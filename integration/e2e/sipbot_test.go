package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/pion/rtp"
	"github.com/pion/sdp/v3"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/dsp"
)

// sipBot is a voice agent that is a SIP endpoint, and does what a test says.
type sipBot struct {
	uri   string
	calls chan *sipCall

	dialogs *sipgo.DialogServerCache
	mu      sync.Mutex
	refusal int           // the status that INVITEs get; 0 takes them
	ring    time.Duration // how long it rings
	early   chan struct{} // it answers when this closes, and is heard before; nil for none
	live    map[string]*sipCall
	seen    int // INVITEs
}

// sipCall is one of its calls.
type sipCall struct {
	invite *sip.Request
	dialog *sipgo.DialogServerSession
	conn   *net.UDPConn
	peer   netip.AddrPort
	over   chan struct{} // closed when a BYE has come or was sent

	mu       sync.Mutex
	ear      *tone.Listener
	digits   string
	press    []rtp.Packet // telephone-events on their way
	hz       float64      // what it says
	until    time.Time
	notified []string // sipfrags of NOTIFYs
	once     sync.Once
}

const sipEvent = 101

func newSIPBot(t *testing.T) *sipBot {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	addr := conn.LocalAddr().String()
	ua, err := sipgo.NewUA(sipgo.WithUserAgent("sipbot"), sipgo.WithUserAgentHostname("127.0.0.1"),
		sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)),
		sipgo.WithUserAgentTransactionLayerOptions(sip.WithTransactionLayerLogger(quiet)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = ua.Close() })
	srv, err := sipgo.NewServer(ua, sipgo.WithServerLogger(quiet))
	require.NoError(t, err)
	client, err := sipgo.NewClient(ua, sipgo.WithClientAddr(addr), sipgo.WithClientConnectionAddr(addr), sipgo.WithClientLogger(quiet))
	require.NoError(t, err)
	contact := sip.ContactHeader{Address: sip.Uri{Scheme: "sip", User: "agent", Host: "127.0.0.1", Port: port(conn)}}
	b := &sipBot{
		uri: "sip:agent@" + addr, calls: make(chan *sipCall, 8), dialogs: sipgo.NewDialogServerCache(client, contact), live: map[string]*sipCall{},
	}
	srv.OnInvite(b.invited)
	srv.OnAck(func(req *sip.Request, tx sip.ServerTransaction) { _ = b.dialogs.ReadAck(req, tx) })
	srv.OnBye(func(req *sip.Request, tx sip.ServerTransaction) {
		_ = b.dialogs.ReadBye(req, tx)
		if c := b.of(req); c != nil {
			c.end()
		}
	})
	srv.OnNotify(func(req *sip.Request, tx sip.ServerTransaction) {
		if c := b.of(req); c != nil {
			c.mu.Lock()
			c.notified = append(c.notified, strings.TrimSpace(string(req.Body())))
			c.mu.Unlock()
		}
		_ = tx.Respond(sip.NewResponseFromRequest(req, 200, "OK", nil))
	})
	go func() { _ = srv.ServeUDP(conn) }()
	t.Cleanup(func() { _ = conn.Close() })
	return b
}

func (b *sipBot) of(req *sip.Request) *sipCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live[req.CallID().Value()]
}

// refuses has INVITEs answered with a status from now on, after they have rung.
func (b *sipBot) refuses(status int, ring time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal, b.ring = status, ring
}

// invites is how many INVITEs have come.
func (b *sipBot) invites() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

func (b *sipBot) invited(req *sip.Request, tx sip.ServerTransaction) {
	if c := b.of(req); c != nil { // a re-INVITE
		_ = tx.Respond(sip.NewSDPResponseFromRequest(req, c.sdp()))
		return
	}
	b.mu.Lock()
	b.seen++
	refusal, ring, early := b.refusal, b.ring, b.early
	b.mu.Unlock()
	dialog, err := b.dialogs.ReadInvite(req, tx)
	if err != nil {
		return
	}
	defer dialog.Close() //nolint:errcheck // what is left of a dialog that has ended
	if ring > 0 {
		_ = dialog.Respond(180, "Ringing", nil)
		select {
		case <-time.After(ring):
		case <-tx.Done():
			return
		case <-dialog.Context().Done():
			return
		}
	}
	if refusal != 0 && refusal != 200 {
		_ = dialog.Respond(refusal, "No", nil)
		return
	}
	c, err := newSIPCall(req, dialog)
	if err != nil {
		_ = dialog.Respond(488, err.Error(), nil)
		return
	}
	b.mu.Lock()
	b.live[req.CallID().Value()] = c
	b.mu.Unlock()
	if early != nil {
		c.say(agentHz, time.Minute)
		go c.talk()
		_ = dialog.Respond(183, "Session Progress", c.sdp(), sip.NewHeader("Content-Type", "application/sdp"))
		select {
		case <-early:
		case <-tx.Done():
			return
		}
	}
	if err := dialog.RespondSDP(c.sdp()); err != nil {
		c.end()
		return
	}
	go c.hear()
	if early == nil {
		go c.talk()
	}
	b.calls <- c
	<-c.over
	b.mu.Lock()
	delete(b.live, req.CallID().Value())
	b.mu.Unlock()
}

func newSIPCall(req *sip.Request, dialog *sipgo.DialogServerSession) (*sipCall, error) {
	var offer sdp.SessionDescription
	if err := offer.Unmarshal(req.Body()); err != nil {
		return nil, err
	}
	m := offer.MediaDescriptions[0]
	at := offer.ConnectionInformation
	if m.ConnectionInformation != nil {
		at = m.ConnectionInformation
	}
	ip, err := netip.ParseAddr(at.Address.Address)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(m.MediaName.Formats, "0") {
		return nil, fmt.Errorf("no PCMU in %v", m.MediaName.Formats)
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	return &sipCall{
		invite: req, dialog: dialog, conn: conn, peer: netip.AddrPortFrom(ip, uint16(m.MediaName.Port.Value)), //nolint:gosec // a port
		over: make(chan struct{}), ear: tone.NewListener(dsp.SampleRate, []float64{callerHz, keysHz}),
	}, nil
}

func (c *sipCall) sdp() []byte {
	return fmt.Appendf(nil, "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio %d RTP/AVP 0 %d\r\n"+
		"a=rtpmap:0 PCMU/8000\r\na=rtpmap:%d telephone-event/8000\r\na=fmtp:%d 0-15\r\na=ptime:20\r\n", port(c.conn), sipEvent, sipEvent, sipEvent)
}

func (c *sipCall) end() {
	c.once.Do(func() {
		close(c.over)
		_ = c.conn.Close()
	})
}

// hear takes what the switch sends.
func (c *sipCall) hear() {
	buf := make([]byte, 2048)
	for {
		n, err := c.conn.Read(buf)
		if err != nil {
			return
		}
		var p rtp.Packet
		if p.Unmarshal(buf[:n]) != nil {
			continue
		}
		c.mu.Lock()
		switch {
		case p.PayloadType == 0:
			pcm := make([]int16, len(p.Payload))
			dsp.DecodeULaw(pcm, p.Payload)
			c.ear.Hear(time.Now(), pcm, nil)
		case p.PayloadType == sipEvent && p.Marker && len(p.Payload) == 4:
			c.digits += "0123456789*#"[p.Payload[0] : p.Payload[0]+1]
		}
		c.mu.Unlock()
	}
}

// talk sends a packet each 20 ms, late ones together: what it says, or silence.
func (c *sipCall) talk() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	header := rtp.Header{Version: 2, SSRC: 7, SequenceNumber: 1}
	const frame = dsp.SampleRate / 50
	began := time.Now()
	for {
		select {
		case <-c.over:
			return
		case <-tick.C:
		}
		for now := time.Now(); time.Duration(header.Timestamp)*time.Second/dsp.SampleRate < now.Sub(began); {
			c.mu.Lock()
			hz := c.hz
			if !now.Before(c.until) {
				hz = 0
			}
			p := rtp.Packet{Header: header}
			if len(c.press) > 0 {
				p = c.press[0]
				p.SequenceNumber, p.SSRC = header.SequenceNumber, header.SSRC
				c.press = c.press[1:]
			}
			c.mu.Unlock()
			if p.PayloadType == 0 {
				pcm := make([]int16, frame)
				for i := range pcm {
					if hz > 0 {
						pcm[i] = int16(8000 * math.Sin(2*math.Pi*hz*float64(int(header.Timestamp)+i)/dsp.SampleRate))
					}
				}
				p.Payload = make([]byte, frame)
				dsp.EncodeULaw(p.Payload, pcm)
			}
			raw, err := p.Marshal()
			if err == nil {
				_, _ = c.conn.WriteToUDPAddrPort(raw, c.peer)
			}
			header.SequenceNumber++
			header.Timestamp += frame
		}
	}
}

// say has a tone sent from now on.
func (c *sipCall) say(hz float64, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hz, c.until = hz, time.Now().Add(d)
}

// heard is how long a tone was heard, in milliseconds.
func (c *sipCall) heard(hz float64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return heardOf(c.ear.Heard(), hz)
}

func (c *sipCall) pressed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.digits
}

// header is a header of its INVITE; empty where there is none.
func (c *sipCall) header(name string) string {
	if h := c.invite.GetHeader(name); h != nil {
		return h.Value()
	}
	return ""
}

// next waits for the next call.
func (b *sipBot) next(t *testing.T) *sipCall {
	t.Helper()
	select {
	case c := <-b.calls:
		t.Cleanup(c.end)
		return c
	case <-time.After(30 * time.Second):
		require.FailNow(t, "the voice agent was not dialed")
		return nil
	}
}

// ends waits for the end of the call.
func (c *sipCall) ends(t *testing.T) {
	t.Helper()
	select {
	case <-c.over:
	case <-time.After(20 * time.Second):
		require.FailNow(t, "the voice agent's leg stays up")
	}
}

// bye hangs up.
func (c *sipCall) bye(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, c.dialog.Bye(ctx))
	c.end()
}

// notifies waits for the NOTIFY that ends the latest REFER, and no other since: its status line.
func (c *sipCall) notifies(t *testing.T) string {
	t.Helper()
	var all []string
	eventually(t, 30*time.Second, "the REFER's sender is told", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		all = slices.Clone(c.notified)
		c.notified = nil
		return len(all) > 0
	})
	require.Len(t, all, 1)
	return all[0]
}

// told are the NOTIFYs since those that were waited for: their status lines.
func (c *sipCall) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notified)
}

// forget forgets them.
func (c *sipCall) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notified = nil
}

// refer sends a REFER and returns the status of its answer.
func (c *sipCall) refer(t *testing.T, to string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req := sip.NewRequest(sip.REFER, c.invite.Contact().Address)
	req.AppendHeader(sip.NewHeader("Refer-To", to))
	req.AppendHeader(sip.NewHeader("Referred-By", "<"+strings.Trim(c.dialog.InviteRequest.To().Address.String(), "<>")+">"))
	res, err := c.dialog.Do(ctx, req)
	require.NoError(t, err)
	return res.StatusCode
}

// refersOver sends one, the last of the dialog, over a connection of its own, and reads the begin of its answer.
func (c *sipCall) refersOver(t *testing.T, network, to string) string {
	t.Helper()
	to = fmt.Sprintf("REFER %s SIP/2.0\r\nVia: SIP/2.0/%s %%s;branch=z9hG4bK%d;rport\r\nMax-Forwards: 70\r\nFrom: %s\r\nTo: %s\r\nCall-ID: %s\r\nCSeq: %d REFER\r\n"+
		"Contact: %s\r\nRefer-To: %s\r\nContent-Length: 0\r\n\r\n", c.invite.Contact().Address.String(), strings.ToUpper(network), time.Now().UnixNano(),
		c.dialog.InviteResponse.To().Value(), c.invite.From().Value(), c.invite.CallID().Value(), c.dialog.CSEQ()+1,
		c.dialog.InviteResponse.Contact().Value(), strings.ReplaceAll(to, "%", "%%"))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), network, c.invite.Contact().Address.HostPort())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = fmt.Fprintf(conn, to, conn.LocalAddr())
	require.NoError(t, err)
	answer := make([]byte, 64<<10)
	n, err := conn.Read(answer)
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(answer[:n]), "\r\n")
	return line
}
