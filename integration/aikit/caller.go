package aikit

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
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	pion "github.com/pion/rtp"

	"github.com/ringmaster/ringmaster/integration/simcarrier/tone"
	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dtmf"
)

const (
	frameTime = 20 * time.Millisecond
	eventPT   = 101
	// audible is the level, in dBFS, from which on a frame counts as heard.
	audible = -50.0
	// answerLimit bounds a call's set-up.
	answerLimit = 10 * time.Second
)

// madeUpSpeech are two seconds that sound like somebody who speaks, to be read alone.
//
//nolint:gochecknoglobals // made once for all kits
var madeUpSpeech = sync.OnceValue(func() []int16 { return tone.Babble(2*dsp.SampleRate, dsp.SampleRate, -12, 1) })

// phone places the calls' legs, as the switch does.
type phone struct {
	ua      *sipgo.UserAgent
	conn    net.PacketConn
	dialogs *sipgo.DialogClientCache
	wg      sync.WaitGroup
}

func newPhone(ctx context.Context) (*phone, error) {
	quiet := slog.New(slog.DiscardHandler) // sipgo warns of what is ordinary when it closes
	ua, err := sipgo.NewUA(sipgo.WithUserAgent("ai-kit"),
		sipgo.WithUserAgentTransactionLayerOptions(sip.WithTransactionLayerLogger(quiet)),
		sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)))
	if err != nil {
		return nil, fmt.Errorf("start the caller: %w", err)
	}
	srv, err := sipgo.NewServer(ua, sipgo.WithServerLogger(quiet))
	if err != nil {
		return nil, fmt.Errorf("start the caller: %w", err)
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the caller: %w", err)
	}
	_, port, err := hostPort(conn.LocalAddr().String())
	if err != nil {
		return nil, err
	}
	cli, err := sipgo.NewClient(ua, sipgo.WithClientHostname("127.0.0.1"), sipgo.WithClientPort(port), sipgo.WithClientLogger(quiet))
	if err != nil {
		return nil, fmt.Errorf("start the caller: %w", err)
	}
	p := &phone{ua: ua, conn: conn, dialogs: sipgo.NewDialogClientCache(cli, sip.ContactHeader{Address: sip.Uri{User: "ai-kit", Host: "127.0.0.1", Port: port}})}
	srv.OnBye(func(req *sip.Request, tx sip.ServerTransaction) {
		_ = p.dialogs.ReadBye(req, tx) // of a call that has ended here too
	})
	p.wg.Go(func() {
		_ = srv.ServeUDP(conn) // it ends with the socket
	})
	return p, nil
}

func (p *phone) close() error {
	err := p.ua.Close()
	if closed := p.conn.Close(); closed != nil && !errors.Is(closed, net.ErrClosed) {
		err = errors.Join(err, closed)
	}
	p.wg.Wait()
	return err
}

func hostPort(addr string) (string, int, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("read an address: %w", err)
	}
	port, err := strconv.Atoi(text)
	return host, port, err
}

// caller is the person on a call: what they say goes out in frames of 20 ms, and what they hear is measured.
type caller struct {
	leg  *sipgo.DialogClientSession
	conn *net.UDPConn
	peer *net.UDPAddr
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup

	mu    sync.Mutex
	words []int16
	keys  dtmf.Sender
	heard int       // frames that were audible
	last  time.Time // when the newest of them came
}

// place calls the user part id at an address.
func (p *phone) place(ctx context.Context, id, at string) (*caller, error) {
	host, port, err := hostPort(at)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("open the caller's audio: %w", err)
	}
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	offer := fmt.Appendf(nil, "v=0\r\no=- 1 1 IN IP4 %[1]s\r\ns=-\r\nc=IN IP4 %[1]s\r\nt=0 0\r\nm=audio %[2]d RTP/AVP 0 %[3]d\r\n"+
		"a=rtpmap:0 PCMU/8000\r\na=rtpmap:%[3]d telephone-event/8000\r\na=fmtp:%[3]d 0-15\r\na=ptime:20\r\na=sendrecv\r\n", local.Addr(), local.Port(), eventPT)
	leg, err := p.dialogs.Invite(ctx, sip.Uri{Scheme: "sip", User: id, Host: host, Port: port}, offer, sip.NewHeader("Content-Type", "application/sdp"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("place the caller's leg: %w", err), conn.Close())
	}
	err = leg.WaitAnswer(ctx, sipgo.AnswerOptions{})
	if err == nil {
		err = leg.Ack(ctx)
	}
	var peer *net.UDPAddr
	if err == nil {
		peer, err = audioAddr(string(leg.InviteResponse.Body()))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("place the caller's leg: %w", err), leg.Close(), conn.Close())
	}
	c := &caller{leg: leg, conn: conn, peer: peer, stop: make(chan struct{})}
	c.wg.Go(c.send)
	c.wg.Go(c.receive)
	return c, nil
}

// audioAddr finds the address of the audio in an answer.
func audioAddr(sdp string) (*net.UDPAddr, error) {
	a := &net.UDPAddr{}
	for line := range strings.Lines(sdp) {
		if v, ok := strings.CutPrefix(line, "c=IN IP4 "); ok {
			a.IP = net.ParseIP(strings.TrimSpace(v))
		}
		if v, ok := strings.CutPrefix(line, "m=audio "); ok {
			port, _, _ := strings.Cut(v, " ")
			a.Port, _ = strconv.Atoi(port) // 0 is refused below
		}
	}
	if a.IP == nil || a.Port == 0 {
		return nil, errors.New("the endpoint's answer has no audio")
	}
	return a, nil
}

// send speaks until the call ends: words, keys, or silence.
func (c *caller) send() {
	tick := time.NewTicker(frameTime)
	defer tick.Stop()
	h := pion.Header{Version: 2, SSRC: 0x61696b74, SequenceNumber: 1}
	frame := make([]int16, dsp.FrameSamples)
	ulaw := make([]byte, dsp.FrameSamples)
	began, sent := time.Now(), 0
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		for ; sent < int(time.Since(began)/frameTime); sent++ { // a late tick is made up for
			c.mu.Lock()
			clear(frame)
			c.words = c.words[copy(frame, c.words):]
			step, event, first := c.keys.Step(h.Timestamp, dsp.FrameSamples)
			stamp := c.keys.Began()
			c.mu.Unlock()
			dsp.EncodeULaw(ulaw, frame)
			out, payload := h, ulaw
			if step == dtmf.StepEvent {
				out.PayloadType, out.Timestamp, out.Marker, payload = eventPT, stamp, first, event[:]
			}
			if b, err := (&pion.Packet{Header: out, Payload: payload}).Marshal(); err == nil {
				_, _ = c.conn.WriteToUDP(b, c.peer) // of a leg that has gone: the session tells
			}
			h.SequenceNumber++
			h.Timestamp += dsp.FrameSamples
		}
	}
}

// receive measures what comes.
func (c *caller) receive() {
	buf := make([]byte, 1500)
	pcm := make([]int16, 1500)
	for {
		n, _, err := c.conn.ReadFromUDP(buf)
		if err != nil {
			return
		}
		var p pion.Packet
		if p.Unmarshal(buf[:n]) != nil || p.PayloadType != 0 {
			continue
		}
		k := dsp.DecodeULaw(pcm, p.Payload)
		if tone.Level(pcm[:k]) < audible {
			continue
		}
		c.mu.Lock()
		c.heard, c.last = c.heard+1, time.Now()
		c.mu.Unlock()
	}
}

// say speaks, after what is being said.
func (c *caller) say(pcm []int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.words = append(c.words, pcm...)
}

// speaking tells whether they still do.
func (c *caller) speaking() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.words) > 0
}

// press presses keys.
func (c *caller) press(digits string) error {
	keys, err := dtmf.Parse(digits, 0)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys.Add(keys)
}

func (c *caller) pressing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.keys.Idle()
}

// heardFor is how long they have heard something.
func (c *caller) heardFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.heard) * frameTime
}

// quietFor is how long ago they have last heard something.
func (c *caller) quietFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.last)
}

// hangUp ends the leg. It may be called more than once.
func (c *caller) hangUp(ctx context.Context) {
	c.once.Do(func() {
		close(c.stop)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = errors.Join(c.leg.Bye(ctx), c.leg.Close(), c.conn.Close()) // the endpoint may have ended it first
	})
	c.wg.Wait()
}
