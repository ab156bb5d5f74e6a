package call

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

const (
	linkMinPause = 100 * time.Millisecond
	linkMaxPause = 2 * time.Second
	linkPing     = 5 * time.Second

	// subscription names the events that calls are run by.
	subscription = "event plain " + fs.ChannelCreate + " " + fs.ChannelProgress + " " + fs.ChannelProgressMedia + " " + fs.ChannelAnswer + " " +
		fs.ChannelBridge + " " + fs.ChannelHangupComplete + " " + fs.ChannelDestroy + " " + fs.BackgroundJob + " " + fs.RecvInfo + " " + fs.Custom + " " +
		fs.SofiaRegister + " " + fs.SofiaUnregister + " " + fs.SofiaExpire
)

// hostLink is the inbound event socket of a switch host: one connection that the events come over, and one for commands
// whose output is waited for. The switch runs such a command in the thread that sends the connection's events, which would
// wait for it. Both live and die together. The link dials again for as long as it runs; every new pair is a generation,
// after which the calls are looked for afresh.
type hostLink struct {
	addr     string
	password string
	log      *slog.Logger
	clock    Clock
	metrics  *metrics
	// onEvent takes the events in the switch's order; onUp runs beside them after each connect.
	onEvent func(ev *esl.Event)
	onUp    func(ctx context.Context)
	onSkew  func(time.Duration) // may be nil
	// sight takes when the link comes and goes, and when the switch answers.
	sight *switchSight

	mu         sync.Mutex
	conn       *esl.Conn // of the events and of bgapi, which only starts a thread; nil while there is none
	commands   *esl.Conn // of api
	generation uint64
	jobs       map[string]func(body string, err error)

	skew clockSkew // for the goroutine that reads events
}

// run keeps the link up until ctx ends.
func (l *hostLink) run(ctx context.Context) {
	wait := linkMinPause
	for ctx.Err() == nil {
		started := l.clock.Now()
		err := l.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if l.clock.Now().Sub(started) > linkMaxPause {
			wait = linkMinPause
		}
		l.log.WarnContext(ctx, "no link to the switch, dialing again", "esl_addr", l.addr, "retry_in", wait, "error", err)
		done := make(chan struct{})
		t := l.clock.AfterFunc(wait, func() { close(done) })
		select {
		case <-done:
		case <-ctx.Done():
			t.Stop()
			return
		}
		wait = min(2*wait, linkMaxPause)
	}
}

// serve is one generation's life.
func (l *hostLink) serve(ctx context.Context) error {
	conn, err := esl.Dial(ctx, l.addr, l.password, esl.Options{OnEvent: l.event, Logger: l.log})
	if err != nil {
		return err
	}
	defer closeConn(conn)
	commands, err := esl.Dial(ctx, l.addr, l.password, esl.Options{Logger: l.log})
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
	l.sight.linkUp(generation, l.clock.Now())
	l.metrics.linkUp.Set(1)
	l.metrics.linkDials.Inc()
	l.log.InfoContext(ctx, "link to the switch is up", "esl_addr", l.addr, "generation", generation)
	defer l.down(conn, commands)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { l.onUp(ctx) })
	return l.watch(ctx, conn, commands)
}

func closeConn(conn *esl.Conn) {
	_ = conn.Close()
	<-conn.Done()
}

// watch pings the switch, so that a connection that is up in name only is noticed, until one of the two ends.
func (l *hostLink) watch(ctx context.Context, conn, commands *esl.Conn) error {
	for {
		tick := make(chan struct{})
		t := l.clock.AfterFunc(linkPing, func() { close(tick) })
		select {
		case <-conn.Done():
			t.Stop()
			l.sight.answer(l.clock.Now()) // it was there until now: a switch that dies closes its sockets
			return conn.Err()
		case <-commands.Done():
			t.Stop()
			l.sight.answer(l.clock.Now())
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
			l.sight.answer(l.clock.Now())
		}
	}
}

// down fails what waits for replies of the generation.
func (l *hostLink) down(conn, commands *esl.Conn) {
	l.mu.Lock()
	jobs := l.jobs
	l.jobs = nil
	l.conn, l.commands = nil, nil
	l.mu.Unlock()
	l.sight.linkDown()
	l.metrics.linkUp.Set(0)
	_, _ = conn.Close(), commands.Close()
	for _, done := range jobs {
		done("", errLinkLost)
	}
}

// errLinkLost: the link went down before the reply came.
var errLinkLost = errors.New("switchctl: link to the switch was lost before the reply")

func (l *hostLink) event(ev *esl.Event) {
	l.metrics.events.WithLabelValues(eventLabel(ev.Name())).Inc()
	if skew, ok := l.skew.note(ev, l.clock.Now()); ok && l.onSkew != nil {
		l.onSkew(skew)
	}
	if ev.Name() != fs.BackgroundJob {
		l.onEvent(ev)
		return
	}
	if done := l.takeJob(ev.Get("Job-UUID")); done != nil {
		done(ev.Body(), nil)
	}
}

func (l *hostLink) takeJob(id string) func(string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := l.jobs[id]
	delete(l.jobs, id)
	return done
}

func eventLabel(name string) string {
	switch name {
	case fs.ChannelCreate, fs.ChannelProgress, fs.ChannelProgressMedia, fs.ChannelAnswer, fs.ChannelBridge, fs.ChannelHangupComplete, fs.ChannelDestroy, fs.BackgroundJob, fs.RecvInfo, fs.Custom:
		return name
	}
	return "other"
}

// Generation implements switchLink.
func (l *hostLink) Generation() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		return 0
	}
	return l.generation
}

// API implements switchLink. What the command does may be seen as an event before its reply is.
func (l *hostLink) API(ctx context.Context, cmd fs.Command) (string, error) {
	l.mu.Lock()
	conn := l.commands
	l.mu.Unlock()
	if conn == nil {
		return "", switchctl.ErrLinkDown
	}
	return conn.API(ctx, cmd.String())
}

// Execute implements switchLink.
func (l *hostLink) Execute(ctx context.Context, channel, app, arg string) error {
	l.mu.Lock()
	conn := l.commands
	l.mu.Unlock()
	if conn == nil {
		return switchctl.ErrLinkDown
	}
	return conn.Execute(ctx, esl.ExecuteRequest{UUID: channel, App: app, Arg: arg})
}

// BgAPI implements switchLink. When the command was refused, or its own reply is lost, done is not called.
func (l *hostLink) BgAPI(ctx context.Context, cmd fs.Command, done func(body string, err error)) error {
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
		return switchctl.ErrLinkDown
	}
	if err := conn.BgAPI(ctx, cmd.String(), id); err != nil && l.takeJob(id) != nil {
		return err
	}
	return nil // done is, or was, called: by the reply, or by the link's end
}

// backgroundLimit bounds the wait for a background command: the event that tells of its end may be lost.
const backgroundLimit = time.Minute

// Background implements switchLink. Whoever waits no longer gives up the output alone: neither connection waits for it.
func (l *hostLink) Background(ctx context.Context, cmd fs.Command) (string, error) {
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
