package dialer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// talkingCall is a lead's call that is up.
func (b *bundle) talkingCall(t *testing.T, campaign campaigns.Campaign) (db.Call, leads.Lead) {
	t.Helper()
	lead := b.push(t, campaign.ID, b.freshNumber())
	call := b.dial(t, campaign, lead)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET status = 'answered', answer_time = now(), amd = false, answered_by_amd = 'human' WHERE id = $1", call.ID)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'connected' WHERE id = $1", lead.ID)
	return call, lead
}

func TestVoiceAgentSetsDisposition(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	call, lead := b.talkingCall(t, b.running(t))
	say := b.svc.Answers.SetDisposition
	notes := "call on Monday"
	require.NoError(t, say(t.Context(), call, "interested", &notes))
	require.NoError(t, say(t.Context(), call, "interested", nil), "a second time changes nothing")
	require.NoError(t, say(t.Context(), call, "sold", nil))
	told := b.events(t, store.EventCallDispositionSet)
	require.Len(t, told, 2)
	require.Equal(t, "interested", told[0]["disposition"])
	require.Equal(t, "ai", told[0]["source"])
	require.NotContains(t, told[0], "previous_disposition")
	require.Equal(t, "sold", told[1]["disposition"])
	require.Equal(t, "interested", told[1]["previous_disposition"])
	require.Equal(t, notes, told[1]["notes"], "what isn't given stays")
	require.Equal(t, "sold", *b.lead(t, lead.ID).Disposition)
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET dispositions = '{sold}'")
	require.Equal(t, []string{"disposition"}, fields(t, say(t.Context(), call, "lost", nil)))
}

func TestVoiceAgentSetsLeadField(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	call, lead := b.talkingCall(t, b.running(t))
	set := func(field, value string) error {
		return b.svc.Answers.SetLeadField(t.Context(), call, field, json.RawMessage(value))
	}
	require.NoError(t, set("plan", `{"tier":2}`))
	require.NoError(t, set("city", `"Pune"`))
	require.JSONEq(t, `{"plan":{"tier":2},"city":"Pune"}`, string(b.lead(t, lead.ID).CustomFields))
	require.NoError(t, set("plan", `null`))
	require.NoError(t, set("never", `null`))
	require.JSONEq(t, `{"city":"Pune"}`, string(b.lead(t, lead.ID).CustomFields))
	for _, field := range []string{"a", "b"} {
		require.NoError(t, set(field, `"`+strings.Repeat("x", 7<<10)+`"`))
	}
	require.Equal(t, []string{"value"}, fields(t, set("c", `"`+strings.Repeat("x", 7<<10)+`"`)), "too much together")
	require.Equal(t, []string{"value"}, fields(t, set("c", `"\u0000"`)))
	call.LeadID = nil
	require.Equal(t, "no_lead", conflictCode(t, set("city", `1`)))
}

// TestVoiceAgentSetsLeadStatus: the status wins over what the call's end would give, tells lead.completed at that end and no sooner, and
// yields to an opt-out alone.
func TestVoiceAgentSetsLeadStatus(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	for _, c := range []struct {
		status string
		want   leads.Status
		again  bool
	}{
		{"completed", leads.StatusCompleted, false},
		{"exhausted", leads.StatusExhausted, false},
		{"invalid", leads.StatusInvalid, false},
		{"retry", leads.StatusRetry, true},
		{"callback", leads.StatusCallback, true},
	} {
		t.Run(c.status, func(t *testing.T) {
			t.Parallel()
			call, lead := b.talkingCall(t, campaign)
			require.NoError(t, b.svc.Answers.SetLeadStatus(t.Context(), call, c.status))
			row := b.lead(t, lead.ID)
			require.Equal(t, c.status, row.Status)
			require.Equal(t, "ai", *row.StatusSetBy)
			require.Nil(t, row.CompletedAt)
			require.Nil(t, row.NextAttemptAt, "nobody dials it while the call goes on")
			b.end(t, call, "completed", "NORMAL_CLEARING")
			row = b.lead(t, lead.ID)
			require.Equal(t, string(c.want), row.Status)
			require.Equal(t, c.again, row.NextAttemptAt != nil)
			require.Equal(t, c.again, row.CompletedAt == nil)
		})
	}
}

func TestVoiceAgentOptsOut(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t).strict(t)
	campaign := b.running(t)
	call, lead := b.talkingCall(t, campaign)
	say := b.svc.Answers.SetLeadStatus
	require.NoError(t, say(t.Context(), call, "opted_out"))
	require.NoError(t, say(t.Context(), call, "opted_out"), "again")
	require.Equal(t, campaigns.CodeLeadFinal, conflictCode(t, say(t.Context(), call, "retry")), "nothing comes after an opt-out")
	require.Equal(t, campaigns.CodeLeadFinal, conflictCode(t, b.svc.Answers.ScheduleCallback(t.Context(), call, switchctl.Callback{At: b.clock.Now().Add(time.Hour)})))
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM suppressions"))
	b.end(t, call, "completed", "NORMAL_CLEARING")
	row := b.lead(t, lead.ID)
	require.Equal(t, string(leads.StatusOptedOut), row.Status)
	require.NotNil(t, row.CompletedAt)
	require.Empty(t, row.PhoneSealed, "a strict tenant's number is forgotten")
	require.Len(t, b.events(t, store.EventLeadCompleted), 1)
}

// TestCallbackIsDialedByItsAgent: a promised callback waits for the end of its call, is dialed at its time by the voice agent that it names,
// and so are its retries.
func TestCallbackIsDialedByItsAgent(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, `UPDATE campaigns SET retry = '{"busy":1}', max_attempts = 1`)
	other := b.agent(t)
	call, lead := b.talkingCall(t, campaign)
	at := b.clock.Now().Add(time.Hour)
	promise := func(c switchctl.Callback) error { return b.svc.Answers.ScheduleCallback(t.Context(), call, c) }
	require.Equal(t, []string{"scheduled_at"}, fields(t, promise(switchctl.Callback{At: b.clock.Now()})))
	require.Equal(t, []string{"scheduled_at"}, fields(t, promise(switchctl.Callback{At: at.AddDate(2, 0, 0)})))
	require.Equal(t, []string{"voice_agent_id"}, fields(t, promise(switchctl.Callback{At: at, VoiceAgentID: new(uuid.New())})))
	require.NoError(t, promise(switchctl.Callback{At: at, VoiceAgentID: &other.ID}))
	require.Nil(t, b.lead(t, lead.ID).NextAttemptAt)
	b.end(t, call, "completed", "NORMAL_CLEARING")
	row := b.lead(t, lead.ID)
	require.Equal(t, string(leads.StatusCallback), row.Status)
	require.WithinDuration(t, at, *row.NextAttemptAt, time.Millisecond)

	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	b.clock.Advance(time.Hour + time.Second)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 1 }, waitFor, every)
	require.Equal(t, other.ID, *sw.dialed()[0].VoiceAgentID)
	require.Equal(t, lead.ID, *sw.dialed()[0].LeadID)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_attempts = 3")
	b.end(t, sw.dialed()[0], "failed", "USER_BUSY")
	b.clock.Advance(time.Minute + time.Second)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 2 }, waitFor, every)
	require.Equal(t, other.ID, *sw.dialed()[1].VoiceAgentID, "its retry, too")
}

// TestCallbackOfAnAgentThatRests: a callback whose voice agent takes no calls waits, and keeps nobody else waiting.
func TestCallbackOfAnAgentThatRests(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	other := b.agent(t)
	call, lead := b.talkingCall(t, campaign)
	require.NoError(t, b.svc.Answers.ScheduleCallback(t.Context(), call, switchctl.Callback{At: b.clock.Now().Add(time.Minute), VoiceAgentID: &other.ID}))
	b.end(t, call, "completed", "NORMAL_CLEARING")
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET status = 'paused' WHERE id = $1", other.ID)
	next := b.push(t, campaign.ID, b.freshNumber())
	b.clock.Advance(time.Minute + time.Second)
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 1 }, waitFor, every)
	require.Equal(t, next.ID, *sw.dialed()[0].LeadID)
	require.Eventually(t, func() bool { return b.lead(t, lead.ID).NextAttemptAt.After(b.clock.Now()) }, waitFor, every)
}

// TestCallbackOfAnAgentThatIsGone: the campaign's own voice agent takes what an archived one was to take.
func TestCallbackOfAnAgentThatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	other := b.agent(t)
	call, lead := b.talkingCall(t, campaign)
	require.NoError(t, b.svc.Answers.ScheduleCallback(t.Context(), call, switchctl.Callback{At: b.clock.Now().Add(time.Minute), VoiceAgentID: &other.ID}))
	b.end(t, call, "completed", "NORMAL_CLEARING")
	storetest.Exec(t, b.st, b.tenant, "UPDATE voice_agents SET status = 'archived' WHERE id = $1", other.ID)
	b.clock.Advance(time.Minute + time.Second)
	sw := &fakeSwitch{}
	pace(t, b.svc, sw)
	require.Eventually(t, func() bool { return len(sw.dialed()) == 1 }, waitFor, every)
	require.Equal(t, lead.ID, *sw.dialed()[0].LeadID)
	require.Equal(t, *campaign.VoiceAgentID, *sw.dialed()[0].VoiceAgentID)
}

// TestStatusKeepsTheCallback: the status callback, said after a promise, keeps its time; another one takes it back. While the call goes on
// nobody else dials the lead, or deletes it.
func TestStatusKeepsTheCallback(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	other := b.agent(t)
	at := b.clock.Now().Add(3 * time.Hour)
	for _, status := range []string{"callback", "retry"} {
		call, lead := b.talkingCall(t, campaign)
		require.NoError(t, b.svc.Answers.ScheduleCallback(t.Context(), call, switchctl.Callback{At: at, VoiceAgentID: &other.ID}))
		require.NoError(t, b.svc.Answers.SetLeadStatus(t.Context(), call, status))
		_, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead))
		var refusal *gate.RefusalError
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, gate.ReasonLead, refusal.Reason)
		require.Equal(t, leads.CodeLeadInCall, conflictCode(t, b.svc.Leads.DeleteLead(t.Context(), b.tenant, lead.ID)))
		b.end(t, call, "completed", "NORMAL_CLEARING")
		row := b.lead(t, lead.ID)
		require.Equal(t, status, row.Status)
		require.Equal(t, status == "callback", row.NextAttemptAt.Sub(at).Abs() < time.Millisecond)
		require.Equal(t, status == "callback", row.CallbackVoiceAgentID != nil)
		require.NoError(t, b.svc.Leads.DeleteLead(t.Context(), b.tenant, lead.ID))
	}
}

func TestCallbackNeedsAVoiceAgentsCampaign(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	call, _ := b.talkingCall(t, campaign)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET post_answer_action = 'connect_agent' WHERE id = $1", campaign.ID)
	agent, at := b.agent(t), b.clock.Now().Add(time.Hour)
	require.Equal(t, []string{"voice_agent_id"}, fields(t, b.svc.Answers.ScheduleCallback(t.Context(), call, switchctl.Callback{At: at, VoiceAgentID: &agent.ID})))
	require.NoError(t, b.svc.Answers.ScheduleCallback(t.Context(), call, switchctl.Callback{At: at}))
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET status = 'completed' WHERE id = $1", campaign.ID)
	require.Equal(t, campaigns.CodeCampaignNotRuns, conflictCode(t, b.svc.Answers.ScheduleCallback(t.Context(), call, switchctl.Callback{At: at})))
}

// TestVoiceAgentRequestsSupervisor: a request is kept and told once, however often it is made.
func TestVoiceAgentRequestsSupervisor(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	call, _ := b.talkingCall(t, b.running(t))
	e := switchctl.Escalation{ID: storetest.NewID(t), VoiceAgentID: storetest.NewID(t), Reason: "asks for a manager", Urgency: "high", At: b.clock.Now()}
	for range 2 { // once, and tried again
		holds, err := b.svc.Answers.RequestSupervisor(t.Context(), call, e)
		require.NoError(t, err)
		require.Equal(t, e.ID, holds)
	}
	told := b.events(t, store.EventAISessionEscalated)
	require.Equal(t, []map[string]any{{
		"escalation_id": e.ID.String(), "call_id": call.ID.String(), "voice_agent_id": e.VoiceAgentID.String(), "reason": e.Reason, "urgency": "high",
		"supervisor_id": nil, "escalated_at": e.At.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano),
	}}, told)
	require.Equal(t, 1, storetest.Count(t, b.st, "SELECT count(*) FROM escalations WHERE call_id = $1 AND claimed_at IS NULL", call.ID))
	// Asked again and again it is the same request, told again only when it becomes more urgent.
	for i, urgency := range []string{"high", "low", "high", "critical", "low", "urgent", "normal"} {
		again := switchctl.Escalation{ID: storetest.NewID(t), VoiceAgentID: e.VoiceAgentID, Reason: fmt.Sprint("again ", i), Urgency: urgency, At: b.clock.Now()}
		holds, err := b.svc.Answers.RequestSupervisor(t.Context(), call, again)
		require.NoError(t, err)
		require.Equal(t, e.ID, holds)
	}
	require.Equal(t, []string{"again 6 critical"}, storetest.Query[string](t, b.st, b.tenant,
		"SELECT reason || ' ' || urgency FROM escalations WHERE call_id = $1", call.ID))
	told = b.events(t, store.EventAISessionEscalated)
	require.Len(t, told, 2)
	require.Equal(t, "critical", told[1]["urgency"])
	// One that is claimed is another.
	storetest.Exec(t, b.st, b.tenant, "UPDATE escalations SET claim_id = id, claimed_by = id, claimed_at = now() WHERE id = $1", e.ID)
	next := switchctl.Escalation{ID: storetest.NewID(t), VoiceAgentID: e.VoiceAgentID, Urgency: "low", At: b.clock.Now()}
	for _, asked := range []switchctl.Escalation{e, next} {
		holds, err := b.svc.Answers.RequestSupervisor(t.Context(), call, asked)
		require.NoError(t, err)
		require.Equal(t, asked.ID, holds)
	}
	require.Len(t, b.events(t, store.EventAISessionEscalated), 3)
}
