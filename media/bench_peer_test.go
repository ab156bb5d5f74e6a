package media

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	siplib "github.com/emiago/sipgo/sip"
	"github.com/gorilla/websocket"

	"github.com/ringmaster/ringmaster/media/dsp"
	"github.com/ringmaster/ringmaster/media/dsp/dsptest"
	"github.com/ringmaster/ringmaster/media/netio"
	"github.com/ringmaster/ringmaster/media/sip"
)

// benchPeerEnv makes the test binary play the callers and the AI of a benchmark.
const benchPeerEnv = "RINGMASTER_MEDIA_BENCH_PEER"

// benchResult is what the callers have measured.
type benchResult struct {
	Sent, Received int
	Expected       int     // packets that should have come back, set by the benchmark
	P50, P99       float64 // of the round trip, in ms
}

// benchPeer prints the AI's URL, reads "SIP-address calls seconds", prints "up" when all calls are answered, and at the
// end the result. It ends when its input does.
func benchPeer(in io.Reader, out io.Writer) int {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp4", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	go func() { _ = http.Serve(l, http.HandlerFunc(echoAudio)) }() //nolint:gosec // a loopback server of a benchmark
	_, _ = fmt.Fprintf(out, "ws://%s/\n", l.Addr())
	var addr string
	var n, seconds int
	lines := bufio.NewReader(in)
	if _, err := fmt.Fscan(lines, &addr, &n, &seconds); err != nil {
		return fail(err)
	}
	callers := make([]*benchCaller, n)
	for i := range callers {
		if callers[i], err = newBenchCaller(addr, i); err != nil {
			return fail(err)
		}
	}
	_, _ = fmt.Fprintln(out, "up")
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(c.listen)
	}
	pace(callers, seconds*50)
	var all []float64
	var res benchResult
	for _, c := range callers {
		_ = c.rtp.SetReadDeadline(time.Now())
	}
	wg.Wait()
	for _, c := range callers {
		all = append(all, c.trips...)
		res.Sent += c.sent
		res.Received += c.received
	}
	slices.Sort(all)
	if len(all) > 0 {
		res.P50, res.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	if err := json.NewEncoder(out).Encode(res); err != nil {
		return fail(err)
	}
	_, _ = io.Copy(io.Discard, lines)
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func echoAudio(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{Subprotocols: []string{SubprotocolAlpha}}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	for {
		t, b, err := c.ReadMessage()
		if err != nil {
			return
		}
		if t == websocket.BinaryMessage && c.WriteMessage(t, b) != nil {
			return
		}
	}
}

// benchCaller is one leg: silence with one loud frame a second, whose way back is measured.
type benchCaller struct {
	rtp      *net.UDPConn
	peer     *net.UDPAddr
	pkt      [172]byte
	sent     int
	received int
	mu       sync.Mutex
	loudAt   time.Time
	trips    []float64
}

func newBenchCaller(addr string, i int) (*benchCaller, error) {
	rtp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	c := &benchCaller{rtp: rtp}
	sipC, err := new(net.Dialer).DialContext(context.Background(), "udp4", addr)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio %d RTP/AVP 0\r\n", localPort(rtp))
	head := func(method, tag string) string {
		return fmt.Sprintf("%s sip:bench%d@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP %s;branch=z9hG4bK%d%s;rport\r\nFrom: <sip:b@127.0.0.1>;tag=b\r\nTo: <sip:bench%d@127.0.0.1>%s\r\nCall-ID: bench%d\r\nCSeq: 1 %s\r\nContact: <sip:b@%s>\r\nMax-Forwards: 70\r\n",
			method, i, sipC.LocalAddr(), i, method, i, tag, i, method, sipC.LocalAddr())
	}
	if _, err := fmt.Fprintf(sipC, "%sContent-Type: application/sdp\r\nContent-Length: %d\r\n\r\n%s", head("INVITE", ""), len(body), body); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	if err := sipC.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	for {
		n, err := sipC.Read(buf)
		if err != nil {
			return nil, err
		}
		s := newBenchAnswer(buf[:n])
		if s == nil {
			continue
		}
		c.peer = net.UDPAddrFromAddrPort(s.remote)
		if _, err := fmt.Fprintf(sipC, "%sContent-Length: 0\r\n\r\n", head("ACK", ";tag="+s.tag)); err != nil {
			return nil, err
		}
		return c, nil
	}
}

// pace sends one packet of each caller every 20 ms, spread over the frame.
func pace(callers []*benchCaller, frames int) {
	var loud, silent [160]byte
	dsp.EncodeULaw(loud[:], dsptest.Tone(1000, 8000, 160))
	dsp.EncodeULaw(silent[:], make([]int16, 160))
	start := netio.Monotonic()
	for f := range frames {
		for i, c := range callers {
			netio.SleepUntil(start + int64(f)*dsp.FrameNS + int64(i)*dsp.FrameNS/int64(len(callers)))
			body := silent[:]
			if f%50 == 10 {
				body = loud[:]
			}
			h := c.pkt[:12]
			h[0], h[1] = 0x80, 0
			binary.BigEndian.PutUint16(h[2:], uint16(f))
			binary.BigEndian.PutUint32(h[4:], uint32(f*160))
			binary.BigEndian.PutUint32(h[8:], uint32(i+1))
			copy(c.pkt[12:], body)
			if f%50 == 10 {
				c.mu.Lock()
				c.loudAt = time.Now()
				c.mu.Unlock()
			}
			if _, err := c.rtp.WriteToUDP(c.pkt[:], c.peer); err == nil {
				c.sent++
			}
		}
	}
}

// listen counts what comes back and measures the loud frames' way.
func (c *benchCaller) listen() {
	buf := make([]byte, 2048)
	pcm := make([]int16, 160)
	for {
		n, err := c.rtp.Read(buf)
		if err != nil {
			return
		}
		c.received++
		if n < 172 {
			continue
		}
		dsp.DecodeULaw(pcm, buf[12:172])
		loud := slices.ContainsFunc(pcm, func(s int16) bool { return s > 4000 })
		c.mu.Lock()
		if loud && !c.loudAt.IsZero() {
			c.trips = append(c.trips, float64(time.Since(c.loudAt).Microseconds())/1000)
			c.loudAt = time.Time{}
		}
		c.mu.Unlock()
	}
}

// benchAnswer is what a caller needs of the 200.
type benchAnswer struct {
	remote netip.AddrPort
	tag    string
}

func newBenchAnswer(b []byte) *benchAnswer {
	msg, err := siplib.NewParser().ParseSIP(b)
	if err != nil {
		return nil
	}
	res, ok := msg.(*siplib.Response)
	if !ok || res.StatusCode != 200 {
		return nil
	}
	r, err := sip.ReadSDP(res.Body())
	if err != nil {
		return nil
	}
	tag, _ := res.To().Params.Get("tag")
	return &benchAnswer{remote: r.Media.Remote, tag: tag}
}
