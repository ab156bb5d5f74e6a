package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/media"
	"github.com/ringmaster/ringmaster/media/amd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/switchctl"
	rt "github.com/ringmaster/ringmaster/switchctl/actor"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/esl"
	"github.com/ringmaster/ringmaster/switchctl/fs"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// TestHundredThousandCallsLeaveNoUnit runs 100,000 calls against a switch, a carrier, voice agents, a database and a link
// that fail at random, in a bubble's time, and looks at the ledger of ceilings when the last one has ended.
func TestHundredThousandCallsLeaveNoUnit(t *testing.T) {
	t.Parallel()
	const hosts, lines = 4, 300
	calls := 100_000 / hosts
	if testing.Short() || raceEnabled { // whole in `make bench`
		calls = 5_000 / hosts
	}
	for host := range uint64(hosts) {
		t.Run("host "+strconv.FormatUint(host, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { simulate(t, 20261121+host, calls, lines) })
		})
	}
}

// simulate runs the calls of one host, so many at a time as it has lines.
func simulate(t *testing.T, seed uint64, calls, lines int) {
	t.Helper()
	s := newSimulation(t, seed)
	var dialed, refused atomic.Int64
	var workers sync.WaitGroup
	for range lines {
		workers.Go(func() {
			for dialed.Add(1) <= int64(calls) {
				for !s.oneCall() {
					refused.Add(1)
				}
			}
		})
	}
	stop := make(chan struct{})
	faults := s.faults(stop)
	workers.Wait()
	close(stop)
	<-faults
	s.sweep()
	require.Zero(t, s.b.ledger.unitCount(), "units that no call gave back")
	require.Zero(t, s.b.c.Live())
	require.Len(t, s.b.ledger.calls, calls)
	require.Equal(t, calls, s.b.ledger.closes, "each call is closed once")
	s.checkEvents(t)
	require.NotZero(t, s.taken.Load())
	t.Logf("%d calls closed, %d refusals before dialing, %d taken away, outcomes %v", s.b.ledger.closes, refused.Load(), s.taken.Load(), s.outcomes())
}

// simulation is a switch whose carrier, voice agents and links fail at random.
type simulation struct {
	b *bench

	mu       sync.Mutex
	rnd      *rand.Rand
	channels map[string]*simChannel
	to       store.Phone
	// taken counts the callers whom a supervisor has given to somebody.
	taken atomic.Int64
}

// simChannel is one channel of the switch.
type simChannel struct {
	id, callID, role string
	kill             chan string
	other            chan string // uuid_bridge with that channel
	attach           chan struct{}
	answered         time.Time
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	t.Helper()
	b := newBench(t)
	b.trace.off = true
	to, err := store.ParsePhone("9876543210")
	require.NoError(t, err)
	s := &simulation{b: b, rnd: rand.New(rand.NewPCG(seed, 1)), channels: map[string]*simChannel{}, to: to} //nolint:gosec // reproducible
	b.link.onBgAPI = s.command
	b.link.dump = s.dump
	b.media.hook = s.voiceAgent
	b.handler.queue = s.queue
	b.gate.detect(func() bool { return s.chance(50) })
	b.gate.set(nil, admission.Route{Endpoint: "sofia/external/+919876543210@10.0.0.1"}, admission.Route{Endpoint: "sofia/external/+919876543210@10.0.0.2"})
	return s
}

func (s *simulation) chance(percent int) bool { return s.n(100) < percent }

func (s *simulation) n(limit int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(limit)
}

// wait sleeps for less than limit, in steps that let many calls wake at once: the bubble's clock is dear to turn.
func (s *simulation) wait(limit time.Duration) {
	const step = 500 * time.Millisecond
	time.Sleep(time.Duration(s.n(int(limit/step)+1)) * step) //nolint:forbidigo // the bubble's clock
}

// queue has a caller wait for an agent who doesn't come.
func (s *simulation) queue(ctx context.Context, leg switchctl.Leg) error {
	if err := leg.StartMusic(ctx, ""); err != nil {
		return err
	}
	return rt.Pause(ctx, s.b.c.clock, time.Duration(1+s.n(10))*time.Second)
}

// oneCall dials and waits for the end of it.
func (s *simulation) oneCall() bool {
	agent := s.b.handler.agent.ID
	call, err := originate(s.b.t.Context(), s.b.c, admission.Request{
		TenantID: s.b.tenant, To: s.to, Purpose: admission.PurposeLead, VoiceAgentID: &agent, Environment: "live",
	})
	if err != nil {
		s.wait(2 * time.Second)
		return false
	}
	if a := s.b.c.registry.call(call.ID); a != nil {
		for s.chance(30) { // a supervisor gives the caller to somebody, and perhaps to somebody else then
			s.wait(20 * time.Second)
			if s.b.c.ForceTransfer(s.b.t.Context(), s.b.tenant, call.ID, strconv.Itoa(1001+s.n(9))) == nil {
				s.taken.Add(1)
			}
		}
		if s.chance(3) {
			s.wait(20 * time.Second)
			_ = s.b.c.Hangup(s.b.t.Context(), s.b.tenant, call.ID, ledger.CauseNormalClearing) // it may be over
		}
		<-a.done
	}
	return true
}

// faults take the link and the database away, now and then.
func (s *simulation) faults(stop <-chan struct{}) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(4 * time.Minute):
			}
			s.b.link.set(false)
			s.wait(10 * time.Second)
			s.b.link.set(true)
			s.b.c.resync(s.b.t.Context())
			s.wait(2 * time.Minute)
			s.b.ledger.setAway(true)
			s.wait(10 * time.Second)
			s.b.ledger.setAway(false)
		}
	}()
	return done
}

// sweep finds what a fault has left, as the node's own look at its open rows does.
func (s *simulation) sweep() {
	time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
	adopted, err := s.b.c.adopt(s.b.t.Context(), 0)
	require.NoError(s.b.t, err)
	require.Empty(s.b.t, adopted, "calls without an actor")
}

// checkEvents: a call that was answered says so once and before all else, one that was not never does.
func (s *simulation) checkEvents(t *testing.T) {
	t.Helper()
	require.Empty(t, s.b.ledger.held, "events that nobody released")
	decided := map[string]int{}
	for id, call := range s.b.ledger.calls {
		events := s.b.ledger.outbox[id]
		answers := 0
		for _, e := range events {
			if strings.HasPrefix(e, "call.answered") {
				answers++
			}
		}
		if call.AnswerTime == nil {
			require.Zero(t, answers, "%v", events)
			continue
		}
		require.Equal(t, 1, answers, "%v", events)
		require.Equal(t, "call.answered "+*call.AnsweredByAmd, events[0], "%v", events)
		require.True(t, strings.HasPrefix(events[len(events)-1], "call.ended"), "%v", events)
		decided[*call.AnsweredByAmd]++
	}
	require.NotZero(t, decided[ledger.AnsweredByHuman])
	require.NotZero(t, decided[ledger.AnsweredByMachine])
}

func (s *simulation) outcomes() map[string]int {
	count := map[string]int{}
	for _, call := range s.b.ledger.calls {
		count[call.Status+" "+*call.HangupCause]++
	}
	return count
}

// command is what the switch does with a background command.
func (s *simulation) command(cmd string, done func(string, error)) {
	words := strings.Fields(cmd)
	switch words[0] {
	case "originate":
		go s.originate(cmd, done)
	case "uuid_kill":
		s.signal(words[1], done, func(ch *simChannel) chan string { return ch.kill }, words[2])
	case "uuid_bridge":
		if s.chance(5) {
			done("-ERR Invalid uuid\n", nil)
			return
		}
		s.signal(words[1], done, func(ch *simChannel) chan string { return ch.other }, words[2])
	case "uuid_transfer":
		s.mu.Lock()
		ch := s.channels[words[1]]
		s.mu.Unlock()
		if ch == nil {
			done("-ERR No such channel!\n", nil)
			return
		}
		select {
		case ch.attach <- struct{}{}:
		default:
		}
		done("+OK\n", nil)
	default:
		done("+OK Success\n", nil)
	}
}

func (s *simulation) signal(channel string, done func(string, error), pick func(*simChannel) chan string, value string) {
	s.mu.Lock()
	ch := s.channels[channel]
	s.mu.Unlock()
	if ch == nil {
		done("-ERR No such channel!\n", nil)
		return
	}
	select {
	case pick(ch) <- value:
	default:
	}
	done("+OK\n", nil)
}

func (s *simulation) dump(channel string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.channels[channel]
	if ch == nil {
		return "", false
	}
	state := "ringing"
	if !ch.answered.IsZero() {
		state = "answered"
	}
	return `{"Unique-ID":"` + ch.id + `","Answer-State":"` + state + `","Caller-Channel-Answered-Time":"` + micros(ch.answered) +
		`","variable_rm_node":"node-1","variable_rm_call_id":"` + ch.callID + `","variable_rm_role":"` + ch.role + `"}`, true
}

// tell brings an event, once or twice, unless the link is down or its words are lost.
func (s *simulation) tell(ch *simChannel, name string, created time.Time, headers ...string) {
	if s.b.link.Generation() == 0 {
		return
	}
	ev := esl.NewEvent(name)
	ev.Set("Unique-ID", ch.id)
	ev.Set("variable_rm_call_id", ch.callID)
	ev.Set("variable_rm_role", ch.role)
	ev.Set("Event-Date-Timestamp", micros(time.Now()))
	ev.Set("Caller-Channel-Created-Time", micros(created))
	s.mu.Lock()
	ev.Set("Caller-Channel-Answered-Time", micros(ch.answered))
	s.mu.Unlock()
	for i := 0; i+1 < len(headers); i += 2 {
		ev.Set(headers[i], headers[i+1])
	}
	s.b.c.dispatch(ev)
	if s.chance(5) {
		s.b.c.dispatch(ev)
	}
}

func between(text, after string) string {
	_, rest, _ := strings.Cut(text, after)
	end := strings.IndexAny(rest, ",}")
	if end < 0 {
		return ""
	}
	return rest[:end]
}

// originate is a channel's life.
func (s *simulation) originate(cmd string, done func(string, error)) {
	if s.chance(10) {
		done("-ERR INVALID_GATEWAY\n", nil)
		return
	}
	ch := &simChannel{
		id: between(cmd, "origination_uuid="), callID: between(cmd, "rm_call_id="), role: between(cmd, "rm_role="),
		kill: make(chan string, 1), other: make(chan string, 1), attach: make(chan struct{}, 1),
	}
	created := time.Now()
	s.mu.Lock()
	s.channels[ch.id] = ch
	s.mu.Unlock()
	s.tell(ch, fs.ChannelCreate, created)
	failures := [][3]string{
		{"USER_BUSY", "486", "recv_refuse"},
		{"NORMAL_TEMPORARY_FAILURE", "503", "recv_refuse"},
		{"RECOVERY_ON_TIMER_EXPIRE", "408", "recv_refuse"},
		{"UNALLOCATED_NUMBER", "404", "recv_refuse"},
	}
	switch {
	case s.chance(50):
		f := failures[s.n(len(failures))]
		done("-ERR "+f[0]+"\n", nil)
		s.hangup(ch, created, f[0], f[1], f[2])
		return
	case s.chance(30):
		s.tell(ch, fs.ChannelProgress, created)
		cause, disposition := s.await(ch, 21*time.Second, "NO_ANSWER")
		done("-ERR "+cause+"\n", nil)
		s.hangup(ch, created, cause, "487", disposition)
		return
	}
	s.wait(3 * time.Second)
	s.mu.Lock()
	ch.answered = time.Now()
	s.mu.Unlock()
	s.tell(ch, fs.ChannelAnswer, created)
	done("+OK "+ch.id+"\n", nil)
	s.talk(ch, created)
}

// await waits until the channel is killed, or for d.
func (s *simulation) await(ch *simChannel, d time.Duration, cause string) (string, string) {
	select {
	case killed := <-ch.kill:
		return killed, "send_cancel"
	case <-time.After(d):
		return cause, "send_cancel"
	}
}

// talk is an answered channel until somebody ends it.
func (s *simulation) talk(ch *simChannel, created time.Time) {
	var sock *fakeSocket
	attach := func() {
		a := s.b.c.registry.find(ch.id, "")
		if a == nil || ch.role != roleCaller {
			return
		}
		if sock != nil {
			_ = sock.Close()
			a.post(socketDown{sock: sock})
		}
		sock = newFakeSocket(s.b.trace)
		ev := esl.NewEvent("CHANNEL_DATA")
		ev.Set("Caller-Channel-Answered-Time", micros(ch.answered))
		a.post(socketUp{sock: sock, ev: ev})
	}
	if !s.chance(5) {
		attach()
	}
	leaves := time.After(time.Duration(1+s.n(40)) * time.Second)
	for {
		select {
		case cause := <-ch.kill:
			s.hangup(ch, created, cause, "200", "send_bye")
			return
		case <-leaves:
			s.hangup(ch, created, ledger.CauseNormalClearing, "200", "recv_bye")
			return
		case <-ch.attach:
			attach()
		case other := <-ch.other:
			if !s.chance(5) {
				s.tell(ch, fs.ChannelBridge, created, "Bridge-A-Unique-ID", ch.id, "Bridge-B-Unique-ID", other)
			}
		}
	}
}

// hangup ends a channel: record, event, and no more channel. Some ends go unseen, with or without a record.
func (s *simulation) hangup(ch *simChannel, created time.Time, cause, sip, disposition string) {
	seen := !s.chance(1)
	if !seen || s.b.link.Generation() == 0 {
		if s.chance(50) {
			path := filepath.Join(s.b.cdrs, ch.id+".cdr.json")
			text := `{"variables":{"hangup_cause":"` + cause + `","answer_uepoch":"` + micros(ch.answered) + `","sip_term_status":"` + sip + `"}}`
			_ = os.WriteFile(path, []byte(text), 0o600)
		}
	}
	if seen {
		s.tell(ch, fs.ChannelHangupComplete, created, "Hangup-Cause", cause, "variable_sip_term_status", sip,
			"variable_sip_hangup_disposition", disposition, "Caller-Channel-Hangup-Time", micros(time.Now()))
	}
	s.mu.Lock()
	delete(s.channels, ch.id)
	s.mu.Unlock()
	s.tell(ch, fs.ChannelDestroy, created)
}

// voiceAgent is one AI session: it comes up, and does one of what voice agents do.
func (s *simulation) voiceAgent(m *fakeSession) {
	go func() {
		s.wait(100 * time.Millisecond)
		m.send(media.LegAnswered{At: time.Now()})
		if s.wait(5 * time.Second); m.spec.AMD != nil && s.chance(80) {
			class := []amd.Class{amd.ClassHuman, amd.ClassMachine, amd.ClassUnknown}[s.n(3)]
			m.send(media.AMD{Event: amd.Event{Kind: amd.KindVerdict, Class: class, Confidence: 0.97}, Heard: time.Now()})
		}
		s.wait(5 * time.Second)
		switch s.n(8) {
		case 0:
			m.send(media.Text{Type: "disconnect"})
		case 1:
			m.send(media.SocketClosed{Code: 1000, Clean: true})
		case 2:
			m.send(media.SocketClosed{Code: 1006, Err: errors.New("broken")})
		case 3:
			m.send(media.Text{Type: "transfer", Data: []byte(`{"destination":"9876500000"}`)})
		case 4:
			m.send(media.LegEnded{Cause: "bye", ByPeer: true})
			s.wait(time.Second)
			if s.chance(80) {
				m.send(media.LegAnswered{At: time.Now()})
			}
		case 5:
			m.send(media.Text{Type: "command", ID: "1", Data: []byte(`{"event":"hangup"}`)})
		}
	}()
}
