package dnc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/retry"
)

// ErrRemote is a remote provider that can't answer.
var ErrRemote = errors.New("ask remote do-not-call provider")

const (
	remoteTries = 3
	firstDelay  = 200 * time.Millisecond
	// answerSize bounds what one number's verdict may take in an answer, whitespace included.
	answerSize = 256
	// answerExtra is what an answer may take besides.
	answerExtra = 4 << 10
	// maxVersion bounds what is kept of a version.
	maxVersion = 64
)

// RemoteConfig says who is asked.
type RemoteConfig struct {
	URL   string
	Token string // sent as Authorization: Bearer when there is one
	// Timeout bounds a question with all its tries; 5 s when zero.
	Timeout time.Duration
	// Batch is how many numbers one request carries at most; 500 when zero.
	Batch int
	// Hold is how long an answer is held; not at all when zero.
	Hold       time.Duration
	Client     *http.Client // one of its own when nil
	Logger     *slog.Logger
	Registerer prometheus.Registerer // may be nil
	Now        func() time.Time
}

// Remote asks a provider over HTTP; doc.go has the protocol. It is safe for concurrent use.
type Remote struct {
	cfg     RemoteConfig
	circuit circuit
	held    *held
	metrics remoteMetrics

	mu      sync.Mutex
	version string    // of the last answer
	at      time.Time // of the last answer
}

// NewRemote returns a provider that has asked nothing yet.
func NewRemote(cfg RemoteConfig) *Remote {
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	cfg.Batch = cmp.Or(cfg.Batch, 500)
	if cfg.Client == nil {
		cfg.Client = &http.Client{}
	}
	client := *cfg.Client
	// A redirect would send the token and the numbers to somebody else.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.Client = &client
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	r := &Remote{cfg: cfg, held: newHeld(cfg.Hold), metrics: newRemoteMetrics()}
	if cfg.Registerer != nil {
		r.register(cfg.Registerer)
	}
	return r
}

// Close gives idle connections back.
func (r *Remote) Close() { r.cfg.Client.CloseIdleConnections() }

// Open tells whether the provider has failed so often that nobody asks it for now.
func (r *Remote) Open() bool { return r.circuit.open(r.cfg.Now()) }

// Last gives the version that the provider told last, and when.
func (r *Remote) Last() (string, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version, r.at
}

// Listed asks for the numbers whose answers are not held. Errors: ErrRemote, the context's.
func (r *Remote) Listed(ctx context.Context, phones []store.Phone) ([]bool, error) {
	out := make([]bool, len(phones))
	var unknown []int
	now := r.cfg.Now()
	for i, p := range phones {
		if p.IsZero() {
			return nil, ErrNoNumber
		}
		listed, ok := r.held.get(p.Uint64(), now)
		if out[i] = listed; !ok {
			unknown = append(unknown, i)
		}
	}
	for len(unknown) > 0 {
		batch := unknown[:min(len(unknown), r.cfg.Batch)]
		unknown = unknown[len(batch):]
		asked := make([]store.Phone, len(batch))
		for i, place := range batch {
			asked[i] = phones[place]
		}
		verdicts, err := r.ask(ctx, asked)
		if err != nil {
			return nil, err
		}
		for i, place := range batch {
			out[place] = verdicts[i]
			r.held.put(asked[i].Uint64(), verdicts[i], now)
		}
	}
	return out, nil
}

// ask asks for one batch, again when that may help.
func (r *Remote) ask(ctx context.Context, phones []store.Phone) ([]bool, error) {
	caller := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Timeout, fmt.Errorf("%w: no answer in %s", ErrRemote, r.cfg.Timeout))
	defer cancel()
	delay := firstDelay
	for try := 1; ; try++ {
		if !r.circuit.enter(r.cfg.Now()) {
			r.metrics.requests.WithLabelValues(remoteSkipped).Inc()
			return nil, fmt.Errorf("%w: it has failed too often and is left alone for now", ErrRemote)
		}
		began := r.cfg.Now()
		verdicts, fault := r.send(ctx, phones)
		if fault == nil {
			r.circuit.succeed()
			r.metrics.done(remoteAnswered, r.cfg.Now().Sub(began))
			return verdicts, nil
		}
		if caller.Err() != nil {
			r.circuit.withdraw()
			return nil, caller.Err()
		}
		r.circuit.fail(r.cfg.Now(), fault.wait)
		r.metrics.done(fault.result, r.cfg.Now().Sub(began))
		if !fault.again || fault.wait > 0 || try == remoteTries || retry.Pause(ctx, retry.Jitter(delay)) != nil {
			return nil, fault.err
		}
		delay *= 2
	}
}

// remoteFault is a request that brought no verdicts.
type remoteFault struct {
	err    error
	result string
	again  bool          // sending it again may help
	wait   time.Duration // that the provider asks for
}

type remoteQuestion struct {
	Phones []string `json:"phones"`
}

type remoteAnswer struct {
	Version string          `json:"version"`
	Results []remoteVerdict `json:"results"`
}

type remoteVerdict struct {
	Phone  string `json:"phone"`
	Listed *bool  `json:"listed"`
}

func (r *Remote) send(ctx context.Context, phones []store.Phone) ([]bool, *remoteFault) {
	q := remoteQuestion{Phones: make([]string, len(phones))}
	for i, p := range phones {
		q.Phones[i] = p.E164()
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, &remoteFault{err: fmt.Errorf("%w: %w", ErrRemote, err), result: remoteMalformed}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return nil, &remoteFault{err: fmt.Errorf("%w: %w", ErrRemote, err), result: remoteUnreached}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if r.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.cfg.Token)
	}
	resp, err := r.cfg.Client.Do(req)
	if err != nil {
		return nil, unreached(ctx, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if fault := r.refused(resp); fault != nil {
		return nil, fault
	}
	limit := answerExtra + int64(len(phones))*answerSize
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, unreached(ctx, err)
	}
	if int64(len(text)) > limit {
		return nil, &remoteFault{err: fmt.Errorf("%w: its answer is longer than %d bytes", ErrRemote, limit), result: remoteMalformed}
	}
	verdicts, version, err := readVerdicts(text, phones)
	if err != nil {
		return nil, &remoteFault{err: err, result: remoteMalformed}
	}
	r.mu.Lock()
	r.version, r.at = version, r.cfg.Now()
	r.mu.Unlock()
	return verdicts, nil
}

func unreached(ctx context.Context, err error) *remoteFault {
	if ctx.Err() != nil {
		return &remoteFault{err: context.Cause(ctx), result: remoteTimeout, again: false}
	}
	return &remoteFault{err: fmt.Errorf("%w: %w", ErrRemote, err), result: remoteUnreached, again: true}
}

// refused reads the status of an answer that holds no verdicts.
func (r *Remote) refused(resp *http.Response) *remoteFault {
	status := resp.StatusCode
	if status == http.StatusOK {
		return nil
	}
	f := &remoteFault{err: fmt.Errorf("%w: it answers with status %d", ErrRemote, status), result: remoteRefused}
	if f.again = status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500; f.again {
		f.wait = retryDelay(resp.Header.Get("Retry-After"), r.cfg.Now())
	}
	return f
}

// retryDelay reads seconds or a date.
func retryDelay(header string, now time.Time) time.Duration {
	if s, err := strconv.Atoi(header); err == nil && s > 0 {
		return time.Duration(min(s, int(longestWait.Seconds()))) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// readVerdicts reads an answer, which must hold one verdict for each number that was asked for.
func readVerdicts(text []byte, phones []store.Phone) ([]bool, string, error) {
	var answer remoteAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, "", fmt.Errorf("%w: its answer is no JSON of the protocol", ErrRemote)
	}
	verdicts := make(map[uint64]bool, len(phones))
	for _, v := range answer.Results {
		p, err := store.ParsePhone(v.Phone)
		if err != nil || v.Listed == nil {
			return nil, "", fmt.Errorf("%w: a verdict of its answer can't be read", ErrRemote)
		}
		if told, twice := verdicts[p.Uint64()]; twice && told != *v.Listed {
			return nil, "", fmt.Errorf("%w: its answer contradicts itself", ErrRemote)
		}
		verdicts[p.Uint64()] = *v.Listed
	}
	out := make([]bool, len(phones))
	for i, p := range phones {
		listed, ok := verdicts[p.Uint64()]
		if !ok {
			return nil, "", fmt.Errorf("%w: its answer lacks a number", ErrRemote)
		}
		out[i] = listed
	}
	return out, answer.Version[:min(len(answer.Version), maxVersion)], nil
}
