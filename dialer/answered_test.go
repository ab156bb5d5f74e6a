package dialer

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/figures"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// greetedLeg keeps what a handler does first, in order. A machine is heard by the operation named.
type greetedLeg struct {
	fakeLeg
	machineAt string
	announce  error
	stop      context.CancelCauseFunc

	mu   sync.Mutex
	done []string
}

func (l *greetedLeg) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, fmt.Sprintf(format, args...))
}

func (l *greetedLeg) OnMachine(_ context.Context, a switchctl.MachineAction) error {
	l.note("machine %q", a.MessageURL)
	return nil
}

func (l *greetedLeg) Record(context.Context) error {
	l.note("record")
	return nil
}

func (l *greetedLeg) DetectMachine(context.Context) error { return nil }

func (l *greetedLeg) Announce(ctx context.Context, n switchctl.Announcement) error {
	l.note("announce %s to end %t stereo %t", n.URL, n.RecordToEnd, n.Stereo)
	if l.machineAt == "announce" {
		l.stop(switchctl.ErrMachine)
		return context.Cause(ctx)
	}
	return l.announce
}

func (l *greetedLeg) ConnectAgent(ctx context.Context, _ switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
	l.note("agent")
	if l.machineAt == "agent" {
		l.stop(switchctl.ErrMachine)
		return switchctl.AgentMachine, nil
	}
	<-ctx.Done()
	return switchctl.AgentCallerGone, nil
}

func (l *greetedLeg) StartMusic(ctx context.Context, _ string) error {
	l.note("waits")
	if l.machineAt == "waiting" {
		l.stop(switchctl.ErrMachine)
	}
	return ctx.Err()
}

// TestMachineFreesTheAgent gives an agent back, available, whom a machine has answered, wherever the caller is by then, and leaves
// the call no claim to another.
func TestMachineFreesTheAgent(t *testing.T) {
	t.Parallel()
	for at, want := range map[string][]string{
		"announce": {`machine "http://127.0.0.1/m.wav"`, "announce http://127.0.0.1/a.wav to end true stereo false"},
		"waiting":  {`machine "http://127.0.0.1/m.wav"`, "announce http://127.0.0.1/a.wav to end true stereo false", "waits"},
		"agent":    {`machine "http://127.0.0.1/m.wav"`, "announce http://127.0.0.1/a.wav to end true stereo false", "agent"},
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := staffed(t)
			campaign := p.campaign(t, campaigns.DialProgressive)
			storetest.Exec(t, p.st, p.tenant, `UPDATE campaigns SET amd = true, voicemail_action = 'message', predictive_max_wait_s = 60,
				voicemail_message_url = 'http://127.0.0.1/m.wav', announcement_url = 'http://127.0.0.1/a.wav'`)
			ann := p.person(t)
			lead := p.push(t, campaign, "9876543272")
			call, err := p.svc.Gate.Place(t.Context(), p.sw, p.request(t, campaign, lead))
			require.NoError(t, err)
			if at == "waiting" {
				_, err := p.agents.SetStatus(t.Context(), p.tenant, ann, acd.StatusInput{Status: "paused"})
				require.NoError(t, err)
			}
			storetest.Exec(t, p.st, p.tenant, `UPDATE calls SET status = 'answered', answer_time = $2, amd_class = 'machine',
				amd_confidence = 1, amd_after_ms = 1 WHERE id = $1`, call.ID, p.clock.Now())
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			leg := &greetedLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, machineAt: at, stop: stop}
			leg.call.AmdClass = nil // it is heard later
			require.Error(t, p.svc.Answers.Answered(ctx, leg))
			require.Equal(t, want, leg.done)
			require.Equal(t, 1, storetest.Count(t, p.st, "SELECT count(*) FROM live_calls WHERE NOT awaits_agent"))
			if at != "waiting" {
				require.Equal(t, acd.Available, p.status(t, ann))
			}
			p.end(t, call, "completed", "NORMAL_CLEARING")
			require.False(t, p.call(t, call.ID).Abandoned)
			row := p.lead(t, lead.ID)
			require.Equal(t, string(leads.StatusRetry), row.Status, "a machine is no conversation")
			require.InDelta(t, 240, row.NextAttemptAt.Sub(p.clock.Now()).Minutes(), 0.1)
		})
	}
}

// TestMachineOfAnAgentWhoseCallEndsFirst: the call's end may be told before the agent was freed.
func TestMachineOfAnAgentWhoseCallEndsFirst(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]acd.Status{"hangup": acd.Available, "connect": acd.WrapUp} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			p := staffed(t)
			campaign := p.campaign(t, campaigns.DialProgressive)
			storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET amd = true, voicemail_action = $1", action)
			ann := p.person(t)
			lead := p.push(t, campaign, "9876543272")
			call, err := p.svc.Gate.Place(t.Context(), p.sw, p.request(t, campaign, lead))
			require.NoError(t, err)
			storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
			leg := &talkLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, agent: make(chan uuid.UUID), over: make(chan struct{})}
			answered := make(chan error, 1)
			go func() { answered <- p.svc.Answers.Answered(t.Context(), leg) }()
			require.Equal(t, ann, <-leg.agent)
			storetest.Exec(t, p.st, p.tenant, `UPDATE calls SET amd_class = 'machine', amd_confidence = 1, amd_after_ms = 1, agent_id = $2,
				agent_connect_time = now(), status = 'agent_connected' WHERE id = $1`, call.ID, ann)
			p.end(t, call, "completed", "NORMAL_CLEARING")
			require.Equal(t, want, p.status(t, ann))
			close(leg.over)
			require.NoError(t, <-answered)
			require.Equal(t, want, p.status(t, ann))
		})
	}
}

// TestAnnouncementComesFirst plays what callees are told before all else, once, whoever takes the call. One who can't be told is
// connected with nobody: the call ends, counts as abandoned, and is tried again; nobody else is dialed for a while.
func TestAnnouncementComesFirst(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	flow := b.flow(t, `[{"id":"s","type":"start","next":{"default":"h"}},{"id":"h","type":"hangup","data":{"cause":"CALL_REJECTED"}}]`)
	for name, c := range map[string]struct {
		action string
		url    bool
		fails  bool
		told   []string
	}{
		"voice agent":          {"connect_voice_agent", true, false, []string{"announce http://127.0.0.1/a.wav to end false stereo true"}},
		"voice agent, no such": {"connect_voice_agent", true, true, []string{"announce http://127.0.0.1/gone.wav to end false stereo true"}},
		"flow":                 {"run_flow", true, false, []string{"announce http://127.0.0.1/a.wav to end true stereo true", "record"}},
		"none":                 {"connect_voice_agent", false, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			campaign := b.running(t)
			storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET post_answer_action = $2, flow_id = $3, amd = false WHERE id = $1", campaign.ID, c.action, flow)
			if c.url {
				url := "http://127.0.0.1/a.wav"
				if c.fails {
					url = "http://127.0.0.1/gone.wav"
				}
				storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET announcement_url = $2 WHERE id = $1", campaign.ID, url)
			}
			call := b.dial(t, campaign, b.push(t, campaign.ID, b.freshNumber()))
			leg := &greetedLeg{fakeLeg: fakeLeg{call: call}}
			if c.fails {
				leg.announce = switchctl.ErrAudio
			}
			require.NoError(t, b.svc.Answers.Answered(t.Context(), leg))
			require.Equal(t, c.told, leg.done)
			if c.fails {
				require.Equal(t, []string{ledger.CauseServiceUnavailable}, leg.hangups)
				require.Empty(t, leg.agents)
				b.end(t, call, "completed", ledger.CauseServiceUnavailable)
				storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET answer_time = dial_time WHERE id = $1", call.ID)
				require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM calls WHERE abandoned"))
				require.Equal(t, string(leads.StatusRetry), b.lead(t, *call.LeadID).Status)
				stats, err := b.svc.Statistics.CampaignStats(t.Context(), b.tenant, campaign.ID)
				require.NoError(t, err)
				require.Equal(t, figures.Abandon{Rate24h: 1, RateTotal: 1, Answered: 1, Abandoned: 1, SmallSample: true}, stats.Abandon)
				_, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, b.freshNumber())))
				require.Equal(t, gate.ReasonAnnouncement, reason(t, err))
				return
			}
			if c.action == "run_flow" {
				require.Equal(t, []string{"CALL_REJECTED"}, leg.hangups)
				return
			}
			require.Len(t, leg.agents, 1, "the call goes on")
		})
	}
}
