package call

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// supervisedSwitch is a switch whose phones pick up, listen and hang up as they are told.
type supervisedSwitch struct {
	*fakeLink
	dispatch func(ev *esl.Event)
	draw     func(n int) int

	mu   sync.Mutex
	legs map[string]*supervisedLeg // those that are up
}

type supervisedLeg struct {
	call string // that it listens to
	mux  fs.MuxMode
}

var (
	legUUID   = regexp.MustCompile(`origination_uuid=([0-9a-f-]{36})`)
	ledToCall = regexp.MustCompile(`^uuid_transfer ([0-9a-f-]{36}) '.*whisper_aleg=(\w+),set:eavesdrop_whisper_bleg=(\w+),.*rm_supervised_call=([0-9a-f-]{36}),`)
	aboutLeg  = regexp.MustCompile(`^(uuid_transfer|uuid_kill|uuid_dump) ([0-9a-f-]{36})`)
)

func (w *supervisedSwitch) tell(name, leg string, more ...string) {
	ev := esl.NewEvent(name)
	ev.Set("Unique-ID", leg)
	ev.Set("variable_rm_role", phone.Role)
	for i := 0; i+1 < len(more); i += 2 {
		ev.Set(more[i], more[i+1])
	}
	w.dispatch(ev)
}

// BgAPI dials: most phones pick up.
func (w *supervisedSwitch) BgAPI(_ context.Context, command fs.Command, done func(string, error)) error {
	cmd := command.String()
	switch leg := legUUID.FindStringSubmatch(cmd); {
	case w.Generation() == 0:
		return switchctl.ErrLinkDown
	case leg == nil || !regexp.MustCompile(`rm_role=agent`).MatchString(cmd):
		done("+OK", nil)
	case w.draw(6) == 0:
		done("-ERR NO_ANSWER", nil)
	default:
		w.mu.Lock()
		w.legs[leg[1]] = &supervisedLeg{mux: fs.MuxNobody}
		w.mu.Unlock()
		w.tell(fs.ChannelAnswer, leg[1])
		done("+OK", nil)
	}
	return nil
}

// API leads legs to calls and back, and ends them.
func (w *supervisedSwitch) API(ctx context.Context, command fs.Command) (string, error) {
	cmd := command.String()
	about := aboutLeg.FindStringSubmatch(cmd)
	w.mu.Lock()
	var leg *supervisedLeg
	if about != nil {
		leg = w.legs[about[2]]
	}
	if leg == nil || w.Generation() == 0 {
		w.mu.Unlock()
		return w.fakeLink.API(ctx, command)
	}
	text, over := "+OK", false
	switch about[1] {
	case "uuid_transfer":
		leg.call = ""
		if to := ledToCall.FindStringSubmatch(cmd); to != nil {
			leg.call, leg.mux = to[4], map[string]fs.MuxMode{"falsefalse": fs.MuxNobody, "truefalse": fs.MuxPartner, "truetrue": fs.MuxBoth}[to[2]+to[3]]
		}
	case "uuid_kill":
		over = true
		delete(w.legs, about[2])
	case "uuid_dump":
		app := map[bool]string{false: "playback", true: fs.EavesdropApp}[leg.call != ""]
		raw, err := json.Marshal(map[string]string{"Answer-State": "answered", "variable_current_application": app, "variable_rm_supervised_call": leg.call})
		if err != nil {
			panic(err)
		}
		text = string(raw)
	}
	w.mu.Unlock()
	if over {
		w.tell(fs.ChannelHangupComplete, about[2], "Hangup-Cause", "NORMAL_CLEARING", "variable_sip_hangup_disposition", "send_bye")
	}
	return text, nil
}

// SendEvent changes who hears a leg.
func (w *supervisedSwitch) SendEvent(ctx context.Context, name string, headers [][2]string, body string) error {
	if err := w.fakeLink.SendEvent(ctx, name, headers, body); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if leg := w.legs[headers[0][1]]; leg != nil && leg.call != "" {
		leg.mux = fs.MuxMode(headers[1][1][0])
	}
	return nil
}

// hangUp hangs one of the phones up, as its supervisor does.
func (w *supervisedSwitch) hangUp() {
	w.mu.Lock()
	var leg string
	for name := range w.legs {
		leg = max(leg, name)
	}
	delete(w.legs, leg)
	w.mu.Unlock()
	if leg != "" {
		w.tell(fs.ChannelHangupComplete, leg, "Hangup-Cause", "NORMAL_CLEARING", "variable_sip_hangup_disposition", "recv_bye")
	}
}

// TestSupervisionModel: whatever supervisors, phones and calls do, in any order, each session that says that it listens has a leg which does, in its
// mode; each leg is a session's; and in the end nothing is left.
func TestSupervisionModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { supervisionModel(t, rand.New(rand.NewPCG(seed, 5))) }) //nolint:gosec // a seeded model
		})
	}
}

func supervisionModel(t *testing.T, r *rand.Rand) {
	t.Helper()
	b := newBench(t)
	b.trace.off = true
	var mu sync.Mutex
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	w := &supervisedSwitch{fakeLink: b.link, dispatch: b.c.dispatch, draw: draw, legs: map[string]*supervisedLeg{}}
	b.c.link = w
	b.c.phones = phone.NewBook(phone.Host{
		NodeID: "node-1", Context: b.c.cfg.Context, Profile: b.c.cfg.MediaProfile, Link: w, CDRs: b.c.cdrs, Clock: b.c.clock, Log: b.c.log, Go: b.c.goes.Go,
		Metrics: b.c.metrics.phones, Panics: b.c.metrics.panics, Recovered: b.c.metrics.recovered, Draining: switchctl.ErrDraining,
	})
	b.c.phones.Accept(context.WithoutCancel(t.Context()))
	b.c.phones.Compared(w.Generation())
	var calls []db.Call
	modes := []switchctl.SupervisorMode{switchctl.SupervisorListens, switchctl.SupervisorWhispers, switchctl.SupervisorBarges}
	session := func(n int) switchctl.Supervision {
		s := b.testSupervision()
		s.ID[15], s.Phone.AgentID[15], s.Phone.Extension = byte(n), byte(n), strconv.Itoa(2000+n)
		s.Mode = modes[draw(3)]
		if s.CallID, s.Follows = uuid.Nil, draw(2) == 0; !s.Follows && len(calls) > 0 {
			s.CallID = calls[draw(len(calls))].ID
		}
		return s
	}
	aside := func(do func(ctx context.Context) error) {
		b.c.goes.Go(func() { _ = do(context.WithoutCancel(t.Context())) }) // what is refused is seen by what is not there
	}
	listened := 0
	for range 150 {
		s := session(draw(4))
		switch draw(9) {
		case 0:
			b.live()
			calls = append(calls, b.call)
		case 1, 2, 3:
			aside(func(ctx context.Context) error { return b.c.StartSupervision(ctx, s) })
		case 4:
			aside(func(ctx context.Context) error { return b.c.ChangeSupervision(ctx, s.ID, s.Mode) })
		case 5:
			if len(calls) > 0 {
				to := calls[draw(len(calls))].ID
				aside(func(ctx context.Context) error { return b.c.SuperviseCall(ctx, s.ID, to) })
			}
		case 6:
			aside(func(ctx context.Context) error { return b.c.EndSupervision(ctx, s.ID) })
		case 7:
			w.hangUp()
		case 8:
			if len(calls) > 1 {
				b.call, calls = calls[0], calls[1:]
				b.hangUp()
			}
		}
		if draw(2) == 0 { // others come in between
			synctest.Wait()
		}
		if draw(4) == 0 {
			time.Sleep(3 * time.Second) //nolint:forbidigo // the bubble's clock
			synctest.Wait()
			listened += w.compare(t, b.c.supervisors)
		}
	}
	for _, call := range calls {
		b.call = call
		b.hangUp()
	}
	b.c.supervisors.end()
	time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock
	synctest.Wait()
	require.Positive(t, listened, "the test has compared something")
	require.Empty(t, w.legs, "no leg is left on the switch")
	require.Empty(t, b.c.supervisors.sessions)
	require.Empty(t, b.c.phones.Legs())
	require.Empty(t, b.c.registry.all())
	b.c.phones.LetGo()
}

// compare holds the sessions against the legs, and tells how many listen.
func (w *supervisedSwitch) compare(t *testing.T, book *supervisors) (listened int) {
	t.Helper()
	owned := map[string]bool{}
	for _, s := range book.sessions {
		if s.leg == "" {
			continue
		}
		owned[s.leg] = true
		leg := w.legs[s.leg]
		require.NotNil(t, leg, "a session's leg is there")
		if s.phase == supervisionListening {
			listened++
			require.Equal(t, s.call.id.String(), leg.call)
			require.Equal(t, muxMode(s.mode), leg.mux)
			require.NotNil(t, s.c.registry.call(s.call.id), "the call lives")
		}
	}
	for name := range w.legs {
		require.True(t, owned[name], "each leg is a session's")
	}
	return listened
}

// live is a call that a voice agent has.
func (b *bench) live() {
	for _, line := range [][]string{{"dial"}, {"event", fs.ChannelCreate}, {"event", fs.ChannelAnswer}, {"socket", "up"}, {"media", "answered"}} {
		b.input(line)
		synctest.Wait()
	}
}

// hangUp is the far end's.
func (b *bench) hangUp() {
	b.input([]string{"event", fs.ChannelHangupComplete, "Hangup-Cause=NORMAL_CLEARING", "variable_sip_hangup_disposition=recv_bye"})
}
