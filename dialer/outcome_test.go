package dialer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

// dial admits a lead's call.
func (b *bundle) dial(t *testing.T, campaign campaigns.Campaign, lead leads.Lead) db.Call {
	t.Helper()
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead))
	require.NoError(t, err)
	return adm.Call
}

func TestLeadOutcomes(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, `UPDATE campaigns SET retry = '{"busy":1,"no_answer":2,"congestion":3,"machine":5,"failed":4}'`)
	n := 0
	for _, c := range []struct {
		status, cause string
		lead          leads.Status
		minutes       int
		attempts      int32
	}{
		{"completed", "NORMAL_CLEARING", leads.StatusCompleted, 0, 1},
		{"completed", "SERVICE_UNAVAILABLE", leads.StatusRetry, 4, 1},
		{"failed", "USER_BUSY", leads.StatusRetry, 1, 1},
		{"failed", "NO_ANSWER", leads.StatusRetry, 2, 1},
		{"failed", "ORIGINATOR_CANCEL", leads.StatusRetry, 2, 1},
		{"failed", "NORMAL_TEMPORARY_FAILURE", leads.StatusRetry, 3, 1},
		{"failed", "CALL_REJECTED", leads.StatusRetry, 4, 1},
		{"failed", "SOMETHING_NEW", leads.StatusRetry, 4, 1},
		{"failed", ledger.CauseHostLost, leads.StatusRetry, 4, 1}, // it may have rung: nobody knows
		{"completed", ledger.CauseHostLost, leads.StatusCompleted, 0, 1},
		{"failed", "UNALLOCATED_NUMBER", leads.StatusInvalid, 0, 1},
		{"failed", "INVALID_NUMBER_FORMAT", leads.StatusInvalid, 0, 1},
	} {
		n++
		phone := fmt.Sprintf("98765432%02d", n)
		t.Run(c.status+" "+c.cause, func(t *testing.T) {
			t.Parallel()
			lead := b.push(t, campaign.ID, phone)
			call := b.dial(t, campaign, lead)
			b.end(t, call, c.status, c.cause)
			row := b.lead(t, lead.ID)
			require.Equal(t, string(c.lead), row.Status)
			require.Equal(t, c.attempts, row.Attempts)
			if c.lead == leads.StatusRetry {
				require.WithinDuration(t, b.clock.Now().Add(time.Duration(c.minutes)*time.Minute), *row.NextAttemptAt, time.Second)
				require.Nil(t, row.CompletedAt)
				return
			}
			require.NotNil(t, row.CompletedAt)
			found := false
			for _, e := range b.events(t, store.EventLeadCompleted) {
				if e["lead_id"] == lead.ID.String() {
					require.Equal(t, map[string]any{
						"lead_id": lead.ID.String(), "campaign_id": campaign.ID.String(), "crm_lead_id": nil, "status": string(c.lead),
						"disposition": nil, "attempts": 1.0, "last_call_id": call.ID.String(),
						"completed_at": row.CompletedAt.UTC().Format(time.RFC3339Nano), "metadata": nil,
					}, e)
					require.False(t, found, "told once")
					found = true
				}
			}
			require.True(t, found)
		})
	}
}

// TestLeadWhoseMachineAnswered tries a lead again whom a machine surely has answered, whatever the voice agent told it, unless it passed
// the call on to somebody. It tries nobody again who may have talked to the voice agent, or has to an agent.
func TestLeadWhoseMachineAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, `UPDATE campaigns SET retry = '{"machine":5}', max_attempts = 2, voicemail_action = 'hangup'`)
	for i, c := range []struct {
		name, class string
		sure        float64
		session     string
		after       time.Duration // from an agent's connection to the verdict; negative: no agent had the callee
		lead        leads.Status
		beep        bool
		dialed      bool // by hand, by the agent
	}{
		{"sure", "machine", 0.95, "", -1, leads.StatusRetry, false, false},
		{"unsure", "machine", 0.94, "", -1, leads.StatusCompleted, false, false},
		{"sure, voice agent", "machine", 0.95, "hangup", -1, leads.StatusRetry, false, false},
		{"unsure, voice agent", "machine", 0.94, "hangup", -1, leads.StatusCompleted, false, false},
		{"unsure, its beep", "machine", 0.94, "hangup", -1, leads.StatusRetry, true, false},
		{"unsure, its beep, agent", "machine", 0.94, "", 0, leads.StatusCompleted, true, false},
		{"human, a beep", "human", 0.9, "hangup", -1, leads.StatusCompleted, true, false},
		{"sure, passed on", "machine", 1, "transferred_e164", -1, leads.StatusCompleted, false, false},
		{"unsure, agent", "machine", 0.6, "", 0, leads.StatusCompleted, false, false},
		{"sure, agent for a moment", "machine", 0.95, "", time.Second, leads.StatusRetry, false, false},
		{"sure, agent for a moment who dialed", "machine", 0.95, "", time.Second, leads.StatusCompleted, false, true},
		{"sure, agent talks", "machine", 1, "", 2 * time.Second, leads.StatusCompleted, false, false},
		{"human", "human", 0.9, "hangup", -1, leads.StatusCompleted, false, false},
		{"unknown", "unknown", 0.9, "hangup", -1, leads.StatusCompleted, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lead := b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", i))
			call := b.dial(t, campaign, lead)
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET amd_class = $2, amd_confidence = $3, amd_after_ms = $4 WHERE id = $1",
				call.ID, c.class, c.sure, max(0, c.after).Milliseconds())
			if c.beep {
				storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET amd_machine = 'mailbox' WHERE id = $1", call.ID)
			}
			if c.after >= 0 {
				queued := new(b.clock.Now())
				if c.dialed {
					queued = nil
				}
				storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET agent_id = $2, agent_connect_time = $3, queued_at = $4 WHERE id = $1",
					call.ID, storetest.NewID(t), b.clock.Now(), queued)
			}
			if c.session != "" {
				storetest.Exec(t, b.st, b.tenant, `INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url, status, outcome,
					ended_at) VALUES ($1, $2, $3, $4, 'ws://x', 'ended', $5, now())`,
					b.tenant, storetest.NewID(t), call.ID, campaign.VoiceAgentID, c.session)
			}
			b.end(t, call, "completed", "NORMAL_CLEARING")
			row := b.lead(t, lead.ID)
			require.Equal(t, string(c.lead), row.Status)
			if c.lead != leads.StatusRetry {
				return
			}
			require.WithinDuration(t, b.clock.Now().Add(5*time.Minute), *row.NextAttemptAt, time.Second)
			again := b.dial(t, campaign, lead)
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET amd_class = 'machine', amd_confidence = 1, amd_after_ms = 1 WHERE id = $1", again.ID)
			b.end(t, again, "completed", "NORMAL_CLEARING")
			require.Equal(t, string(leads.StatusExhausted), b.lead(t, lead.ID).Status)
		})
	}
}

// TestLeadWhomAFlowLeadsToAPerson: whoever has been bridged with a number or a SIP URI has been talked to, whatever detection says, before or after that,
// whoever they wait for before or after that, and whatever their switch's clock says. What they were told as of all is no person.
func TestLeadWhomAFlowLeadsToAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, `UPDATE campaigns SET retry = '{"machine":5,"failed":5}', max_attempts = 2`)
	const never = -time.Hour
	for i, c := range []struct {
		name    string
		cause   string
		machine bool // surely, after 2 s
		queued  bool // after 2 s, and nobody comes
		told    time.Duration
		served  time.Duration
		lead    leads.Status
	}{
		{"machine", "NORMAL_CLEARING", true, false, never, never, leads.StatusRetry},
		{"machine, an announcement", "NORMAL_CLEARING", true, false, 5 * time.Second, never, leads.StatusRetry},
		{"machine, a person", "NORMAL_CLEARING", true, false, never, 5 * time.Second, leads.StatusCompleted},
		{"machine, a person before", "NORMAL_CLEARING", true, false, never, time.Second, leads.StatusCompleted},
		{"machine, an announcement, a person", "NORMAL_CLEARING", true, false, 0, 5 * time.Second, leads.StatusCompleted},
		{"queue", "NORMAL_CLEARING", false, true, never, never, leads.StatusRetry},
		{"queue, an announcement", "NORMAL_CLEARING", false, true, 5 * time.Second, never, leads.StatusRetry},
		{"queue, a person", "NORMAL_CLEARING", false, true, 0, 5 * time.Second, leads.StatusCompleted},
		{"a person, queue", "NORMAL_CLEARING", false, true, never, time.Second, leads.StatusCompleted},
		{"a person, queue, by a clock that is behind", "NORMAL_CLEARING", false, true, never, -time.Minute, leads.StatusCompleted},
		{"failure", "SERVICE_UNAVAILABLE", false, false, never, never, leads.StatusRetry},
		{"a person, failure", "SERVICE_UNAVAILABLE", false, false, never, time.Second, leads.StatusCompleted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lead := b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", i))
			call := b.dial(t, campaign, lead)
			answered := b.clock.Now() // when it is closed, too
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET voice_agent_id = NULL WHERE id = $1", call.ID)
			if c.machine {
				storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET amd_class = 'machine', amd_confidence = 1, amd_after_ms = 2000 WHERE id = $1", call.ID)
			}
			if c.queued {
				storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET queued_at = $2 WHERE id = $1", call.ID, answered.Add(2*time.Second))
			}
			require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
				if c.told != never {
					if err := tx.Q.CallAnnounced(t.Context(), answered.Add(c.told), b.tenant, call.ID); err != nil {
						return err
					}
				}
				if c.served != never {
					return tx.Q.CallServed(t.Context(), answered.Add(c.served), b.tenant, call.ID)
				}
				return nil
			}))
			b.end(t, call, "completed", c.cause)
			require.Equal(t, string(c.lead), b.lead(t, lead.ID).Status)
		})
	}
}

// TestLeadWhoseMachineIsConnected: where machines are connected as persons are, an agent has had whoever it was, from the first moment on; a voice agent
// that talked to a mailbox has talked to nobody.
func TestLeadWhoseMachineIsConnected(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	require.Equal(t, campaigns.VoicemailConnect, campaign.VoicemailAction)
	for agent, want := range map[bool]leads.Status{true: leads.StatusCompleted, false: leads.StatusRetry} {
		lead := b.push(t, campaign.ID, fmt.Sprintf("987654321%d", len(want)))
		call := b.dial(t, campaign, lead)
		storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET amd_class = 'machine', amd_confidence = 1, amd_after_ms = 800 WHERE id = $1", call.ID)
		if agent {
			storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET agent_id = $2, agent_connect_time = $3, queued_at = $3 WHERE id = $1",
				call.ID, storetest.NewID(t), b.clock.Now())
		}
		b.end(t, call, "completed", "NORMAL_CLEARING")
		require.Equal(t, string(want), b.lead(t, lead.ID).Status)
	}
}

// A call carries its campaign's setting of the moment when it was admitted.
func TestGateTakesTheCampaignsDetection(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	require.True(t, campaign.AMD)
	require.True(t, b.dial(t, campaign, b.push(t, campaign.ID, "9876543210")).Amd)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET amd = false")
	require.False(t, b.dial(t, campaign, b.push(t, campaign.ID, "9876543211")).Amd)
}

func TestLeadIsExhaustedByItsAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	for attempt := range 3 {
		b.end(t, b.dial(t, campaign, lead), "failed", "NO_ANSWER")
		row := b.lead(t, lead.ID)
		require.EqualValues(t, attempt+1, row.Attempts)
		if attempt < 2 {
			require.Equal(t, string(leads.StatusRetry), row.Status)
		} else {
			require.Equal(t, string(leads.StatusExhausted), row.Status)
		}
	}
	require.Equal(t, "exhausted", b.events(t, store.EventLeadCompleted)[0]["status"])
}

func TestCallThatNeverBeganCostsNoAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	b.end(t, b.dial(t, campaign, lead), "failed", "NETWORK_OUT_OF_ORDER")
	row := b.lead(t, lead.ID)
	require.Zero(t, row.Attempts)
	require.Equal(t, string(leads.StatusQueued), row.Status)
	require.True(t, row.NextAttemptAt.After(b.clock.Now()))
	b.end(t, b.dial(t, campaign, lead), "failed", "NO_ANSWER")
	b.end(t, b.dial(t, campaign, lead), "failed", "NETWORK_OUT_OF_ORDER")
	row = b.lead(t, lead.ID)
	require.EqualValues(t, 1, row.Attempts)
	require.Equal(t, string(leads.StatusRetry), row.Status)
}

// A scrub that finds the number on the registry during a call ends the lead with it, unless there was a conversation.
func TestLeadListedDuringItsCall(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	for phone, want := range map[string]leads.Status{"9876543210": leads.StatusDNC, "9876543211": leads.StatusCompleted, "9876543212": leads.StatusDNC} {
		lead := b.push(t, campaign.ID, phone)
		call := b.dial(t, campaign, lead)
		storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET dnd_clean = false WHERE id = $1", lead.ID)
		switch phone {
		case "9876543210":
			b.end(t, call, "failed", "NO_ANSWER")
		case "9876543211":
			b.end(t, call, "completed", "NORMAL_CLEARING")
		default:
			storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'callback', next_attempt_at = now(), claimed_by = NULL WHERE id = $1", lead.ID)
			b.end(t, call, "completed", "NORMAL_CLEARING")
		}
		row := b.lead(t, lead.ID)
		require.Equal(t, string(want), row.Status)
		require.NotNil(t, row.CompletedAt)
	}
}

func TestOutcomeGivesWayToWhatWasSet(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	set := func(lead leads.Lead, assignments string) {
		storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET claimed_by = NULL, "+assignments+" WHERE id = $1", lead.ID)
	}
	ai := b.push(t, campaign.ID, "9876543210")
	call := b.dial(t, campaign, ai)
	set(ai, "status = 'exhausted', status_set_by = 'ai'")
	b.end(t, call, "completed", "NORMAL_CLEARING")
	require.Equal(t, string(leads.StatusExhausted), b.lead(t, ai.ID).Status, "a status that was set wins over the computed one")
	require.Equal(t, "exhausted", b.events(t, store.EventLeadCompleted)[0]["status"])

	later := b.clock.Now().Add(5 * time.Hour).Truncate(time.Millisecond)
	back := b.push(t, campaign.ID, "9876543211")
	call = b.dial(t, campaign, back)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'callback', status_set_by = 'ai', next_attempt_at = $1, claimed_by = NULL WHERE id = $2", later, back.ID)
	b.end(t, call, "completed", "NORMAL_CLEARING")
	row := b.lead(t, back.ID)
	require.Equal(t, string(leads.StatusCallback), row.Status)
	require.WithinDuration(t, later, *row.NextAttemptAt, 0)

	out := b.push(t, campaign.ID, "9876543212")
	call = b.dial(t, campaign, out)
	set(out, "status = 'completed', status_set_by = 'ai'")
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO suppressions (tenant_id, phone_hash, reason) SELECT tenant_id, phone_hash, 'ai' FROM leads WHERE id = $1", out.ID)
	b.end(t, call, "completed", "NORMAL_CLEARING")
	require.Equal(t, string(leads.StatusOptedOut), b.lead(t, out.ID).Status, "nothing wins over an opt-out")

	stale := b.push(t, campaign.ID, "9876543213")
	first := b.dial(t, campaign, stale)
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET last_call_id = gen_random_uuid() WHERE id = $1", stale.ID)
	b.end(t, first, "completed", "NORMAL_CLEARING")
	require.Equal(t, string(leads.StatusDialing), b.lead(t, stale.ID).Status, "only the last call decides")
}

func TestDispositionGoesToTheLead(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	call := b.dial(t, campaign, lead)
	storetest.Exec(t, b.st, b.tenant, "UPDATE calls SET disposition = 'interested' WHERE id = $1", call.ID)
	b.end(t, call, "completed", "NORMAL_CLEARING")
	require.Equal(t, "interested", *b.lead(t, lead.ID).Disposition)
	require.Equal(t, "interested", b.events(t, store.EventLeadCompleted)[0]["disposition"])
}
