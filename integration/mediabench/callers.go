package mediabench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"golang.org/x/sys/unix"
)

const (
	// sendSlots is how many parts the callers are spread over within 20 ms.
	sendSlots = 20
	// dialing bounds the INVITEs that wait for their answer.
	dialing = 32
	// answerLimit bounds one call's set-up.
	answerLimit = 30 * time.Second
	// drainFor is how long what is under way may still arrive when the callers have stopped.
	drainFor = 200 * time.Millisecond
)

// callers is the part that places the calls.
type callers struct {
	ua      *sipgo.UserAgent
	conn    net.PacketConn
	dialogs *sipgo.DialogClientCache
	wg      sync.WaitGroup

	streams []*stream
	legs    []*sipgo.DialogClientSession
	sending sync.WaitGroup
	phase   atomic.Int32 // what the sending thread is to do
}

// phases of the sending thread.
const (
	phaseWarm int32 = iota
	phaseMeasure
	phaseQuiet
)

func newCallers(ctx context.Context, log *slog.Logger) (*callers, error) {
	quiet := slog.New(slog.DiscardHandler) // sipgo warns of what is ordinary when it closes
	ua, err := sipgo.NewUA(sipgo.WithUserAgent("mediabench"),
		sipgo.WithUserAgentTransactionLayerOptions(sip.WithTransactionLayerLogger(quiet)),
		sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)))
	if err != nil {
		return nil, fmt.Errorf("start the callers' user agent: %w", err)
	}
	srv, err := sipgo.NewServer(ua, sipgo.WithServerLogger(log))
	if err != nil {
		return nil, fmt.Errorf("start the callers' user agent: %w", err)
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bind the callers' SIP address: %w", err)
	}
	addr, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("%w: no UDP address", ErrPart)
	}
	cli, err := sipgo.NewClient(ua, sipgo.WithClientHostname("127.0.0.1"), sipgo.WithClientPort(addr.Port), sipgo.WithClientLogger(log))
	if err != nil {
		return nil, fmt.Errorf("start the callers' user agent: %w", err)
	}
	c := &callers{
		ua: ua, conn: conn,
		dialogs: sipgo.NewDialogClientCache(cli, sip.ContactHeader{Address: sip.Uri{User: "bench", Host: "127.0.0.1", Port: addr.Port}}),
	}
	srv.OnBye(func(req *sip.Request, tx sip.ServerTransaction) {
		if err := c.dialogs.ReadBye(req, tx); err != nil {
			log.Debug("a BYE could not be read", "error", err)
		}
	})
	c.wg.Go(func() {
		if err := srv.ServeUDP(conn); err != nil && !errors.Is(err, net.ErrClosed) {
			log.Debug("the callers' SIP server has ended", "error", err)
		}
	})
	return c, nil
}

func (c *callers) addr() string { return "" }

func (c *callers) do(ctx context.Context, cmd command) (reply, error) {
	switch cmd.Do {
	case doCall:
		return reply{}, c.call(ctx, cmd.Target, cmd.Options)
	case doBegin:
		c.phase.Store(phaseMeasure)
		return sampled()
	case doEnd:
		r, err := sampled()
		c.phase.Store(phaseWarm)
		return r, err
	case doQuiet:
		c.phase.Store(phaseQuiet)
		c.sending.Wait()
		return reply{Heard: c.report()}, nil
	case doOpen, doFinish, doAttack:
	}
	return unexpected(cmd)
}

// call places all calls, then starts to send.
func (c *callers) call(ctx context.Context, target string, o Options) error {
	host, portText, err := net.SplitHostPort(target)
	if err != nil {
		return fmt.Errorf("read the endpoint's address: %w", err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return fmt.Errorf("read the endpoint's address: %w", err)
	}
	c.streams, c.legs = make([]*stream, o.Calls), make([]*sipgo.DialogClientSession, o.Calls)
	errs := make([]error, o.Calls)
	room := make(chan struct{}, dialing)
	var wg sync.WaitGroup
	for i := range o.Calls {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			errs[i] = c.place(ctx, i, sip.Uri{Scheme: "sip", User: sessionID(i), Host: host, Port: port})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("place the calls: %w", err)
	}
	for _, st := range c.streams {
		st.late = make([]int64, 0, (o.Seconds+3)*50)
		st.trips = make([]float64, 0, o.Seconds+3)
	}
	c.phase.Store(phaseWarm)
	c.sending.Go(c.send)
	return nil
}

func (c *callers) place(ctx context.Context, i int, uri sip.Uri) error {
	st, err := newStream(i)
	if err != nil {
		return err
	}
	c.streams[i] = st
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	d, err := c.dialogs.Invite(ctx, uri, offer(st.local), sip.NewHeader("Content-Type", "application/sdp"))
	if err != nil {
		return err
	}
	c.legs[i] = d
	if err := d.WaitAnswer(ctx, sipgo.AnswerOptions{}); err != nil {
		return err
	}
	if err := d.Ack(ctx); err != nil {
		return err
	}
	to, err := audioAddr(string(d.InviteResponse.Body()))
	if err != nil {
		return err
	}
	return st.connect(to)
}

func offer(a netip.AddrPort) []byte {
	return fmt.Appendf(nil, "v=0\r\no=- 1 1 IN IP4 %[1]s\r\ns=-\r\nc=IN IP4 %[1]s\r\nt=0 0\r\nm=audio %[2]d RTP/AVP 0 101\r\n"+
		"a=rtpmap:0 PCMU/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n", a.Addr(), a.Port())
}

// audioAddr finds the address of the audio in an answer.
func audioAddr(sdp string) (netip.AddrPort, error) {
	var ip netip.Addr
	var port int
	for line := range strings.Lines(sdp) {
		if v, ok := strings.CutPrefix(line, "c=IN IP4 "); ok {
			ip, _ = netip.ParseAddr(strings.TrimSpace(v))
		}
		if v, ok := strings.CutPrefix(line, "m=audio "); ok {
			p, _, _ := strings.Cut(v, " ")
			port, _ = strconv.Atoi(p)
		}
	}
	if !ip.IsValid() || port <= 0 {
		return netip.AddrPort{}, fmt.Errorf("%w: no audio in the answer", ErrPart)
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}

// send is the thread that paces all calls.
func (c *callers) send() {
	prioritize()
	v, r := newVoice(), new(reader)
	next := monotonic()
	for k := 0; ; k++ {
		phase := c.phase.Load()
		if phase == phaseQuiet {
			break
		}
		for i := k % sendSlots; i < len(c.streams); i += sendSlots {
			c.streams[i].send(v)
			c.streams[i].receive(r, phase == phaseMeasure)
		}
		next += frameNS / sendSlots
		sleepUntil(next)
	}
	sleepUntil(monotonic() + int64(drainFor))
	for _, st := range c.streams {
		st.receive(r, false)
	}
}

func (c *callers) report() *heard {
	sum := &heard{Answered: len(c.streams)}
	var dev, trips []float64
	for _, st := range c.streams {
		sum.Sent += st.heard.Sent
		sum.Received += st.heard.Received
		sum.Lost += st.heard.Lost
		dev = st.deviations(dev)
		trips = append(trips, st.trips...)
	}
	sum.DeviationMS, sum.RoundTripMS, sum.Markers = quantiles(dev), quantiles(trips), len(trips)
	return sum
}

func (c *callers) close() error {
	c.phase.Store(phaseQuiet)
	c.sending.Wait()
	var errs []error
	for _, st := range c.streams {
		if st != nil {
			errs = append(errs, unix.Close(st.fd))
		}
	}
	for _, d := range c.legs {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	errs = append(errs, c.ua.Close())
	if err := c.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		errs = append(errs, err)
	}
	c.wg.Wait()
	return errors.Join(errs...)
}

// sessionID is the user part of a call's URI.
func sessionID(i int) string { return "bench" + strconv.Itoa(i) }
