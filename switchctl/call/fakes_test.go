package call

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/hostlink"
)

// trace collects what a call makes its surroundings do.
type trace struct {
	mu    sync.Mutex
	lines []string
	off   bool // set before use
}

func (t *trace) add(format string, args ...any) {
	if t.off {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *trace) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := t.lines
	t.lines = nil
	return lines
}

// fakeLink is a switch that does nothing by itself.
type fakeLink struct {
	trace *trace

	mu           sync.Mutex
	generation   uint64
	next         uint64
	jobs         []fakeJob
	channels     map[string]string // uuid → uuid_dump
	onBgAPI      func(cmd string, done func(string, error))
	dump         func(channel string) (string, bool) // in place of channels
	reinvite     string                              // what a re-INVITE is refused with, or "silent"
	cseq         int
	recorder     string          // what uuid_record is refused with, or "silent": its reply never comes; "frozen": nor that to what is set before it
	sight        *hostlink.Sight // the controller's; a restart's too
	lookTakes    time.Duration   // of a look for a phone's registration
	muteTakes    time.Duration   // of a command on a conference
	bridgeTakes  time.Duration   // of a bridge that is waited for
	runs         string          // what each leg runs; silenceApp when empty
	lostDumps    int             // how many of the next uuid_dump are lost
	unregistered bool            // no account has a phone
	looks        int             // for phones' registrations
	loseEvents   bool            // those that are sent
	cutAt        string          // words of the command that the link ends behind, before its reply; empty for none
	cutLate      string          // as cutAt, and behind the reply
	cutHalf      bool            // only the connection that the command went over: the other one ends later
	conference   string          // json_list of the call's
	medialeg     string          // the media leg that was originated last
}

type fakeJob struct {
	cmd  string
	done func(string, error)
}

func (l *fakeLink) Generation() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generation
}

// cut ends the link behind a command, as was asked for: it is written, and nobody hears what comes of it.
func (l *fakeLink) cut(how string, cmd fs.Command) error {
	l.mu.Lock()
	cut, half := l.generation != 0 && l.cutAt != "" && strings.Contains(cmd.String(), l.cutAt), l.cutHalf
	if cut {
		l.cutAt = ""
	}
	l.mu.Unlock()
	if !cut {
		return nil
	}
	l.trace.add("%s %s", how, cmd)
	if !half {
		l.set(false)
	}
	return fmt.Errorf("wait for the switch's reply to %s: %w", cmd.Name(), esl.ErrDisconnected)
}

func (l *fakeLink) BgAPI(_ context.Context, command fs.Command, done func(string, error)) error {
	cmd := command.String()
	if m := mediaLegPattern.FindStringSubmatch(cmd); m != nil && l.Generation() != 0 {
		l.mu.Lock()
		l.medialeg = m[1]
		l.mu.Unlock()
	}
	if err := l.cut("bgapi", command); err != nil {
		return err
	}
	l.mu.Lock()
	up, hook := l.generation != 0, l.onBgAPI
	if up && hook == nil {
		l.jobs = append(l.jobs, fakeJob{cmd: cmd, done: done})
	}
	l.mu.Unlock()
	if !up {
		return switchctl.ErrLinkDown
	}
	l.trace.add("bgapi %s", cmd)
	if hook != nil {
		hook(cmd, done)
	}
	return nil
}

func (l *fakeLink) Execute(_ context.Context, channel, app, arg string) error {
	if l.Generation() == 0 {
		return switchctl.ErrLinkDown
	}
	l.trace.add("execute on %s: %s %s", channel, app, arg)
	return nil
}

func (l *fakeLink) SendEvent(_ context.Context, name string, headers [][2]string, body string) error {
	l.mu.Lock()
	up, lose := l.generation != 0, l.loseEvents
	l.mu.Unlock()
	if !up {
		return switchctl.ErrLinkDown
	}
	if lose {
		return hostlink.ErrLost
	}
	words := []string{"sendevent", name}
	for _, h := range headers {
		words = append(words, h[0]+"="+h[1])
	}
	if body != "" {
		words = append(words, strings.TrimSpace(body))
	}
	l.trace.add("%s", strings.Join(words, " "))
	return nil
}

// Background is API in a thread of the switch's own.
func (l *fakeLink) Background(ctx context.Context, cmd fs.Command) (string, error) {
	if err := l.cut("background", cmd); err != nil {
		return "", err
	}
	text, err := l.answer(ctx, "background", cmd.String())
	l.mu.Lock()
	silent := err == nil && cmd.Name() == "uuid_record" && (l.recorder == "silent" || l.recorder == "frozen")
	l.mu.Unlock()
	if silent {
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // as the link does
		defer cancel()
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	return text, err
}

func (l *fakeLink) API(ctx context.Context, cmd fs.Command) (string, error) {
	if err := l.cut("api", cmd); err != nil {
		return "", err
	}
	text, err := l.answer(ctx, "api", cmd.String())
	l.mu.Lock()
	frozen := err == nil && l.recorder == "frozen" && strings.Contains(cmd.String(), "RECORD_STEREO")
	takes := map[string]time.Duration{"sofia": l.lookTakes, "conference": l.muteTakes, "uuid_bridge": l.bridgeTakes}[cmd.Name()]
	l.mu.Unlock()
	time.Sleep(takes) //nolint:forbidigo // the bubble's clock
	if frozen {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	l.mu.Lock()
	late := err == nil && l.cutLate != "" && strings.Contains(cmd.String(), l.cutLate)
	if late {
		l.cutLate = ""
	}
	l.mu.Unlock()
	if late {
		l.set(false)
	}
	return text, err
}

func (l *fakeLink) answer(_ context.Context, how, cmd string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation == 0 {
		return "", switchctl.ErrLinkDown
	}
	name, args, _ := strings.Cut(cmd, " ")
	switch name {
	case "xml_flush_cache":
		l.trace.add("%s %s", how, cmd)
		return "+OK cleared 1 entry\n", nil
	case "uuid_dump":
		if l.lostDumps > 0 {
			l.lostDumps--
			return "", hostlink.ErrLost
		}
		channel, _, _ := strings.Cut(args, " ")
		if l.dump != nil {
			if text, ok := l.dump(channel); ok {
				return text, nil
			}
		}
		if text, ok := l.channels[channel]; ok {
			return text, nil
		}
		return "", &esl.ReplyError{Text: "-ERR No such channel!"}
	case "conference":
		if strings.HasSuffix(args, " json_list") {
			if l.conference == "" {
				return "-ERR Conference not found\n", nil
			}
			return l.conference, nil
		}
	case "show":
		rows := []map[string]string{}
		for channel := range l.channels {
			rows = append(rows, map[string]string{"uuid": channel})
		}
		raw, err := json.Marshal(map[string]any{"row_count": len(rows), "rows": rows})
		return string(raw), err
	case "uuid_getvar":
		return l.getvar(args), nil
	case "sofia":
		if account, ok := strings.CutPrefix(args, "xmlstatus profile internal user "); ok {
			return l.registration(account), nil
		}
	case "global_getvar":
		return "", &esl.ReplyError{Text: "-ERR no such variable"}
	}
	if name == "uuid_media_reneg" && l.reinvite == "" {
		l.cseq++
	}
	l.trace.add("%s %s", how, cmd)
	if name == "uuid_record" && strings.HasPrefix(l.recorder, "-") {
		return "", &esl.ReplyError{Text: l.recorder}
	}
	return "+OK", nil
}

// registration is where every account has registered. The caller holds mu.
func (l *fakeLink) registration(account string) string {
	l.looks++
	if l.unregistered {
		return "<registrations>\n</registrations>"
	}
	user, _, _ := strings.Cut(account, "@")
	return "<registrations>\n<registration><user>" + account + "</user><contact>&quot;&quot; &lt;sip:phone-" + user + "@10.0.0.9:5062&gt;</contact>" +
		"<status>Registered(UDP)(unknown) exp() expsecs(60)</status><network-ip>10.0.0.9</network-ip><network-port>5062</network-port>" +
		"</registration></registrations>"
}

// getvar tells how the last re-INVITE has gone. The caller holds mu.
func (l *fakeLink) getvar(args string) string {
	switch _, name, _ := strings.Cut(args, " "); {
	case name == "sip_cseq":
		return strconv.Itoa(l.cseq)
	case name == "current_application":
		return cmp.Or(l.runs, silenceApp)
	case name == "sip_invite_failure_status" && l.reinvite != "" && l.reinvite != "silent":
		return l.reinvite
	}
	return "_undef_"
}

// reply answers the oldest job whose command begins with name.
func (l *fakeLink) reply(name, body string) bool {
	return l.replyTo(func(cmd string) bool { return strings.HasPrefix(cmd, name) }, body)
}

// placed ends the originate of a leg, if it is still under way: the leg is up.
func (l *fakeLink) placed(leg string) {
	l.replyTo(func(cmd string) bool {
		return strings.HasPrefix(cmd, "originate ") && strings.Contains(cmd, "origination_uuid="+leg)
	}, "+OK "+leg)
}

// replyTo answers the oldest job whose command is one of those.
func (l *fakeLink) replyTo(is func(cmd string) bool, body string) bool {
	l.mu.Lock()
	var found *fakeJob
	for i, job := range l.jobs {
		if is(job.cmd) {
			found = &job
			l.jobs = append(l.jobs[:i:i], l.jobs[i+1:]...)
			break
		}
	}
	l.mu.Unlock()
	if found == nil {
		return false
	}
	found.done(body, nil)
	return true
}

func (l *fakeLink) set(up bool) {
	l.mu.Lock()
	jobs := l.jobs
	l.jobs = nil
	if up {
		l.next++
		l.generation = l.next
		l.sight.LinkUp(l.next, time.Now())
	} else {
		l.generation = 0
		l.sight.Answer(time.Now())
		l.sight.LinkDown()
	}
	l.mu.Unlock()
	for _, job := range jobs {
		job.done("", hostlink.ErrLost)
	}
}

func (l *fakeLink) setChannel(channel, dump string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if dump == "" {
		delete(l.channels, channel)
		return
	}
	l.channels[channel] = dump
}

func (l *fakeLink) looked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looks
}

// crash makes the switch another process than before.
func (l *fakeLink) crash() { l.sight.Process(uuid.NewString()) }

// fakeSocket is a caller's outbound socket.
type fakeSocket struct {
	trace *trace
	done  chan struct{}
	once  sync.Once

	mu      sync.Mutex
	bridged string
	played  string // Event-UUID of the newest playback
	handler func(*esl.Event)
}

func newFakeSocket(t *trace) *fakeSocket { return &fakeSocket{trace: t, done: make(chan struct{})} }

func (s *fakeSocket) Execute(_ context.Context, req esl.ExecuteRequest) error {
	s.trace.add("execute %s %s", req.App, req.Arg)
	if req.App == "bridge" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.bridged = between(req.Arg, "origination_uuid=")
	}
	if req.App == "playback" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.played = req.EventUUID
	}
	return nil
}

// leg is the channel that the last bridge was to make.
func (s *fakeSocket) leg() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bridged
}

// Handle keeps who hears what a test has the socket say.
func (s *fakeSocket) Handle(fn func(*esl.Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = fn
}

func (s *fakeSocket) Command(_ context.Context, text string, _ ...esl.Field) (esl.Reply, error) {
	s.trace.add("socket %s", text)
	return esl.Reply{}, nil
}

// say brings an event of the socket's own.
func (s *fakeSocket) say(ev *esl.Event) {
	s.mu.Lock()
	fn := s.handler
	s.mu.Unlock()
	if fn != nil {
		fn(ev)
	}
}

func (s *fakeSocket) Done() <-chan struct{} { return s.done }

func (s *fakeSocket) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}
