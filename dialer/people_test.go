package dialer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/wake"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
	"github.com/ringmaster/ringmaster/switchctl/phone"
)

// peopleSwitch originates through the gate, and has phones that are up as soon as they are held.
type peopleSwitch struct {
	fakeSwitch
	agents *acd.Service

	mu     sync.Mutex
	hungUp []uuid.UUID
	rings  []bool
}

func (p *peopleSwitch) HoldPhone(_ context.Context, spec phone.Spec) error {
	p.agents.PhoneChanged(phone.State{TenantID: spec.TenantID, AgentID: spec.AgentID, Up: true})
	return nil
}

func (p *peopleSwitch) ReleasePhone(context.Context, uuid.UUID) error { return nil }

func (p *peopleSwitch) RingPhone(_ context.Context, _ uuid.UUID, on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rings = append(p.rings, on)
	return nil
}

func (p *peopleSwitch) Phones() []phone.State { return nil }

func (p *peopleSwitch) ForgetAccount(context.Context, string, string) error { return nil }
func (p *peopleSwitch) ForgetPhone(context.Context, string, string) error   { return nil }

func (p *peopleSwitch) Hangup(_ context.Context, _, call uuid.UUID, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hungUp = append(p.hungUp, call)
	return nil
}

func (p *peopleSwitch) AgentHangup(ctx context.Context, tenant, call, _ uuid.UUID) error {
	return p.Hangup(ctx, tenant, call, ledger.CauseNormalClearing)
}

func (p *peopleSwitch) ended() []uuid.UUID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hungUp)
}

func (p *peopleSwitch) ringbacks() []bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]bool(nil), p.rings...)
}

// people is a dialer with agents.
type people struct {
	*bundle
	agents *acd.Service
	sw     *peopleSwitch
}

func staffed(t *testing.T, change ...func(*Config)) *people {
	t.Helper()
	st := storetest.New(t)
	p, signals := &people{}, wake.New()
	clock := storetest.NewClock(time.Now())
	var err error
	p.agents, err = acd.New(acd.Config{
		NodeID: "node-1", Accounts: acd.NewAccounts(st, []byte("key"), "sip.test"), Now: clock.Now, Every: 20 * time.Millisecond,
		Changed: signals.Tenant,
	}, st)
	require.NoError(t, err)
	p.bundle = setupOn(t, st, append(change, func(c *Config) { c.Agents, c.Wake, c.Now = p.agents, signals, clock.Now })...)
	p.clock = clock
	p.trunkAndNumber(t)
	p.sw = &peopleSwitch{fakeSwitch: fakeSwitch{}, agents: p.agents}
	p.attach(p.sw)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.agents.Run(ctx, p.sw) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return p
}

// person adds an agent with these tags, logged in and ready.
func (p *people) person(t *testing.T, tags ...string) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	n := storetest.Count(t, p.st, "SELECT count(*) FROM users")
	storetest.Exec(t, p.st, p.tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension)
		VALUES ($1, $2::uuid, $2::uuid::text || '@people.test', 'x', 'agent', ($3::int + 1000)::text)`, p.tenant, id, n)
	storetest.Exec(t, p.st, p.tenant, "UPDATE users SET tags = $2 WHERE id = $1", id, append([]string{}, tags...))
	require.Eventually(t, func() bool {
		_, err := p.agents.Login(t.Context(), p.tenant, id, acd.LoginInput{})
		return err == nil
	}, waitFor, every)
	// How many are ready says nothing: those who were may be gone meanwhile, or back.
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(p.agents.Crew(p.tenant), func(m acd.Member) bool { return m.ID == id && m.Ready })
	}, waitFor, every)
	return id
}

// campaign gives a running campaign whose calls go to agents.
func (p *people) campaign(t *testing.T, mode campaigns.DialMode) uuid.UUID {
	t.Helper()
	c, err := p.svc.Campaigns.CreateCampaign(t.Context(), p.tenant, decode[campaigns.Input](t, `{"name":"c","dial_mode":"`+string(mode)+`"}`))
	require.NoError(t, err)
	require.Equal(t, campaigns.ActionConnectAgent, c.PostAnswerAction)
	_, err = p.svc.Campaigns.StartCampaign(t.Context(), p.tenant, c.ID, campaigns.EnvironmentLive)
	require.NoError(t, err)
	return c.ID
}

func (p *people) status(t *testing.T, agent uuid.UUID) acd.Status {
	t.Helper()
	a, err := p.agents.GetAgent(t.Context(), p.tenant, agent)
	require.NoError(t, err)
	return a.Status
}

func (p *people) call(t *testing.T, id uuid.UUID) db.Call {
	t.Helper()
	var row db.Call
	require.NoError(t, p.st.InTenant(t.Context(), p.tenant, func(tx *store.Tx) error {
		var err error
		row, err = tx.Q.CallLock(t.Context(), p.tenant, id)
		return err
	}))
	return row
}

// talkLeg is an answered call whose agent talks until the test says.
type talkLeg struct {
	fakeLeg
	agent chan uuid.UUID
	over  chan struct{}
}

func (l *talkLeg) ConnectAgent(_ context.Context, req switchctl.AgentConnect) (switchctl.AgentOutcome, error) {
	l.agent <- req.Phone.AgentID
	<-l.over
	return switchctl.AgentEnded, nil
}

func TestProgressiveDialsOneCallPerReadyAgent(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	one, two := p.campaign(t, campaigns.DialProgressive), p.campaign(t, campaigns.DialPredictive)
	for i := range 6 {
		p.push(t, []uuid.UUID{one, two}[i%2], fmt.Sprintf("98765432%02d", i))
	}
	pace(t, p.svc, p.sw)
	p.person(t)
	p.person(t)
	require.Eventually(t, func() bool { return len(p.sw.dialed()) == 2 }, waitFor, every, "both campaigns share the agents")

	call := p.sw.dialed()[0]
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	leg := &talkLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, agent: make(chan uuid.UUID), over: make(chan struct{})}
	answered := make(chan error, 1)
	go func() { answered <- p.svc.Answers.Answered(t.Context(), leg) }()
	talking := <-leg.agent
	require.Equal(t, acd.OnCall, p.status(t, talking))
	p.end(t, p.sw.dialed()[1], "failed", "USER_BUSY")
	require.Eventually(t, func() bool { return len(p.sw.dialed()) == 3 }, waitFor, every, "one agent is ready")
	p.person(t)
	require.Eventually(t, func() bool { return len(p.sw.dialed()) == 4 }, waitFor, every, "a login wakes the pacers")
	storetest.Exec(t, p.st, p.tenant, `UPDATE calls SET agent_id = $2, agent_connect_time = now(), status = 'agent_connected'
		WHERE id = $1`, call.ID, talking)
	close(leg.over)
	require.NoError(t, <-answered)
	require.Equal(t, acd.WrapUp, p.status(t, talking))
	p.end(t, call, "completed", "NORMAL_CLEARING")
	require.Len(t, p.sw.dialed(), 4, "nobody is ready but for the calls in flight")
	_, err := p.desk.Dispose(t.Context(), p.tenant, talking, desk.DisposeInput{CallID: input.Some(call.ID.String()), Disposition: input.Some("sold")})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(p.sw.dialed()) == 5 }, waitFor, every)
}

func TestNobodyIsDialedForAPhoneOnTheHook(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	id := storetest.NewID(t)
	storetest.Exec(t, p.st, p.tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension, phone_mode)
		VALUES ($1, $2, 'hook@people.test', 'x', 'agent', '1000', 'on_hook')`, p.tenant, id)
	_, err := p.agents.Login(t.Context(), p.tenant, id, acd.LoginInput{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.agents.ReadyAgents(p.tenant) == 1 }, waitFor, every, "the agent takes inbound calls")
	for _, mode := range []campaigns.DialMode{campaigns.DialProgressive, campaigns.DialPredictive} {
		campaign := p.campaign(t, mode)
		lead := p.push(t, campaign, "9876543201")
		newPacer(p.svc.Pacers, p.sw, p.tenant, campaign, nil).round(t.Context())
		require.Empty(t, p.sw.dialed())
		_, err := passGate(t.Context(), p.svc.Gate, p.request(t, campaign, lead))
		require.Equal(t, gate.ReasonAgents, reason(t, err))
	}
	preview := p.campaign(t, campaigns.DialPreview)
	lead := p.push(t, preview, "9876543202")
	_, err = p.desk.AgentDial(t.Context(), p.tenant, id, desk.DialInput{LeadID: input.Some(lead.ID.String())})
	require.NoError(t, err, "and dials by themselves")
}

// had gives an ended call of the agent's with a lead, in wrap-up.
func (p *people) had(t *testing.T, agent, campaign uuid.UUID, number string) (db.Call, leads.Lead) {
	t.Helper()
	lead := p.push(t, campaign, number)
	call, err := p.desk.AgentDial(t.Context(), p.tenant, agent, desk.DialInput{LeadID: input.Some(lead.ID.String())})
	require.NoError(t, err)
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	p.end(t, call, "completed", "NORMAL_CLEARING")
	require.Equal(t, acd.WrapUp, p.status(t, agent))
	return call, lead
}

// TestNobodyTakesTheCallee goes through the overflow actions of a campaign.
func TestNobodyTakesTheCallee(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	ann := p.person(t)
	campaign := p.campaign(t, campaigns.DialProgressive)
	answered := func() *fakeLeg {
		number := fmt.Sprintf("98765432%02d", storetest.Count(t, p.st, "SELECT count(*) FROM leads"))
		lead := p.push(t, campaign, number)
		call, err := p.svc.Gate.Place(t.Context(), p.sw, admission.Request{
			TenantID: p.tenant, CampaignID: &campaign, LeadID: &lead.ID, To: mustPhone(t, number), Purpose: admission.PurposeLead,
			Environment: string(campaigns.EnvironmentLive),
		})
		require.NoError(t, err)
		storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
		_, err = p.agents.SetStatus(t.Context(), p.tenant, ann, acd.StatusInput{Status: "paused"})
		require.NoError(t, err)
		leg := &fakeLeg{call: p.call(t, call.ID)}
		require.NoError(t, p.svc.Answers.Answered(t.Context(), leg))
		require.True(t, p.call(t, call.ID).Abandoned)
		require.Zero(t, storetest.Count(t, p.st, "SELECT count(*) FROM live_calls WHERE awaits_agent"))
		_, err = p.agents.SetStatus(t.Context(), p.tenant, ann, acd.StatusInput{Status: "available"})
		require.NoError(t, err)
		return leg
	}
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET predictive_max_wait_s = 0.05")
	leg := answered()
	require.Equal(t, []string{ledger.CauseServiceUnavailable}, leg.hangups)
	p.end(t, leg.call, "completed", ledger.CauseServiceUnavailable)
	require.Equal(t, string(leads.StatusRetry), p.lead(t, *leg.call.LeadID).Status, "no conversation took place")

	flowID := p.flow(t, strings.ReplaceAll(`[{"id":"s","type":"start","next":{"default":"h"}},
		{"id":"h","type":"hangup","data":{"cause":"CALL_REJECTED"}}]`, "\n", ""))
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET overflow_action = 'flow', flow_id = $1", flowID)
	require.Equal(t, []string{"CALL_REJECTED"}, answered().hangups)
}

func TestWhoMayBeQueuedFor(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	h := p.svc.Answers
	require.ErrorIs(t, h.CanQueue(t.Context(), p.tenant, switchctl.QueueRequest{}), switchctl.ErrNobodyLoggedIn)
	require.ErrorIs(t, h.CanQueue(t.Context(), p.tenant, switchctl.QueueRequest{Extension: "999"}), switchctl.ErrUnknownExtension)
	p.person(t)
	require.NoError(t, h.CanQueue(t.Context(), p.tenant, switchctl.QueueRequest{Queue: "default"}))
	require.NoError(t, h.CanQueue(t.Context(), p.tenant, switchctl.QueueRequest{Extension: "1000"}))
	require.ErrorIs(t, h.CanQueue(t.Context(), p.tenant, switchctl.QueueRequest{Queue: "billing"}), switchctl.ErrNobodyLoggedIn)
}

func TestCampaignsPeopleMembers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	create := func(members string) (campaigns.Campaign, error) {
		return b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, `{"name":"c","dial_mode":"progressive"`+members+`}`))
	}
	c, err := create("")
	require.NoError(t, err)
	require.Equal(t, "hangup", c.OverflowAction)
	require.Nil(t, c.WrapUpS)
	c, err = create(`,"agent_whisper_url":"http://127.0.0.1/w.wav","wrap_up_s":0,"overflow_action":"voicemail"`)
	require.NoError(t, err)
	require.Equal(t, "http://127.0.0.1/w.wav", *c.AgentWhisperURL)
	require.Zero(t, *c.WrapUpS)
	require.Equal(t, "voicemail", c.OverflowAction)
	_, err = create(`,"agent_whisper_url":"ftp://x/w.wav","wrap_up_s":9999,"overflow_action":"flow"`)
	require.Equal(t, []string{"agent_whisper_url", "flow_id", "wrap_up_s"}, fields(t, err))
}

// TestOverflowMessageWithoutGreeting takes the message although the greeting can't be had, and tells the announcement once.
func TestOverflowMessageWithoutGreeting(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, campaigns.DialProgressive)
	storetest.Exec(t, p.st, p.tenant, `UPDATE campaigns SET predictive_max_wait_s = 0.05, overflow_action = 'voicemail',
		announcement_url = 'http://x/recorded.wav', voicemail_message_url = 'http://x/gone.wav'`)
	lead := p.push(t, campaign, "9876543201")
	p.person(t)
	call, err := p.svc.Gate.Place(t.Context(), p.sw, admission.Request{
		TenantID: p.tenant, CampaignID: &campaign, LeadID: &lead.ID, To: mustPhone(t, "9876543201"), Purpose: admission.PurposeLead,
		Environment: string(campaigns.EnvironmentLive),
	})
	require.NoError(t, err)
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	want := []string{"announce http://x/recorded.wav", "voicemail http://x/gone.wav", "voicemail "}
	for range 2 { // the second time after a restart, when it had begun to wait
		leg := &greetingLeg{menuLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, missing: "http://x/gone.wav"}}
		require.NoError(t, p.svc.Answers.Answered(t.Context(), leg))
		require.Equal(t, want, leg.done)
		require.Empty(t, leg.hangups)
		want = want[1:]
	}
}

// greetingLeg can't play what is missing before a message either.
type greetingLeg struct{ menuLeg }

func (l *greetingLeg) Announce(_ context.Context, n switchctl.Announcement) error {
	l.done = append(l.done, "announce "+n.URL)
	return nil
}

func (l *greetingLeg) RecordVoicemail(ctx context.Context, v switchctl.Voicemail) error {
	err := l.menuLeg.RecordVoicemail(ctx, v)
	if v.GreetingURL == l.missing {
		return fmt.Errorf("%w: 404", switchctl.ErrAudio)
	}
	return err
}

// TestMenuHoldsBackNoAgent: a flow's call counts from when it asks for an agent.
func TestMenuHoldsBackNoAgent(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	ann := p.person(t)
	_, err := p.agents.SetStatus(t.Context(), p.tenant, ann, acd.StatusInput{Status: "paused"})
	require.NoError(t, err)
	campaign := p.campaign(t, campaigns.DialProgressive)
	flowID := p.flow(t, `[{"id":"s","type":"start","next":{"default":"g"}},
		{"id":"g","type":"gather_dtmf","data":{"variable":"x","max_digits":1,"timeout_s":2},"next":{"default":"q"}},
		{"id":"q","type":"connect_agent","data":{"max_wait_s":600}}]`)
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET post_answer_action = 'run_flow', flow_id = $1", flowID)
	lead := p.push(t, campaign, "9876543201")
	call, err := p.svc.Gate.Place(t.Context(), p.sw, admission.Request{
		TenantID: p.tenant, CampaignID: &campaign, LeadID: &lead.ID, To: mustPhone(t, "9876543201"), Purpose: admission.PurposeLead,
		Environment: string(campaigns.EnvironmentLive),
	})
	require.NoError(t, err)
	waiting := func() int { return int(storetest.Count(t, p.st, "SELECT count(*) FROM live_calls WHERE awaits_agent")) }
	require.Zero(t, waiting())
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	ctx, cancel := context.WithCancel(t.Context())
	leg := &menuLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, presses: []string{"1"}}
	answered := make(chan error, 1)
	go func() { answered <- p.svc.Answers.Answered(ctx, leg) }()
	require.Eventually(t, func() bool { return waiting() == 1 }, waitFor, every)
	cancel()
	require.ErrorIs(t, <-answered, context.Canceled)
}
