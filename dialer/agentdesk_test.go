package dialer

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/acd"
	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/desk"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/input"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestPreview(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, campaigns.DialPreview)
	first, second := p.push(t, campaign, "9876543201"), p.push(t, campaign, "9876543202")
	ann, bob := p.person(t), p.person(t)
	next := func(agent uuid.UUID) *leads.Lead {
		lead, err := p.desk.NextLead(t.Context(), p.tenant, agent, campaign)
		require.NoError(t, err)
		return lead
	}
	require.Equal(t, first.ID, next(ann).ID)
	require.Equal(t, first.ID, next(ann).ID, "the same again")
	require.Equal(t, second.ID, next(bob).ID)
	p.clock.Advance(desk.Reservation + time.Second)
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

	_, err = p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{LeadID: input.Some(first.ID.String())})
	var refusal *gate.RefusalError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, gate.ReasonLead, refusal.Reason, "another agent's")
	require.Equal(t, acd.Available, p.status(t, ann))
	call, err := p.desk.AgentDial(t.Context(), p.tenant, bob, desk.DialInput{LeadID: input.Some(first.ID.String())})
	require.NoError(t, err)
	require.Equal(t, bob, *call.AgentID)
	require.Equal(t, first.ID, *call.LeadID)
	require.Equal(t, acd.OnCall, p.status(t, bob))
	require.Equal(t, []bool{true}, p.sw.ringbacks())
	var state *acd.StateError
	_, err = p.desk.AgentDial(t.Context(), p.tenant, bob, desk.DialInput{LeadID: input.Some(second.ID.String())})
	require.ErrorAs(t, err, &state)
	_, err = p.desk.NextLead(t.Context(), p.tenant, bob, campaign)
	require.ErrorAs(t, err, &state)
	_, err = p.desk.Dispose(t.Context(), p.tenant, bob, desk.DisposeInput{CallID: input.Some(call.ID.String()), Disposition: input.Some("early")})
	require.ErrorAs(t, err, &state, "the call goes on")

	hungUp := make(chan acd.Agent, 1)
	go func() {
		a, err := p.desk.AgentHangup(context.WithoutCancel(t.Context()), p.tenant, bob)
		assert.NoError(t, err)
		hungUp <- a
	}()
	require.Eventually(t, func() bool { return slices.Equal(p.sw.ended(), []uuid.UUID{call.ID}) }, waitFor, every)
	p.end(t, call, "failed", "NO_ANSWER")
	require.Equal(t, acd.WrapUp, (<-hungUp).Status, "the call can be disposed of")
	require.Eventually(t, func() bool { r := p.sw.ringbacks(); return len(r) == 2 && !r[1] }, waitFor, every, "no more ringback")
	require.Equal(t, string(leads.StatusRetry), p.lead(t, first.ID).Status)
	_, err = p.desk.AgentHangup(t.Context(), p.tenant, bob)
	require.Equal(t, desk.CodeNoCall, conflictCode(t, err))

	// A number in the campaign's name: the lead's when there is one, under the rules in any case.
	byNumber, err := p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{
		CampaignID: input.Some(campaign.String()), Phone: input.Some("9876543202"),
	})
	require.NoError(t, err)
	require.Equal(t, second.ID, *byNumber.LeadID)
	p.end(t, byNumber, "failed", "USER_BUSY")
	_, err = p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{CallID: input.Some(byNumber.ID.String()), Disposition: input.Some("busy")})
	require.NoError(t, err)
	p.registry.add("9876543290")
	_, err = p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{CampaignID: input.Some(campaign.String()), Phone: input.Some("9876543290")})
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, gate.ReasonDNC, refusal.Reason)
	loose, err := p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{CampaignID: input.Some(campaign.String()), Phone: input.Some("9876543277")})
	require.NoError(t, err)
	require.Nil(t, loose.LeadID)
	_, err = p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{Phone: input.Some("1")})
	require.ElementsMatch(t, []string{"campaign_id", "phone"}, fields(t, err))
	require.Nil(t, func() *leads.Lead {
		p.end(t, loose, "failed", "NO_ANSWER")
		return next(ann)
	}(), "nothing is due")
}

// TestOwnCallGoesToItsAgent answers a call that an agent has dialed.
func TestOwnCallGoesToItsAgent(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, campaigns.DialPreview)
	p.person(t)
	p.clock.Advance(time.Minute)
	ann := p.person(t)
	lead := p.push(t, campaign, "9876543201")
	call, err := p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{LeadID: input.Some(lead.ID.String())})
	require.NoError(t, err)
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET status = 'answered', answer_time = now() WHERE id = $1", call.ID)
	leg := &talkLeg{fakeLeg: fakeLeg{call: p.call(t, call.ID)}, agent: make(chan uuid.UUID), over: make(chan struct{})}
	answered := make(chan error, 1)
	go func() { answered <- p.svc.Answers.Answered(t.Context(), leg) }()
	require.Equal(t, ann, <-leg.agent)
	close(leg.over)
	require.NoError(t, <-answered)
	require.Equal(t, acd.WrapUp, p.status(t, ann))
}

func TestDispose(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, campaigns.DialPreview)
	ann, bob := p.person(t), p.person(t)
	call, lead := p.had(t, ann, campaign, "9876543201")
	id := input.Some(call.ID.String())
	for field, in := range map[string]desk.DisposeInput{
		"disposition": {CallID: id, Disposition: input.Some("No Way")},
		"call_id":     {CallID: input.Some("x"), Disposition: input.Some("sold")},
		"callback_at": {CallID: id, Disposition: input.Some("sold"), CallbackAt: input.Some("2001-01-01T00:00:00Z")},
	} {
		_, err := p.desk.Dispose(t.Context(), p.tenant, ann, in)
		require.Equal(t, []string{field}, fields(t, err))
	}
	_, err := p.desk.Dispose(t.Context(), p.tenant, bob, desk.DisposeInput{CallID: id, Disposition: input.Some("sold")})
	require.Equal(t, desk.CodeCallOfOtherAgent, conflictCode(t, err))
	_, err = p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{CallID: input.Some(uuid.NewString()), Disposition: input.Some("sold")})
	require.ErrorIs(t, err, store.ErrNotFound)
	storetest.Exec(t, p.st, p.tenant, "UPDATE tenants SET dispositions = '{sold,lost,later,opt_out}'")
	_, err = p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{CallID: id, Disposition: input.Some("other")})
	require.Equal(t, []string{"disposition"}, fields(t, err))
	require.Equal(t, acd.WrapUp, p.status(t, ann), "a refusal changes nothing")

	got, err := p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{CallID: id, Disposition: input.Some("sold"), Notes: input.Some("two of them")})
	require.NoError(t, err)
	require.Equal(t, acd.Available, got.Agent.Status)
	require.Equal(t, "two of them", *got.Call.Notes)
	require.Equal(t, "sold", *p.lead(t, lead.ID).Disposition)
	got, err = p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{CallID: id, Disposition: input.Some("lost")})
	require.NoError(t, err, "a correction")
	require.Equal(t, acd.Available, got.Agent.Status)
	require.Equal(t, "two of them", *got.Call.Notes)
	told := p.events(t, store.EventCallDispositionSet)
	require.Len(t, told, 2)
	require.Equal(t, "agent", told[0]["source"])
	require.NotContains(t, told[0], "previous_disposition")
	require.Equal(t, "sold", told[1]["previous_disposition"])

	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET lead_id = NULL WHERE id = $1", call.ID)
	_, err = p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{
		CallID: id, Disposition: input.Some("sold"), CallbackAt: input.Some(p.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)),
	})
	require.Equal(t, []string{"callback_at"}, fields(t, err), "nobody's callback is not promised")
	require.Equal(t, "lost", *p.call(t, call.ID).Disposition)

	later, callback := p.had(t, ann, campaign, "9876543202")
	at := p.clock.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	_, err = p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{
		CallID: input.Some(later.ID.String()), Disposition: input.Some("later"), CallbackAt: input.Some(at.Format(time.RFC3339)),
	})
	require.NoError(t, err)
	row := p.lead(t, callback.ID)
	require.Equal(t, string(leads.StatusCallback), row.Status)
	require.WithinDuration(t, at, *row.NextAttemptAt, 0)
	require.Nil(t, row.CompletedAt)

	again := desk.DisposeInput{CallID: input.Some(later.ID.String()), Disposition: input.Some("sold")}
	_, err = p.desk.Dispose(t.Context(), p.tenant, ann, again)
	require.NoError(t, err)
	require.Equal(t, string(leads.StatusCallback), p.lead(t, callback.ID).Status, "nothing was said of it")
	again.CallbackAt = input.Null[string]()
	for range 2 {
		_, err = p.desk.Dispose(t.Context(), p.tenant, ann, again)
		require.NoError(t, err)
		row = p.lead(t, callback.ID)
		require.Equal(t, string(leads.StatusCompleted), row.Status, "it was taken back")
		require.Nil(t, row.NextAttemptAt)
		require.NotNil(t, row.CompletedAt)
	}
}

// A tenant that became strict forgets the numbers of the calls that it had before.
func TestDisposeOptOutForgetsEarlierCalls(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	ann := p.person(t)
	campaign := p.campaign(t, campaigns.DialPreview)
	call, _ := p.had(t, ann, campaign, "9876543203")
	other, _ := p.had(t, p.person(t), p.campaign(t, campaigns.DialPreview), "9876543204")
	others := p.call(t, other.ID)
	require.Equal(t, "+919876543203", p.call(t, call.ID).ToNumber.Reveal())
	p.strict(t)
	_, err := p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{
		CallID: input.Some(call.ID.String()), Disposition: input.Some("opt_out"), OptOut: input.Some(true),
	})
	require.NoError(t, err)
	row := p.call(t, call.ID)
	require.Equal(t, "••••3203", row.ToNumber.Reveal())
	require.Equal(t, call.FromNumber, row.FromNumber, "the tenant's own number stays")
	require.Equal(t, others, p.call(t, other.ID), "another's call")
}

func TestDisposeOptOut(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	p.strict(t)
	campaign, other := p.campaign(t, campaigns.DialPreview), p.campaign(t, campaigns.DialPreview)
	ann := p.person(t)
	elsewhere := p.push(t, other, "9876543203")
	call, lead := p.had(t, ann, campaign, "9876543203")
	require.NotNil(t, p.call(t, call.ID).PeerSealed)
	_, err := p.desk.Dispose(t.Context(), p.tenant, ann, desk.DisposeInput{
		CallID: input.Some(call.ID.String()), Disposition: input.Some("opt_out"), OptOut: input.Some(true),
	})
	require.NoError(t, err)
	for _, id := range []uuid.UUID{lead.ID, elsewhere.ID} {
		row := p.lead(t, id)
		require.Equal(t, string(leads.StatusOptedOut), row.Status)
		require.Nil(t, row.PhoneSealed, "a strict tenant forgets the number")
	}
	require.Nil(t, p.call(t, call.ID).PeerSealed)
	again, err := p.svc.Leads.PushLead(t.Context(), p.tenant, p.campaign(t, campaigns.DialPreview), leads.Input{Phone: input.Some("9876543203")})
	require.NoError(t, err)
	require.Equal(t, leads.StatusOptedOut, again.Status)
	_, err = p.desk.AgentDial(t.Context(), p.tenant, ann, desk.DialInput{CampaignID: input.Some(campaign.String()), Phone: input.Some("9876543203")})
	var refusal *gate.RefusalError
	require.ErrorAs(t, err, &refusal)
}

// TestDisposeRefusesWhatCannotBeKept: nothing that an agent says of a callee is dropped without a word.
func TestDisposeRefusesWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	campaign := p.campaign(t, campaigns.DialPreview)
	ann := p.person(t)
	call, lead := p.had(t, ann, campaign, "9876543201")
	say := func(in desk.DisposeInput) error {
		in.CallID, in.Disposition = input.Some(call.ID.String()), input.Some("later")
		_, err := p.desk.Dispose(t.Context(), p.tenant, ann, in)
		return err
	}
	callback := desk.DisposeInput{CallbackAt: input.Some(p.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339))}
	set := func(sql string) { storetest.Exec(t, p.st, p.tenant, sql) }

	set("UPDATE leads SET status = 'connected'")
	require.Equal(t, leads.CodeLeadInCall, conflictCode(t, say(callback)))
	require.Equal(t, acd.WrapUp, p.status(t, ann), "a refusal changes nothing")
	require.Nil(t, p.call(t, call.ID).Disposition)
	for _, final := range []leads.Status{leads.StatusDNC, leads.StatusInvalid, leads.StatusOptedOut} {
		set("UPDATE leads SET status = '" + string(final) + "'")
		require.Equal(t, campaigns.CodeLeadFinal, conflictCode(t, say(callback)))
		require.Equal(t, string(final), p.lead(t, lead.ID).Status)
	}
	storetest.Exec(t, p.st, p.tenant, "UPDATE leads SET status = 'retry', last_call_id = $1", storetest.NewID(t))
	require.Equal(t, campaigns.CodeLaterCall, conflictCode(t, say(callback)))
	storetest.Exec(t, p.st, p.tenant, "UPDATE leads SET status = 'completed', last_call_id = $1", call.ID)
	set("UPDATE campaigns SET status = 'completed'")
	require.Equal(t, campaigns.CodeCampaignNotRuns, conflictCode(t, say(callback)), "nobody would call back")
	set("UPDATE campaigns SET status = 'paused', deleted_at = now()")
	require.Equal(t, []string{"callback_at"}, fields(t, say(callback)), "the lead goes with its campaign")
	set("UPDATE campaigns SET deleted_at = NULL")

	set("UPDATE calls SET peer_hash = NULL")
	require.Equal(t, []string{"opt_out"}, fields(t, say(desk.DisposeInput{OptOut: input.Some(true)})))
	storetest.Exec(t, p.st, p.tenant, "UPDATE calls SET peer_hash = (SELECT phone_hash FROM leads WHERE id = $1)", lead.ID)
	require.NoError(t, say(callback))
	require.Equal(t, string(leads.StatusCallback), p.lead(t, lead.ID).Status)
	require.NoError(t, say(desk.DisposeInput{OptOut: input.Some(true)}))
	require.Equal(t, campaigns.CodeLeadFinal, conflictCode(t, say(callback)), "never over an opt-out")
	require.Equal(t, string(leads.StatusOptedOut), p.lead(t, lead.ID).Status)
	set("UPDATE calls SET lead_id = NULL")
	require.Equal(t, []string{"callback_at"}, fields(t, say(callback)))
}

// TestNextLeadPassesOverOneWithoutNumber gives the lead after one whose number was forgotten.
func TestNextLeadPassesOverOneWithoutNumber(t *testing.T) {
	t.Parallel()
	p := staffed(t)
	p.strict(t)
	campaign, ann := p.campaign(t, campaigns.DialPreview), p.person(t)
	purged, next := p.push(t, campaign, "9876543201"), p.push(t, campaign, "9876543202")
	storetest.Exec(t, p.st, p.tenant, "UPDATE leads SET phone_sealed = NULL WHERE id = $1", purged.ID)
	got, err := p.desk.NextLead(t.Context(), p.tenant, ann, campaign)
	require.NoError(t, err)
	require.NotNil(t, got)
	require.Equal(t, next.ID, got.ID)
	require.Equal(t, string(leads.StatusInvalid), p.lead(t, purged.ID).Status)
}
