package hostlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

const (
	minPause  = 100 * time.Millisecond
	maxPause  = 2 * time.Second
	pingEvery = 5 * time.Second

	// subscription names the events that calls are run by.
	subscription = "event plain " + fs.ChannelCreate + " " + fs.ChannelProgress + " " + fs.ChannelProgressMedia + " " + fs.ChannelAnswer + " " +
		fs.ChannelBridge + " " + fs.ChannelHangupComplete + " " + fs.ChannelDestroy + " " + fs.BackgroundJob + " " + fs.RecordStart + " " + fs.RecvInfo + " " + fs.Custom + " " +
		fs.SofiaRegister + " " + fs.SofiaUnregister + " " + fs.SofiaExpire + " " + fs.ConferenceMaintenance // whatever follows CUSTOM is a subclass of it
)

// Link is the inbound event socket of a switch host: one connection that the events come over, and one for commands
// whose output is waited for. The switch runs such a command in the thread that sends the connection's events, which would
// wait for it. Both live and die together. The link dials again for as long as it runs; every new pair is a generation,
// after which the calls are looked for afresh.
type Link struct {
	Options

	mu         sync.Mutex
	conn       *esl.Conn // of the events and of bgapi, which only starts a thread; nil while there is none
	commands   *esl.Conn // of api
	generation uint64
	jobs       map[string]func(body string, err error)

	skew clockSkew // for the goroutine that reads events
}

// New makes a link. It does nothing before Run.
func New(o Options) *Link { return &Link{Options: o} }

// Options are what a link needs.
type Options struct {
	// Addr and Password reach the switch's inbound event socket.
	Addr     string
	Password string
	Log      *slog.Logger
	Clock    rt.Clock
	Metrics  Metrics
	// OnEvent takes the events in the switch's order; OnUp runs beside them after each connect.
	OnEvent func(ev *esl.Event)
	OnUp    func(ctx context.Context)
	// OnSkew, unless nil, takes by how much our clock is ahead of the switch's.
	OnSkew func(time.Duration)
	// Sight takes when the link comes and goes, and when the switch answers.
	Sight *Sight
}

// Run keeps the link up until ctx ends.
func (l *Link) Run(ctx context.Context) {
	wait := minPause
	for ctx.Err() == nil {
		started := l.Clock.Now()
		err := l.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.Clock.Now().Sub(started) > maxPause {
			wait = minPause
		}
		l.Log.WarnContext(ctx, "no link to the switch, connecting again", "esl_addr", l.Addr, "retry_in", wait, "error", err)
		done := make(chan struct{})
		t := l.Clock.AfterFunc(wait, func() { close(done) })
		select {
		case <-done:
		case <-ctx.Done():
			t.Stop()
			return
		}
		wait = min(2*wait, maxPause)
	}
}

// serve is one generation's life.
func (l *Link) serve(ctx context.Context) error {
	conn, err := esl.Dial(ctx, l.Addr, l.Password, esl.Options{OnEvent: l.event, Logger: l.Log})
	if err != nil {
		return err
	}
	defer closeConn(conn)
	commands, err := esl.Dial(ctx, l.Addr, l.Password, esl.Options{Logger: l.Log})
	if err != nil {
		return err
	}
	defer closeConn(commands)
	if _, err := conn.Command(ctx, subscription); err != nil {
		return err
	}
	l.mu.Lock()
	l.conn, l.commands = conn, commands
	l.generation++
	generation := l.generation
	l.jobs = map[string]func(string, error){}
	l.mu.Unlock()
	l.Sight.LinkUp(generation, l.Clock.Now())
	l.Metrics.up.Set(1)
	l.Metrics.dials.Inc()
	l.Log.InfoContext(ctx, "link to the switch is up", "esl_addr", l.Addr, "generation", generation)
	defer l.down(conn, commands)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { l.OnUp(ctx) })
	return l.watch(ctx, conn, commands)
}

func closeConn(conn *esl.Conn) {
	_ = conn.Close()
	<-conn.Done()
}

// watch pings the switch, so that a connection that is up in name only is noticed, until one of the two ends.
func (l *Link) watch(ctx context.Context, conn, commands *esl.Conn) error {
	for {
		tick := make(chan struct{})
		t := l.Clock.AfterFunc(pingEvery, func() { close(tick) })
		select {
		case <-conn.Done():
			t.Stop()
			l.Sight.Answer(l.Clock.Now()) // it was there until now: a switch that dies closes its sockets
			return conn.Err()
		case <-commands.Done():
			t.Stop()
			l.Sight.Answer(l.Clock.Now())
			return commands.Err()
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-tick:
			for _, c := range []*esl.Conn{conn, commands} {
				var refused *esl.ReplyError
				if _, err := c.API(ctx, fs.Exists(uuid.Nil.String()).String()); err != nil && !errors.As(err, &refused) {
					return err
				}
			}
			l.Sight.Answer(l.Clock.Now())
		}
	}
}

// down fails what waits for replies of the generation.
func (l *Link) down(conn, commands *esl.Conn) {
	l.mu.Lock()
	jobs := l.jobs
	l.jobs = nil
	l.conn, l.commands = nil, nil
	l.mu.Unlock()
	l.Sight.LinkDown()
	l.Metrics.up.Set(0)
	_, _ = conn.Close(), commands.Close()
	for _, done := range jobs {
		done("", ErrLost)
	}
}

// ErrLost says that the link went down before the reply came.
var ErrLost = errors.New("switchctl: link to the switch was lost before the reply")

func (l *Link) event(ev *esl.Event) {
	l.Metrics.events.WithLabelValues(eventLabel(ev.Name())).Inc()
	if skew, ok := l.skew.note(ev, l.Clock.Now()); ok && l.OnSkew != nil {
		l.OnSkew(skew)
	}
	if ev.Name() != fs.BackgroundJob {
		l.OnEvent(ev)
		return
	}
	if done := l.takeJob(ev.Get("Job-UUID")); done != nil {
		done(ev.Body(), nil)
	}
}

func (l *Link) takeJob(id string) func(string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := l.jobs[id]
	delete(l.jobs, id)
	return done
}

func eventLabel(name string) string {
	switch name {
	case fs.ChannelCreate, fs.ChannelProgress, fs.ChannelProgressMedia, fs.ChannelAnswer, fs.ChannelBridge, fs.ChannelHangupComplete, fs.ChannelDestroy, fs.BackgroundJob, fs.RecordStart, fs.RecvInfo, fs.Custom:
		return name
	}
	return "other"
}

// Generation counts the connections made; 0 while there is none.
func (l *Link) Generation() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return 0
	}
	return l.generation
}

// API implements [fs.Switch]. What the command does may be seen as an event before its reply is.
func (l *Link) API(ctx context.Context, cmd fs.Command) (string, error) {
	l.mu.Lock()
	conn := l.commands
	l.mu.Unlock()
	if conn == nil {
		return "", fs.ErrLinkDown
	}
	return conn.API(ctx, cmd.String())
}

// Execute has a channel run an application besides what it runs.
func (l *Link) Execute(ctx context.Context, channel, app, arg string) error {
	l.mu.Lock()
	conn := l.commands
	l.mu.Unlock()
	if conn == nil {
		return fs.ErrLinkDown
	}
	return conn.Execute(ctx, esl.ExecuteRequest{UUID: channel, App: app, Arg: arg})
}

// SendEvent sends the switch an event with these headers, and a body unless that is empty. One with the header unique-id goes to what that channel runs.
func (l *Link) SendEvent(ctx context.Context, name string, headers [][2]string, body string) error {
	l.mu.Lock()
	conn := l.commands
	l.mu.Unlock()
	if conn == nil {
		return fs.ErrLinkDown
	}
	return conn.SendEvent(ctx, name, headers, body)
}

// BgAPI sends a background command; done is called once with the reply, or with the error that kept it away. When the command was refused, or its own reply is lost, done is not called.
func (l *Link) BgAPI(ctx context.Context, cmd fs.Command, done func(body string, err error)) error {
	job, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	id := job.String()
	l.mu.Lock()
	conn := l.conn
	if conn != nil {
		l.jobs[id] = done
	}
	l.mu.Unlock()
	if conn == nil {
		return fs.ErrLinkDown
	}
	if err := conn.BgAPI(ctx, cmd.String(), id); err != nil && l.takeJob(id) != nil {
		return err
	}
	return nil // done is, or was, called: by the reply, or by the link's end
}

// backgroundLimit bounds the wait for a background command: the event that tells of its end may be lost.
const backgroundLimit = time.Minute

// Background implements [fs.Switch]. Whoever waits no longer gives up the output alone: neither connection waits for it.
func (l *Link) Background(ctx context.Context, cmd fs.Command) (string, error) {
	type output struct {
		body string
		err  error
	}
	op := cmd.Name()
	ctx, cancel := context.WithTimeoutCause(ctx, backgroundLimit, &esl.TimeoutError{Op: "bgapi " + op, After: backgroundLimit})
	defer cancel()
	got := make(chan output, 1)
	if err := l.BgAPI(ctx, cmd, func(body string, err error) { got <- output{body: body, err: err} }); err != nil {
		return "", err
	}
	select {
	case o := <-got:
		if o.err == nil && strings.HasPrefix(o.body, "-") {
			o.err = &esl.ReplyError{Op: "bgapi " + op, Text: strings.TrimSpace(o.body)}
		}
		return o.body, o.err
	case <-ctx.Done():
		return "", fmt.Errorf("wait for the switch to carry out %s: %w", op, context.Cause(ctx))
	}
}

// Metrics are those of a link.
type Metrics struct {
	up     prometheus.Gauge
	dials  prometheus.Counter
	events *prometheus.CounterVec // name: subscribed events, other
}

// NewMetrics makes them.
func NewMetrics() Metrics {
	return Metrics{
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "ringmaster", Name: "switch_link_up", Help: "1 while the switch's event socket is connected.",
		}),
		dials: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "ringmaster", Name: "switch_link_connects_total", Help: "Times that the link to the switch's event socket came up.",
		}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "ringmaster", Name: "switch_events_total", Help: "Events received on the host link, by name.",
		}, []string{"name"}),
	}
}

// Collectors are those to register.
func (m Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.up, m.dials, m.events}
}
