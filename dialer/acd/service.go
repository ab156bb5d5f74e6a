package acd

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// Config is what the service needs to know about its host.
type Config struct {
	// NodeID names this controller, as in call.Config.
	NodeID string
	// Accounts derives the SIP accounts that logins hand out.
	Accounts *Accounts
	// Transports are those that a softphone may register over; udp by default. AccountTTL is how long a login's account lasts;
	// 12 h by default.
	Transports []string
	AccountTTL time.Duration
	// WrapUp is the time limit of a wrap-up where the campaign sets none; 60 s by default, negative for no limit.
	WrapUp time.Duration
	// PhoneGrace is how long an available agent may be without a phone; 30 s by default.
	PhoneGrace time.Duration
	// PhoneWait is how long an agent who dials waits for a phone that is being connected; phone.ConnectTimeout by default.
	PhoneWait time.Duration
	// RingTimeout bounds the ringing of a phone that is on the hook; 20 s by default.
	RingTimeout time.Duration
	// MaxWait bounds the wait of a caller for whom nothing else does; 10 min by default.
	MaxWait time.Duration
	// PositionPrompts are the addresses of the announcements of the places 1, 2, 3 … in the queue; none, no announcement.
	// AnnounceEvery is the time between two of them; 30 s by default.
	PositionPrompts []string
	AnnounceEvery   time.Duration
	// Every is how often rows, calls and phones are compared; 1 s by default. NodeGrace is how long another controller may be
	// silent, by this controller's clock, before its agents are put offline; 2 min by default.
	Every     time.Duration
	NodeGrace time.Duration
	// Changed, unless nil, is told that a tenant's agents are no longer what they were: one could take a call now or no longer
	// can, a conversation or a wrap-up began or ended. It must not block.
	Changed    func(tenant uuid.UUID)
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Switch has the agents' phones, and their calls. The call controller is one.
type Switch interface {
	HoldPhone(ctx context.Context, p phone.Spec) error
	ReleasePhone(ctx context.Context, agentID uuid.UUID) error
	RingPhone(ctx context.Context, agentID uuid.UUID, on bool) error
	Phones() []phone.State
	// ForgetAccount makes a new password of an extension count at once.
	ForgetAccount(ctx context.Context, extension, domain string) error
	// ForgetPhone makes an extension's phone one that is not registered.
	ForgetPhone(ctx context.Context, extension, domain string) error
	Hangup(ctx context.Context, tenantID, callID uuid.UUID, cause string) error
}

// Service keeps the agents and the queue of one controller. It is safe for concurrent use.
type Service struct {
	cfg     Config
	st      *store.Store
	log     *slog.Logger
	metrics *metrics
	// loaded is closed once the agents' rows were read after the start.
	loaded chan struct{}
	kick   chan struct{}

	mu     sync.Mutex
	desk   *desk
	phones Switch // nil while Run doesn't run
	// phoneNews is closed, and made anew, when a phone or the desk's view of one changes.
	phoneNews chan struct{}
	// held are the phones that were asked for, by agent.
	held map[uuid.UUID]phone.Spec
	// renew are the agents who have logged in again since their phone was dialed, perhaps from another place.
	renew map[uuid.UUID]bool
	// lost are the agents whose phone went since the last look.
	lost map[uuid.UUID]loss
	// ringing are the agents who hear ringback, with the call that they dialed.
	ringing map[uuid.UUID]uuid.UUID
	joined  joined
	once    sync.Once // closes loaded
}

// releaseTimeout bounds the wait for a phone's leg to end.
const releaseTimeout = 2 * time.Second

// New checks the configuration and returns a service that serves nobody until Run.
func New(cfg Config, st *store.Store) (*Service, error) {
	if cfg.NodeID == "" || cfg.Accounts == nil {
		return nil, errors.New("create acd: node id and accounts are required")
	}
	if len(cfg.Transports) == 0 {
		cfg.Transports = []string{"udp"}
	}
	cfg.AccountTTL = cmp.Or(cfg.AccountTTL, 12*time.Hour)
	cfg.WrapUp = cmp.Or(cfg.WrapUp, time.Minute)
	cfg.PhoneGrace = cmp.Or(cfg.PhoneGrace, 30*time.Second)
	cfg.PhoneWait = cmp.Or(cfg.PhoneWait, phone.ConnectTimeout)
	cfg.RingTimeout = cmp.Or(cfg.RingTimeout, 20*time.Second)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, 10*time.Minute)
	cfg.AnnounceEvery = cmp.Or(cfg.AnnounceEvery, 30*time.Second)
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	cfg.NodeGrace = cmp.Or(cfg.NodeGrace, 2*time.Minute)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		cfg: cfg, st: st, log: cfg.Logger, loaded: make(chan struct{}), kick: make(chan struct{}, 1), desk: newDesk(),
		phoneNews: make(chan struct{}),
		held:      make(map[uuid.UUID]phone.Spec), lost: make(map[uuid.UUID]loss),
		renew:   make(map[uuid.UUID]bool),
		ringing: make(map[uuid.UUID]uuid.UUID),
	}
	s.joined = joined{s: s, in: make(map[uuid.UUID]uuid.UUID)}
	s.metrics = newMetrics(cfg.Registerer, s)
	return s, nil
}

func (s *Service) now() time.Time { return s.cfg.Now() }

// Domain is the SIP domain of all extensions.
func (s *Service) Domain() string { return s.cfg.Accounts.Domain() }

// ReadyAgents counts the tenant's agents of this controller who could take a call now.
func (s *Service) ReadyAgents(tenant uuid.UUID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.desk.readyAgents(tenant)
}

// PhoneChanged implements [phone.Watcher].
func (s *Service) PhoneChanged(p phone.State) {
	s.mu.Lock()
	before := s.desk.readyAgents(p.TenantID)
	a := s.desk.agents[p.AgentID]
	if a != nil && a.phoneUp && !p.Up && (a.row.Status == string(Available) || a.row.Status == string(OnCall)) {
		s.lost[p.AgentID] = loss{status: Status(a.row.Status), reason: p.Reason}
	}
	if p.Up {
		delete(s.lost, p.AgentID)
	}
	s.desk.phone(p.AgentID, p.Up, s.now())
	s.phonesChanged()
	s.desk.matchOf(p.TenantID)
	after := s.desk.readyAgents(p.TenantID)
	s.mu.Unlock()
	if a != nil && !p.Up {
		notify(s.kick)
	}
	s.tellReady(p.TenantID, before, after)
}

// apply takes an agent's new row into account. Rows of agents of other controllers are theirs.
func (s *Service) apply(row db.Agent) {
	if row.Node != s.cfg.NodeID {
		return
	}
	s.mu.Lock()
	before := s.desk.readyAgents(row.TenantID)
	a := s.desk.agents[row.ID]
	moved := false
	if a != nil {
		was := a.row.Status
		s.desk.sit(row)
		moved = a.row.Status != was
		s.desk.matchOf(row.TenantID)
	}
	after := s.desk.readyAgents(row.TenantID)
	s.mu.Unlock()
	if a == nil {
		notify(s.kick) // whoever it is, the table tells more
	}
	if moved {
		s.tell(row.TenantID)
		return
	}
	s.tellReady(row.TenantID, before, after)
}

func (s *Service) tellReady(tenant uuid.UUID, before, after int) {
	if after != before {
		s.tell(tenant)
	}
}

func (s *Service) tell(tenant uuid.UUID) {
	if s.cfg.Changed != nil {
		s.cfg.Changed(tenant)
	}
}

// holds reports whether the agent's phone was asked for.
func (s *Service) holds(agent uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.held[agent]
	return held
}

// loggedIn seats an agent and asks for the phone; again says that it was held, or the agent at work,
// before the login: then it is perhaps somewhere else by now.
func (s *Service) loggedIn(ctx context.Context, row db.Agent, who db.User, again bool) {
	spec := s.phoneSpec(row.TenantID, row.ID, *who.Extension, who.PhoneMode)
	s.mu.Lock()
	before := s.desk.readyAgents(row.TenantID)
	a := s.desk.sit(row)
	a.extension, a.tags, a.onHook = spec.Extension, who.Tags, spec.Mode == phone.OnHook
	if a.downSince.Before(row.LastStatusAt) {
		a.downSince = s.now()
	}
	if _, held := s.held[row.ID]; held && again && !a.onHook {
		s.renew[row.ID] = true
		notify(s.kick)
	}
	s.desk.matchOf(row.TenantID)
	after := s.desk.readyAgents(row.TenantID)
	s.mu.Unlock()
	s.hold(ctx, spec)
	s.tellReady(row.TenantID, before, after)
}

// renewPhones lets go of the held legs of agents who have logged in again, once no caller is on them: the next is dialed to
// where the agent is now.
func (s *Service) renewPhones(ctx context.Context, sw Switch) {
	var idle []uuid.UUID
	s.mu.Lock()
	for agent := range s.renew {
		a := s.desk.agents[agent]
		switch {
		case a == nil:
			delete(s.renew, agent)
		case a.offered == nil && a.row.CurrentCallID == nil:
			delete(s.renew, agent)
			s.desk.phone(agent, false, s.now()) // nobody is given a caller meanwhile
			idle = append(idle, agent)
		}
	}
	s.mu.Unlock()
	for _, agent := range idle {
		releasing, cancel := context.WithTimeout(ctx, releaseTimeout)
		err := sw.ReleasePhone(releasing, agent)
		cancel()
		if err != nil {
			s.log.WarnContext(ctx, "releasing the agent's phone failed", "agent_id", agent, "error", err)
		}
		s.mu.Lock()
		delete(s.held, agent)
		s.mu.Unlock()
	}
}

// loggedOut forgets an agent and lets go of the phone.
func (s *Service) loggedOut(ctx context.Context, agent uuid.UUID) {
	s.mu.Lock()
	a := s.desk.agents[agent]
	if s.desk.leave(agent); a != nil {
		s.desk.matchOf(a.row.TenantID)
	}
	phones, held := s.phones, s.held[agent]
	delete(s.held, agent)
	delete(s.renew, agent)
	delete(s.lost, agent)
	s.mu.Unlock()
	if phones == nil || held.AgentID != agent {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := phones.ReleasePhone(ctx, agent); err != nil {
		s.log.WarnContext(ctx, "releasing the agent's phone failed", "agent_id", agent, "error", err)
	}
}

// forgetAccount has the switch ask for the password anew. Where it can't be told, it asks by itself within a minute.
func (s *Service) forgetAccount(ctx context.Context, agent uuid.UUID, extension *string) {
	s.mu.Lock()
	phones := s.phones
	s.mu.Unlock()
	if phones == nil || extension == nil {
		return
	}
	if err := phones.ForgetAccount(ctx, *extension, s.cfg.Accounts.Domain()); err != nil {
		s.log.WarnContext(ctx, "flushing the agent's old SIP password from the switch failed", "agent_id", agent, "error", err)
	}
}

// forgetPhone has the switch dial a phone no more that can't take its registration back, as its password is void.
func (s *Service) forgetPhone(ctx context.Context, agent uuid.UUID, extension *string) {
	s.mu.Lock()
	phones := s.phones
	s.mu.Unlock()
	if phones == nil || extension == nil {
		return
	}
	if err := phones.ForgetPhone(ctx, *extension, s.cfg.Accounts.Domain()); err != nil {
		s.log.WarnContext(ctx, "flushing the phone's registration from the switch failed", "agent_id", agent, "error", err)
	}
}

func (s *Service) phoneSpec(tenant, agent uuid.UUID, extension, mode string) phone.Spec {
	return phone.Spec{
		TenantID: tenant, AgentID: agent, Extension: extension, Domain: s.cfg.Accounts.Domain(), Mode: phone.Mode(mode),
	}
}

// hold asks for an agent's phone, once, and reads how it stands.
func (s *Service) hold(ctx context.Context, spec phone.Spec) {
	s.mu.Lock()
	phones := s.phones
	if phones == nil || s.held[spec.AgentID] == spec {
		s.mu.Unlock()
		return
	}
	s.held[spec.AgentID] = spec
	s.mu.Unlock()
	if err := phones.HoldPhone(ctx, spec); err != nil {
		s.log.WarnContext(ctx, "holding the agent's phone failed", "agent_id", spec.AgentID, "error", err)
		s.mu.Lock()
		delete(s.held, spec.AgentID) // the next look tries again
		s.mu.Unlock()
		return
	}
	for _, p := range phones.Phones() {
		if p.AgentID == spec.AgentID && p.Up {
			s.PhoneChanged(p)
		}
	}
}
