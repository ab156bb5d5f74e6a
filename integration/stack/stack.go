// Package stack runs the whole of Ringmaster on one machine without a carrier: a private PostgreSQL, a switch (simulated, or
// a real FreeSWITCH), a carrier, a voice AI, and the controller, each a process of its own, so that any one can be killed
// alone. `ringmaster dev`, `ringmaster demo`, the end-to-end suite and the benchmarks use it.
//
// Read stack.go for what is started in which order, process.go for how, seed.go for the tenants, softphones.go for
// the phones of people, bootstrap.go for what it tells.
package stack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/integration/freeswitch"
	"github.com/ringmaster/ringmaster/store"
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
	// FreeSWITCH is the path of a real switch's executable; the simulated one runs when it is empty.
	FreeSWITCH string
	// Ports are wished for: a port that is taken is replaced by a free one. The zero value means free ones.
	Ports Ports
	// Voice is what simcarrier speaks with: "tone:425" when empty.
	Voice string
	// Softphones plays the phones of everyone who has an extension; a test that plays its own leaves it out.
	Softphones bool
	// RTPEvery has the stand-ins send one of so many frames of audio; all when 0.
	RTPEvery int
	// Override replaces keys of the controller's configuration, by their dotted names.
	Override map[string]any
	// Stderr takes what the processes log.
	Stderr io.Writer
	Logger *slog.Logger
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
}

// limits of starting and ending a part.
const (
	readyLimit = 30 * time.Second
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
	if cfg.Controller == "" {
		cfg.Controller = cfg.Binary
	}
	s := &Stack{cfg: cfg, SpoolDir: filepath.Join(cfg.Dir, "spool"), CDRDir: filepath.Join(cfg.Dir, "cdr")}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"PostgreSQL", s.startPostgres},
		{"the voice AI", s.startAI},
		{"the addresses", s.chooseAddresses},
		{"the switch", s.startSwitch},
		{"the carrier", s.startCarrier},
		{"the tenants", s.seed},
		{"the controller", s.startConfigured},
		{"the softphones", s.startSoftphones},
	} {
		if err := step.run(ctx); err != nil {
			err = fmt.Errorf("start %s: %w", step.name, err)
			return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
		cfg.Logger.Debug("started", "part", step.name)
	}
	return s, nil
}

func (s *Stack) startPostgres(ctx context.Context) error {
	key, err := s.masterKey()
	if err != nil {
		return err
	}
	s.MasterKey = key
	pg := devpg.Config{Logger: s.cfg.Logger}
	if s.cfg.Durable {
		pg.Dir = filepath.Join(s.cfg.Dir, "postgres")
	}
	if s.pg, err = devpg.Start(ctx, pg); err != nil {
		return err
	}
	s.Bootstrap.DatabaseURL = s.pg.URL()
	return store.Migrate(ctx, s.pg.URL())
}

// masterKey reads the key in the stack's folder, or makes one.
func (s *Stack) masterKey() (key [32]byte, err error) {
	path := filepath.Join(s.cfg.Dir, "master.key")
	text, err := os.ReadFile(path) //nolint:gosec // the stack's own folder
	if errors.Is(err, os.ErrNotExist) {
		_, _ = rand.Read(key[:]) // never fails
		return key, os.WriteFile(path, []byte(hex.EncodeToString(key[:])), 0o600)
	}
	if err != nil {
		return key, fmt.Errorf("read the master key: %w", err)
	}
	raw, err := hex.DecodeString(string(text))
	if err != nil || copy(key[:], raw) != len(key) {
		return key, fmt.Errorf("the master key in %s is damaged", path)
	}
	return key, nil
}

func (s *Stack) startAI(ctx context.Context) (err error) {
	addr, err := address(ctx, s.cfg.Ports.AI)
	if err != nil {
		return err
	}
	var ready struct {
		Addr string `json:"addr"`
	}
	s.ai, err = spawn(ctx, "echoai", s.cfg.Stderr, &ready, s.cfg.Binary, "stand-in", "ai", "--addr", addr)
	s.Bootstrap.AIWSURL = "ws://" + ready.Addr + "/echo"
	return err
}

func (s *Stack) chooseAddresses(ctx context.Context) error {
	var baseAddr, metrics string
	for _, p := range []struct {
		to   *string
		port int
	}{{&baseAddr, s.cfg.Ports.HTTP}, {&metrics, s.cfg.Ports.Metrics}, {&s.Socket, 0}, {&s.Bootstrap.Switch.ESL, s.cfg.Ports.ESL}} {
		addr, err := address(ctx, p.port)
		if err != nil {
			return err
		}
		*p.to = addr
	}
	media, err := address(ctx, 0)
	if err != nil {
		return err
	}
	s.MediaSIP = media
	s.Bootstrap.BaseURL = "http://" + baseAddr
	s.Bootstrap.MetricsURL = "http://" + metrics + "/metrics"
	return nil
}

// SIPDomain is that of every softphone.
const SIPDomain = "127.0.0.1"

// eslPassword of the stack's switch, which listens on loopback.
const eslPassword = "ringmaster-dev"

func (s *Stack) startSwitch(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.CDRDir, 0o750); err != nil {
		return fmt.Errorf("make the folder of call records: %w", err)
	}
	sip, err := address(ctx, s.cfg.Ports.SIP)
	if err != nil {
		return err
	}
	if s.cfg.FreeSWITCH != "" {
		return s.startFreeSWITCH(ctx, sip)
	}
	var ready struct {
		ESL      string `json:"esl"`
		External string `json:"external"`
		Internal string `json:"internal"`
	}
	s.switchProc, err = spawn(ctx, "simswitch", s.cfg.Stderr, &ready, s.cfg.Binary, "stand-in", "switch",
		"--esl", s.Bootstrap.Switch.ESL, "--esl-password", eslPassword, "--external", sip, "--socket", s.Socket,
		"--cdr-dir", s.CDRDir, "--directory", s.directoryURL(), "--sip-domain", SIPDomain, "--rtp-every", strconv.Itoa(max(s.cfg.RTPEvery, 1)))
	s.Bootstrap.Switch = Switch{Kind: "simulated", ESL: ready.ESL, SIP: ready.External, Registrar: ready.Internal}
	return err
}

// directoryURL is where the switch looks its users up.
func (s *Stack) directoryURL() string { return s.Bootstrap.BaseURL + "/fs/directory" }

func (s *Stack) startFreeSWITCH(ctx context.Context, sip string) (err error) {
	s.freeswitch, err = freeswitch.Start(ctx, freeswitch.Config{
		Binary: s.cfg.FreeSWITCH, Dir: filepath.Join(s.cfg.Dir, "freeswitch"), Logger: s.cfg.Logger,
		Params: conf.Params{
			ESLPort: port(s.Bootstrap.Switch.ESL), ESLPassword: eslPassword, SocketAddr: s.Socket, ExternalPort: port(sip),
			CDRDir: s.CDRDir, DirectoryURL: s.directoryURL(), SIPDomain: SIPDomain,
		},
	})
	if err != nil {
		return err
	}
	s.Bootstrap.Switch = Switch{
		Kind: "freeswitch", ESL: s.freeswitch.ESLAddr(), SIP: s.freeswitch.ExternalAddr(), Registrar: s.freeswitch.InternalAddr(),
	}
	return nil
}

func (s *Stack) startCarrier(ctx context.Context) (err error) {
	addr, err := address(ctx, s.cfg.Ports.Carrier)
	if err != nil {
		return err
	}
	args := []string{
		"stand-in", "carrier", "--http", addr, "--switch", s.Bootstrap.Switch.SIP, "--registrar", s.Bootstrap.Switch.Registrar,
		"--rtp-every", strconv.Itoa(max(s.cfg.RTPEvery, 1)),
	}
	if s.cfg.Voice != "" {
		args = append(args, "--voice", s.cfg.Voice)
	}
	var ready struct {
		SIP  string `json:"sip"`
		HTTP string `json:"http"`
	}
	s.carrier, err = spawn(ctx, "simcarrier", s.cfg.Stderr, &ready, s.cfg.Binary, args...)
	s.CarrierSIP = ready.SIP
	s.Bootstrap.PlaceInboundCallURL = "http://" + ready.HTTP + "/inbound"
	return err
}

// startConfigured writes the controller's configuration and starts it.
func (s *Stack) startConfigured(ctx context.Context) error {
	if err := s.writeConfig(); err != nil {
		return err
	}
	return s.StartController(ctx)
}

func (s *Stack) writeConfig() error {
	host := func(u string) string { return u[len("http://"):] }
	dnc := filepath.Join(s.cfg.Dir, "dnc")
	c := map[string]any{
		"node":                            "dev",
		"log.level":                       "info",
		"database.url":                    s.Bootstrap.DatabaseURL,
		"http.addr":                       host(s.Bootstrap.BaseURL),
		"http.metrics_addr":               host(s.Bootstrap.MetricsURL[:len(s.Bootstrap.MetricsURL)-len("/metrics")]),
		"switch.esl_addr":                 s.Bootstrap.Switch.ESL,
		"switch.esl_password":             eslPassword,
		"switch.outbound_listen":          s.Socket,
		"switch.cdr_dir":                  s.CDRDir,
		"media.sip_addr":                  s.MediaSIP,
		"agents.sip_domain":               SIPDomain,
		"recordings.spool_dir":            s.SpoolDir,
		"prompts.cache_dir":               filepath.Join(s.cfg.Dir, "prompts"),
		"recordings.blob_url":             "file://" + filepath.Join(s.cfg.Dir, "recordings"),
		"security.master_key":             hex.EncodeToString(s.MasterKey[:]),
		"security.allow_loopback_targets": true,
		"dialing.dnc_path":                dnc,
		"dialing.dnc_patterns":            []string{"????????9?"},
		"dialing.window_from":             "00:00",
		"dialing.window_to":               "24:00",
		"dialing.poll":                    "200ms",
		"drain.timeout":                   "8s",
		"drain.hangup_calls":              true,
	}
	maps.Copy(c, s.cfg.Override)
	s.settings = c
	for _, dir := range []string{s.SpoolDir, filepath.Join(s.cfg.Dir, "recordings"), dnc} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("make the controller's folders: %w", err)
		}
	}
	return s.saveConfig()
}

func (s *Stack) saveConfig() error {
	nested := map[string]any{}
	for key, value := range s.settings {
		set(nested, key, value)
	}
	text, err := yaml.Marshal(nested)
	if err != nil {
		return fmt.Errorf("encode the controller's configuration: %w", err)
	}
	s.configFile = filepath.Join(s.cfg.Dir, "ringmaster.yaml")
	s.Bootstrap.Config = s.configFile
	return os.WriteFile(s.configFile, text, 0o600)
}

// Reconfigure stops the controller, changes keys of its configuration, and starts it again.
func (s *Stack) Reconfigure(ctx context.Context, keys map[string]any) error {
	if err := s.StopController(); err != nil {
		return err
	}
	maps.Copy(s.settings, keys)
	if err := s.saveConfig(); err != nil {
		return err
	}
	return s.StartController(ctx)
}

// Dir is the stack's folder; the controller's configuration is its ringmaster.yaml.
func (s *Stack) Dir() string { return s.cfg.Dir }

// StartController starts the controller and waits until it is ready.
func (s *Stack) StartController(ctx context.Context) (err error) {
	s.controller, err = spawn(ctx, "controller", s.cfg.Stderr, nil, s.cfg.Controller, "serve", "--config", s.configFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err := s.awaitReady(ctx); err != nil {
		return errors.Join(err, s.controller.end(endLimit))
	}
	return nil
}

// ControllerPID is the controller's process id.
func (s *Stack) ControllerPID() int { return s.controller.pid() }

// SwitchPID is the process id of the switch, simulated or real.
func (s *Stack) SwitchPID() int {
	if s.freeswitch != nil {
		return s.freeswitch.PID()
	}
	return s.switchProc.pid()
}

// CarrierPID is the process id of the simulated carrier, which plays the softphones too.
func (s *Stack) CarrierPID() int { return s.carrier.pid() }

// SwitchPassword opens the switch's event socket.
func (s *Stack) SwitchPassword() string { return eslPassword }

// ControllerDone is closed when the controller that runs now has ended.
func (s *Stack) ControllerDone() <-chan struct{} { return s.controller.exited }

// KillController ends the controller as a crash would, and nothing else.
func (s *Stack) KillController() error { return s.controller.kill() }

// StopController ends the controller in order.
func (s *Stack) StopController() error { return s.controller.end(endLimit) }

func (s *Stack) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-s.controller.exited:
			return fmt.Errorf("%w: the controller ended: %w", ErrProcess, s.controller.err)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s/health/ready: %w", s.Bootstrap.BaseURL, ctx.Err())
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Bootstrap.BaseURL+"/health/ready", http.NoBody)
		if err != nil {
			return fmt.Errorf("ask whether the controller is ready: %w", err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
	}
}

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
	http.DefaultClient.CloseIdleConnections()
	return errors.Join(errs...)
}

// KillSwitch ends the switch as a crash would.
func (s *Stack) KillSwitch() error {
	if s.freeswitch != nil {
		return s.freeswitch.Kill()
	}
	return s.switchProc.kill()
}

// address gives a loopback address with the wished port, or with a free one.
func address(ctx context.Context, wished int) (string, error) {
	var lc net.ListenConfig
	for _, p := range []int{wished, 0} {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			continue
		}
		defer l.Close() //nolint:errcheck // it only showed that the port is free
		u, err := lc.ListenPacket(ctx, "udp", l.Addr().String())
		if err != nil {
			continue
		}
		return l.Addr().String(), u.Close()
	}
	return "", errors.New("find a free port: none")
}

func port(addr string) int {
	_, p, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(p)
	return n
}

func set(m map[string]any, key string, value any) {
	for i := range len(key) {
		if key[i] != '.' {
			continue
		}
		child, ok := m[key[:i]].(map[string]any)
		if !ok {
			child = map[string]any{}
			m[key[:i]] = child
		}
		set(child, key[i+1:], value)
		return
	}
	m[key] = value
}

// saveBootstrap keeps the object, whose secrets are in the database only as hashes, for the next start.
func (s *Stack) saveBootstrap() error {
	text, err := json.MarshalIndent(s.Bootstrap, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the bootstrap object: %w", err)
	}
	return os.WriteFile(filepath.Join(s.cfg.Dir, bootstrapFile), text, 0o600)
}

// restartPause keeps a controller that ends at once from spinning.
const restartPause = 500 * time.Millisecond

// Supervise runs until ctx ends. A controller that dies is started again, as a service manager would; the death of any
// other part ends it with an error.
func (s *Stack) Supervise(ctx context.Context) error {
	for {
		var switchDone <-chan struct{}
		if s.freeswitch != nil {
			switchDone = s.freeswitch.Done()
		} else {
			switchDone = s.switchProc.exited
		}
		select {
		case <-ctx.Done():
			return nil
		case <-switchDone:
			return fmt.Errorf("%w: the switch ended", ErrProcess)
		case <-s.carrier.exited:
			return fmt.Errorf("%w: the carrier ended", ErrProcess)
		case <-s.ai.exited:
			return fmt.Errorf("%w: the voice AI ended", ErrProcess)
		case <-s.pg.Done():
			return fmt.Errorf("%w: PostgreSQL ended", ErrProcess)
		case <-s.controller.exited:
		}
		s.cfg.Logger.Warn("the controller died; starting it again", "error", s.controller.err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartPause):
		}
		if err := s.StartController(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
