// Package freeswitch runs a private FreeSWITCH from this project's own conf/, for `ringmaster dev --freeswitch` and for
// the integration suite. It binds loopback ports only and ends its switch by process id.
package freeswitch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringmaster/ringmaster/conf"
	"github.com/ringmaster/ringmaster/store/devpg/tied"
	"github.com/ringmaster/ringmaster/switchctl/esl"
)

// Config says which switch to start, and where.
type Config struct {
	// Binary is the path of the freeswitch executable.
	Binary string
	// Dir takes its configuration, logs and databases; it must be private to this switch.
	Dir string
	// Params fill conf/freeswitch/vars.xml. Ports that are 0 are chosen.
	Params   conf.Params
	Gateways []conf.Gateway
	// StartTimeout bounds the wait for the event socket and the modules; a minute when 0.
	StartTimeout time.Duration
	Logger       *slog.Logger
}

// Switch is a running FreeSWITCH.
type Switch struct {
	// Params are those it was started with, ports filled in.
	Params conf.Params

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // set before exited is closed
	output *tail
	stop   sync.Once
}

// ErrExited says that the switch ended by itself.
var ErrExited = errors.New("freeswitch exited")

// ErrNoModule says that the switch could not load a module that conf/ has it load: as a rule it was built without. It would run, and do
// less in silence: without mod_json_cdr, say, a call that ends while nobody is connected has no hangup cause.
var ErrNoModule = errors.New("freeswitch has not loaded all modules of its configuration, it lacks")

// Start writes the configuration, starts the switch and returns once its event socket answers and all modules are loaded.
func Start(ctx context.Context, cfg Config) (*Switch, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = time.Minute
	}
	if _, err := os.Stat(cfg.Binary); err != nil {
		return nil, fmt.Errorf("find the freeswitch binary: %w", err)
	}
	p, rtp, err := withPorts(ctx, cfg.Params)
	if err != nil {
		return nil, err
	}
	started := false
	defer func() {
		if !started {
			rtp.letGo()
		}
	}()
	confDir := filepath.Join(cfg.Dir, "conf")
	if err := conf.Render(confDir, p, cfg.Gateways...); err != nil {
		return nil, err
	}
	args := []string{"-nonat", "-nocal", "-nf", "-nc", "-conf", confDir}
	for _, d := range []string{"log", "db", "run", "cache", "storage", "recordings", "temp", "certs", "sounds", "htdocs", "scripts", "grammar"} {
		dir := filepath.Join(cfg.Dir, d) // the log's has the whole configuration, with its passwords, for anybody to read
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the switch's directory: %w", err)
		}
		args = append(args, "-"+d, dir)
	}
	s := &Switch{Params: p, exited: make(chan struct{}), output: &tail{}}
	s.cmd = exec.Command(cfg.Binary, args...) //nolint:noctx // its life is longer than the context's
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	child, err := tied.Start(s.cmd, syscall.SIGTERM)
	if err != nil {
		return nil, fmt.Errorf("start freeswitch: %w", err)
	}
	started = true
	go func() {
		s.err = child.Wait()
		rtp.letGo()
		close(s.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	err = s.await(ctx)
	if err == nil {
		err = s.checkModules(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(), fmt.Errorf("its last output: %s", s.output))
	}
	return s, nil
}

// PID is the switch's process id.
func (s *Switch) PID() int { return s.cmd.Process.Pid }

// Done is closed when the switch has exited.
func (s *Switch) Done() <-chan struct{} { return s.exited }

// ESLAddr is the event socket's host:port.
func (s *Switch) ESLAddr() string {
	return net.JoinHostPort(s.Params.ESLIP, strconv.Itoa(s.Params.ESLPort))
}

// ExternalAddr is host:port of the carriers' SIP profile.
func (s *Switch) ExternalAddr() string {
	return net.JoinHostPort(s.Params.SIPIP, strconv.Itoa(s.Params.ExternalPort))
}

// InternalAddr is host:port of the softphones' SIP profile.
func (s *Switch) InternalAddr() string {
	return net.JoinHostPort(s.Params.SIPIP, strconv.Itoa(s.Params.InternalPort))
}

// Stop ends the switch: a request to shut down first, SIGKILL after 10 s.
func (s *Switch) Stop() error {
	var err error
	s.stop.Do(func() {
		if e := s.cmd.Process.Signal(syscall.SIGTERM); e != nil && !errors.Is(e, os.ErrProcessDone) {
			err = fmt.Errorf("stop freeswitch: %w", e)
		}
		select {
		case <-s.exited:
		case <-time.After(10 * time.Second):
			err = errors.Join(err, s.cmd.Process.Kill())
			<-s.exited
		}
	})
	return err
}

// Kill ends the switch at once, as a crash would.
func (s *Switch) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill freeswitch: %w", err)
	}
	<-s.exited
	return nil
}

// await polls until the event socket says that all SIP profiles run.
func (s *Switch) await(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("no answer yet")
	for {
		select {
		case <-s.exited:
			return fmt.Errorf("%w: %w", ErrExited, errors.Join(s.err, last))
		case <-ctx.Done():
			return fmt.Errorf("wait for freeswitch: %w (%w)", ctx.Err(), last)
		case <-tick.C:
			if last = s.probe(ctx); last == nil {
				return nil
			}
		}
	}
}

func (s *Switch) probe(ctx context.Context) error {
	c, err := esl.Dial(ctx, s.ESLAddr(), s.Params.ESLPassword, esl.Options{})
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // a probe's connection
	for _, profile := range []string{"external", "internal", "voice_agents"} {
		out, err := c.API(ctx, "sofia status profile "+profile)
		if err != nil {
			return err
		}
		if !bytes.Contains([]byte(out), []byte("RUNNING")) && !bytes.Contains([]byte(out), []byte("CALLS-IN")) {
			return fmt.Errorf("sip profile %s is not up", profile)
		}
	}
	return nil
}

// checkModules asks whether all modules are there that the configuration loads. mod_sofia, whose profiles are up by now, is the last.
func (s *Switch) checkModules(ctx context.Context) error {
	wanted, err := conf.Modules()
	if err != nil {
		return err
	}
	c, err := esl.Dial(ctx, s.ESLAddr(), s.Params.ESLPassword, esl.Options{})
	if err != nil {
		return fmt.Errorf("ask freeswitch for its modules: %w", err)
	}
	defer c.Close() //nolint:errcheck // a probe's connection
	var missing []string
	for _, name := range wanted {
		out, err := c.API(ctx, "module_exists "+name)
		if err != nil {
			return fmt.Errorf("ask freeswitch for its modules: %w", err)
		}
		if strings.TrimSpace(out) != "true" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s", ErrNoModule, strings.Join(missing, ", "))
	}
	return nil
}

// withPorts fills in the ports that were left to us, and the other defaults. The range of RTP ports is the switch's until it is let go.
func withPorts(ctx context.Context, p conf.Params) (conf.Params, rtpRange, error) {
	if p.ESLIP == "" {
		p.ESLIP = "127.0.0.1"
	}
	if p.SIPIP == "" {
		p.SIPIP = "127.0.0.1"
	}
	if len(p.CarrierNets) == 0 {
		p.CarrierNets = []string{"127.0.0.0/8"}
	}
	var lc net.ListenConfig
	for _, port := range []*int{&p.ESLPort, &p.ExternalPort, &p.InternalPort, &p.VoiceAgentsPort} {
		if *port != 0 {
			continue
		}
		l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return p, rtpRange{}, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close() //nolint:errcheck // held only so that the ports differ
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return p, rtpRange{}, errors.New("find a free port: no TCP address")
		}
		*port = addr.Port
	}
	if p.RTPStart != 0 {
		rtp, _ := lockRTPRange(ctx, p.RTPStart) // that of the switch before, or one that is none of ours
		return p, rtp, nil
	}
	rtp, err := takeRTPRange(ctx)
	p.RTPStart, p.RTPEnd = rtp.start, rtp.end()
	return p, rtp, err
}

// tail keeps the last output of the switch, for the error that says why it did not start. Safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 4096

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - tailBytes; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(b), nil
}

// String gives the output kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}
