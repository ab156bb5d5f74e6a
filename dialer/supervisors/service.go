package supervisors

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
)

// Config is what the service works with.
type Config struct {
	Store *store.Store
	Log   *slog.Logger
	Now   func() time.Time
	// NodeID names this controller.
	NodeID string
	// Queue has the callers who wait, and knows the domain of the phones; nil for none.
	Queue Queue
	// Zone is where the floor's day begins at midnight.
	Zone       *time.Location
	Registerer prometheus.Registerer
}

// Queue is the agents' service; *acd.Service is one.
type Queue interface {
	Waiting(tenant uuid.UUID) []acd.Waiter
	ListAgents(ctx context.Context, tenant uuid.UUID) ([]acd.Agent, error)
	// Domain is the SIP domain of all extensions.
	Domain() string
}

// Service is what supervisors do. It is safe for concurrent use.
type Service struct {
	cfg     Config
	st      *store.Store
	log     *slog.Logger
	metrics metrics
	feeds   *feeds
	figures *figureCache
	// kick has Run look at once.
	kick chan struct{}
	// beside is what goes on beside Run; round is how often Run has looked what there is to do.
	beside sync.WaitGroup
	round  atomic.Uint64

	mu sync.Mutex
	// sw has the phones; nil while Run doesn't run.
	sw switchctl.Supervisions
	// live are the sessions of this controller, from before their row is written to its end.
	live map[uuid.UUID]*liveSession
	// over are those that have ended by themselves, and whose rows are still to say so.
	over map[uuid.UUID]ending
	// fallen are those that listen where they whispered, and whose rows are still to say so.
	fallen map[uuid.UUID]bool
}

// liveSession is a session whose phone this controller has.
type liveSession struct {
	tenant, supervisor uuid.UUID
	// begun: its phone is there.
	begun bool
	// stopping: it is being ended on purpose, whatever the phone says of it.
	stopping bool
	// missed is the agent's call that the phone could not be brought to yet; the zero id for none.
	missed uuid.UUID
	// work is what goes on beside Run for this session.
	work work
	// turn is held by whoever changes the session.
	turn chan struct{}
}

// work is what is done for a session beside Run, one thing at a time.
type work struct {
	// what tells one thing to do from another: the call to lead to, or the session itself, which is to end.
	what uuid.UUID
	// cancel ends what goes on; nil while nothing does.
	cancel context.CancelFunc
	// round is Run's at the end of the last: what was read until then is of before.
	round uint64
	// wait is how long the same thing waited after it failed, and until is when it may be tried again.
	wait  time.Duration
	until time.Time
}

// ending is the end of a session that is to be written.
type ending struct {
	tenant, supervisor uuid.UUID
	reason             string
	at                 time.Time
}

// New makes a service that begins no session until Run.
func New(cfg Config) *Service {
	if cfg.Zone == nil {
		cfg.Zone = time.UTC
	}
	s := &Service{
		cfg: cfg, st: cfg.Store, log: cfg.Log, kick: make(chan struct{}, 1), live: map[uuid.UUID]*liveSession{},
		over: map[uuid.UUID]ending{}, fallen: map[uuid.UUID]bool{},
	}
	s.figures = newFigureCache(s)
	s.feeds = newFeeds(s)
	s.metrics = newMetrics(cfg.Registerer, s)
	return s
}

func (s *Service) now() time.Time { return s.cfg.Now() }

// Codes of faults.
const (
	CodeSessionActive    = "supervisor_session_active"
	CodeSessionEnded     = "supervisor_session_ended"
	CodeOtherHost        = "session_on_other_host"
	CodeEscalationTaken  = "escalation_claimed"
	CodeCallEnded        = "call_ended"
	CodeAgentOffline     = "agent_offline"
	CodeNoExtension      = "no_extension"
	CodeTooManyListeners = "too_many_streams"
)

func conflict(code, detail string) *fault.Error {
	return &fault.Error{Kind: fault.Conflict, Code: code, Detail: detail}
}

// errNoSwitch: the part that has the phones doesn't run.
func errNoSwitch() *fault.Error {
	return &fault.Error{
		Kind: fault.Unavailable, Code: "service_unavailable", Detail: "Supervisors' phones can't be reached just now.",
		Text: "supervisors: no switch",
	}
}

// switchOf gives what has the phones.
func (s *Service) switchOf() (switchctl.Supervisions, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sw == nil {
		return nil, errNoSwitch()
	}
	return s.sw, nil
}

// missing says of what there is no row.
func missing(err error, what string) error {
	if errors.Is(err, store.ErrNotFound) {
		return &fault.Error{Kind: fault.NotFound, Code: "not_found", Detail: what + " not found", Text: what + " not found"}
	}
	return err
}

type metrics struct {
	// begun counts sessions by the mode that they began in, ended those by why they have ended, claimed escalations.
	begun, ended *prometheus.CounterVec
	claimed      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, s *Service) metrics {
	m := metrics{
		begun: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_supervisor_sessions_total", Help: "Supervisors' sessions that began, by mode (listen, whisper, barge).",
		}, []string{"mode"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_supervisor_sessions_ended_total", Help: "Supervisors' sessions that ended, by reason.",
		}, []string{"reason"}),
		claimed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_escalations_claimed_total", Help: "Requests of voice agents for a supervisor that one has claimed.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.begun, m.ended, m.claimed,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "ringmaster_supervisor_sessions", Help: "Supervisors' sessions whose phones this controller has.",
			}, func() float64 {
				s.mu.Lock()
				defer s.mu.Unlock()
				return float64(len(s.live))
			}),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "ringmaster_floor_streams", Help: "Listeners to the live floor.",
			}, func() float64 { return float64(s.feeds.listeners()) }))
	}
	return m
}
