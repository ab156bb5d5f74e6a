package dialer

import (
	"fmt"
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
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// noon is in the middle of a lawful day.
func noon() time.Time {
	return time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("IST", 5*3600+1800))
}

// TestDailyCap calls one number for two campaigns, by itself and for an agent: three calls on one day, whoever makes them.
func TestDailyCap(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.Legal, c.DailyCap = Hours{}, 3 }).trunkAndNumber(t)
	b.clock.Set(noon())
	one, two := b.running(t), b.running(t)
	lead, other := b.push(t, one.ID, "9876543210"), b.push(t, two.ID, "9876543210")
	single := admission.Request{TenantID: b.tenant, To: mustPhone(t, "9876543210"), Purpose: admission.PurposeSingle}
	b.end(t, b.dial(t, one, lead), "failed", "USER_BUSY")
	b.end(t, b.dial(t, one, lead), "failed", ledger.CauseNetworkOutOfOrder) // never began: the number did not ring
	b.end(t, b.dial(t, two, other), "failed", ledger.CauseHostLost)         // it may have rung
	adm, err := passGate(t.Context(), b.svc.Gate, single)
	require.NoError(t, err)
	b.end(t, adm.Call, "completed", "NORMAL_CLEARING")

	for _, req := range []admission.Request{b.request(t, one.ID, lead), b.request(t, two.ID, other), single} {
		_, err := passGate(t.Context(), b.svc.Gate, req)
		require.Equal(t, gate.ReasonDailyCap, reason(t, err))
		require.Equal(t, "daily_cap", conflictCode(t, err))
		var refusal *gate.RefusalError
		require.ErrorAs(t, err, &refusal)
		require.WithinDuration(t, noon().Add(21*time.Hour), refusal.RetryAt, 0, "tomorrow, when the window opens")
	}
	parent := b.dial(t, one, b.push(t, one.ID, "9876543211"))
	transfer := single
	transfer.Purpose, transfer.ParentCallID = admission.PurposeTransfer, &parent.ID
	_, err = passGate(t.Context(), b.svc.Gate, transfer)
	require.NoError(t, err, "a third party whom a caller is led to")

	// The pacer puts the lead off, and the callee's midnight ends the day.
	sw := &fakeSwitch{}
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET next_attempt_at = $1 WHERE id = $2", noon(), lead.ID)
	newPacer(b.svc.Pacers, sw, b.tenant, one.ID, nil).round(t.Context())
	require.Empty(t, sw.dialed())
	row := b.lead(t, lead.ID)
	require.WithinDuration(t, noon().Add(21*time.Hour), *row.NextAttemptAt, 0)
	require.EqualValues(t, 1, row.Attempts)
	b.clock.Set(noon().Add(21 * time.Hour))
	newPacer(b.svc.Pacers, sw, b.tenant, one.ID, nil).round(t.Context())
	require.Len(t, sw.dialed(), 1)
}

// TestDailyCapOfTenant holds a tenant to its own cap, and to the deployment's.
func TestDailyCapOfTenant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deployment int
		tenant     any
		calls      int
	}{
		"deployment's":     {2, nil, 2},
		"tenant's, lower":  {2, 1, 1},
		"tenant's, higher": {2, 5, 2},
		"tenant's alone":   {0, 2, 2},
		"neither":          {0, nil, 6},
		"one a day":        {1, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(cfg *Config) { cfg.DailyCap = c.deployment }).trunkAndNumber(t)
			storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET daily_cap = $1", c.tenant)
			done := 0
			for range 6 {
				adm, err := passGate(t.Context(), b.svc.Gate, admission.Request{
					TenantID: b.tenant, To: mustPhone(t, "9876543210"), Purpose: admission.PurposeSingle,
				})
				if err == nil {
					done++
					b.end(t, adm.Call, "failed", "NO_ANSWER")
				}
			}
			require.Equal(t, c.calls, done)
		})
	}
}

// TestAgentsDialsCount refuses an agent the number that has had its calls, and keeps a callback that was promised.
func TestAgentsDialsCount(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	storetest.Exec(t, p.st, p.tenant, "UPDATE tenants SET daily_cap = 1")
	campaign := p.campaign(t, campaigns.DialPreview)
	ann := p.person(t)
	call, lead := p.had(t, ann, campaign, "9876543201")
	_, err := p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{CallID: input.Some(call.ID.String()), Disposition: input.Some("later")})
	require.NoError(t, err)
	to := desk.DialInput{CampaignID: input.Some(p.campaign(t, campaigns.DialPreview).String()), Phone: input.Some("9876543201")}
	_, err = p.desk.AgentDial(t.Context(), p.tenant, ann, to)
	require.Equal(t, gate.ReasonDailyCap, reason(t, err))
	require.Equal(t, acd.Available, p.status(t, ann), "the agent is free again")

	at := p.clock.Now().Add(time.Minute)
	_, err = p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{
		CallID: input.Some(call.ID.String()), Disposition: input.Some("later"), CallbackAt: input.Some(at.Format(time.RFC3339)),
	})
	require.NoError(t, err)
	p.clock.Advance(2 * time.Minute)
	next, err := p.desk.NextLead(t.Context(), p.tenant, ann, campaign)
	require.NoError(t, err)
	require.Equal(t, lead.ID, next.ID)
	kept, err := p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{LeadID: input.Some(lead.ID.String())})
	require.NoError(t, err, "the callee was promised this call")
	p.end(t, kept, "failed", "NO_ANSWER")
	_, err = p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{CallID: input.Some(kept.ID.String()), Disposition: input.Some("not_there")})
	require.NoError(t, err)
	_, err = p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{LeadID: input.Some(lead.ID.String())})
	require.Equal(t, gate.ReasonDailyCap, reason(t, err), "and no other")
}

// TestRetriesWiden waits longer after each attempt, where the campaign says so.
func TestRetriesWiden(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	for name, c := range map[string]struct {
		retry   string
		minutes []int
	}{
		"by default": {`{"busy":10}`, []int{10, 10, 10, 10}},
		"doubled":    {`{"busy":10,"backoff":2}`, []int{10, 20, 40, 80}},
		"by half":    {`{"busy":16,"backoff":1.5}`, []int{16, 24, 36, 54}},
		"at once":    {`{"busy":0}`, []int{0, 0, 0, 0}},
		"a week":     {`{"busy":10080,"backoff":10}`, []int{10080, 10080, 10080, 10080}},
	} {
		storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_attempts = 5, retry = $1", []byte(c.retry))
		lead := b.push(t, campaign.ID, b.freshNumber())
		for _, minutes := range c.minutes {
			b.end(t, b.dial(t, campaign, lead), "failed", "USER_BUSY")
			wait := b.lead(t, lead.ID).NextAttemptAt.Sub(b.clock.Now())
			require.InDelta(t, minutes, wait.Minutes(), 0.01, name)
		}
		b.end(t, b.dial(t, campaign, lead), "failed", "USER_BUSY")
		require.Equal(t, string(leads.StatusExhausted), b.lead(t, lead.ID).Status)
	}
}

// TestCallerIDsTakeTurns shares calls evenly among a tenant's numbers, whichever controllers make them at once.
func TestCallerIDsTakeTurns(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	for _, n := range []string{"+918000000002", "+918000000003"} {
		storetest.InboundNumber(t, b.st, b.tenant, n)
	}
	services := []*Service{b.svc, b.another(t, "node-2"), b.another(t, "node-3")}
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for i := range 30 {
		req := b.request(t, campaign.ID, b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", i)))
		wg.Go(func() {
			adm, err := passGate(t.Context(), services[i%3].Gate, req)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				seen[adm.From]++
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 3)
	for n, calls := range seen {
		require.Equal(t, 10, calls, n)
	}

	// Numbers of the trunk that carries the call and those of none take turns; those of another have none beside them.
	dial := func() string {
		return b.dial(t, campaign, b.push(t, campaign.ID, b.freshNumber())).FromNumber.Reveal()
	}
	other := storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5071, 1)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET priority = 99 WHERE id = $1", other)
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET trunk_id = $1 WHERE e164 <> '+918000000002'", other)
	require.Equal(t, []string{"+918000000002", "+918000000002"}, []string{dial(), dial()})
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET trunk_id = (SELECT id FROM trunks WHERE id <> $1) WHERE e164 = '+918000000003'", other)
	require.ElementsMatch(t, []string{"+918000000002", "+918000000003"}, []string{dial(), dial()})
}

// TestCallCategory holds campaigns that declare what their calls are for to the numbers of that series.
func TestCallCategory(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	create := func(body string) (campaigns.Campaign, error) {
		return b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t,
			`{"name":"c","dial_mode":"progressive","post_answer_action":"connect_voice_agent","voice_agent_id":"`+b.agent(t).ID.String()+`",`+body+`}`))
	}
	start := func(s *Service, id uuid.UUID) error {
		_, err := s.Campaigns.StartCampaign(t.Context(), b.tenant, id, campaigns.EnvironmentLive)
		return err
	}
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	_, err := create(`"caller_id":"9999999999"`)
	require.Equal(t, []string{"caller_id"}, fields(t, err), "not the tenant's")
	_, err = create(`"call_category":"spam"`)
	require.Equal(t, []string{"call_category"}, fields(t, err))
	_, err = create(`"call_category":"promotional","caller_id":"+918000000001"`)
	require.Equal(t, []string{"caller_id"}, fields(t, err), "an ordinary number")
	promotional, err := create(`"call_category":"promotional"`)
	require.NoError(t, err)
	var missing *fault.Error
	require.ErrorAs(t, start(b.svc, promotional.ID), &missing)
	require.Equal(t, campaigns.CodeNoCallerID, missing.Code)
	storetest.InboundNumber(t, b.st, b.tenant, "+911401234567")
	storetest.InboundNumber(t, b.st, b.tenant, "+911600123456")
	require.NoError(t, start(b.svc, promotional.ID))
	service, err := create(`"call_category":"service","caller_id":"1600123456"`)
	require.NoError(t, err)
	_, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, service.ID, decode[campaigns.Input](t, `{"call_category":"promotional"}`))
	require.Equal(t, []string{"caller_id"}, fields(t, err))
	_, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, service.ID, decode[campaigns.Input](t, `{"call_category":"transactional"}`))
	require.NoError(t, err)
	require.NoError(t, start(b.svc, service.ID))
	for i := range 3 {
		call := b.dial(t, promotional, b.push(t, promotional.ID, fmt.Sprintf("987654321%d", i)))
		require.Equal(t, "+911401234567", call.FromNumber.Reveal())
		call = b.dial(t, service, b.push(t, service.ID, fmt.Sprintf("987654321%d", i)))
		require.Equal(t, "+911600123456", call.FromNumber.Reveal())
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET is_active = false WHERE e164 = '+911401234567'")
	_, err = passGate(t.Context(), b.svc.Gate, b.request(t, promotional.ID, b.push(t, promotional.ID, "9876543220")))
	require.Equal(t, gate.ReasonCallerID, reason(t, err))

	undeclared, err := create(`"notes":"none"`)
	require.NoError(t, err)
	asks := b.another(t, "node-2", func(c *Config) { c.RequireCategory = true })
	require.Equal(t, campaigns.CodeCategoryRequired, conflictCode(t, start(asks, undeclared.ID)))
	require.NoError(t, start(b.svc, undeclared.ID))
}

// TestDetectionFollowsTheVoicemailAction listens for machines when something is to be done about them.
func TestDetectionFollowsTheVoicemailAction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		body, patch string
		amd         bool
	}{
		{`"post_answer_action":"connect_agent"`, `{}`, false},
		{`"voicemail_action":"hangup"`, `{}`, true},
		{`"voicemail_action":"hangup","amd":false`, `{"name":"d"}`, false},
		{`"post_answer_action":"connect_agent"`, `{"voicemail_action":"hangup"}`, true},
		{`"post_answer_action":"connect_agent"`, `{"voicemail_action":"hangup","amd":false}`, false},
		{`"voicemail_action":"hangup"`, `{"voicemail_action":"connect"}`, false},
	} {
		made, err := b.svc.Campaigns.CreateCampaign(t.Context(), b.tenant, decode[campaigns.Input](t, `{"name":"c","dial_mode":"preview",`+c.body+`}`))
		require.NoError(t, err)
		made, err = b.svc.Campaigns.PatchCampaign(t.Context(), b.tenant, made.ID, decode[campaigns.Input](t, c.patch))
		require.NoError(t, err)
		require.Equal(t, c.amd, made.AMD, c)
	}
}
