// Package controller wires Ringmaster's parts into the process that `ringmaster serve` runs. It holds no logic of its own.
//
// Read config.go and load.go for the configuration, this file for what is started in which order.
package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/riverqueue/river"

	"github.com/ringmaster/ringmaster/dialer"
	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/crm"
	"github.com/ringmaster/ringmaster/dialer/dnc"
	"github.com/ringmaster/ringmaster/dialer/flow"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/httpapi"
	"github.com/ringmaster/ringmaster/httpapi/webhook"
	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/fairshare"
	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/media/prompt"
	"github.com/ringmaster/ringmaster/media/wav"
	"github.com/ringmaster/ringmaster/media/ws"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/retry"
	"github.com/ringmaster/ringmaster/switchctl/call"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/recordings"
)

// Controller is everything that one process runs.
type Controller struct {
	cfg     Config
	version string
	log     *slog.Logger
	tell    func(context.Context, State)
	metrics *prometheus.Registry

	store    *store.Store
	scrubber *dnc.Scrubber
	cpu      *fairshare.Slots
	shards   int // tick threads of the media endpoint
	prompts  *prompt.Cache
	web      *flow.Client
	media    *media.Server
	accounts *acd.Accounts
	agents   *acd.Service
	wake     *wake.Signals // from the agents to the dialer
	dialer   *dialer.Service
	calls    *call.Controller
	bucket   recordings.Bucket
	library  *recordings.Library
	webhooks *webhook.Dispatcher
	reports  *crm.Service
	jobs     *store.Jobs
	http     *httpapi.Server

	cancel context.CancelFunc // ends the background work
	// stopDialing ends the dialer's pacers, and dialed is closed when they have; nil before the start.
	stopDialing context.CancelFunc
	dialed      chan struct{}
	working     sync.WaitGroup // the background work
}

// Limits of ending, each part after the other.
const (
	httpCloseLimit  = 3 * time.Second
	jobsCloseLimit  = 5 * time.Second
	mediaCloseLimit = 3 * time.Second
	// recordingWorkers read and hash whole files: a few are enough.
	recordingWorkers = 4
	recordLimit      = 5 * time.Second
	partitionsEvery  = time.Hour
	partitionsAhead  = 2
	// keysEvery is well below the time that a rotation waits for all controllers.
	keysEvery = 5 * time.Second
)

// OpenStore opens the database of a configuration, waiting for its server as long as the configuration says.
func OpenStore(ctx context.Context, c Config) (*store.Store, error) {
	return openStore(ctx, c, slog.Default())
}

func openStore(ctx context.Context, c Config, log *slog.Logger) (*store.Store, error) {
	key, err := c.MasterKey()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Database.ConnectTimeout)
	defer cancel()
	cfg := c.Database.Store()
	cfg.MasterKey, cfg.Logger = key, log
	return store.Open(ctx, cfg)
}

// signIns is how many passwords are checked at a time, beside the jobs that take turns.
const signIns = 2

// New builds every part; nothing listens yet. version is shown by /health.
func New(ctx context.Context, cfg Config, version string, log *slog.Logger) (_ *Controller, err error) {
	c := &Controller{cfg: cfg, version: version, log: log, metrics: prometheus.NewRegistry(), tell: func(context.Context, State) {}}
	c.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	defer func() {
		if err != nil {
			err = errors.Join(err, c.release())
		}
	}()
	jobs := max(2, runtime.GOMAXPROCS(0))
	c.cpu, c.shards = fairshare.NewSlots(jobs), media.RaiseProcessors(jobs+signIns)
	for _, build := range []func(context.Context) error{
		c.buildStore, c.buildAgents, c.buildScrubber, c.buildPrompts, c.buildDialer, c.buildCalls, c.buildJobs,
	} {
		if err := build(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Controller) buildStore(ctx context.Context) (err error) {
	if err := os.MkdirAll(c.cfg.Recordings.SpoolDir, 0o750); err != nil {
		return fmt.Errorf("make the folder of recordings in progress: %w", err)
	}
	c.store, err = openStore(ctx, c.cfg, c.log)
	return err
}

// guard says which addresses customers may point us at.
func (c *Controller) guard() netguard.Policy {
	s := c.cfg.Security
	return netguard.Policy{AllowLoopback: s.AllowLoopbackTargets, Allow: prefixes(s.AllowTargets), Deny: prefixes(s.DenyTargets)}
}

func (c *Controller) buildAgents(context.Context) (err error) {
	a := c.cfg.Agents
	c.wake = wake.New()
	c.accounts = acd.KeptAccounts(c.store, a.SIPDomain)
	if a.WrapUp == 0 {
		a.WrapUp = -1 // no limit
	}
	c.agents, err = acd.New(acd.Config{
		NodeID: c.cfg.Node, Accounts: c.accounts, Transports: a.Transports, WrapUp: a.WrapUp, RingTimeout: a.RingTimeout,
		MaxWait: a.MaxWait, PositionPrompts: a.PositionPrompts, AnnounceEvery: a.AnnounceEvery, Logger: c.log, Registerer: c.metrics,
		Changed: c.wake.Tenant,
	}, c.store)
	return err
}

func (c *Controller) buildDialer(context.Context) (err error) {
	d := c.cfg.Dialing
	c.web = flow.NewClient(c.guard())
	policy, err := c.cfg.policy()
	if err != nil {
		return err
	}
	cfg := dialer.Config{
		DNCPolicy: policy,
		Web:       c.web, NodeID: c.cfg.Node, Subprotocols: c.cfg.Media.Subprotocols, Guard: c.guard(), DNC: c.scrubber, Poll: d.Poll, Agents: c.agents, Wake: c.wake,
		CarrierNetworks: prefixes(c.cfg.Switch.CarrierNetworks),
		UploadDir:       filepath.Join(c.cfg.Recordings.SpoolDir, "uploads"),
		Prompts:         c.prompts, Legal: dialer.Hours{From: d.WindowFrom, To: d.WindowTo}, DailyCap: d.DailyCap, RequireCategory: d.RequireCategory, Logger: c.log, Registerer: c.metrics,
	}
	if t := d.DefaultTrunk; t.Host != "" {
		cfg.HostTrunk = &carrier.HostTrunk{Host: t.Host, Port: t.Port, Transport: t.Transport, NumberFormat: t.NumberFormat}
	}
	c.dialer, err = dialer.New(cfg, c.store)
	return err
}

func (c *Controller) buildPrompts(context.Context) (err error) {
	c.prompts, err = prompt.New(prompt.Config{ //nolint:contextcheck // a fetch outlives the start, and ends with Close
		Dir: c.cfg.Prompts.CacheDir, Local: c.cfg.Prompts.Dir, MaxBytes: int64(c.cfg.Prompts.CacheMB) << 20, Guard: c.guard(),
		Logger: c.log, Registerer: c.metrics, CPU: c.cpu,
	})
	return err
}

func (c *Controller) buildCalls(context.Context) (err error) {
	var trust *tls.Config
	if path := c.cfg.Media.AICAFile; path != "" {
		if trust, err = ws.TrustCA(path); err != nil {
			return err
		}
	}
	c.media, err = media.New(media.Config{
		SIPAddr: c.cfg.Media.SIPAddr, SIPPeers: prefixes(c.cfg.Media.SIPAllow), RTPIP: c.cfg.Media.RTPIP, RTPPortMin: c.cfg.Media.RTPPortMin, RTPPortMax: c.cfg.Media.RTPPortMax,
		Subprotocols: c.cfg.Media.Subprotocols, DialGuard: c.guard(), TLS: trust, Logger: c.log, Registerer: c.metrics,
		Shards: c.shards, CPU: c.cpu, NoWords: !c.cfg.Media.AMDWords,
	})
	if err != nil {
		return err
	}
	base := c.cfg.PublicURL()
	c.calls, err = call.New(call.Config{
		NodeID: c.cfg.Node, NodeGrace: c.cfg.NodeGrace, Peer: c.peer, ESLAddr: c.cfg.Switch.ESLAddr, ESLPassword: c.cfg.Switch.ESLPassword,
		OnSwitch:       c.inspectSwitch,
		OutboundListen: c.cfg.Switch.OutboundListen, SocketPeers: prefixes(c.cfg.Switch.SocketAllow), CDRDir: c.cfg.Switch.CDRDir, RecordDir: c.cfg.Recordings.SpoolDir,
		RecordEncoding: wav.Encoding(c.cfg.Recordings.Encoding),
		Subprotocols:   c.cfg.Media.Subprotocols, TokenKeys: c.store.Keys(store.KeyCallbackTokens), DrainHangup: c.cfg.Drain.HangupCalls,
		ControlURL: func(callID uuid.UUID) string { return base + "/api/v1/ai-sessions/" + callID.String() + "/control" },
		SIPTarget:  c.dialer.VoiceAgents.SIPTarget,
		Prompts:    c.prompts,
		Logger:     c.log, Registerer: c.metrics, Phones: c.agents, Supervisions: c.dialer.Supervisors,
	}, c.store, c.media, c.dialer.Gate, c.dialer.Answers)
	return err
}

func (c *Controller) buildJobs(ctx context.Context) (err error) {
	if c.bucket, err = recordings.OpenBucket(c.cfg.Recordings.BlobURL); err != nil {
		return err
	}
	c.library, err = recordings.New(recordings.Config{
		Store: c.store, Bucket: c.bucket, Signer: recordings.NewSigner(c.cfg.PublicURL(), c.store.Keys(store.KeyRecordingURLs)), Logger: c.log, Registerer: c.metrics,
		Encoding: wav.Encoding(c.cfg.Recordings.Encoding), SpoolDir: c.cfg.Recordings.SpoolDir,
		CPU: c.cpu,
	})
	if err != nil {
		return err
	}
	workers := river.NewWorkers()
	if err := c.library.AddWorker(workers); err != nil {
		return err
	}
	c.webhooks, err = webhook.New(webhook.Config{
		Store: c.store, Targets: c.guard(), SignRecording: c.library.SignAgain, Logger: c.log, Registerer: c.metrics,
	})
	if err != nil {
		return err
	}
	queues, err := c.dialer.AddWorkers(workers, c.calls)
	if err != nil {
		return err
	}
	c.buildReports()
	for _, queue := range recordings.Queues(c.cfg.Node) {
		queues[queue] = recordingWorkers
	}
	if c.jobs, err = c.store.NewJobs(store.JobsConfig{Queues: queues, Workers: workers, Logger: c.log}); err != nil {
		return err
	}
	return c.buildServer()
}

// buildReports makes what reports calls to CRMs, and asks for insights.
func (c *Controller) buildReports() {
	c.reports = crm.New(crm.Config{
		Store: c.store, Guard: c.guard(), Logger: c.log, Registerer: c.metrics, NewSecret: webhook.NewSecret,
		Links: func(tenant, call uuid.UUID, purpose store.ReportPurpose) string {
			return c.library.Signer().Sign(recordings.Link{
				TenantID: tenant, CallID: call, Recipient: string(purpose), Expires: time.Now().Add(recordings.APIURLLifetime),
			})
		},
		Sign: webhook.Signed,
	})
}

func (c *Controller) buildServer() (err error) {
	cfg := httpapi.Config{
		Node: c.cfg.Node, DoorAddr: c.cfg.Hosts.Listen, PeerAddr: c.cfg.Hosts.Address,
		Addr: c.cfg.HTTP.Addr, MetricsAddr: c.cfg.HTTP.MetricsAddr, PublicURL: c.cfg.PublicURL(), TLSCertFile: c.cfg.HTTP.TLSCert,
		Issuer:          c.cfg.OAuth.Issuer,
		TenantTelephony: c.cfg.Security.TenantTelephony == telephonyTenant, TrunkTargets: c.guard(),
		TLSKeyFile: c.cfg.HTTP.TLSKey, SessionKeys: c.store.Keys(store.KeySessions), CallbackKeys: c.store.Keys(store.KeyCallbackTokens),
		WebhookTargets: c.guard(), Version: c.version, Logger: c.log,
		Registerer: c.metrics, Gatherer: c.metrics, MaxConns: c.cfg.HTTP.MaxConns, MaxConnsPerClient: c.cfg.HTTP.MaxConnsPerClient,
	}
	cfg.TrustedProxies, cfg.DirectoryAllow = prefixes(c.cfg.HTTP.TrustedProxies), prefixes(c.cfg.Switch.DirectoryAllow)
	cfg.DirectoryAddr = c.cfg.Switch.DirectoryListen
	cfg.DirectorySecrets = c.cfg.directorySecrets(c.store)
	d := c.dialer
	dialed := httpapi.Dialer{
		Campaigns: d.Campaigns, Leads: d.Leads, Suppressions: d.Suppressions, VoiceAgents: d.VoiceAgents, Flows: d.Flows, Settings: d.Settings,
		Scrubs: d.Scrubs, Statistics: d.Statistics, Desk: d.Desk(c.calls), Supervisors: d.Supervisors,
	}
	c.http, err = httpapi.New(cfg, httpapi.Deps{
		Store: c.store, Dialer: dialed, Calls: c.calls, Recordings: c.library,
		Directory: c.accounts, Agents: c.agents, Integrations: c.reports,
		Registry: c.registryStatus,
		Checks: []httpapi.Check{
			{Name: "switch", Ready: c.calls.Ready},
			{Name: "media", Ready: c.media.Ready},
			{Name: "do_not_call", Ready: c.checkRegistry},
		},
	})
	return err
}

// peer is how other controllers reach this one, once its API serves.
func (c *Controller) peer() ledger.Peer {
	addr, key := c.http.Peer()
	return ledger.Peer{Addr: addr, Key: key}
}

// State is how a controller stands.
type State string

// The states that are told.
const (
	Serving  State = "serving"
	Draining State = "draining"
)

// Tell has fn called, from Run's goroutine, when the controller serves and when it begins to drain. Call it before Run.
func (c *Controller) Tell(fn func(context.Context, State)) { c.tell = fn }

// Run starts every part, serves until ctx ends, drains and stops. It may be called once.
func (c *Controller) Run(ctx context.Context) error {
	for _, w := range c.cfg.Warnings() {
		c.log.WarnContext(ctx, "configuration warning", "key", w.Key, "warning", w.Message)
	}
	if err := c.start(ctx); err != nil {
		return errors.Join(err, c.stop(context.WithoutCancel(ctx)))
	}
	c.log.InfoContext(ctx, "serving", "node", c.cfg.Node, "http", c.cfg.PublicURL(), "switch", c.cfg.Switch.ESLAddr)
	c.tell(ctx, Serving)
	<-ctx.Done()
	ctx = context.WithoutCancel(ctx)
	c.tell(ctx, Draining)
	c.log.InfoContext(ctx, "draining", "calls", c.calls.Live(), "timeout", c.cfg.Drain.Timeout)
	return c.stop(ctx)
}

// start binds every listener first, so that a port in use ends it before any call is touched.
func (c *Controller) start(ctx context.Context) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	c.startScrubber(ctx, background)
	switch _, err := c.store.EnsurePartitions(ctx, partitionsAhead); {
	case errors.Is(err, store.ErrBusy): // months are made ahead, so that there is time
		c.log.WarnContext(ctx, "creating partitions failed", "error", err)
	case err != nil:
		return err
	}
	if err := c.media.Start(background); err != nil {
		return err
	}
	if err := c.http.Start(background); err != nil {
		return err
	}
	if err := c.calls.Start(background); err != nil {
		return err
	}
	c.working.Go(func() {
		if err := c.agents.Run(background, c.calls); err != nil {
			c.log.ErrorContext(background, "agents' service failed", "error", err)
		}
	})
	c.working.Go(func() { c.dialer.Supervisors.Run(background, c.calls) })
	if err := c.jobs.Start(background); err != nil {
		return err
	}
	c.library.Start(background, c.cfg.Node, recordingWorkers)
	c.webhooks.Start(background)
	c.reports.Start(background)
	c.working.Go(func() { c.keepKeys(background) })
	c.working.Go(func() { c.keepPartitions(background) })
	c.working.Go(func() { c.library.KeepAdopting(background, c.cfg.Node) })
	c.working.Go(func() { c.sweepNightly(background) })
	c.working.Go(func() { c.dialer.Figures.Keep(background) })
	dialing, stopDialing := context.WithCancel(background)
	c.stopDialing, c.dialed = stopDialing, make(chan struct{})
	c.working.Go(func() {
		defer close(c.dialed)
		if err := c.dialer.Pacers.Run(dialing, c.calls); err != nil {
			c.log.ErrorContext(dialing, "dialer failed", "error", err)
		}
	})
	return nil
}

// keepKeys takes over the database's keys that another process has replaced.
func (c *Controller) keepKeys(ctx context.Context) {
	tick := time.NewTicker(keysEvery)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.store.RefreshKeys(ctx)
		if err != nil && err.Error() != last && ctx.Err() == nil { // once for each cause
			c.log.ErrorContext(ctx, "reading the database's keys failed, keeping the present ones", "error", err)
		}
		if last = ""; err != nil {
			last = err.Error()
		}
	}
}

// keepPartitions makes the months ahead, and drops indexes once no controller of a version before needs them.
func (c *Controller) keepPartitions(ctx context.Context) {
	for {
		if err := c.store.DropReplacedIndexes(ctx, c.cfg.Node); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "dropping replaced indexes failed", "error", err)
		}
		if retry.Pause(ctx, partitionsEvery) != nil {
			return
		}
		if _, err := c.store.EnsurePartitions(ctx, partitionsAhead); err != nil {
			c.log.ErrorContext(ctx, "creating partitions failed", "error", err)
		}
	}
}

// stop ends the parts in the order in which they depend on each other: no new calls, the calls there are, the API, the jobs
// that the ended calls have left, the media, the database.
func (c *Controller) stop(ctx context.Context) error {
	limited := func(limit time.Duration, stop func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return stop(ctx)
	}
	if c.stopDialing != nil {
		c.stopDialing() // its campaigns are other controllers' from now on, however long the calls last
		<-c.dialed
	}
	drained := limited(c.cfg.Drain.Timeout, c.calls.Drain)
	if errors.Is(drained, context.DeadlineExceeded) {
		c.log.WarnContext(ctx, "drain timed out, calls stay up on the switch", "calls", c.calls.Live())
		drained = nil
	}
	if c.cancel != nil {
		c.cancel()
	}
	c.working.Wait()
	return errors.Join(
		drained,
		limited(httpCloseLimit, c.http.Close),
		limited(jobsCloseLimit, c.stopJobs),
		limited(jobsCloseLimit, c.webhooks.Stop),
		limited(jobsCloseLimit, c.reports.Stop),
		limited(mediaCloseLimit, c.calls.Close),
		limited(mediaCloseLimit, c.media.Close),
		c.release(),
	)
}

// stopJobs ends River's workers and those of recordings at the same time.
func (c *Controller) stopJobs(ctx context.Context) error {
	var recordings error
	var busy sync.WaitGroup
	busy.Go(func() { recordings = c.library.Stop(ctx) })
	err := c.jobs.Stop(ctx)
	busy.Wait()
	return errors.Join(err, recordings)
}

// release closes what New opened.
func (c *Controller) release() error {
	var err error
	if c.webhooks != nil {
		c.webhooks.Close()
	}
	if c.reports != nil {
		c.reports.Close()
	}
	if c.prompts != nil {
		c.prompts.Close()
	}
	if c.web != nil {
		c.web.Close()
	}
	if c.scrubber != nil {
		c.scrubber.Close()
	}
	if c.bucket != nil {
		err = c.bucket.Close()
	}
	if c.store != nil {
		c.store.Close()
	}
	return err
}
