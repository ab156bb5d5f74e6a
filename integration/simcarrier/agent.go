package simcarrier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emiago/sipgo"
	"github.com/emiago/sipgo/sip"
	"github.com/google/uuid"
)

// AgentBehaviour is what an agent's softphone does when it is called.
type AgentBehaviour string

// The behaviours of softphones.
const (
	// AgentTalks answers and talks until the switch hangs up, or for HangUpAfterMS.
	AgentTalks AgentBehaviour = "talks"
	// AgentNoAnswer rings until it is cancelled, whatever the INVITE asks.
	AgentNoAnswer AgentBehaviour = "no_answer"
	// AgentBusy refuses with 486.
	AgentBusy AgentBehaviour = "busy"
	// AgentRejects refuses with 603.
	AgentRejects AgentBehaviour = "rejects"
)

// AgentSpec is a softphone: its account, and how it behaves.
type AgentSpec struct {
	// Extension, Domain and Password are the account that a login gave.
	Extension string `json:"extension"`
	Domain    string `json:"domain"`
	Password  string `json:"password"`
	// Registrar is host:port of the switch's internal profile; Config.Registrar when empty.
	Registrar string `json:"registrar,omitempty"`
	// Voice is what the agent speaks with, without a pause; a tone that depends on the extension when empty.
	Voice string `json:"voice,omitempty"`
	// ExpiresS is the lifetime of a registration that is asked for; 120 by default. Half of it later the phone registers again.
	ExpiresS int `json:"expires_s,omitempty"`
	// Contact and Path are what a REGISTER says in place of where the phone is, as a hostile one does.
	Contact string `json:"contact,omitempty"`
	Path    string `json:"path,omitempty"`
	AgentManner
}

// AgentManner is the part of a softphone's behaviour that can be changed while it is registered; the next call follows it.
type AgentManner struct {
	Behaviour AgentBehaviour `json:"behaviour,omitempty"`
	// AnswerAfterMS is how long it rings when the INVITE doesn't ask to be answered at once; 1000 by default.
	AnswerAfterMS int `json:"answer_after_ms,omitempty"`
	// HangUpAfterMS ends an answered call; 0 never does.
	HangUpAfterMS int `json:"hang_up_after_ms,omitempty"`
}

// AgentState is a softphone as it stands.
type AgentState struct {
	Extension  string `json:"extension"`
	Domain     string `json:"domain"`
	Registered bool   `json:"registered"`
	// SIPStatus is the final status of the latest REGISTER, 0 when nobody answered it.
	SIPStatus    int        `json:"sip_status"`
	RegisteredAt *time.Time `json:"registered_at"`
	// Registrations counts those that were accepted.
	Registrations int    `json:"registrations"`
	Lost          bool   `json:"lost"`
	Voice         string `json:"voice"`
	AgentManner
	// Calls counts the INVITEs that came; Call is the report of the latest call, null before the first.
	Calls int     `json:"calls"`
	Call  *Report `json:"call"`
}

// ErrUnknownAgent says that no softphone has the extension asked for.
var ErrUnknownAgent = errors.New("no such agent")

// agent is a softphone. Its goroutine keeps it registered.
type agent struct {
	s         *Server
	extension string
	callID    string // of its REGISTERs
	kick      chan struct{}
	stop      chan struct{}
	done      chan struct{}
	once      sync.Once

	register sync.Mutex // one REGISTER at a time

	mu     sync.Mutex // guards what follows
	spec   AgentSpec
	voice  voiceSpec
	cseq   uint32
	status int
	valid  time.Time // of the registration; zero when there is none
	since  time.Time
	times  int
	lost   bool
	calls  int
	latest *call
}

const (
	defaultExpires = 120
	registerLimit  = 5 * time.Second
	defaultRinging = time.Second
	// registerAgain is how soon a REGISTER that failed is tried again.
	registerAgain = 2 * time.Second
	// networkLost is the reason in the report of a call that a softphone lost with its network.
	networkLost = "network lost"
)

var (
	agentExtension = regexp.MustCompile(`^[0-9A-Za-z_-]{1,32}$`)
	agentDomain    = regexp.MustCompile(`^[0-9A-Za-z.-]{1,255}$`)
)

// check fills in the defaults and reports every fault at once.
func (spec AgentSpec) check(registrar string) (AgentSpec, voiceSpec, error) {
	setDefault(&spec.Registrar, registrar)
	setDefault(&spec.ExpiresS, defaultExpires)
	setDefault(&spec.Voice, "tone:"+strconv.Itoa(agentHz(spec.Extension)))
	spec.AgentManner = spec.withDefaults()
	var errs []error
	if !agentExtension.MatchString(spec.Extension) {
		errs = append(errs, fmt.Errorf("%w: extension %q", ErrInvalidRequest, spec.Extension))
	}
	if !agentDomain.MatchString(spec.Domain) {
		errs = append(errs, fmt.Errorf("%w: domain %q", ErrInvalidRequest, spec.Domain))
	}
	if _, _, err := net.SplitHostPort(spec.Registrar); err != nil {
		errs = append(errs, fmt.Errorf("%w: registrar %q: %w", ErrInvalidRequest, spec.Registrar, err))
	}
	if spec.ExpiresS < 1 {
		errs = append(errs, fmt.Errorf("%w: expires_s %d", ErrInvalidRequest, spec.ExpiresS))
	}
	voice, err := parseVoice(spec.Voice)
	return spec, voice, errors.Join(append(errs, err, spec.AgentManner.check())...)
}

func (m AgentManner) withDefaults() AgentManner {
	setDefault(&m.Behaviour, AgentTalks)
	setDefault(&m.AnswerAfterMS, int(defaultRinging.Milliseconds()))
	return m
}

func (m AgentManner) check() error {
	switch m.Behaviour {
	case AgentTalks, AgentNoAnswer, AgentBusy, AgentRejects:
	default:
		return fmt.Errorf("%w: behaviour %q", ErrInvalidRequest, m.Behaviour)
	}
	if m.AnswerAfterMS < 0 || m.HangUpAfterMS < 0 {
		return fmt.Errorf("%w: a time is negative", ErrInvalidRequest)
	}
	return nil
}

// agentHz gives each extension a tone of its own among 50, 60 Hz apart and none of them a carrier's 425.
func agentHz(extension string) int {
	n, err := strconv.Atoi(digitsOf(extension))
	if err != nil {
		n = 0
	}
	return 550 + n%50*60
}

// run keeps the softphone registered until it is removed.
func (a *agent) run(ctx context.Context) {
	defer close(a.done)
	timer := time.NewTimer(a.nextRegister())
	defer timer.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-a.s.stop:
			return
		case <-a.kick:
		case <-timer.C:
			a.mu.Lock()
			lost := a.lost
			a.mu.Unlock()
			if !lost {
				if err := a.send(ctx, a.expires()); err != nil {
					a.s.log.Info("a softphone could not register", "extension", a.extension, "error", err)
				}
			}
		}
		timer.Reset(a.nextRegister())
	}
}

func (a *agent) expires() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spec.ExpiresS
}

// nextRegister is half of what is left of the registration, as phones do.
func (a *agent) nextRegister() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.valid.IsZero() {
		return registerAgain
	}
	return max(time.Until(a.valid)/2, 500*time.Millisecond)
}

// send registers for so many seconds, 0 takes the registration back.
func (a *agent) send(ctx context.Context, expires int) error {
	a.register.Lock()
	defer a.register.Unlock()
	ctx, cancel := context.WithTimeout(ctx, registerLimit)
	defer cancel()
	a.mu.Lock()
	spec := a.spec
	a.cseq++
	cseq := a.cseq
	a.mu.Unlock()
	req := a.s.registerRequest(spec, a.callID, cseq, expires)
	res, err := a.s.client.Do(ctx, req)
	if err == nil && res.StatusCode == sip.StatusUnauthorized {
		res, err = a.s.client.DoDigestAuth(ctx, req, res, sipgo.DigestAuth{Username: spec.Extension, Password: spec.Password})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cseq++ // the authenticated request has the next one
	if err != nil {
		a.status, a.valid = 0, time.Time{}
		return fmt.Errorf("register %s: %w", spec.Extension, errors.Join(ErrUnreachable, err))
	}
	a.status = res.StatusCode
	if !res.IsSuccess() || expires == 0 {
		a.valid = time.Time{}
		return nil
	}
	a.since = time.Now()
	a.times++
	a.valid = a.since.Add(grantedExpires(res, expires))
	return nil
}

// registerRequest asks the domain's registrar to send calls of the extension to us.
func (s *Server) registerRequest(spec AgentSpec, callID string, cseq uint32, expires int) *sip.Request {
	req := sip.NewRequest(sip.REGISTER, sip.Uri{Scheme: "sip", Host: spec.Domain})
	from := &sip.FromHeader{Address: sip.Uri{Scheme: "sip", User: spec.Extension, Host: spec.Domain}}
	from.Params.Add("tag", sip.GenerateTagN(16))
	id, hops := sip.CallIDHeader(callID), sip.MaxForwardsHeader(70)
	req.AppendHeader(from)
	req.AppendHeader(&sip.ToHeader{Address: from.Address})
	req.AppendHeader(&id)
	req.AppendHeader(&sip.CSeqHeader{SeqNo: cseq, MethodName: sip.REGISTER})
	req.AppendHeader(&hops)
	if spec.Contact != "" {
		req.AppendHeader(sip.NewHeader("Contact", "<"+spec.Contact+">"))
	} else {
		req.AppendHeader(s.contact(contactPrefix + spec.Extension))
	}
	if spec.Path != "" {
		req.AppendHeader(sip.NewHeader("Path", "<"+spec.Path+">"))
	}
	req.AppendHeader(sip.NewHeader("Expires", strconv.Itoa(expires)))
	req.AppendHeader(sip.NewHeader("User-Agent", "simcarrier softphone"))
	req.SetTransport("UDP")
	req.SetDestination(spec.Registrar)
	return req
}

// grantedExpires is how long the registrar keeps us: the contact's own parameter, or the header (RFC 3261 section 10.2.4).
func grantedExpires(res *sip.Response, asked int) time.Duration {
	seconds := asked
	if h := res.GetHeader("Expires"); h != nil {
		if n, err := strconv.Atoi(strings.TrimSpace(h.Value())); err == nil {
			seconds = n
		}
	}
	if c := res.Contact(); c != nil {
		if v, ok := c.Params.Get("expires"); ok {
			if n, err := strconv.Atoi(v); err == nil {
				seconds = n
			}
		}
	}
	return time.Duration(seconds) * time.Second
}

// plan is what a call to this softphone comes to.
func (a *agent) plan(req *sip.Request) plan {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := plan{agent: a, voice: a.voice, steady: true, hangUp: time.Duration(a.spec.HangUpAfterMS) * time.Millisecond}
	p.ring, p.rings = time.Duration(a.spec.AnswerAfterMS)*time.Millisecond, true
	if asksForAnswer(req) {
		p.ring = 0
	}
	switch a.spec.Behaviour {
	case AgentTalks:
	case AgentNoAnswer:
		p.rings = false
	case AgentBusy:
		p.refusal = 486
	case AgentRejects:
		p.refusal = 603
	}
	return p
}

// asksForAnswer knows the headers by which a phone is asked to answer at once: RFC 5373, and what phones took before it.
func asksForAnswer(req *sip.Request) bool {
	for name, marks := range map[string][]string{
		"Answer-Mode": {"auto"}, "Priv-Answer-Mode": {"auto"}, "P-Auto-Answer": {"normal"},
		"Call-Info":  {"answer-after=0"},
		"Alert-Info": {"auto-answer", "auto answer", "alert-autoanswer", "autoanswer", "ring answer", "ring-answer", "intercom"},
	} {
		for _, h := range req.GetHeaders(name) {
			value := strings.ToLower(h.Value())
			for _, mark := range marks {
				if strings.Contains(value, mark) {
					return true
				}
			}
		}
	}
	return false
}

// isLost tells whether the softphone's network is gone: nothing that is sent to it arrives.
func (a *agent) isLost() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lost
}

// noteCall keeps the latest call.
func (a *agent) noteCall(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	a.latest = c
}

// state is the softphone's, with its latest call's whole report.
func (a *agent) state() AgentState {
	out, latest := a.brief()
	if latest != nil {
		r := latest.snapshot()
		out.Call = &r
	}
	return out
}

// brief is the softphone's state, and its latest call.
func (a *agent) brief() (AgentState, *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := AgentState{
		Extension: a.spec.Extension, Domain: a.spec.Domain, Registered: time.Now().Before(a.valid), SIPStatus: a.status,
		Registrations: a.times, Lost: a.lost, Voice: a.spec.Voice, AgentManner: a.spec.AgentManner, Calls: a.calls,
	}
	if !a.since.IsZero() {
		since := a.since
		out.RegisteredAt = &since
	}
	return out, a.latest
}

func newAgentID() string { return uuid.NewString() }
