package mediapath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
)

const (
	bridgeTimeout   = 5 * time.Second
	bypassTimeout   = time.Second
	takeBackTimeout = 2 * time.Second
	originateSlack  = 5 * time.Second
	// observed is how long the audio is watched in each mode.
	observed = time.Second
	// leastPackets of a second's fifty must come: loss, and a busy machine, are no fault of bypass.
	leastPackets = 25
	evBridge     = "CHANNEL_BRIDGE"
	evJob        = "BACKGROUND_JOB"
)

// ErrNotAnswered says that the test call did not come about, so that nothing is known of the trunk.
var ErrNotAnswered = errors.New("test call was not answered")

// ErrNoAudio says that no RTP came on the way that was tried.
var ErrNoAudio = errors.New("no audio from the carrier")

// ProbeRequest describes a test call.
type ProbeRequest struct {
	ESLAddr, ESLPassword string
	// Endpoint is the carrier's dial string, From the number that the callee sees.
	Endpoint, From string
	RingTimeout    time.Duration
	// MediaProfile is the switch's SIP profile towards the media endpoint, MediaAddr that endpoint's host:port, and Session the
	// session that takes the call there.
	MediaProfile, MediaAddr string
	Session                 *media.Session
	SessionID               string
}

// Step is one thing that a probe has tried.
type Step struct {
	Name   string        `json:"step"`
	OK     bool          `json:"ok"`
	Took   time.Duration `json:"-"`
	TookMS float64       `json:"took_ms"`
	// Detail tells what was seen.
	Detail string `json:"detail"`
}

// ProbeResult is what a probe has seen.
type ProbeResult struct {
	// Bypass: the trunk bears it. Failure says why not.
	Bypass  bool   `json:"bypass"`
	Failure string `json:"failure,omitempty"`
	Codec   string `json:"codec,omitempty"`
	Steps   []Step `json:"steps"`
}

// probe is one test call. The connection is its own, beside the controller's; its channels carry no variable that a
// controller knows calls by.
type probe struct {
	req     ProbeRequest
	conn    *esl.Conn
	caller  string
	leg     string
	result  ProbeResult
	bridged chan struct{}
	moved   chan media.LegMoved
	// from is where the audio came from after the last change; not valid before the first.
	from netip.AddrPort

	mu   sync.Mutex
	jobs map[string]chan string
}

// Probe dials a test call over a trunk, tries a re-INVITE while the audio goes through the switch, leads it past the switch
// and back, and tells what it saw. An error means that the trunk was not tried: ErrNotAnswered, or that the switch or the
// media endpoint can't be used.
func Probe(ctx context.Context, req ProbeRequest) (ProbeResult, error) {
	p := &probe{
		req: req, caller: uuid.NewString(), leg: uuid.NewString(), bridged: make(chan struct{}),
		moved: make(chan media.LegMoved, 16), jobs: map[string]chan string{},
	}
	var err error
	if p.conn, err = esl.Dial(ctx, req.ESLAddr, req.ESLPassword, esl.Options{OnEvent: p.event}); err != nil {
		return p.result, err
	}
	defer func() {
		_ = p.conn.Close() // nothing more is asked
		<-p.conn.Done()
	}()
	if _, err := p.conn.Command(ctx, "event plain "+evJob+" "+evBridge); err != nil {
		return p.result, err
	}
	defer p.hangup(context.WithoutCancel(ctx))
	watching := make(chan struct{})
	go func() { defer close(watching); p.watch() }()
	defer func() { //nolint:contextcheck // the leg's end is told, whatever became of the context
		req.Session.Close(media.CloseHangup)
		<-watching
	}()
	if err := p.connect(ctx); err != nil {
		return p.result, err
	}
	if err := p.try(ctx); err != nil {
		if ctx.Err() != nil {
			return p.result, context.Cause(ctx)
		}
		p.result.Failure = oneLine(err)
		return p.result, nil
	}
	p.result.Bypass = true
	return p.result, nil
}

// event takes the switch's events, on the connection's goroutine.
func (p *probe) event(ev *esl.Event) {
	switch ev.Name() {
	case evJob:
		p.mu.Lock()
		done := p.jobs[ev.Get("Job-UUID")]
		delete(p.jobs, ev.Get("Job-UUID"))
		p.mu.Unlock()
		if done != nil {
			done <- strings.TrimSpace(ev.Body())
		}
	case evBridge:
		if ev.UUID() == p.caller {
			select {
			case <-p.bridged:
			default:
				close(p.bridged)
			}
		}
	}
}

// watch passes on where the audio comes from.
func (p *probe) watch() {
	for ev := range p.req.Session.Events() {
		if moved, ok := ev.(media.LegMoved); ok {
			select {
			case p.moved <- moved:
			default: // nobody has waited for that many
			}
		}
	}
}

func (p *probe) hangup(ctx context.Context) {
	for _, channel := range []string{p.caller, p.leg} {
		// One that is gone already is what is wanted.
		_, _ = p.API(ctx, fs.Kill(channel, "NORMAL_CLEARING"))
	}
}

// step notes what was tried.
func (p *probe) step(name string, began time.Time, detail string, err error) error {
	took := time.Since(began)
	s := Step{Name: name, OK: err == nil, Took: took, TookMS: float64(took.Microseconds()) / 1000, Detail: detail}
	if err != nil {
		s.Detail = oneLine(err)
	}
	p.result.Steps = append(p.result.Steps, s)
	return err
}

// job runs a background command and waits for its reply.
func (p *probe) job(ctx context.Context, cmd fs.Command, timeout time.Duration) error {
	id, done := uuid.NewString(), make(chan string, 1)
	p.mu.Lock()
	p.jobs[id] = done
	p.mu.Unlock()
	if err := p.conn.BgAPI(ctx, cmd.String(), id); err != nil {
		return err
	}
	name := cmd.Name()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case body := <-done:
		if strings.HasPrefix(body, "-") {
			return &esl.ReplyError{Op: name, Text: body}
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%s: no reply of the switch in %s", name, timeout)
	case <-p.conn.Done():
		return fmt.Errorf("%s: %w", name, p.conn.Err())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// API implements [Switch].
func (p *probe) API(ctx context.Context, cmd fs.Command) (string, error) {
	return p.conn.API(ctx, cmd.String())
}

// originate dials a leg, parks it once it is answered, and waits for that.
func (p *probe) originate(ctx context.Context, v fs.Variables, endpoint string, timeout time.Duration) error {
	cmd, err := fs.Originate(v, endpoint, fs.Park)
	if err != nil {
		return err
	}
	return p.job(ctx, cmd, timeout)
}

// connect dials the carrier and the media endpoint, in the carrier's codec, and bridges them.
func (p *probe) connect(ctx context.Context) error {
	began := time.Now()
	err := p.originate(ctx, fs.Variables{
		"origination_uuid": p.caller, "ignore_early_media": "true", "originate_timeout": fs.RingSeconds(p.req.RingTimeout),
		"origination_caller_id_number": p.req.From, "origination_caller_id_name": p.req.From, "sip_copy_custom_headers": "false",
	}.With(fs.WhileBridged()...), p.req.Endpoint, p.req.RingTimeout+originateSlack)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotAnswered, p.step("call the number", began, "", err))
	}
	if p.result.Codec, err = variable(ctx, p, p.caller, "read_codec"); err != nil {
		return p.step("call the number", began, "", err)
	}
	_ = p.step("call the number", began, "answered in "+p.result.Codec, nil)
	began = time.Now()
	err = p.originate(ctx, fs.Variables{"origination_uuid": p.leg, "absolute_codec_string": p.result.Codec, "rtp_timer_name": "soft"},
		"sofia/"+p.req.MediaProfile+"/"+p.req.SessionID+"@"+p.req.MediaAddr, bridgeTimeout)
	if err == nil {
		err = p.job(ctx, fs.Bridge(p.caller, p.leg), bridgeTimeout)
	}
	if err == nil {
		err = p.await(ctx, p.bridged, bridgeTimeout, "CHANNEL_BRIDGE")
	}
	return p.step("bridge to the media endpoint", began, "bridged", err)
}

func (p *probe) await(ctx context.Context, done <-chan struct{}, timeout time.Duration, what string) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("no %s in %s", what, timeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// try takes the call past the switch and back.
func (p *probe) try(ctx context.Context) error {
	if p.result.Codec != "PCMU" && p.result.Codec != "PCMA" {
		return fmt.Errorf("the carrier uses codec %s; bypass needs PCMU or PCMA", p.result.Codec)
	}
	if err := p.listen(ctx, "audio through the switch"); err != nil {
		return err
	}
	began := time.Now()
	if err := p.step("re-INVITE that changes nothing", began, "accepted", Reinvite(ctx, p, p.caller)); err != nil {
		return err
	}
	if _, err := p.API(ctx, fs.SetVar(p.caller, "absolute_codec_string", p.result.Codec)); err != nil {
		return err
	}
	if err := p.change(ctx, "into bypass", fs.MediaOff(p.caller), bypassTimeout); err != nil {
		return err
	}
	if err := p.listen(ctx, "audio past the switch"); err != nil {
		return err
	}
	if _, err := p.API(ctx, fs.SetVar(p.caller, "bypass_media", "false")); err != nil {
		return err
	}
	if err := p.change(ctx, "out of bypass", fs.MediaOn(p.caller), takeBackTimeout); err != nil {
		return err
	}
	return p.listen(ctx, "audio through the switch again")
}

// change leads the audio on another way: the switch must say so, and the audio must come from there.
func (p *probe) change(ctx context.Context, name string, cmd fs.Command, timeout time.Duration) error {
	began := time.Now()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	p.forgetMoves()
	if err := p.job(ctx, cmd, timeout); err != nil {
		status, _ := variable(ctx, p, p.caller, "sip_invite_failure_status") // the failure stands without it
		if status != "" {
			err = fmt.Errorf("carrier refused the re-INVITE with %s: %w", status, err)
		}
		return p.step(name, began, "", err)
	}
	moved, err := p.awaitMove(ctx, deadline.C)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.step(name, began, fmt.Sprintf("audio from %s, gap %d ms", moved.Remote, moved.Gap.Milliseconds()), err)
}

// awaitMove waits for audio that comes from elsewhere than after the last change.
func (p *probe) awaitMove(ctx context.Context, deadline <-chan time.Time) (media.LegMoved, error) {
	for {
		select {
		case moved := <-p.moved:
			if moved.Remote == p.from {
				continue
			}
			p.from = moved.Remote
			return moved, nil
		case <-deadline:
			return media.LegMoved{}, ErrNoAudio
		case <-ctx.Done():
			return media.LegMoved{}, context.Cause(ctx)
		}
	}
}

// forgetMoves drops what was told of changes before the one that comes now.
func (p *probe) forgetMoves() {
	for {
		select {
		case moved := <-p.moved:
			p.from = moved.Remote
		default:
			return
		}
	}
}

// oneLine is an error's text without line breaks, for a list and a log.
func oneLine(err error) string { return strings.Join(strings.FieldsFunc(err.Error(), isBreak), "; ") }

func isBreak(r rune) bool { return r == '\n' || r == '\r' }

// listen counts what comes from the carrier for a second.
func (p *probe) listen(ctx context.Context, name string) error {
	began, before := time.Now(), p.req.Session.Stats().PacketsIn
	if err := p.await(ctx, make(chan struct{}), observed, ""); ctx.Err() != nil {
		return err
	}
	n := p.req.Session.Stats().PacketsIn - before
	var err error
	if n < leastPackets {
		err = fmt.Errorf("%w: %d packets in %s", ErrNoAudio, n, observed)
	}
	return p.step(name, began, fmt.Sprintf("%d packets in %s", n, observed), err)
}
