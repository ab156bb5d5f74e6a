package crm

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ringmaster/ringmaster/media/netguard"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
)

// Config is what a Service needs.
type Config struct {
	Store *store.Store
	// Guard says which addresses may be reached.
	Guard netguard.Policy
	// Links makes the URLs of recordings.
	Links Links
	// Sign signs requests for insights, and NewSecret makes what they are signed with.
	Sign      Sign
	NewSecret func() string
	// Now is the clock, time.Now when nil. Logger discards when nil, and without a Registerer there are no metrics.
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Service reports calls, and keeps what tenants say of where to. It is safe for concurrent use. Errors: store.ErrNotFound, [*fault.Error].
type Service struct {
	store     *store.Store
	targets   Targets
	links     Links
	newSecret func() string
	now       func() time.Time
	log       *slog.Logger
	client    *client
	tokens    *tokens
	asks      insightsClient
	queues    map[store.ReportPurpose]*queue
	metrics   *metrics
	// ahead is by how much the database's clock goes before this host's, in nanoseconds, as the last look has seen.
	ahead atomic.Int64

	// halt ends the looks for what is due, cut the attempts; nil before Start. ended is closed when all has ended.
	halt, cut context.CancelFunc
	ended     chan struct{}
}

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := newClient(cfg.Guard, cfg.Now)
	s := &Service{
		store: cfg.Store, targets: Targets{cfg.Guard}, links: cfg.Links, newSecret: cfg.NewSecret, now: cfg.Now, log: cfg.Logger, client: c,
		tokens: &tokens{client: c, kept: map[uuid.UUID]*keptToken{}}, asks: insightsClient{client: c, sign: cfg.Sign},
		queues: map[store.ReportPurpose]*queue{}, metrics: newMetrics(cfg.Registerer), ended: make(chan struct{}),
	}
	for _, p := range purposes() {
		s.queues[p] = newQueue(s, p)
	}
	return s
}

// Start begins to report calls, which lasts until Stop, whatever becomes of ctx. Call it once.
func (s *Service) Start(ctx context.Context) {
	ctx, s.cut = context.WithCancel(context.WithoutCancel(ctx))
	looking, halt := context.WithCancel(ctx)
	s.halt = halt
	unwatch := s.store.WatchReports(func(d store.DueReport) {
		if q := s.queues[d.Purpose]; q != nil {
			q.wake(d.TenantID)
		}
	})
	go func() {
		defer close(s.ended)
		defer unwatch()
		s.adopt(looking)
		var loops sync.WaitGroup
		loops.Go(func() { s.watch(looking) })
		for _, q := range s.queues {
			loops.Go(func() { q.loop(ctx, looking) })
		}
		loops.Wait()
		for _, q := range s.queues {
			q.working.Wait()
		}
	}()
}

// Stop lets the attempts at work finish, and breaks them off when ctx ends first: they are made again.
func (s *Service) Stop(ctx context.Context) error {
	if s.cut == nil {
		return nil // never started
	}
	s.halt()
	select {
	case <-s.ended:
	case <-ctx.Done():
		s.cut()
		<-s.ended
	}
	s.cut()
	return nil
}

// adopt removes the jobs of controllers of the version before: whatever they were for stands in the reports.
func (s *Service) adopt(ctx context.Context) {
	for removed := int64(1); removed > 0 && ctx.Err() == nil; {
		err := s.store.InSystem(ctx, func(tx *store.Tx) (err error) {
			removed, err = tx.Q.AdoptReportJobs(ctx)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "removing jobs of an earlier version failed", "error", err)
			}
			return
		}
	}
}

// Close drops idle connections. Call it after Stop.
func (s *Service) Close() { s.client.close() }

// read gives the settings of a purpose, which it decodes; store.ErrNotFound when there are none.
func (s *Service) read(ctx context.Context, tenant uuid.UUID, p store.ReportPurpose, into any) (db.Integration, error) {
	row, err := s.store.Read(tenant).IntegrationGet(ctx, tenant, string(p))
	if err != nil {
		return row, err
	}
	return row, s.unseal(row, into)
}

func (s *Service) unseal(row db.Integration, into any) error {
	plain, err := s.store.Unseal(store.IntegrationConfig(row.ID), row.ConfigSealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, into)
}

// Settings gives a tenant's CRM, its secrets masked.
func (s *Service) Settings(ctx context.Context, tenant uuid.UUID) (Settings, error) {
	var out Settings
	if _, err := s.read(ctx, tenant, store.ReportCRM, &out); err != nil {
		return out, fault.Wrap("read the CRM's settings", err)
	}
	return out.masked(), nil
}

// PutSettings replaces them.
func (s *Service) PutSettings(ctx context.Context, tenant uuid.UUID, in SettingsInput) (Settings, error) {
	var was Settings
	before, err := s.read(ctx, tenant, store.ReportCRM, &was)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrUnseal) {
		return was, fault.Wrap("change the CRM's settings", err)
	}
	out, err := in.settings(ctx, s.targets, was)
	if err != nil {
		return out, err
	}
	s.nameAccount(ctx, &was, &out)
	id := before.ID
	if id == uuid.Nil || !keepsID(was, out) {
		if id, err = newID(); err != nil {
			return out, fault.Wrap("change the CRM's settings", err)
		}
	}
	err = s.put(ctx, db.IntegrationPutParams{
		TenantID: tenant, Purpose: string(store.ReportCRM), ID: id, Kind: out.Kind, Host: out.host(), IsActive: out.IsActive,
	}, out)
	return out.masked(), fault.Wrap("change the CRM's settings", err)
}

func (s *Service) put(ctx context.Context, p db.IntegrationPutParams, settings any) error {
	plain, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	if p.ConfigSealed, err = s.store.Seal(store.IntegrationConfig(p.ID), plain); err != nil {
		return err
	}
	s.tokens.forget(p.ID)
	return s.store.InTenant(ctx, p.TenantID, func(tx *store.Tx) error {
		_, err := tx.Q.IntegrationPut(ctx, p)
		return err
	})
}

// DeleteSettings forgets them. What is still to be written isn't.
func (s *Service) DeleteSettings(ctx context.Context, tenant uuid.UUID) error {
	return s.remove(ctx, tenant, store.ReportCRM)
}

func (s *Service) remove(ctx context.Context, tenant uuid.UUID, p store.ReportPurpose) error {
	return s.store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		row, err := tx.Q.IntegrationLock(ctx, tenant, string(p))
		if err != nil {
			return err
		}
		s.tokens.forget(row.ID)
		n, err := tx.Q.IntegrationDelete(ctx, tenant, string(p))
		if err == nil && n == 0 {
			return store.ErrNotFound
		}
		return err
	})
}

// Insights gives a tenant's settings of insights, the secret masked.
func (s *Service) Insights(ctx context.Context, tenant uuid.UUID) (InsightSettings, error) {
	var out InsightSettings
	if _, err := s.read(ctx, tenant, store.ReportInsights, &out); err != nil {
		return out, fault.Wrap("read the settings of insights", err)
	}
	return out.masked(), nil
}

// PutInsights replaces them. A secret that was made is shown, once.
func (s *Service) PutInsights(ctx context.Context, tenant uuid.UUID, in InsightSettingsInput) (InsightSettings, error) {
	var was InsightSettings
	before, err := s.read(ctx, tenant, store.ReportInsights, &was)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrUnseal) {
		return was, fault.Wrap("change the settings of insights", err)
	}
	made := s.newSecret()
	out, err := in.settings(ctx, s.targets, was, made)
	if err != nil {
		return out, err
	}
	id := before.ID
	if id == uuid.Nil {
		if id, err = newID(); err != nil {
			return out, fault.Wrap("change the settings of insights", err)
		}
	}
	err = s.put(ctx, db.IntegrationPutParams{
		TenantID: tenant, Purpose: string(store.ReportInsights), ID: id, Kind: KindInsights, Host: hostOf(out.URL), IsActive: out.IsActive,
	}, out)
	shown := out.masked()
	if out.Secret == made {
		shown.Secret = made
	}
	return shown, fault.Wrap("change the settings of insights", err)
}

// DeleteInsights forgets them.
func (s *Service) DeleteInsights(ctx context.Context, tenant uuid.UUID) error {
	return s.remove(ctx, tenant, store.ReportInsights)
}

// Report is what became of a call at its tenant's CRM, or insights.
type Report struct {
	Status        string     `json:"status"`
	ExternalID    *string    `json:"external_id"`
	Attempts      int32      `json:"attempts"`
	LastError     *string    `json:"last_error"`
	WrittenAt     *time.Time `json:"written_at"`
	UpdatedAt     *time.Time `json:"updated_at"`
	NextAttemptAt *time.Time `json:"next_attempt_at"`
}

func view(r db.CallReport) Report {
	out := Report{
		Status: r.Status, ExternalID: r.ExternalID, Attempts: r.Attempts, LastError: r.LastError, WrittenAt: utc(r.WrittenAt), UpdatedAt: utc(r.UpdatedAt),
	}
	if r.Status == StatusPending {
		out.NextAttemptAt = utc(&r.NextAttemptAt)
	}
	return out
}

// Codes of refusals.
const (
	codeNoReport = "crm_not_written"
	codeLive     = "call_live"
	codeWritten  = "crm_written"
	codeTest     = "test_environment"
	codeNone     = "crm_not_configured"
	codeBusy     = "crm_busy"
)

// Report tells what became of a call's outcome at the CRM.
func (s *Service) Report(ctx context.Context, tenant, call uuid.UUID) (Report, error) {
	row, err := s.store.Read(tenant).CallReportGet(ctx, tenant, call, string(store.ReportCRM))
	if errors.Is(err, store.ErrNotFound) {
		if _, err := s.store.Read(tenant).CallStatusByID(ctx, tenant, call); err != nil {
			return Report{}, fault.Wrap("read a call's outcome at the CRM", err)
		}
		return Report{}, &fault.Error{
			Kind: fault.NotFound, Code: codeNoReport, Detail: "The call has no outcome at a CRM: none was configured and active when it ended, or it goes on.",
		}
	}
	return view(row), fault.Wrap("read a call's outcome at the CRM", err)
}

// Retry has a call's outcome written that failed, or was never to be written, and one that waits for its next attempt written now.
func (s *Service) Retry(ctx context.Context, tenant, call uuid.UUID) (Report, error) {
	var out db.CallReport
	err := s.store.InTenant(ctx, tenant, func(tx *store.Tx) error {
		status, err := tx.Q.CallReportCall(ctx, tenant, call)
		switch {
		case err != nil:
			return err
		case !status.Ended:
			return conflict(codeLive, "The call has not ended; its outcome is written when it ends.")
		case status.Environment != "live":
			return conflict(codeTest, "The call was placed with a test key; the outcome of such calls is not written to a CRM.")
		}
		integration, err := tx.Q.IntegrationGet(ctx, tenant, string(store.ReportCRM))
		if errors.Is(err, store.ErrNotFound) || err == nil && !integration.IsActive {
			return conflict(codeNone, "No CRM is configured and active: PUT /api/settings/crm configures one.")
		}
		if err != nil {
			return err
		}
		id := store.ReportID{TenantID: tenant, CallID: call, Purpose: store.ReportCRM}
		now := s.databaseNow()
		before, err := tx.Q.CallReportLoad(ctx, tenant, call, string(id.Purpose))
		switch {
		case errors.Is(err, store.ErrNotFound):
			out, err = tx.OpenReport(ctx, id, integration.ID, now)
			return err
		case err != nil:
			return err
		case before.CallReport.Status == StatusWritten:
			return conflict(codeWritten, "The call's outcome is written; there is nothing to repeat.")
		}
		next := now
		if at := before.CallReport.AttemptedAt; at != nil && integration.Kind == KindHubSpot && at.Add(hubspotSettle).After(next) {
			next = at.Add(hubspotSettle)
		}
		out, err = tx.RearmReport(ctx, id, now, next)
		return err
	})
	return view(out), fault.Wrap("retry a call's outcome", err)
}

func conflict(code, detail string) error {
	return &fault.Error{Kind: fault.Conflict, Code: code, Detail: detail}
}
