package phones

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/integration/freeswitch"
	"github.com/ringmaster/ringmaster/integration/simcarrier"
	"github.com/ringmaster/ringmaster/integration/simswitch"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/keyring"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/call"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

const (
	envFreeSWITCH = "RINGMASTER_FREESWITCH"
	envLog        = "RINGMASTER_TEST_LOG" // any value has the controller log
	soon          = 30 * time.Second
	callerHz      = 425.0
	agentHz       = 1000.0
	ringHz        = 400.0
	toneHz        = 600.0
	number        = "+918000000001"
	domain        = "127.0.0.1"
	extension     = "1001"
)

func TestMain(m *testing.M) {
	// sipgo answers a retransmission that comes while its listener closes from a new socket, which it then never closes.
	storetest.Main(m, goleak.IgnoreAnyFunction("github.com/emiago/sipgo/sip.(*TransportUDP).readUDPConnection"))
}

// line is a switch, a controller, a carrier whose subscribers are called, and the phones of agents.
type line struct {
	t         *testing.T
	st        *store.Store
	tenant    uuid.UUID
	agent     uuid.UUID
	cfg       call.Config
	media     *media.Server
	dialer    *dialer.Service
	wake      *wake.Signals
	calls     *call.Controller
	stop      func(ctx context.Context) error
	carrier   *simcarrier.Server
	phone     *simcarrier.Server // plays the softphones too
	internal  string             // address of the switch's profile for phones
	directory string
	handler   *handler
	// crash ends the switch at once, and starts it anew.
	crash  func(tb testing.TB)
	voice  *uuid.UUID // the voice agent that takes the calls; nil for none
	states states
	dir    string
	ports  []string // addresses that are the line's: of the controller's socket, and of the simulated switch
}

// handler is the dialer's, with what a test puts in its place.
type handler struct {
	switchctl.AnswerHandler

	mu       sync.Mutex
	answered func(ctx context.Context, leg switchctl.Leg) error
	queue    func(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error
	canQueue error
}

func (h *handler) Answered(ctx context.Context, leg switchctl.Leg) error {
	h.mu.Lock()
	f := h.answered
	h.mu.Unlock()
	if f == nil {
		return h.AnswerHandler.Answered(ctx, leg)
	}
	return f(ctx, leg)
}

func (h *handler) CanQueue(context.Context, uuid.UUID, switchctl.QueueRequest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.canQueue
}

func (h *handler) Queue(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
	h.mu.Lock()
	f := h.queue
	h.mu.Unlock()
	return f(ctx, leg, req)
}

func (h *handler) onQueue(f func(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = f
}

func (h *handler) onAnswer(f func(ctx context.Context, leg switchctl.Leg) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered = f
}

// states keeps what a phone's watcher was told.
type states struct {
	mu   sync.Mutex
	list []phone.State
}

func (s *states) PhoneChanged(p phone.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, p)
}

func (s *states) last() phone.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return phone.State{}
	}
	return s.list[len(s.list)-1]
}

// nobody is on the registry.
type nobody struct{}

func (nobody) Listed(_ context.Context, phones []store.Phone) ([]bool, error) {
	return make([]bool, len(phones)), nil
}

// onEachSwitch runs a test on the simulated switch, and on a real one where there is one.
func onEachSwitch(t *testing.T, test func(t *testing.T, l *line)) {
	t.Helper()
	t.Run("simulated", func(t *testing.T) {
		t.Parallel()
		test(t, newLine(t, ""))
	})
	t.Run("freeswitch", func(t *testing.T) {
		t.Parallel()
		path := os.Getenv(envFreeSWITCH)
		if path == "" {
			t.Skip("NO REAL SWITCH: set " + envFreeSWITCH)
		}
		test(t, newLine(t, path))
	})
}

func newLine(tb testing.TB, binary string) *line {
	tb.Helper()
	l := &line{dir: tb.TempDir()}
	if tt, ok := tb.(*testing.T); ok {
		l.t = tt
	}
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv(envLog) != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	l.st = storetest.New(tb)
	l.tenant, l.agent = storetest.Tenant(tb, l.st), storetest.NewID(tb)
	l.carrier, l.phone = subscriber(tb, callerHz), subscriber(tb, agentHz)
	l.ports = freePorts(tb)
	outbound := l.ports[0]
	web := httptest.NewServer(http.HandlerFunc(anybody))
	tb.Cleanup(web.Close)
	l.directory = web.URL
	cdrs := filepath.Join(l.dir, "cdr")
	require.NoError(tb, os.MkdirAll(cdrs, 0o755)) //nolint:gosec // the switch writes there
	l.cfg = call.Config{
		NodeID: "node-1", OutboundListen: outbound, CDRDir: cdrs, RecordDir: l.dir, TokenKeys: func() []keyring.Key { return []keyring.Key{{1}} }, Phones: &l.states,
		ControlURL: func(uuid.UUID) string { return "http://127.0.0.1:9/" }, Logger: logger,
	}
	if binary == "" {
		l.simulate(tb, outbound, cdrs)
	} else {
		l.realSwitch(tb, binary, outbound, cdrs)
	}
	host, port, err := net.SplitHostPort(l.carrier.SIPAddr())
	require.NoError(tb, err)
	n, err := strconv.Atoi(port)
	require.NoError(tb, err)
	storetest.Trunk(tb, l.st, l.tenant, host, n, 200)
	storetest.Exec(tb, l.st, l.tenant, "UPDATE trunks SET cps = 10000")
	storetest.InboundNumber(tb, l.st, l.tenant, number)
	l.dialer, err = dialer.New(dialer.Config{
		NodeID: "node-1", Guard: netguard.Policy{AllowLoopback: true}, Legal: dialer.Hours{From: "00:00", To: "24:00"}, DNC: nobody{},
		Logger: logger,
	}, l.st)
	require.NoError(tb, err)
	l.handler = &handler{AnswerHandler: l.dialer.Answers}
	l.media, err = media.New(media.Config{SIPAddr: "127.0.0.1:0", DialGuard: netguard.Policy{AllowLoopback: true}, Logger: logger})
	require.NoError(tb, err)
	require.NoError(tb, l.media.Start(tb.Context()))
	l.start(tb)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(tb, l.stop(ctx))
		require.NoError(tb, l.media.Close(ctx))
	})
	return l
}

// start starts a controller on the line, and waits for its switch.
func (l *line) start(tb testing.TB) {
	tb.Helper()
	l.begin(tb)
	l.ready(tb)
}

func (l *line) begin(tb testing.TB) {
	tb.Helper()
	var err error
	l.calls, err = call.New(l.cfg, l.st, l.media, l.dialer.Gate, l.handler)
	require.NoError(tb, err)
	require.NoError(tb, l.calls.Start(tb.Context()))
	l.stop = l.calls.Close
}

func (l *line) ready(tb testing.TB) {
	tb.Helper()
	require.Eventually(tb, func() bool { return l.calls.Ready(tb.Context()) == nil }, soon, 10*time.Millisecond)
}

func (l *line) simulate(tb testing.TB, outbound, cdrs string) {
	tb.Helper()
	cfg := simswitch.Config{
		ESLAddr: l.ports[1], ESLPassword: "secret", ExternalSIPAddr: l.ports[2], InternalSIPAddr: l.ports[3], RTPIP: "127.0.0.1",
		SocketAddr: outbound, CDRDir: cdrs, RecordDir: l.dir, DirectoryURL: l.directory, SIPDomain: domain,
	}
	var sw *simswitch.Switch
	boot := func(tb testing.TB) {
		tb.Helper()
		var err error
		sw, err = simswitch.New(cfg)
		require.NoError(tb, err)
		require.NoError(tb, sw.Start(context.Background()))
	}
	boot(tb)
	tb.Cleanup(func() { _ = sw.Close() })
	l.crash = func(tb testing.TB) {
		tb.Helper()
		_ = sw.Close()
		require.NoError(tb, os.RemoveAll(cdrs)) // a crash writes no records
		boot(tb)
	}
	l.cfg.ESLAddr, l.cfg.ESLPassword, l.internal = sw.Addrs().ESL, "secret", sw.Addrs().Internal
	require.NoError(tb, l.carrier.SetTarget(sw.Addrs().External))
}

func (l *line) realSwitch(tb testing.TB, binary, outbound, cdrs string) {
	tb.Helper()
	cfg := freeswitch.Config{Binary: binary, Dir: filepath.Join(l.dir, "fs"), Params: conf.Params{
		ESLIP: "127.0.0.1", ESLPassword: "secret", SocketAddr: outbound, SIPIP: "127.0.0.1", CarrierNets: []string{"127.0.0.0/8"},
		CDRDir: cdrs, DirectoryURL: l.directory, SIPDomain: domain,
	}}
	sw, err := freeswitch.Start(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, sw.Stop()) })
	l.crash = func(tb testing.TB) {
		tb.Helper()
		require.NoError(tb, sw.Kill())
		cfg.Params = sw.Params
		sw, err = freeswitch.Start(context.Background(), cfg)
		require.NoError(tb, err)
	}
	l.cfg.ESLAddr, l.cfg.ESLPassword = sw.ESLAddr(), "secret"
	l.internal = net.JoinHostPort(sw.Params.SIPIP, strconv.Itoa(sw.Params.InternalPort))
	require.NoError(tb, l.carrier.SetTarget(sw.ExternalAddr()))
}

// subscriber is a carrier whose subscribers answer at once and speak one tone.
func subscriber(tb testing.TB, hz float64) *simcarrier.Server {
	tb.Helper()
	s, err := simcarrier.New(simcarrier.Config{
		Voice: fmt.Sprintf("steady:%g", hz), AnswerAfter: time.Millisecond, Listen: []float64{callerHz, agentHz, ringHz, toneHz, aiHz, otherHz},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(tb, err)
	require.NoError(tb, s.Start(tb.Context()))
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		require.NoError(tb, s.Close(ctx))
	})
	return s
}

// freePorts are four addresses that are the test's until it ends, whether somebody listens there or not: their ports lie below those
// that sockets without a wish get, and the port before them is the lock.
func freePorts(tb testing.TB) []string {
	tb.Helper()
	const first, blocks, size = 16400, 700, 5
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	var lc net.ListenConfig
	for range 200 {
		port := first + size*rand.IntN(blocks) //nolint:gosec // any that is free will do
		lock, err := lc.Listen(context.Background(), "tcp", at(port))
		if err != nil {
			continue
		}
		tb.Cleanup(func() { require.NoError(tb, lock.Close()) })
		return []string{at(port + 1), at(port + 2), at(port + 3), at(port + 4)}
	}
	require.FailNow(tb, "no ports are free")
	return nil
}

// spec is the agent's phone, which is at its own address.
func (l *line) spec(mode phone.Mode) phone.Spec {
	return phone.Spec{TenantID: l.tenant, AgentID: l.agent, Extension: extension, Domain: domain, Mode: mode}
}

// anybody is a directory that knows every user, with one password.
func anybody(w http.ResponseWriter, r *http.Request) {
	user := r.FormValue("user")
	_, _ = fmt.Fprintf(w, `<document type="freeswitch/xml"><section name="directory"><domain name=%q><groups><group name="default"><users>`+
		`<user id=%q><params><param name="password" value=%q/></params></user></users></group></groups></domain></section></document>`,
		domain, user, password)
}

const password = "secret-of-the-phone"

// register has the agent's softphone register.
func (l *line) register(tb testing.TB, manner simcarrier.AgentManner) {
	tb.Helper()
	state, err := l.phone.AddAgent(tb.Context(), simcarrier.AgentSpec{
		Extension: extension, Domain: domain, Password: password, Registrar: l.internal, Voice: fmt.Sprintf("steady:%g", agentHz),
		AgentManner: manner,
	})
	require.NoError(tb, err)
	require.True(tb, state.Registered, "%+v", state)
}

// hold has the agent's phone registered and held, and waits for its leg.
func (l *line) hold(tb testing.TB) {
	tb.Helper()
	l.register(tb, simcarrier.AgentManner{})
	require.NoError(tb, l.calls.HoldPhone(tb.Context(), l.spec(phone.Held)))
	require.Eventually(tb, func() bool { return l.states.last().Up }, soon, 10*time.Millisecond, "the leg is not up")
}

// dial places a call to a subscriber of the carrier.
func (l *line) dial(tb testing.TB) db.Call {
	tb.Helper()
	to, err := store.ParsePhone("9876543210")
	require.NoError(tb, err)
	adm, err := l.dialer.Gate.Admit(tb.Context(), admission.Request{
		TenantID: l.tenant, To: to, Purpose: admission.PurposeSingle, Environment: "live", VoiceAgentID: l.voice,
	})
	require.NoError(tb, err)
	call, err := l.calls.Originate(tb.Context(), adm)
	require.NoError(tb, err)
	return call
}

// call reads a call's row.
func (l *line) call(tb testing.TB, id uuid.UUID) db.Call {
	tb.Helper()
	var row db.GetCallViewRow
	require.NoError(tb, l.st.InTenant(tb.Context(), l.tenant, func(tx *store.Tx) (err error) {
		row, err = tx.Q.GetCallView(tb.Context(), l.tenant, id)
		return err
	}))
	return row.Call
}

// talking is the newest live call of a subscriber.
func talking(s *simcarrier.Server) (simcarrier.Report, bool) {
	calls := s.Calls(simcarrier.Filter{Live: true})
	if len(calls) == 0 {
		return simcarrier.Report{}, false
	}
	return calls[len(calls)-1], true
}

// heard is the first onset of a frequency that came after a time; zero while there is none. A busy machine's is dated to when it was due, which may
// be before that.
func heard(r simcarrier.Report, hz float64, after time.Time) time.Time {
	for _, h := range r.Heard {
		if h.Hz != hz {
			continue
		}
		for i, at := range h.Onsets {
			came := at
			if i < len(h.Came) { // of a frequency that is tracked
				came = h.Came[i]
			}
			if came.After(after) {
				return at
			}
		}
	}
	return time.Time{}
}
