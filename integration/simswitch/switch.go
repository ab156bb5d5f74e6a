package simswitch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Switch is one simulated switch. New builds it, Start binds its sockets, Close ends every call and waits for all of it.
type Switch struct {
	cfg      Config
	log      *slog.Logger
	coreUUID string
	hostname string
	started  time.Time

	bus      *bus
	rtpPorts *portRange
	clock    *mediaClock
	profiles map[string]*sipProfile
	gateways map[string]Gateway
	globals  map[string]string
	esl      *eslServer

	registrar    *registrar
	conferences  *conferences
	commands     *commands
	applications map[string]appFunc

	mu       sync.Mutex
	channels map[string]*channel // guarded by mu
	closing  bool                // guarded by mu
	wg       sync.WaitGroup      // every goroutine of the switch but the SIP listeners
	requests atomic.Int64        // BYEs and CANCELs on their way

	sessions    atomic.Int64 // channels since the start
	peak        atomic.Int64
	eventSeq    atomic.Uint64
	stop        chan struct{}
	closeOnce   sync.Once
	closeResult error
}

// New returns a switch that isn't started yet.
func New(cfg Config) (*Switch, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure the simulated switch: %w", err)
	}
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "simswitch"
	}
	sw := &Switch{
		cfg: cfg, log: cfg.Logger, coreUUID: uuid.NewString(), hostname: hostname, started: time.Now(),
		rtpPorts: newPortRange(cfg.RTPIP, cfg.RTPPortMin, cfg.RTPPortMax),
		profiles: make(map[string]*sipProfile), gateways: make(map[string]Gateway),
		channels: make(map[string]*channel), stop: make(chan struct{}),
	}
	sw.commands = &commands{sw, apiTable()}
	maps.Copy(sw.commands.table, uuidTable())
	sw.applications = appTable()
	sw.bus = &bus{}
	sw.registrar = newRegistrar(sw)
	sw.conferences = &conferences{sw: sw, byName: make(map[string]*conference)}
	sw.clock = newMediaClock()
	for _, g := range cfg.Gateways {
		sw.gateways[g.Name] = g
	}
	sw.globals = map[string]string{
		"hostname": hostname, "local_ip_v4": cfg.RTPIP, "core_uuid": sw.coreUUID, "switchname": hostname,
		"domain": cfg.RTPIP, "recordings_dir": cfg.RecordDir, "sound_prefix": "", "switch_serial": "simulated",
		"rm_socket": cfg.SocketAddr, "force_transfer_context": referContext, "force_transfer_dialplan": "XML",
		"transfer_ringback": "%(400,200,400);%(400,2000,400)",
	}
	return sw, nil
}

// Start binds every socket and returns when the switch serves. The switch runs until Close, or until ctx ends.
func (sw *Switch) Start(ctx context.Context) error {
	if sw.cfg.CDRDir != "" {
		if err := os.MkdirAll(sw.cfg.CDRDir, 0o755); err != nil {
			return fmt.Errorf("create the call record directory: %w", err)
		}
	}
	for name, addr := range map[string]string{"external": sw.cfg.ExternalSIPAddr, "internal": sw.cfg.InternalSIPAddr, voiceAgents: sw.cfg.VoiceAgentsSIPAddr} {
		p, err := newSIPProfile(ctx, sw, name, addr)
		if err != nil {
			return errors.Join(fmt.Errorf("start SIP profile %s: %w", name, err), sw.Close())
		}
		sw.profiles[name] = p
	}
	esl, err := listenESL(ctx, sw, sw.cfg.ESLAddr)
	if err != nil {
		return errors.Join(fmt.Errorf("start the event socket: %w", err), sw.Close())
	}
	sw.esl = esl
	sw.goFunc(func() { sw.clock.run(sw.stop) })
	sw.goFunc(sw.heartbeats)
	sw.goFunc(sw.registrar.expireLoop)
	context.AfterFunc(ctx, func() { _ = sw.Close() })
	sw.log.Info("switch serves", "esl", sw.Addrs().ESL, "external", sw.Addrs().External, "internal", sw.Addrs().Internal)
	return nil
}

// Run starts a switch, tells its addresses to cfg.Ready, and serves until ctx ends.
func Run(ctx context.Context, cfg Config) error {
	sw, err := New(cfg)
	if err != nil {
		return err
	}
	if err := sw.Start(ctx); err != nil {
		return err
	}
	if cfg.Ready != nil {
		cfg.Ready(sw.Addrs())
	}
	<-sw.stop
	return sw.Close()
}

// Addrs tells the addresses that the started switch listens on.
func (sw *Switch) Addrs() Addrs {
	var a Addrs
	if sw.esl != nil {
		a.ESL = sw.esl.addr()
	}
	if p := sw.profiles["external"]; p != nil {
		a.External = p.addr
	}
	if p := sw.profiles["internal"]; p != nil {
		a.Internal = p.addr
	}
	return a
}

// Live is the number of channels that exist now.
func (sw *Switch) Live() int {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	return len(sw.channels)
}

// Close hangs up every channel, closes every socket and waits for all goroutines. It may be called more than once.
func (sw *Switch) Close() error {
	sw.closeOnce.Do(func() {
		sw.mu.Lock()
		sw.closing = true
		live := slices.Collect(maps.Values(sw.channels))
		sw.mu.Unlock()
		for _, ch := range live {
			ch.hangup(causeSystemShutdown)
		}
		for _, ch := range live {
			select {
			case <-ch.gone:
			case <-time.After(2 * time.Second):
				ch.control.abandonSocket()
				<-ch.gone
			}
		}
		sw.waitRequests(2 * time.Second)
		sw.mu.Lock()
		close(sw.stop)
		sw.mu.Unlock()
		var errs []error
		if sw.esl != nil {
			errs = append(errs, sw.esl.close())
		}
		sw.wg.Wait()
		for _, p := range sw.profiles {
			errs = append(errs, p.close())
		}
		sw.registrar.dir.close()
		sw.closeResult = errors.Join(errs...)
	})
	return sw.closeResult
}

// goFunc runs f in a goroutine that Close waits for. It is refused once the switch closes.
func (sw *Switch) goFunc(f func()) bool {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	select {
	case <-sw.stop:
		return false
	default:
	}
	sw.wg.Go(f)
	return true
}

// goRequest runs a last request of a dialog. Close gives those a moment before it stops the sockets.
func (sw *Switch) goRequest(f func()) {
	sw.requests.Add(1)
	if !sw.goFunc(func() { defer sw.requests.Add(-1); f() }) {
		sw.requests.Add(-1)
	}
}

// waitRequests waits until the last requests are answered, for d at most.
func (sw *Switch) waitRequests(d time.Duration) {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for sw.requests.Load() > 0 {
		select {
		case <-tick.C:
		case <-timeout.C:
			return
		}
	}
}

// channel finds a live channel.
func (sw *Switch) channel(id string) *channel {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	return sw.channels[id]
}

// allChannels returns the live channels, oldest first.
func (sw *Switch) allChannels() []*channel {
	sw.mu.Lock()
	list := slices.Collect(maps.Values(sw.channels))
	sw.mu.Unlock()
	slices.SortFunc(list, func(a, b *channel) int { return int(a.sessionID - b.sessionID) })
	return list
}

// register adds ch under its id. It fails when the id is taken or the switch closes.
func (sw *Switch) register(ch *channel) bool {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	if sw.closing || sw.channels[ch.uuid] != nil {
		return false
	}
	sw.channels[ch.uuid] = ch
	ch.sessionID = sw.sessions.Add(1)
	sw.peak.Store(max(sw.peak.Load(), int64(len(sw.channels))))
	return true
}

// unregister forgets ch.
func (sw *Switch) unregister(ch *channel) {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	if sw.channels[ch.uuid] == ch {
		delete(sw.channels, ch.uuid)
	}
}

// heartbeats raises HEARTBEAT events until the switch stops.
func (sw *Switch) heartbeats() {
	tick := time.NewTicker(sw.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-sw.stop:
			return
		case <-tick.C:
			sw.bus.fire(sw.heartbeatEvent())
		}
	}
}
