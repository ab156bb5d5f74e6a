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

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/hostlink"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
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
	recorder     string          // what uuid_record is refused with
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
	return l.answer(ctx, "background", cmd.String())
}

func (l *fakeLink) API(ctx context.Context, cmd fs.Command) (string, error) {
	if err := l.cut("api", cmd); err != nil {
		return "", err
	}
	text, err := l.answer(ctx, "api", cmd.String())
	l.mu.Lock()
	takes := map[string]time.Duration{"sofia": l.lookTakes, "conference": l.muteTakes, "uuid_bridge": l.bridgeTakes}[cmd.Name()]
	l.mu.Unlock()
	time.Sleep(takes) //nolint:forbidigo // the bubble's clock
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

// fakeGate admits everything, as the dialer's gate does: row and unit in one step.
type fakeGate struct {
	ledger *memLedger

	mu     sync.Mutex
	refuse error
	stall  bool // transfers get no answer
	routes []admission.Route
	amd    func() bool // nil is off
	env    string      // live when empty
	callee string      // in place of the request's number
	trunk  *uuid.UUID
}

func (g *fakeGate) detect(amd func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.amd = amd
}

func (g *fakeGate) environment(env string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.env = env
}

func (g *fakeGate) reaches(number string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.callee = number
}

func (g *fakeGate) set(refuse error, routes ...admission.Route) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse, g.routes = refuse, routes
}

func (g *fakeGate) Readmit(context.Context, ledger.Readmission, func(context.Context, *store.Tx) error) error {
	return nil
}

func (g *fakeGate) Admit(ctx context.Context, req admission.Request) (*admission.Admission, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stall && req.Purpose == admission.PurposeTransfer {
		g.mu.Unlock()
		<-ctx.Done()
		g.mu.Lock()
		return nil, ctx.Err()
	}
	if g.refuse != nil {
		return nil, g.refuse
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	adm := admission.Terms{
		Purpose: req.Purpose, UnitID: id, Privacy: store.PrivacyStandard, To: req.To, From: "+918000000001", RingTimeout: 20 * time.Second,
		Routes: g.routes,
	}
	if req.Purpose == admission.PurposeTransfer {
		g.ledger.unit(id, *req.ParentCallID)
		adm.Call = db.Call{TenantID: req.TenantID, ID: *req.ParentCallID}
		return admission.Grant(adm), nil
	}
	now := time.Now().UTC()
	adm.Call = db.Call{
		TenantID: req.TenantID, ID: id, FsUuid: id.String(), Node: "node-1", Direction: ledger.DirectionOutbound,
		Environment: cmp.Or(g.env, "live"), Status: ledger.StatusDialing, FromNumber: store.NewNumber("+918000000001"),
		ToNumber: store.NewNumber(cmp.Or(g.callee, req.To.E164())), DialTime: &now, CreatedAt: now, VoiceAgentID: req.VoiceAgentID, CampaignID: req.CampaignID,
	}
	adm.Call.Amd = g.amd != nil && g.amd()
	adm.Call.TrunkID = g.trunk
	g.ledger.open(adm.Call)
	return admission.Grant(adm), nil
}

// originate puts a call through the gate to the controller.
func originate(ctx context.Context, c *Controller, req admission.Request) (db.Call, error) {
	if err := c.CanOriginate(); err != nil {
		return db.Call{}, err
	}
	adm, err := c.gate.Admit(ctx, req)
	if err != nil {
		return db.Call{}, err
	}
	return c.Originate(ctx, adm)
}

// fakeHandler connects the voice agent, as the one node of a flow does.
type fakeHandler struct {
	trace *trace
	agent db.VoiceAgent
	// answered replaces the connecting when set.
	answered func(ctx context.Context, leg switchctl.Leg) error
	route    func(in switchctl.Inbound) (db.Call, error)
	queue    func(ctx context.Context, leg switchctl.Leg) error // nil: nobody is logged in
	// flow: it is a flow, which goes on with a person when the voice agent can't be reached. stall has CanQueue hang.
	flow, stall bool
}

func (h *fakeHandler) Route(_ context.Context, in switchctl.Inbound) (db.Call, error) {
	return h.route(in)
}

func (h *fakeHandler) Answered(ctx context.Context, leg switchctl.Leg) error {
	if h.answered != nil {
		return h.answered(ctx, leg)
	}
	outcome, err := leg.ConnectVoiceAgent(ctx, switchctl.VoiceConnect{Agent: h.agent, KeepCaller: h.flow})
	h.trace.add("handler %s %v", outcome, err)
	if h.flow && outcome == switchctl.OutcomeFailed && err == nil {
		<-ctx.Done()
	}
	return err
}

func (h *fakeHandler) WasAnswered(context.Context, *store.Tx, db.Call) error { return nil }

func (h *fakeHandler) Ended(context.Context, *store.Tx, db.Call) error { return nil }

func (h *fakeHandler) SetDisposition(_ context.Context, _ db.Call, disposition string, notes *string) error {
	text := "-"
	if notes != nil {
		text = *notes
	}
	h.trace.add("handler disposition %s notes %s", disposition, text)
	return nil
}

func (h *fakeHandler) SetLeadField(_ context.Context, _ db.Call, field string, value json.RawMessage) error {
	h.trace.add("handler lead field %s=%s", field, value)
	return nil
}

// SetLeadStatus refuses one status, as of a lead that may not be called again.
func (h *fakeHandler) SetLeadStatus(_ context.Context, _ db.Call, status string) error {
	if status == "retry" {
		return &fault.Error{Kind: fault.Conflict, Code: "lead_is_final", Detail: "The lead may not be called again."}
	}
	h.trace.add("handler lead status %s", status)
	return nil
}

func (h *fakeHandler) ScheduleCallback(_ context.Context, _ db.Call, c switchctl.Callback) error {
	if c.At.Year() < 2002 {
		return switchctl.InvalidControl("scheduled_at", "is over")
	}
	h.trace.add("handler callback at %s", c.At.UTC().Format(time.RFC3339))
	return nil
}

func (h *fakeHandler) RequestSupervisor(_ context.Context, _ db.Call, e switchctl.Escalation) (uuid.UUID, error) {
	h.trace.add("handler escalation %q urgency %s", e.Reason, e.Urgency)
	return e.ID, nil
}

func (h *fakeHandler) CanQueue(ctx context.Context, _ uuid.UUID, _ switchctl.QueueRequest) error {
	if h.stall {
		<-ctx.Done()
		return ctx.Err()
	}
	if h.queue == nil {
		return switchctl.ErrNobodyLoggedIn
	}
	return nil
}

func (h *fakeHandler) Queue(ctx context.Context, leg switchctl.Leg, req switchctl.QueueRequest) error {
	h.trace.add("queue %q extension %q", req.Queue, req.Extension)
	return h.queue(ctx, leg)
}

func (h *fakeHandler) JoinAgent(
	ctx context.Context, _ db.Call, extension string, connect func(ctx context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error),
) error {
	if extension == "1099" {
		return switchctl.ErrAgentBusy
	}
	out, err := connect(ctx, switchctl.AgentConnect{Phone: testPhone(phone.Held), RingTimeout: 20 * time.Second})
	h.trace.add("agent joined: %q %v", out, err)
	return err
}

func (h *fakeHandler) SupervisorPhone(_ context.Context, _ uuid.UUID, extension string) (phone.Spec, error) {
	spec := testPhone(phone.OnHook)
	spec.Extension = extension
	return spec, nil
}
