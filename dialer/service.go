package dialer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/answer"
	"github.com/ringmaster/ringmaster/dialer/audio"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/flows"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/scrub"
	"github.com/ringmaster/ringmaster/dialer/staffing"
	"github.com/ringmaster/ringmaster/dialer/supervisors"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/dialer/voiceagents"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
)

// Config is what the dialer needs to know about its host and its law.
type Config struct {
	// NodeID names this controller, as in call.Config.
	NodeID string
	// Subprotocols are those of voice agents that this host serves; both by default.
	Subprotocols []string
	// Guard says which addresses a customer may configure.
	Guard netguard.Policy
	// Legal is the time of day outside which nobody is called, in the callee's time zone; 09:00 to 21:00 by
	// default. It is the calling window of whoever sets none.
	Legal Hours
	// DailyCap is the most calls that a number gets on one day of the callee's from one tenant; 0 for any number. A tenant may set
	// a lower one.
	DailyCap int
	// RequireCategory refuses to start campaigns that don't declare what their calls are for, and single calls that don't.
	RequireCategory bool
	// HostTrunk carries the calls of tenants that declare no trunk; nil refuses them.
	HostTrunk *carrier.HostTrunk
	// CarrierNetworks may send calls besides the trunks' hosts: carriers that send from other addresses than they are called at.
	CarrierNetworks []netip.Prefix
	// CarrierProfile is the switch's SIP profile towards carriers; "external" by default.
	CarrierProfile string
	// Web carries out the http_request nodes of flows; without it they fail.
	Web flow.Web
	// DNC is the do-not-call registry. Without one nothing is dialed.
	DNC dnc.Provider
	// DNCPolicy says for which kinds of calls its answers hold; the zero value is all.
	DNCPolicy dnc.Policy
	// UploadDir is where uploaded workbooks are kept while they are read, for this dialer alone; the system's folder for such files when
	// empty.
	UploadDir string
	// Prompts brings what callees hear to this host. Without it no campaign with an announcement is dialed.
	Prompts switchctl.Prompts
	// Agents are the people who take calls. Without them nobody does.
	Agents *acd.Service
	// Wake is what the agents' service tells its changes to.
	Wake *wake.Signals
	// ScrubFor is how long a request for a scrub works on it; what is left is done behind it. 10 s by default.
	ScrubFor time.Duration
	// Poll is how often a pacer looks without being woken; 1 s by default.
	Poll       time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Hours is a time of day as "HH:MM"; To may be "24:00".
type Hours struct {
	From, To string
}

// Service is the dialer, by its rooms. It is safe for concurrent use.
type Service struct {
	*core
	// Gate is what is asked before every originate, Answers what the call controller asks about calls that are up.
	Gate    *gate.Gate
	Answers *answer.Service

	Campaigns    *campaigns.Service
	Leads        *leads.Service
	Suppressions *suppressions.Service
	VoiceAgents  *voiceagents.Service
	Flows        *flows.Service
	Scrubs       *scrub.Service
	Statistics   *statistics
	Figures      *figures.Keeper
	Settings     *tenantSettings
	Pacers       *pacers
	// Supervisors is nil without agents.
	Supervisors *supervisors.Service
}

// New checks the configuration and returns a dialer that paces nothing until Run.
func New(cfg Config, st *store.Store) (*Service, error) {
	if cfg.NodeID == "" {
		return nil, errors.New("create dialer: node id is required")
	}
	if len(cfg.Subprotocols) == 0 {
		cfg.Subprotocols = []string{voiceagents.SubprotocolAlpha, voiceagents.SubprotocolBeta}
	}
	cfg.CarrierProfile = cmp.Or(cfg.CarrierProfile, "external")
	cfg.Poll = cmp.Or(cfg.Poll, time.Second)
	cfg.ScrubFor = cmp.Or(cfg.ScrubFor, 10*time.Second)
	cfg.Legal = Hours{From: cmp.Or(cfg.Legal.From, "09:00"), To: cmp.Or(cfg.Legal.To, "21:00")}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Wake == nil {
		cfg.Wake = wake.New()
	}
	legal, err := campaigns.NewWindow(campaigns.CallingWindow{Timezone: campaigns.CalleeZone, From: cfg.Legal.From, To: cfg.Legal.To})
	if err != nil {
		return nil, fmt.Errorf("create dialer: legal hours: %w", err)
	}
	senders := &carrier.Trunks{
		Store: st, Networks: cfg.CarrierNetworks, HostTrunk: cfg.HostTrunk, Now: cfg.Now, Resolve: carrier.Hosts{Guard: cfg.Guard}.Resolve,
	}
	uploads, err := leads.NewUploads(cfg.UploadDir)
	if err != nil {
		return nil, fmt.Errorf("create dialer: %w", err)
	}
	k := &core{cfg: cfg, st: st, log: cfg.Logger, metrics: newMetrics(cfg.Registerer), signals: cfg.Wake}
	paces, shelf := newPaces(), &audio.Shelf{Prompts: cfg.Prompts, Now: cfg.Now}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(newPaceCollector(paces))
	}
	hosts := carrier.Hosts{Store: st, Guard: cfg.Guard, HostTrunk: cfg.HostTrunk, Trunks: senders}
	s := &Service{
		core: k,
		Leads: &leads.Service{
			Store: st, Log: cfg.Logger, Now: cfg.Now, Wake: cfg.Wake, DNC: cfg.DNC, Uploads: uploads, Finished: k.metrics.finished,
			Unusable: k.metrics.unusable,
		},
		VoiceAgents: &voiceagents.Service{
			Store: st, Wake: cfg.Wake, Guard: cfg.Guard.Check, Hosts: hosts, Subprotocols: cfg.Subprotocols,
		}, Flows: &flows.Service{Store: st, Hosts: hosts},
		Settings: &tenantSettings{core: k}, Figures: &figures.Keeper{Store: st, Log: cfg.Logger, Now: cfg.Now},
	}
	s.Suppressions = &suppressions.Service{Store: st, Log: cfg.Logger, Now: cfg.Now, Leads: s.Leads}
	s.Scrubs = &scrub.Service{
		Store: st, Log: cfg.Logger, Now: cfg.Now, Wake: cfg.Wake, DNC: cfg.DNC, Leads: s.Leads, Poll: cfg.Poll, ScrubFor: cfg.ScrubFor,
		Batch: scrub.DefaultBatch,
	}
	s.Campaigns = &campaigns.Service{
		Store: st, Log: cfg.Logger, Now: cfg.Now, Wake: cfg.Wake, Guard: cfg.Guard.Check, DNCPolicy: cfg.DNCPolicy,
		RequireCategory: cfg.RequireCategory, VoiceAgents: s.VoiceAgents, Flows: s.Flows,
	}
	s.Gate = &gate.Gate{
		Store: st, Log: cfg.Logger, Now: cfg.Now, NodeID: cfg.NodeID, CarrierProfile: cfg.CarrierProfile, Legal: legal, DNCPolicy: cfg.DNCPolicy,
		DailyCap: cfg.DailyCap, RequireCategory: cfg.RequireCategory, HostTrunk: cfg.HostTrunk, Hosts: hosts, Agents: cfg.Agents,
		VoiceAgents: s.VoiceAgents, Campaigns: s.Campaigns, Flows: s.Flows, Leads: s.Leads, Audio: shelf, Plans: paces,
		AdmittedTotal: k.metrics.admitted, RefusedTotal: k.metrics.refused,
	}
	s.Answers = &answer.Service{
		Store: st, Log: cfg.Logger, Now: cfg.Now, Wake: cfg.Wake, NodeID: cfg.NodeID, Web: cfg.Web, Guard: cfg.Guard.Check, Agents: cfg.Agents, Gate: s.Gate,
		Leads: s.Leads, Campaigns: s.Campaigns, Flows: s.Flows, VoiceAgents: s.VoiceAgents, Suppressions: s.Suppressions, Audio: shelf,
		Carriers: senders, AdmittedTotal: k.metrics.admitted, RefusedTotal: k.metrics.refused, Announced: k.metrics.announced,
	}
	s.Pacers = &pacers{
		core: k, campaigns: s.Campaigns, leads: s.Leads, gate: s.Gate, scrubs: s.Scrubs, audio: shelf, crews: staffing.NewAllocator(),
		shares: staffing.NewShares(), paces: paces,
	}
	s.Gate.Turns = s.Pacers.rates.first
	s.Statistics = &statistics{core: k, campaigns: s.Campaigns, pacers: s.Pacers}
	if cfg.Agents != nil {
		s.Supervisors = supervisors.New(supervisors.Config{
			Store: st, Log: cfg.Logger, Now: cfg.Now, NodeID: cfg.NodeID, Queue: cfg.Agents, Zone: legal.Zone, Registerer: cfg.Registerer,
		})
	}
	return s, nil
}

// Desk is what agents and single calls do with the calls that they place there. The call controller needs the gate and the answers of a
// Service, and the desk needs the call controller: so it is made last.
func (s *Service) Desk(calls desk.Calls) *desk.Desk {
	return &desk.Desk{
		Store: s.st, Now: s.cfg.Now, Calls: calls, Agents: s.cfg.Agents, Gate: s.Gate, Leads: s.Leads, Suppressions: s.Suppressions,
		VoiceAgents: s.VoiceAgents,
	}
}

// AddWorkers makes River's client end calls to numbers that have been suppressed, delete what deleted campaigns leave, and hide the numbers of
// tenants that become strict. It tells which queues must be worked, with how many jobs at once.
func (s *Service) AddWorkers(all *river.Workers, calls desk.Calls) (queues map[string]int, err error) {
	ending, jobs, err := s.Suppressions.AddWorker(all, calls, s.cfg.NodeID)
	if err != nil {
		return nil, err
	}
	removal, err := s.Campaigns.AddWorker(all)
	if err != nil {
		return nil, err
	}
	hiding, err := addHidingWorker(all, s.core)
	return map[string]int{ending: jobs, removal: 1, hiding: 1}, err
}

type metrics struct {
	admitted  *prometheus.CounterVec
	refused   *prometheus.CounterVec
	finished  *prometheus.CounterVec
	announced *prometheus.CounterVec
	pacers    prometheus.Gauge
	// unusable counts leads whose numbers can't be dialed.
	unusable prometheus.Counter
	// plans counts rounds that planned calls for people; autoPaused the campaigns that the guard has paused.
	plans      *prometheus.CounterVec
	autoPaused prometheus.Counter
	waiting    prometheus.Gauge
	waits      *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		admitted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_gate_admitted_total", Help: "Calls that the gate let through, by purpose (lead, single, transfer, inbound).",
		}, []string{"purpose"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_gate_refused_total", Help: "Calls that the gate refused, by reason.",
		}, []string{"reason"}),
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_leads_finished_total", Help: "Leads that reached a terminal state, by status.",
		}, []string{"status"}),
		announced: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_announcements_total",
			Help: "Announcements to callees at answer, by result (played, failed, cut_off, already_told).",
		}, []string{"result"}),
		pacers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ringmaster_pacers", Help: "Campaigns that this controller paces.",
		}),
		plans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ringmaster_pacing_plans_total",
			Help: "Plans for campaigns that connect people, by mode (progressive, predictive) and what the abandon rate allows (go, fallback, pause).",
		}, []string{"mode", "verdict"}),
		unusable: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_leads_unusable_numbers_total",
			Help: "Leads that were due and not dialed, because their number can't be decrypted or doesn't match its hash; each is in the log.",
		}),
		autoPaused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ringmaster_campaigns_auto_paused_total", Help: "Campaigns paused since too many callees found no agent.",
		}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ringmaster_campaigns_without_audio",
			Help: "Campaigns paced here that dial nothing: their announcement, or their message for mailboxes, can't be fetched.",
		}),
	}
	m.waits = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "ringmaster_campaigns_waiting",
		Help: "Running campaigns paced here that dial nothing, by what they wait for (pacing.waits_for of their statistics).",
	}, []string{"waits_for"})
	for _, w := range gate.Waits() {
		m.waits.WithLabelValues(string(w))
	}
	if reg != nil {
		reg.MustRegister(m.waits, m.admitted, m.refused, m.finished, m.announced, m.pacers, m.plans, m.autoPaused, m.waiting, m.unusable)
	}
	return m
}
