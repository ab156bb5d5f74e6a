// Package stack runs the whole of Ringmaster on one machine without a carrier: a private PostgreSQL, a switch (simulated, or
// a real FreeSWITCH), a carrier, a voice AI, and the controller, each a process of its own, so that any one can be killed
// alone. `ringmaster dev`, `ringmaster demo`, the end-to-end suite and the benchmarks use it.
//
// Read stack.go for what is started in which order and what is told, parts.go for the parts, settings.go for the controller's configuration,
// supervise.go for the controller's life and the death of parts, process.go for processes, namespace.go for a machine apart, seed.go for the tenants, softphones.go
// for the phones of people.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/dialer/account"
	"github.com/ringmaster/ringmaster/integration/freeswitch"
	"github.com/ringmaster/ringmaster/store/devpg"
)

// Config says what to run.
type Config struct {
	// Binary is ringmaster's executable: it runs the stand-ins, and the controller unless Controller names another.
	Binary, Controller string
	// Dir holds everything; the stack is fresh when it is empty, and goes on where it was otherwise.
	Dir string
	// Durable keeps the database in Dir, for the next start; otherwise it is temporary.
	Durable bool
	// InMemory has a temporary database's files in memory, where there is room (devpg.Config).
	InMemory bool
	// Preload names libraries that the database's server loads (devpg.Config).
	Preload string
	// Database is a folder that PrepareDatabase made, of which the stack's database is a copy: for whoever starts many stacks.
	Database string
	// FreeSWITCH is the path of a real switch's executable; the simulated one runs when it is empty.
	FreeSWITCH string
	// Ports are wished for: a port that is taken is replaced by a free one. The zero value means free ones.
	Ports Ports
	// Voice is what simcarrier speaks with: "tone:425" when empty.
	Voice string
	// Softphones plays the phones of everyone who has an extension; a test that plays its own leaves it out.
	Softphones bool
	// PasswordCost is what the seeded users' passwords cost to hash; account's default when zero.
	PasswordCost account.PasswordCost
	// RTPEvery has the stand-ins send one of so many frames of audio; all when 0.
	RTPEvery int
	// Override replaces keys of the controller's configuration, by their dotted names.
	Override map[string]any
	// Beside is a stack that is up: this one is one more switch host on its database, with a switch and a controller of its own and
	// that stack's carrier, voice AI and tenants. It must be closed first.
	Beside *Stack
	// Namespace is where a stack beside another one runs; this machine's own network when nil.
	Namespace *Namespace
	// DatabaseAt are further addresses of this machine at which its database is reached, each with the network that may come.
	DatabaseAt []netip.Prefix
	// Through gives the address at which the controller reaches the database of an address; the same when it is nil.
	Through func(databaseURL string) (string, error)
	// Stderr takes what the processes log, ControllerLog what the controller logs besides.
	Stderr, ControllerLog io.Writer
	Logger                *slog.Logger
}

// Ports are the loopback ports of the parts that people and tests talk to.
type Ports struct {
	HTTP, Metrics, ESL, SIP, AI, Carrier int
}

// DevPorts are those that `ringmaster dev` wishes for.
func DevPorts() Ports {
	return Ports{HTTP: 18080, Metrics: 18081, ESL: 18021, SIP: 15060, AI: 19090, Carrier: 18090}
}

// Stack is everything that runs.
type Stack struct {
	Bootstrap Bootstrap
	// Addrs of the parts that the bootstrap object does not name.
	CarrierSIP, MediaSIP, Socket string
	// SpoolDir and CDRDir are the controller's and the switch's folders.
	SpoolDir, CDRDir string
	// MasterKey opens the database's secrets.
	MasterKey [32]byte
	// directorySecret is the switch's password at the directory, eslPassword the controller's at the switch. Each start has others.
	directorySecret, eslPassword string

	cfg        Config
	pg         *devpg.Server
	freeswitch *freeswitch.Switch
	switchProc *process
	carrier    *process
	ai         *process
	controller *process
	softphones *softphones
	configFile string
	settings   map[string]any // the controller's configuration, by dotted keys
	ports      *portBlock     // nil before the first is needed
	added      atomic.Int64   // tenants behind the seeded ones
}

// limits of starting and ending a part.
const (
	readyLimit = time.Minute
	endLimit   = 12 * time.Second
)

// Start runs everything and returns once all of it serves. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Stack, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Stderr == nil {
		cfg.Stderr = io.Discard
	}
	if cfg.PasswordCost == (account.PasswordCost{}) {
		cfg.PasswordCost = account.DefaultPasswordCost()
	}
	if cfg.Controller == "" {
		cfg.Controller = cfg.Binary
	}
	s := &Stack{cfg: cfg, SpoolDir: filepath.Join(cfg.Dir, "spool"), CDRDir: filepath.Join(cfg.Dir, "cdr")}
	if cfg.Beside != nil {
		return s.startBeside(ctx, cfg.Beside)
	}
	return s, s.startAll(ctx, []step{
		{"PostgreSQL", s.startPostgres},
		{"the voice AI", s.startAI},
		{"the addresses", s.chooseAddresses},
		{"the switch", s.startSwitch},
		{"the carrier", s.startCarrier},
		{"the tenants", s.seed},
		{"the controller", s.startConfigured},
		{"the softphones", s.startSoftphones},
	})
}

// step starts a part.
type step struct {
	name string
	run  func(context.Context) error
}

// startAll starts the parts in their order; when one doesn't start, it ends those that have.
func (s *Stack) startAll(ctx context.Context, steps []step) error {
	for _, step := range steps {
		if err := step.run(ctx); err != nil {
			err = fmt.Errorf("start %s: %w", step.name, err)
			return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
		s.cfg.Logger.Debug("started", "part", step.name)
	}
	return nil
}

// startBeside starts one more switch host on the database of a stack that is up.
func (s *Stack) startBeside(ctx context.Context, first *Stack) (*Stack, error) {
	s.MasterKey, s.CarrierSIP = first.MasterKey, first.CarrierSIP
	s.Bootstrap = Bootstrap{
		DatabaseURL: first.Bootstrap.DatabaseURL, AIWSURL: first.Bootstrap.AIWSURL,
		PlaceInboundCallURL: first.Bootstrap.PlaceInboundCallURL, Tenants: first.Bootstrap.Tenants,
	}
	steps := []step{
		{"the addresses", s.chooseAddresses},
		{"the switch", s.startSwitch},
		{"the do-not-call registry", func(context.Context) error { return s.seedRegistry() }},
		{"the controller", s.startConfigured},
	}
	if ns := s.cfg.Namespace; ns != nil {
		moved, err := ns.moveDatabase(s.Bootstrap.DatabaseURL)
		if err != nil {
			return nil, fmt.Errorf("read the database's address: %w", err)
		}
		s.Bootstrap.DatabaseURL = moved
		steps = slices.Insert(steps, 2, step{"the voice AI", s.startTwinAI}, step{"the carrier", s.startTwinCarrier})
	}
	return s, s.startAll(ctx, steps)
}

// DatabaseAdminURL connects to the database as its superuser, who reads every tenant's rows. The server's folder is the parent of the URL's host.
func (s *Stack) DatabaseAdminURL() string {
	return strings.Replace(s.pg.AdminURL(), "/postgres?", "/"+devpg.Database+"?", 1)
}

// Dir is the stack's folder; the controller's configuration is its ringmaster.yaml.
func (s *Stack) Dir() string { return s.cfg.Dir }

// Close ends everything, the controller first so that its calls are hung up and their records written.
func (s *Stack) Close(ctx context.Context) error {
	var errs []error
	if s.softphones != nil {
		s.softphones.close()
	}
	for _, p := range []*process{s.controller, s.carrier, s.switchProc, s.ai} {
		if p != nil {
			errs = append(errs, p.end(endLimit))
		}
	}
	if s.freeswitch != nil {
		errs = append(errs, s.freeswitch.Stop())
	}
	if s.pg != nil {
		errs = append(errs, s.pg.Stop(ctx))
	}
	if s.ports != nil {
		errs = append(errs, s.ports.lock.Close())
		s.ports = nil
	}
	http.DefaultClient.CloseIdleConnections()
	return errors.Join(errs...)
}

// bootstrapFile keeps the bootstrap object in the stack's folder.
const bootstrapFile = "bootstrap.json"

// Bootstrap is what `ringmaster dev --json` prints: where everything is, and with which credentials.
type Bootstrap struct {
	// Config is the file of the controller's configuration, for the commands that read it.
	Config      string `json:"config"`
	BaseURL     string `json:"base_url"`
	MetricsURL  string `json:"metrics_url"`
	DatabaseURL string `json:"database_url"`
	Switch      Switch `json:"switch"`
	// DirectoryURL is where the switch asks for its users, with its credentials.
	DirectoryURL        string   `json:"directory_url"`
	AIWSURL             string   `json:"ai_ws_url"`
	PlaceInboundCallURL string   `json:"place_inbound_call_url"`
	Tenants             []Tenant `json:"tenants"`
}

// Switch says which switch runs (simulated or freeswitch), and where.
type Switch struct {
	Kind string `json:"kind"`
	ESL  string `json:"esl"`
	SIP  string `json:"sip"`
	// Registrar is where softphones register.
	Registrar string `json:"registrar"`
}

// Tenant is one seeded tenant.
type Tenant struct {
	ID           uuid.UUID `json:"id"`
	Name         string    `json:"name"`
	LiveKey      string    `json:"live_key"`
	TestKey      string    `json:"test_key"`
	Users        []User    `json:"users"`
	Numbers      []string  `json:"numbers"`
	VoiceAgentID uuid.UUID `json:"voice_agent_id"`
}

// User is one seeded user.
type User struct {
	Email     string `json:"email"`
	Password  string `json:"password"`
	Role      string `json:"role"`
	Extension string `json:"extension,omitempty"`
}
