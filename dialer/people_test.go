package dialer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// peopleSwitch originates through the gate, and has phones that are up as soon as they are held.
type peopleSwitch struct {
	fakeSwitch
	agents *acd.Service

	mu     sync.Mutex
	hungUp []uuid.UUID
	rings  []bool
}

func (p *peopleSwitch) HoldPhone(_ context.Context, spec switchctl.PhoneSpec) error {
	p.agents.PhoneChanged(switchctl.PhoneState{TenantID: spec.TenantID, AgentID: spec.AgentID, Up: true})
	return nil
}

func (p *peopleSwitch) ReleasePhone(context.Context, uuid.UUID) error { return nil }

func (p *peopleSwitch) RingPhone(_ context.Context, _ uuid.UUID, on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rings = append(p.rings, on)
	return nil
}

func (p *peopleSwitch) Phones() []switchctl.PhoneState { return nil }

func (p *peopleSwitch) ForgetAccount(context.Context, string, string) error { return nil }
func (p *peopleSwitch) ForgetPhone(context.Context, string, string) error   { return nil }

func (p *peopleSwitch) Hangup(_ context.Context, _, call uuid.UUID, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hungUp = append(p.hungUp, call)
	return nil
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
	p := &people{}
	clock := &testClock{now: time.Now()}
	var err error
	p.agents, err = acd.New(acd.Config{
		NodeID: "node-1", Accounts: acd.NewAccounts(st, []byte("key"), "sip.test"), Now: clock.Now, Every: 20 * time.Millisecond,
		Changed: func(tenant uuid.UUID) { p.svc.AgentsChanged(tenant) },
	}, st)
	require.NoError(t, err)
	p.bundle = setupOn(t, st, append(change, func(c *Config) { c.Agents, c.Now = p.agents, clock.Now })...)
	p.clock = clock
	p.trunkAndNumber(t)
	p.sw = &peopleSwitch{fakeSwitch: fakeSwitch{gate: p.svc.Gate()}, agents: p.agents}
	p.svc.Attach(p.sw)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.agents.Run(ctx, p.sw) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return p
}

// person adds an agent, logged in and ready.
func (p *people) person(t *testing.T) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	n := storetest.Count(t, p.st, "SELECT count(*) FROM users")
	storetest.Exec(t, p.st, p.tenant, `INSERT INTO users (tenant_id, id, email, password_hash, role, extension)
		VALUES ($1, $2::uuid, $2::uuid::text || '@people.test', 'x', 'agent', ($3::int + 1000)::text)`, p.tenant, id, n)
	ready := p.agents.ReadyAgents(p.tenant)
	require.Eventually(t, func() bool {
		_, err := p.agents.Login(t.Context(), p.tenant, id, acd.LoginInput{})
		return err == nil && p.agents.ReadyAgents(p.tenant) == ready+1
	}, waitFor, every)
	return id
}

// campaign gives a running campaign whose calls go to agents.
func (p *people) campaign(t *testing.T, mode DialMode) uuid.UUID {
	t.Helper()
	c, err := p.svc.CreateCampaign(t.Context(), p.tenant, decode[CampaignInput](t, `{"name":"c","dial_mode":"`+string(mode)+`"}`))
	require.NoError(t, err)
	require.Equal(t, ActionConnectAgent, c.PostAnswerAction)
	_, err = p.svc.StartCampaign(t.Context(), p.tenant, c.ID, EnvironmentLive)
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
	one, two := p.campaign(t, DialProgressive), p.campaign(t, DialPredictive)
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
	go func() { answered <- p.svc.Handler().Answered(t.Context(), leg) }()
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
	_, err := p.svc.Dispose(t.Context(), p.tenant, talking, DisposeInput{CallID: Some(call.ID.String()), Disposition: Some("sold")})
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
	for _, mode := range []DialMode{DialProgressive, DialPredictive} {
		campaign := p.campaign(t, mode)
		lead := p.push(t, campaign, "9876543201")
		newPacer(p.svc, p.sw, p.tenant, campaign, nil).round(t.Context())
		require.Empty(t, p.sw.dialed())
		_, err := p.svc.Gate().Admit(t.Context(), p.request(t, campaign, lead))
		require.Equal(t, ReasonAgents, reason(t, err))
	}
	preview := p.campaign(t, DialPreview)
	lead := p.push(t, preview, "9876543202")
	_, err = p.svc.AgentDial(t.Context(), p.tenant, id, DialInput{LeadID: Some(lead.ID.String())})
	require.NoError(t, err, "and dials by themselves")
}

func TestPreview(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, DialPreview)
	first, second := p.push(t, campaign, "9876543201"), p.push(t, campaign, "9876543202")
	ann, bob := p.person(t), p.person(t)
	next := func(agent uuid.UUID) *Lead {
		lead, err := p.svc.NextLead(t.Context(), p.tenant, agent, campaign)
		require.NoError(t, err)
		return lead
	}
	require.Equal(t, first.ID, next(ann).ID)
	require.Equal(t, first.ID, next(ann).ID, "the same again")
	require.Equal(t, second.ID, next(bob).ID)
	p.clock.advance(reservation + time.Second)
	require.Equal(t, first.ID, next(bob).ID, "a reservation ends")
	require.Equal(t, second.ID, next(ann).ID)
	cleo, logout := p.person(t), p.agents.Logout
	require.Nil(t, next(cleo), "both are reserved")
	_, err := logout(t.Context(), p.tenant, ann)
	require.NoError(t, err)
	require.Equal(t, second.ID, next(cleo).ID, "a logout gives the lead back")
	_, err = logout(t.Context(), p.tenant, cleo)
	require.NoError(t, err)
	_, err = p.agents.Login(t.Context(), p.tenant, ann, acd.LoginInput{})
	require.NoError(t, err)

	_, err = p.svc.AgentDial(t.Context(), p.tenant, ann, DialInput{LeadID: Some(first.ID.String())})
	var refusal *RefusalError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, ReasonLead, refusal.Reason, "another agent's")
	require.Equal(t, acd.Available, p.status(t, ann))
	call, err := p.svc.AgentDial(t.Context(), p.tenant, bob, DialInput{LeadID: Some(first.ID.String())})
	require.NoError(t, err)
	require.Equal(t, bob, *call.AgentID)
	require.Equal(t, first.ID, *call.LeadID)
	require.Equal(t, acd.OnCall, p.status(t, bob))
	require.Equal(t, []bool{true}, p.sw.ringbacks())
	var state *acd.StateError
	_, err = p.svc.AgentDial(t.Context(), p.tenant, bob, DialInput{LeadID: Some(second.ID.String())})
	require.ErrorAs(t, err, &state)
	_, err = p.svc.NextLead(t.Context(), p.tenant, bob, campaign)
	require.ErrorAs(t, err, &state)
	_, err = p.svc.Dispose(t.Context(), p.tenant, bob, DisposeInput{CallID: Some(call.ID.String()), Disposition: Some("early")})
	require.ErrorAs(t, err, &state, "the call goes on")

	_, err = p.svc.AgentHangup(t.Context(), p.tenant, bob)
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{call.ID}, p.sw.hungUp)
	p.end(t, call, "failed", "NO_ANSWER")
	require.Equal(t, acd.WrapUp, p.status(t, bob))
	require.Eventually(t, func() bool { r := p.sw.ringbacks(); return len(r) == 2 && !r[1] }, waitFor, every, "no more ringback")
	require.Equal(t, string(LeadRetry), p.lead(t, first.ID).Status)
	_, err = p.svc.AgentHangup(t.Context(), p.tenant, bob)
	require.Equal(t, CodeNoCall, conflictCode(t, err))

	// A number in the campaign's name: the lead's when there is one, under the rules in any case.
	byNumber, err := p.svc.AgentDial(t.Context(), p.tenant, ann, DialInput{
		CampaignID: Some(campaign.String()), Phone: Some("9876543202"),
	})
	require.NoError(t, err)
	require.Equal(t, second.ID, *byNumber.LeadID)
	p.end(t, byNumber, "failed", "USER_BUSY")
	_, err = p.svc.Dispose(t.Context(), p.tenant, ann, DisposeInput{CallID: Some(byNumber.ID.String()), Disposition: Some("busy")})
	require.NoError(t, err)
	p.registry.add("9876543290")
	_, err = p.svc.AgentDial(t.Context(), p.tenant, ann, DialInput{CampaignID: Some(campaign.String()), Phone: Some("9876543290")})
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, ReasonDNC, refusal.Reason)
	loose, err := p.svc.AgentDial(t.Context(), p.tenant, ann, DialInput{CampaignID: Some(campaign.String()), Phone: Some("9876543277")})
	require.NoError(t, err)
	require.Nil(t, loose.LeadID)
	_, err = p.svc.AgentDial(t.Context(), p.tenant, ann, DialInput{Phone: Some("1")})
	require.ElementsMatch(t, []string{"campaign_id", "phone"}, fields(t, err))
	require.Nil(t, func() *Lead {
		p.end(t, loose, "failed", "NO_ANSWER")
		return next(ann)
	}(), "nothing is due")
}

// TestOwnCallGoesToItsAgent answers a call that an agent has dialed.
func TestOwnCallGoesToItsAgent(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, DialPreview)
	p.person(t)
	p.clock.advance(time.Minute)
	ann := p.person(t)
	lead := p.push(t, campaign, "9876543201")
	call, err := p.svc.AgentDial(t.Context(), p.tenant, ann, DialInput{LeadID: Some(lead.ID.String())})
	require.NoError(t, err)
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	leg := &talkLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, agent: make(chan uuid.UUID), over: make(chan struct{})}
	answered := make(chan error, 1)
	go func() { answered <- p.svc.Handler().Answered(t.Context(), leg) }()
	require.Equal(t, ann, <-leg.agent)
	close(leg.over)
	require.NoError(t, <-answered)
	require.Equal(t, acd.WrapUp, p.status(t, ann))
}

// had gives an ended call of the agent's with a lead, in wrap-up.
func (p *people) had(t *testing.T, agent, campaign uuid.UUID, number string) (db.Call, Lead) {
	t.Helper()
	lead := p.push(t, campaign, number)
	call, err := p.svc.AgentDial(t.Context(), p.tenant, agent, DialInput{LeadID: Some(lead.ID.String())})
	require.NoError(t, err)
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	p.end(t, call, "completed", "NORMAL_CLEARING")
	require.Equal(t, acd.WrapUp, p.status(t, agent))
	return call, lead
}

func TestDispose(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, DialPreview)
	ann, bob := p.person(t), p.person(t)
	call, lead := p.had(t, ann, campaign, "9876543201")
	id := Some(call.ID.String())
	for field, in := range map[string]DisposeInput{
		"disposition": {CallID: id, Disposition: Some("No Way")},
		"call_id":     {CallID: Some("x"), Disposition: Some("sold")},
		"callback_at": {CallID: id, Disposition: Some("sold"), CallbackAt: Some("2001-01-01T00:00:00Z")},
	} {
		_, err := p.svc.Dispose(t.Context(), p.tenant, ann, in)
		require.Equal(t, []string{field}, fields(t, err))
	}
	_, err := p.svc.Dispose(t.Context(), p.tenant, bob, DisposeInput{CallID: id, Disposition: Some("sold")})
	require.Equal(t, CodeCallOfOtherAgent, conflictCode(t, err))
	_, err = p.svc.Dispose(t.Context(), p.tenant, ann, DisposeInput{CallID: Some(uuid.NewString()), Disposition: Some("sold")})
	require.ErrorIs(t, err, store.ErrNotFound)
	storetest.Exec(t, p.st, p.tenant, "UPDATE tenants SET dispositions = '{sold,lost,later,opt_out}'")
	_, err = p.svc.Dispose(t.Context(), p.tenant, ann, DisposeInput{CallID: id, Disposition: Some("other")})
	require.Equal(t, []string{"disposition"}, fields(t, err))
	require.Equal(t, acd.WrapUp, p.status(t, ann), "a refusal changes nothing")

	got, err := p.svc.Dispose(t.Context(), p.tenant, ann, DisposeInput{CallID: id, Disposition: Some("sold"), Notes: Some("two of them")})
	require.NoError(t, err)
	require.Equal(t, acd.Available, got.Agent.Status)
	require.Equal(t, "two of them", *got.Call.Notes)
	require.Equal(t, "sold", *p.lead(t, lead.ID).Disposition)
	got, err = p.svc.Dispose(t.Context(), p.tenant, ann, DisposeInput{CallID: id, Disposition: Some("lost")})
	require.NoError(t, err, "a correction")
	require.Equal(t, acd.Available, got.Agent.Status)
	require.Equal(t, "two of them", *got.Call.Notes)
	told := p.events(t, store.EventCallDispositionSet)
	require.Len(t, told, 2)
	require.Equal(t, "agent", told[0]["source"])
	require.NotContains(t, told[0], "previous_disposition")
	require.Equal(t, "sold", told[1]["previous_disposition"])

	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET lead_id = NULL WHERE id = $1", call.ID)
	_, err = p.svc.Dispose(t.Context(), p.tenant, ann, DisposeInput{
		CallID: id, Disposition: Some("sold"), CallbackAt: Some(p.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)),
	})
	require.Equal(t, []string{"callback_at"}, fields(t, err), "nobody's callback is not promised")
	require.Equal(t, "lost", *p.call(t, call.ID).Disposition)

	later, callback := p.had(t, ann, campaign, "9876543202")
	at := p.clock.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	_, err = p.svc.Dispose(t.Context(), p.tenant, ann, DisposeInput{
		CallID: Some(later.ID.String()), Disposition: Some("later"), CallbackAt: Some(at.Format(time.RFC3339)),
	})
	require.NoError(t, err)
	row := p.lead(t, callback.ID)
	require.Equal(t, string(LeadCallback), row.Status)
	require.WithinDuration(t, at, *row.NextAttemptAt, 0)
	require.Nil(t, row.CompletedAt)
}

func TestDisposeOptOut(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	p.strict(t)
	campaign, other := p.campaign(t, DialPreview), p.campaign(t, DialPreview)
	ann := p.person(t)
	elsewhere := p.push(t, other, "9876543203")
	call, lead := p.had(t, ann, campaign, "9876543203")
	require.NotNil(t, p.call(t, call.ID).PeerSealed)
	_, err := p.svc.Dispose(t.Context(), p.tenant, ann, DisposeInput{
		CallID: Some(call.ID.String()), Disposition: Some("opt_out"), OptOut: Some(true),
	})
	require.NoError(t, err)
	for _, id := range []uuid.UUID{lead.ID, elsewhere.ID} {
		row := p.lead(t, id)
		require.Equal(t, string(LeadOptedOut), row.Status)
		require.Nil(t, row.PhoneSealed, "a strict tenant forgets the number")
	}
	require.Nil(t, p.call(t, call.ID).PeerSealed)
	again, err := p.svc.PushLead(t.Context(), p.tenant, p.campaign(t, DialPreview), LeadInput{Phone: Some("9876543203")})
	require.NoError(t, err)
	require.Equal(t, LeadOptedOut, again.Status)
	_, err = p.svc.AgentDial(t.Context(), p.tenant, ann, DialInput{CampaignID: Some(campaign.String()), Phone: Some("9876543203")})
	var refusal *RefusalError
	require.ErrorAs(t, err, &refusal)
}

// TestNobodyTakesTheCallee goes through the overflow actions of a campaign.
func TestNobodyTakesTheCallee(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	ann := p.person(t)
	campaign := p.campaign(t, DialProgressive)
	answered := func() *fakeLeg {
		number := fmt.Sprintf("98765432%02d", storetest.Count(t, p.st, "SELECT count(*) FROM leads"))
		lead := p.push(t, campaign, number)
		call, err := p.sw.Originate(t.Context(), switchctl.OriginateRequest{
			TenantID: p.tenant, CampaignID: &campaign, LeadID: &lead.ID, To: mustPhone(t, number), Purpose: switchctl.PurposeLead,
			Environment: string(EnvironmentLive),
		})
		require.NoError(t, err)
		storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
		_, err = p.agents.SetStatus(t.Context(), p.tenant, ann, acd.StatusInput{Status: "paused"})
		require.NoError(t, err)
		leg := &fakeLeg{call: p.call(t, call.ID)}
		require.NoError(t, p.svc.Handler().Answered(t.Context(), leg))
		require.True(t, p.call(t, call.ID).Abandoned)
		require.Zero(t, storetest.Count(t, p.st, "SELECT count(*) FROM live_calls WHERE awaits_agent"))
		_, err = p.agents.SetStatus(t.Context(), p.tenant, ann, acd.StatusInput{Status: "available"})
		require.NoError(t, err)
		return leg
	}
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET predictive_max_wait_s = 0.05")
	leg := answered()
	require.Equal(t, []string{switchctl.CauseServiceUnavailable}, leg.hangups)
	p.end(t, leg.call, "completed", switchctl.CauseServiceUnavailable)
	require.Equal(t, string(LeadRetry), p.lead(t, *leg.call.LeadID).Status, "no conversation took place")

	flowID := p.flow(t, strings.ReplaceAll(`[{"id":"s","type":"start","next":{"default":"h"}},
		{"id":"h","type":"hangup","data":{"cause":"CALL_REJECTED"}}]`, "\n", ""))
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET overflow_action = 'flow', flow_id = $1", flowID)
	require.Equal(t, []string{"CALL_REJECTED"}, answered().hangups)
}

func TestWhoMayBeQueuedFor(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	h := p.svc.Handler()
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
	create := func(members string) (Campaign, error) {
		return b.svc.CreateCampaign(t.Context(), b.tenant, decode[CampaignInput](t, `{"name":"c","dial_mode":"progressive"`+members+`}`))
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

// TestDisposeRefusesWhatCannotBeKept: nothing that an agent says of a callee is dropped without a word.
func TestDisposeRefusesWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, DialPreview)
	ann := p.person(t)
	call, lead := p.had(t, ann, campaign, "9876543201")
	say := func(in DisposeInput) error {
		in.CallID, in.Disposition = Some(call.ID.String()), Some("later")
		_, err := p.svc.Dispose(t.Context(), p.tenant, ann, in)
		return err
	}
	callback := DisposeInput{CallbackAt: Some(p.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339))}
	set := func(sql string) { storetest.Exec(t, p.st, p.tenant, sql) }

	set("UPDATE leads SET status = 'connected'")
	require.Equal(t, CodeLeadInCall, conflictCode(t, say(callback)))
	require.Equal(t, acd.WrapUp, p.status(t, ann), "a refusal changes nothing")
	require.Nil(t, p.call(t, call.ID).Disposition)
	for _, final := range []LeadStatus{LeadDNC, LeadInvalid, LeadOptedOut} {
		set("UPDATE leads SET status = '" + string(final) + "'")
		require.Equal(t, CodeLeadFinal, conflictCode(t, say(callback)))
		require.Equal(t, string(final), p.lead(t, lead.ID).Status)
	}
	storetest.Exec(t, p.st, p.tenant, "UPDATE leads SET status = 'retry', last_call_id = $1", storetest.NewID(t))
	require.Equal(t, CodeLaterCall, conflictCode(t, say(callback)))
	storetest.Exec(t, p.st, p.tenant, "UPDATE leads SET status = 'completed', last_call_id = $1", call.ID)

	set("UPDATE calls SET peer_hash = NULL")
	require.Equal(t, []string{"opt_out"}, fields(t, say(DisposeInput{OptOut: Some(true)})))
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET peer_hash = (SELECT phone_hash FROM leads WHERE id = $1)", lead.ID)
	require.NoError(t, say(callback))
	require.Equal(t, string(LeadCallback), p.lead(t, lead.ID).Status)
	require.NoError(t, say(DisposeInput{OptOut: Some(true)}))
	require.Equal(t, CodeLeadFinal, conflictCode(t, say(callback)), "never over an opt-out")
	require.Equal(t, string(LeadOptedOut), p.lead(t, lead.ID).Status)
	set("UPDATE calls SET lead_id = NULL")
	require.Equal(t, []string{"callback_at"}, fields(t, say(callback)))
}

// TestNextLeadPassesOverOneWithoutNumber gives the lead after one whose number was forgotten.
func TestNextLeadPassesOverOneWithoutNumber(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	p.strict(t)
	campaign, ann := p.campaign(t, DialPreview), p.person(t)
	purged, next := p.push(t, campaign, "9876543201"), p.push(t, campaign, "9876543202")
	storetest.Exec(t, p.st, p.tenant, "UPDATE leads SET phone_sealed = NULL WHERE id = $1", purged.ID)
	got, err := p.svc.NextLead(t.Context(), p.tenant, ann, campaign)
	require.NoError(t, err)
	require.NotNil(t, got)
	require.Equal(t, next.ID, got.ID)
	require.Equal(t, string(LeadInvalid), p.lead(t, purged.ID).Status)
}

// TestOverflowMessageWithoutGreeting takes the message although the greeting can't be had, and tells the announcement once.
func TestOverflowMessageWithoutGreeting(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, DialProgressive)
	storetest.Exec(t, p.st, p.tenant, `UPDATE campaigns SET predictive_max_wait_s = 0.05, overflow_action = 'voicemail',
		announcement_url = 'http://x/recorded.wav', voicemail_message_url = 'http://x/gone.wav'`)
	lead := p.push(t, campaign, "9876543201")
	p.person(t)
	call, err := p.sw.Originate(t.Context(), switchctl.OriginateRequest{
		TenantID: p.tenant, CampaignID: &campaign, LeadID: &lead.ID, To: mustPhone(t, "9876543201"), Purpose: switchctl.PurposeLead,
		Environment: string(EnvironmentLive),
	})
	require.NoError(t, err)
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	want := []string{"announce http://x/recorded.wav", "voicemail http://x/gone.wav", "voicemail "}
	for range 2 { // the second time after a restart, when it had begun to wait
		leg := &greetingLeg{menuLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, missing: "http://x/gone.wav"}}
		require.NoError(t, p.svc.Handler().Answered(t.Context(), leg))
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
	campaign := p.campaign(t, DialProgressive)
	flowID := p.flow(t, `[{"id":"s","type":"start","next":{"default":"g"}},
		{"id":"g","type":"gather_dtmf","data":{"variable":"x","max_digits":1,"timeout_s":2},"next":{"default":"q"}},
		{"id":"q","type":"connect_agent","data":{"max_wait_s":600}}]`)
	storetest.Exec(t, p.st, p.tenant, "UPDATE campaigns SET post_answer_action = 'run_flow', flow_id = $1", flowID)
	lead := p.push(t, campaign, "9876543201")
	call, err := p.sw.Originate(t.Context(), switchctl.OriginateRequest{
		TenantID: p.tenant, CampaignID: &campaign, LeadID: &lead.ID, To: mustPhone(t, "9876543201"), Purpose: switchctl.PurposeLead,
		Environment: string(EnvironmentLive),
	})
	require.NoError(t, err)
	waiting := func() int { return int(storetest.Count(t, p.st, "SELECT count(*) FROM live_calls WHERE awaits_agent")) }
	require.Zero(t, waiting())
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	ctx, cancel := context.WithCancel(t.Context())
	leg := &menuLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, presses: []string{"1"}}
	answered := make(chan error, 1)
	go func() { answered <- p.svc.Handler().Answered(ctx, leg) }()
	require.Eventually(t, func() bool { return waiting() == 1 }, waitFor, every)
	cancel()
	require.ErrorIs(t, <-answered, context.Canceled)
}
