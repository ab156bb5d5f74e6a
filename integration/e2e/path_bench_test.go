package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/jackc/pgx/v5"

	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store/retry"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// BenchmarkWholePath measures calls from the carrier through the switch and the controller to an echoing AI and back, the
// audio in bridge mode and in bypass, beside a yardstick of the same run: the same callers, bridged by the same switch to an
// endpoint that echoes RTP. It prints the CPU of switch and controller per call-second, as a multiple of what the switch
// alone uses for the yardstick, and by how much the audio's round trip exceeds the yardstick's: the medians of seven rounds in one
// stack, each with a yardstick of its own, since a shared machine's speed differs by a third from one minute to the next.
func BenchmarkWholePath(b *testing.B) {
	for _, calls := range []int{50, 100} {
		b.Run(strconv.Itoa(calls), func(b *testing.B) {
			if theSuite.freeswitch == "" {
				b.Skip("NO REAL SWITCH: set " + envFreeSWITCH + "=/path/to/freeswitch to measure it")
			}
			for range b.N {
				benchmarkPath(b, calls)
			}
		})
	}
}

const (
	pathRounds = 7
	// pathSettles is what the set-ups' own cost takes to pass, pathWatched how long the calls are watched then.
	pathSettles, pathWatched = 4 * time.Second, 8 * time.Second
)

// pathFigures is what one phase has shown.
type pathFigures struct {
	switchCPU, ownCPU float64 // µs per call-second
	trip              simcarrier.RoundTrip
}

// medians collects figures of rounds by their unit.
type medians map[string][]float64

func (m medians) add(unit string, v float64) { m[unit] = append(m[unit], v) }

func (m medians) report(b *testing.B) {
	b.Helper()
	for unit, vs := range m {
		slices.Sort(vs)
		b.ReportMetric(vs[len(vs)/2], unit)
	}
}

func benchmarkPath(b *testing.B, calls int) {
	b.Helper()
	dir, err := os.MkdirTemp(theSuite.dir, "path-") //nolint:usetesting // the database's server runs as another user
	check(b, err)
	own := theSuite
	own.controller = own.binary // without the race detector
	// The poll is the shipped one: the stand-ins' is quicker, and would be measured.
	s, err := own.start(b.Context(), dir, freeswitch, stack.Config{Voice: "marker", Override: map[string]any{"dialing.poll": "1s"}})
	check(b, err)
	defer func() {
		if b.Failed() {
			b.Log("what the processes logged:\n" + theSuite.log.text())
		}
		check(b, s.Close(context.Background()))
	}()
	p := &pathBench{
		s: s, calls: calls, carrier: strings.TrimSuffix(s.Bootstrap.PlaceInboundCallURL, "/inbound"),
		cust: &benchCustomer{base: s.Bootstrap.BaseURL, key: s.Bootstrap.Tenants[0].LiveKey},
	}
	p.esl, err = esl.Dial(b.Context(), s.Bootstrap.Switch.ESL, s.SwitchPassword(), esl.Options{})
	check(b, err)
	defer func() { _ = p.esl.Close() }()

	found := medians{}
	for range pathRounds {
		p.compare(b, found)
	}
	found.report(b)
	b.ReportMetric(0, "ns/op")
	p.sayIfBypassFailed(b)
}

// pathBench is one stack and its phases.
type pathBench struct {
	s       *stack.Stack
	cust    *benchCustomer
	carrier string
	esl     *esl.Conn
	calls   int
}

// compare is one round: the yardstick, then both ways of our own.
func (p *pathBench) compare(b *testing.B, found medians) {
	b.Helper()
	yard := p.yardstick(b)
	found.add("yardstick-us/call-s", yard.switchCPU)
	found.add("yardstick-rtt-p50-ms", yard.trip.P50)
	for _, mode := range []string{"bridge", "bypass"} {
		p.setMode(b, mode)
		stop := p.cust.campaign(b, p.s.Bootstrap.AIWSURL+"?greet=0", p.calls)
		f := p.measure(b)
		stop()
		found.add(mode+"-switch-us/call-s", f.switchCPU)
		found.add(mode+"-ours-us/call-s", f.ownCPU)
		found.add(mode+"-x-yardstick", (f.switchCPU+f.ownCPU)/yard.switchCPU)
		found.add(mode+"-rtt-p50-ms", f.trip.P50)
		found.add(mode+"-rtt-p99-ms", f.trip.P99)
		found.add(mode+"-rtt-above-yardstick-ms", f.trip.P50-yard.trip.P50)
		_, _ = fmt.Fprintf(os.Stderr, "%d calls, %s: %.2f x the yardstick's %.0f us/call-s, %.1f ms above it\n", p.calls, mode,
			(f.switchCPU+f.ownCPU)/yard.switchCPU, yard.switchCPU, f.trip.P50-yard.trip.P50)
	}
}

// yardstick has the switch call the carrier's subscribers and bridge each to the echo, without the controller.
func (p *pathBench) yardstick(b *testing.B) pathFigures {
	b.Helper()
	echo, err := startReflector(b.Context())
	check(b, err)
	defer echo.close()
	for i := range p.calls {
		_, err := p.esl.API(b.Context(), fmt.Sprintf("bgapi originate sofia/external/%s@%s &bridge(sofia/internal/echo@%s)",
			benchNumber(p.cust.round, i), p.s.CarrierSIP, echo.addr))
		check(b, err)
		check(b, retry.Pause(b.Context(), 20*time.Millisecond))
	}
	p.cust.round++
	return p.measure(b)
}

// setMode says how the audio of the trunks' next calls goes.
func (p *pathBench) setMode(b *testing.B, mode string) {
	b.Helper()
	db := p.database(b)
	defer func() { check(b, db.Close(context.Background())) }()
	tag, err := db.Exec(b.Context(), "UPDATE trunks SET media_mode = $1", mode)
	check(b, err)
	if tag.RowsAffected() == 0 {
		b.Fatal("no trunk's media_mode could be set")
	}
}

// database is a connection that sees the rows of all tenants.
func (p *pathBench) database(b *testing.B) *pgx.Conn {
	b.Helper()
	db, err := pgx.Connect(b.Context(), p.s.Bootstrap.DatabaseURL)
	check(b, err)
	_, err = db.Exec(b.Context(), "SELECT set_config('app.system', 'on', false)")
	check(b, err)
	return db
}

// sayIfBypassFailed tells why figures of bypass are in truth those of a bridge.
func (p *pathBench) sayIfBypassFailed(b *testing.B) {
	b.Helper()
	db := p.database(b)
	defer func() { check(b, db.Close(context.Background())) }()
	rows, err := db.Query(b.Context(), "SELECT name || ': ' || bypass_failure FROM trunks WHERE bypass_failure IS NOT NULL")
	check(b, err)
	failures, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(b, err)
	if len(failures) > 0 {
		b.Logf("trunks were taken out of bypass: %v", failures)
	}
}

// measure waits until all calls are up, watches them, and ends them.
func (p *pathBench) measure(b *testing.B) pathFigures {
	b.Helper()
	p.cust.awaitLive(b, p.carrier, p.calls)
	check(b, retry.Pause(b.Context(), pathSettles))
	pids := []int{p.s.SwitchPID(), p.s.ControllerPID()}
	var before, used [2]time.Duration
	began := time.Now()
	for i, pid := range pids {
		before[i] = cpuTime(b, pid)
	}
	check(b, retry.Pause(b.Context(), pathWatched))
	for i, pid := range pids {
		used[i] = cpuTime(b, pid) - before[i]
	}
	callSeconds := float64(p.calls) * time.Since(began).Seconds()
	var stats simcarrier.Stats
	p.cust.get(b, p.carrier+"/stats", &stats)
	if stats.Live != p.calls {
		p.tellEnded(b)
		b.Fatalf("%d of %d calls are left", stats.Live, p.calls)
	}
	_, err := p.esl.API(b.Context(), "hupall NORMAL_CLEARING")
	check(b, err)
	p.cust.awaitLive(b, p.carrier, 0)
	req, err := http.NewRequestWithContext(b.Context(), http.MethodDelete, p.carrier+"/calls", http.NoBody)
	check(b, err)
	p.cust.send(b, req, nil) // the next phase's round trips are its own
	return pathFigures{
		switchCPU: float64(used[0].Microseconds()) / callSeconds, ownCPU: float64(used[1].Microseconds()) / callSeconds,
		trip: stats.RoundTrip,
	}
}

// tellEnded logs how the newest calls ended.
func (p *pathBench) tellEnded(b *testing.B) {
	b.Helper()
	db := p.database(b)
	defer func() { check(b, db.Close(context.Background())) }()
	rows, err := db.Query(b.Context(), `SELECT id || ' ' || status || ' ' || coalesce(hangup_cause, '') || ' ' || coalesce(hangup_disposition, '')
		FROM calls WHERE end_time > now() - '10 seconds'::interval`)
	check(b, err)
	ended, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(b, err)
	b.Logf("calls that ended: %v", ended)
}

// reflector is a bare SIP endpoint that sends each RTP packet straight back.
type reflector struct {
	addr string
	ua   *sipgo.UserAgent
	sip  net.PacketConn
	wg   sync.WaitGroup

	mu   sync.Mutex
	legs map[string]*net.UDPConn
}

func startReflector(ctx context.Context) (*reflector, error) {
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(ctx, "udp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("bind the echo's SIP address: %w", err)
	}
	quiet := slog.New(slog.DiscardHandler)
	ua, err := sipgo.NewUA(sipgo.WithUserAgent("echo"), sipgo.WithUserAgentTransportLayerOptions(sip.WithTransportLayerLogger(quiet)),
		sipgo.WithUserAgentTransactionLayerOptions(sip.WithTransactionLayerLogger(quiet)))
	if err != nil {
		return nil, errors.Join(err, pc.Close())
	}
	srv, err := sipgo.NewServer(ua, sipgo.WithServerLogger(quiet))
	if err != nil {
		return nil, errors.Join(err, pc.Close())
	}
	r := &reflector{addr: pc.LocalAddr().String(), ua: ua, sip: pc, legs: map[string]*net.UDPConn{}}
	srv.OnInvite(r.invite)
	srv.OnAck(func(*sip.Request, sip.ServerTransaction) {})
	srv.OnBye(r.bye)
	r.wg.Go(func() { _ = srv.ServeUDP(pc) }) // ends by close
	return r, nil
}

func (r *reflector) invite(req *sip.Request, tx sip.ServerTransaction) {
	at := netip.MustParseAddrPort(r.addr)
	r.mu.Lock()
	leg := r.legs[req.CallID().Value()]
	if leg == nil {
		var err error
		if leg, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			r.mu.Unlock()
			_ = tx.Respond(sip.NewResponseFromRequest(req, sip.StatusServiceUnavailable, "No Port", nil))
			return
		}
		r.legs[req.CallID().Value()] = leg
		r.wg.Go(func() { reflect(leg) })
	}
	r.mu.Unlock()
	body := fmt.Sprintf("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio %d RTP/AVP 0 101\r\na=rtpmap:0 PCMU/8000\r\n"+
		"a=rtpmap:101 telephone-event/8000\r\na=ptime:20\r\n",
		netip.MustParseAddrPort(leg.LocalAddr().String()).Port())
	res := sip.NewResponseFromRequest(req, sip.StatusOK, "OK", []byte(body))
	res.AppendHeader(&sip.ContactHeader{Address: sip.Uri{Scheme: "sip", User: "echo", Host: at.Addr().String(), Port: int(at.Port())}})
	res.AppendHeader(sip.NewHeader("Content-Type", "application/sdp"))
	_ = tx.Respond(res)
	<-tx.Done()
}

// reflect ends when the socket is closed.
func reflect(leg *net.UDPConn) {
	b := make([]byte, 2048)
	for {
		n, from, err := leg.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = leg.WriteToUDPAddrPort(b[:n], from)
		}
	}
}

func (r *reflector) bye(req *sip.Request, tx sip.ServerTransaction) {
	_ = tx.Respond(sip.NewResponseFromRequest(req, sip.StatusOK, "OK", nil))
	r.mu.Lock()
	defer r.mu.Unlock()
	if leg := r.legs[req.CallID().Value()]; leg != nil {
		_ = leg.Close()
		delete(r.legs, req.CallID().Value())
	}
}

func (r *reflector) close() {
	_ = r.ua.Close()
	_ = r.sip.Close()
	r.mu.Lock()
	for _, leg := range r.legs {
		_ = leg.Close()
	}
	r.mu.Unlock()
	r.wg.Wait()
}
