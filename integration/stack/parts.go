package stack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/integration/freeswitch"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/devpg"
)

func (s *Stack) startPostgres(ctx context.Context) error {
	key, err := s.masterKey()
	if err != nil {
		return err
	}
	s.MasterKey = key
	pg := devpg.Config{From: s.cfg.Database, InMemory: s.cfg.InMemory, Preload: s.cfg.Preload, Logger: s.cfg.Logger, Also: s.cfg.DatabaseAt}
	if s.cfg.Durable {
		pg.Dir = filepath.Join(s.cfg.Dir, "postgres")
	}
	if s.pg, err = devpg.Start(ctx, pg); err != nil {
		return err
	}
	s.Bootstrap.DatabaseURL = s.pg.URL()
	return store.Migrate(ctx, store.Config{URL: s.pg.URL()})
}

// PrepareDatabase makes a database in dir as stacks start with, but empty of tenants, for Config.Database.
func PrepareDatabase(ctx context.Context, dir string) error {
	pg, err := devpg.Start(ctx, devpg.Config{Dir: dir, Volatile: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(store.Migrate(ctx, store.Config{URL: pg.URL()}), pg.Stop(ctx))
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
	addr, err := s.address(ctx, s.cfg.Ports.AI)
	if err != nil {
		return err
	}
	var ready struct {
		Addr string `json:"addr"`
	}
	s.ai, err = s.spawn(ctx, "echoai", s.cfg.Stderr, &ready, s.cfg.Binary, "stand-in", "ai", "--addr", addr)
	s.Bootstrap.AIWSURL = "ws://" + ready.Addr + "/echo"
	return err
}

func (s *Stack) chooseAddresses(ctx context.Context) error {
	var baseAddr, metrics string
	for _, p := range []struct {
		to   *string
		port int
	}{{&baseAddr, s.cfg.Ports.HTTP}, {&metrics, s.cfg.Ports.Metrics}, {&s.Socket, 0}, {&s.Bootstrap.Switch.ESL, s.cfg.Ports.ESL}} {
		addr, err := s.address(ctx, p.port)
		if err != nil {
			return err
		}
		*p.to = addr
	}
	media, err := s.address(ctx, 0)
	if err != nil {
		return err
	}
	s.MediaSIP = media
	if ns := s.cfg.Namespace; ns != nil {
		baseAddr = ns.move(baseAddr)
	}
	s.Bootstrap.BaseURL = "http://" + baseAddr
	s.directorySecret, s.eslPassword = rand.Text(), rand.Text()
	s.Bootstrap.DirectoryURL = "http://" + directoryUser + ":" + s.directorySecret + "@" + baseAddr + directoryPath
	s.Bootstrap.MetricsURL = "http://" + metrics + "/metrics"
	return nil
}

// SIPDomain is that of every softphone.
const SIPDomain = "127.0.0.1"

// directoryUser and directoryPath are how the switch asks the controller for its users.
const (
	directoryUser = "freeswitch"
	directoryPath = "/fs/directory"
)

func (s *Stack) startSwitch(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.CDRDir, 0o750); err != nil {
		return fmt.Errorf("make the folder of call records: %w", err)
	}
	sip, err := s.address(ctx, s.cfg.Ports.SIP)
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
	s.switchProc, err = s.spawn(ctx, "simswitch", s.cfg.Stderr, &ready, s.cfg.Binary, "stand-in", "switch",
		"--esl", s.Bootstrap.Switch.ESL, "--esl-password", s.eslPassword, "--external", sip, "--socket", s.Socket,
		"--cdr-dir", s.CDRDir, "--directory", s.Bootstrap.DirectoryURL, "--sip-domain", SIPDomain, "--rtp-every", strconv.Itoa(max(s.cfg.RTPEvery, 1)))
	s.Bootstrap.Switch = Switch{Kind: "simulated", ESL: ready.ESL, SIP: ready.External, Registrar: ready.Internal}
	return err
}

func (s *Stack) startFreeSWITCH(ctx context.Context, sip string) error {
	internal, err := s.address(ctx, 0)
	if err != nil {
		return err
	}
	agents, err := s.address(ctx, 0)
	if err != nil {
		return err
	}
	s.freeswitch, err = freeswitch.Start(ctx, freeswitch.Config{
		Binary: s.cfg.FreeSWITCH, Dir: filepath.Join(s.cfg.Dir, "freeswitch"), Logger: s.cfg.Logger,
		Params: conf.Params{
			ESLPort: port(s.Bootstrap.Switch.ESL), ESLPassword: s.eslPassword, SocketAddr: s.Socket, ExternalPort: port(sip), InternalPort: port(internal), VoiceAgentsPort: port(agents),
			CDRDir: s.CDRDir, DirectoryURL: s.Bootstrap.BaseURL + directoryPath, DirectoryCredentials: directoryUser + ":" + s.directorySecret, SIPDomain: SIPDomain,
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

func (s *Stack) startCarrier(ctx context.Context) error {
	addr, err := s.address(ctx, s.cfg.Ports.Carrier)
	if err != nil {
		return err
	}
	return s.runCarrier(ctx, addr)
}

// runCarrier starts the carrier with its control surface at an address.
func (s *Stack) runCarrier(ctx context.Context, addr string, more ...string) (err error) {
	args := []string{
		"stand-in", "carrier", "--http", addr, "--switch", s.Bootstrap.Switch.SIP, "--registrar", s.Bootstrap.Switch.Registrar,
		"--rtp-every", strconv.Itoa(max(s.cfg.RTPEvery, 1)),
	}
	args = append(args, more...)
	if s.cfg.Voice != "" {
		args = append(args, "--voice", s.cfg.Voice)
	}
	var ready struct {
		SIP  string `json:"sip"`
		HTTP string `json:"http"`
	}
	s.carrier, err = s.spawn(ctx, "simcarrier", s.cfg.Stderr, &ready, s.cfg.Binary, args...)
	s.CarrierSIP = ready.SIP
	s.Bootstrap.PlaceInboundCallURL = "http://" + ready.HTTP + "/inbound"
	return err
}
