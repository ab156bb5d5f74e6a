package relay

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

const (
	// dialTimeout bounds the way to another controller: it is near.
	dialTimeout = 2 * time.Second
	// silence is how long a controller may give no sign of life, three of its heartbeats (cluster.MaxBeat) and what the clocks of two hosts may
	// differ by, before nobody tries to reach it: a request on a connection whose other end has lost its power would be waited for in vain.
	silence = time.Minute
	// aliveEvery is how often a connection that waits for a request is tried, and aliveMisses how often in vain before it is given up.
	aliveEvery  = 3 * time.Second
	aliveMisses = 2
	// retryAfter is told to the client of a controller that can't be reached.
	retryAfter = 5 * time.Second
	// maxAnswer bounds an answer, in bytes.
	maxAnswer  = 8 << 20
	maxHeader  = 64 << 10
	idleConns  = 64
	keepIdle   = time.Minute
	dialerPort = ":443" // stands in the transport's own address of a controller, which is dialed elsewhere
)

// Codes of faults.
const (
	CodeUnreachable = "host_unreachable"
	// CodeUnknownOutcome: the other controller had the request, and has not answered.
	CodeUnknownOutcome = "unknown_outcome"
)

// Config is what a Relay works with.
type Config struct {
	Store *store.Store
	// Node is this controller's name.
	Node       string
	Now        func() time.Time
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Relay sends requests to other controllers. It is safe for concurrent use.
type Relay struct {
	st          *store.Store
	log         *slog.Logger
	now         func() time.Time
	certificate tls.Certificate
	transport   *http.Transport
	metrics     metrics
	callers     *callers
}

type metrics struct {
	sent      *prometheus.CounterVec
	strangers prometheus.Counter
}

// The values of the metric's label outcome.
const (
	answered    = "answered"
	unreachable = "unreachable"
	unanswered  = "unanswered"
)

// New makes one, with the certificate of this process.
func New(cfg Config) (*Relay, error) {
	certificate, err := newCertificate(cfg.Node, cfg.Now())
	if err != nil {
		return nil, err
	}
	r := &Relay{st: cfg.Store, log: cfg.Log, now: cfg.Now, certificate: certificate, callers: newCallers(), metrics: metrics{
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_relayed_requests_total",
			Help: "Requests about calls of other controllers that were sent there: answered, unreachable (it had none), unanswered (what became of it is unknown).",
		}, []string{"outcome"}),
		strangers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_relay_strangers_total", Help: "Connections to the door for other controllers that were refused.",
		}),
	}}
	for _, c := range []prometheus.Collector{r.metrics.sent, r.metrics.strangers} {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of relayed requests: %w", err)
		}
	}
	r.transport = &http.Transport{
		DialTLSContext: r.dial, DisableCompression: true, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: keepIdle,
		MaxResponseHeaderBytes: maxHeader,
	}
	return r, nil
}

// Close ends the connections that wait for the next request.
func (r *Relay) Close() { r.transport.CloseIdleConnections() }

// Request is what a client has sent. What goes to another controller has nothing in its query.
type Request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
	// Keyed tells that the other controller does it at most once by the Idempotency-Key that it has.
	Keyed bool
}

// Answer is what the other controller has answered.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send has another controller carry a request out, once: what may have reached it is not sent again. Errors: a *fault.Error.
func (r *Relay) Send(ctx context.Context, node string, req Request) (Answer, error) {
	if _, err := r.peer(ctx, node); err != nil {
		return Answer{}, r.failed(ctx, node, req, err)
	}
	to := url.URL{Scheme: "https", Host: hex.EncodeToString([]byte(node)) + dialerPort, Path: req.Path}
	out, err := http.NewRequestWithContext(ctx, req.Method, to.String(), http.NoBody)
	if err != nil {
		return Answer{}, fmt.Errorf("send request to controller %s: %w", node, err)
	}
	// A body that can't be had again keeps the transport from sending it twice, which an Idempotency-Key would allow it to.
	out.Header, out.Body, out.ContentLength = req.Header, io.NopCloser(bytes.NewReader(req.Body)), int64(len(req.Body))
	resp, err := r.transport.RoundTrip(out)
	if err != nil {
		return Answer{}, r.failed(ctx, node, req, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if err != nil {
		return Answer{}, r.failed(ctx, node, req, err)
	}
	r.metrics.sent.WithLabelValues(answered).Inc()
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// unreachableError says why a request has not left.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string { return e.cause.Error() }
func (e *unreachableError) Unwrap() error { return e.cause }

// refusedByPeer tells of a connection that the other end has ended for our certificate's sake, before it read anything (crypto/tls names the
// other end's alerts so).
func refusedByPeer(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// failed is what the client is told.
func (r *Relay) failed(ctx context.Context, node string, req Request, err error) error {
	if _, away := errors.AsType[*unreachableError](err); away || refusedByPeer(err) {
		r.metrics.sent.WithLabelValues(unreachable).Inc()
		r.log.WarnContext(ctx, "reaching another controller failed", "peer", node, "error", err)
		return &fault.Error{
			Kind: fault.Unavailable, Code: CodeUnreachable, RetryAfter: retryAfter,
			Detail: "Another host has this, and can't be reached just now. Nothing was done.", Text: "controller " + node + ": " + err.Error(),
		}
	}
	r.metrics.sent.WithLabelValues(unanswered).Inc()
	r.log.WarnContext(ctx, "another controller has not answered", "peer", node, "error", err)
	repeat := "Look what became of it before you repeat it."
	if req.Keyed {
		repeat = "Repeated with its Idempotency-Key, it is not done twice."
	}
	return &fault.Error{
		Kind: fault.Unavailable, Code: CodeUnknownOutcome, RetryAfter: retryAfter,
		Detail: "Another host has this, and has not answered in time: it may have been done. " + repeat,
		Text:   "controller " + node + ": " + err.Error(),
	}
}

// peer reads how a controller is reached.
func (r *Relay) peer(ctx context.Context, node string) (db.Node, error) {
	row, err := r.st.ReadSystem().NodeGet(ctx, node)
	switch {
	case err != nil:
		err = fmt.Errorf("read its address: %w", err)
	case row.PeerAddr == "":
		err = errors.New("it has no door for other controllers: its hosts.listen is empty")
	case row.LostAt != nil || r.now().Sub(row.LastSeenAt) > silence:
		err = fmt.Errorf("it gives no sign of life since %s", row.LastSeenAt.UTC().Format(time.RFC3339))
	default:
		return row, nil
	}
	return row, &unreachableError{err}
}

// dial connects with the controller whose name the address has, and makes sure that it is the one.
func (r *Relay) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &unreachableError{err}
	}
	node, err := hex.DecodeString(name)
	if err != nil {
		return nil, &unreachableError{err}
	}
	row, err := r.peer(ctx, string(node))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// A host that has lost its power is noticed on connections that wait, before a request is sent on one.
	alive := net.KeepAliveConfig{Enable: true, Idle: aliveEvery, Interval: aliveEvery, Count: aliveMisses}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{KeepAliveConfig: alive}, Config: &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{r.certificate},
		InsecureSkipVerify: true, //nolint:gosec // known by the hash in the database, and no authority's
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 || subtle.ConstantTimeCompare(keyOf(cs.PeerCertificates[0].Raw), row.PeerKey) != 1 {
				return errors.New("what answers at " + row.PeerAddr + " is not controller " + string(node))
			}
			return nil
		},
	}}
	conn, err := dialer.DialContext(ctx, network, row.PeerAddr)
	if err != nil {
		return nil, &unreachableError{err}
	}
	return conn, nil
}
