package dialer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/carrier"
	"github.com/ringmaster/ringmaster/dialer/gate"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/admission"
	"github.com/ringmaster/ringmaster/switchctl/ledger"
)

func (b *bundle) request(t *testing.T, campaign uuid.UUID, lead leads.Lead) admission.Request {
	t.Helper()
	row := b.lead(t, lead.ID)
	var number store.Phone
	require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
		var err error
		number, err = leads.PhoneOf(t.Context(), tx, b.tenant, row.Phone, row.PhoneSealed)
		return err
	}))
	return admission.Request{
		TenantID: b.tenant, CampaignID: &campaign, LeadID: &lead.ID, To: number, Purpose: admission.PurposeLead,
		Environment: string(campaigns.EnvironmentLive),
	}
}

func reason(t *testing.T, err error) gate.Reason {
	t.Helper()
	var refusal *gate.RefusalError
	require.ErrorAs(t, err, &refusal)
	return refusal.Reason
}

// closeCall ends a call as the call controller does: final record, units, the lead's outcome, in one transaction. A fault
// undoes it at the end.
func (b *bundle) closeCall(ctx context.Context, call db.Call, status, cause string, fault ...error) error {
	return b.st.InTenant(ctx, call.TenantID, func(tx *store.Tx) error {
		end := b.clock.Now()
		p := db.CallCloseParams{TenantID: call.TenantID, ID: call.ID, Status: status, EndTime: end, HangupCause: cause}
		if status == ledger.StatusCompleted {
			p.AnswerTime = &end
			if _, err := tx.Pgx().Exec(ctx, `UPDATE calls SET agent_connect_time = $2 WHERE id = $1 AND queued_at IS NULL
				AND agent_connect_time IS NULL`, call.ID, end); err != nil { // somebody talked with the callee
				return err
			}
		}
		if cause != ledger.CauseNetworkOutOfOrder && cause != ledger.CauseHostLost {
			disposition := "recv_refuse"
			p.HangupDisposition = &disposition
		}
		closed, err := tx.Q.CallClose(ctx, p)
		if err != nil {
			return err
		}
		if _, err := tx.Q.LiveUnitsDeleteOfCall(ctx, call.TenantID, call.ID); err != nil {
			return err
		}
		return errors.Join(append(fault, b.svc.Answers.Ended(ctx, tx, closed))...)
	})
}

func (b *bundle) end(t *testing.T, call db.Call, status, cause string) {
	t.Helper()
	require.NoError(t, b.closeCall(t.Context(), call, status, cause))
}

func TestGateAdmitsALead(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	lead, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign.ID,
		decode[leads.Input](t, `{"phone":"09876543210","metadata":{"plan":"gold"}}`))
	require.NoError(t, err)
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead))
	require.NoError(t, err)
	require.Equal(t, adm.UnitID, adm.Call.ID)
	require.Equal(t, adm.Call.ID.String(), adm.Call.FsUuid)
	require.Equal(t, "+919876543210", adm.Call.ToNumber.Reveal())
	require.Equal(t, adm.From, adm.Call.FromNumber.Reveal())
	require.Equal(t, ledger.StatusDialing, adm.Call.Status)
	require.Equal(t, campaign.VoiceAgentID, adm.Call.VoiceAgentID)
	require.Equal(t, 25*time.Second, adm.RingTimeout)
	require.Len(t, adm.Routes, 1)
	require.Equal(t, "sofia/external/+919876543210@127.0.0.1:5070;transport=udp", adm.Routes[0].Endpoint)
	require.Equal(t, adm.Routes[0].TrunkID, adm.Call.TrunkID)

	row := b.lead(t, lead.ID)
	require.Equal(t, string(leads.StatusDialing), row.Status)
	require.EqualValues(t, 1, row.Attempts)
	require.Equal(t, adm.Call.ID, *row.LastCallID)
	require.Equal(t, 1, b.units(t))
	require.Equal(t, []map[string]any{{
		"call_id": adm.Call.ID.String(), "direction": "outbound", "from": adm.From, "to": "+919876543210",
		"campaign_id": campaign.ID.String(), "voice_agent_id": campaign.VoiceAgentID.String(),
		"started_at": adm.Call.DialTime.UTC().Format(time.RFC3339Nano), "lead_metadata": map[string]any{"plan": "gold"},
		"metadata": nil,
	}}, b.events(t, store.EventCallStarted))

	_, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead))
	require.Equal(t, gate.ReasonLead, reason(t, err), "a lead in a call is not dialed again")
	b.end(t, adm.Call, "completed", "NORMAL_CLEARING")
	require.Zero(t, b.units(t))
}

// A pacer that has lost its campaign to another one, and doesn't know it yet, dials none of the leads it had claimed.
func TestGateAdmitsTheClaimantAlone(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET claimed_by = 'pacer:second', claimed_until = now() + interval '1 minute'")
	req := b.request(t, campaign.ID, lead)
	req.Claimant = "pacer:first"
	_, err := passGate(t.Context(), b.svc.Gate, req)
	require.Equal(t, gate.ReasonLead, reason(t, err))
	require.Zero(t, b.units(t))
	require.Zero(t, b.lead(t, lead.ID).Attempts)
	req.Claimant = "pacer:second"
	_, err = passGate(t.Context(), b.svc.Gate, req)
	require.NoError(t, err)
}

func TestGateOfStrictTenantShowsTheMask(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t).strict(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead))
	require.NoError(t, err)
	require.Equal(t, "••••3210", adm.Call.ToNumber.Reveal())
	require.Equal(t, "••••3210", b.events(t, store.EventCallStarted)[0]["to"])
	require.Contains(t, adm.Routes[0].Endpoint, "+919876543210")
	opened, err := b.st.OpenPhone(t.Context(), b.tenant, adm.Call.PeerSealed)
	require.NoError(t, err)
	require.Equal(t, "9876543210", opened.National())
}

func TestGateRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	next := 0
	for name, c := range map[string]struct {
		prepare func(t *testing.T, lead leads.Lead, req *admission.Request)
		reason  gate.Reason
		status  leads.Status // of the lead afterwards
	}{
		"marked": {func(t *testing.T, lead leads.Lead, _ *admission.Request) {
			t.Helper()
			storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET dnd_clean = false WHERE id = $1", lead.ID)
		}, gate.ReasonDNC, leads.StatusDNC},
		"registered since": {func(_ *testing.T, _ leads.Lead, req *admission.Request) {
			b.registry.add(req.To.National())
		}, gate.ReasonDNC, leads.StatusDNC},
		"opted out since": {func(t *testing.T, lead leads.Lead, _ *admission.Request) {
			t.Helper()
			storetest.Exec(t, b.st, b.tenant, "INSERT INTO suppressions (tenant_id, phone_hash, reason) SELECT tenant_id, phone_hash, 'test' FROM leads WHERE id = $1", lead.ID)
		}, gate.ReasonSuppressed, leads.StatusOptedOut},
		"attempts": {func(t *testing.T, lead leads.Lead, _ *admission.Request) {
			t.Helper()
			storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET attempts = 3, status = 'retry' WHERE id = $1", lead.ID)
		}, gate.ReasonAttempts, leads.StatusExhausted},
		"finished": {func(t *testing.T, lead leads.Lead, _ *admission.Request) {
			t.Helper()
			storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = 'completed' WHERE id = $1", lead.ID)
		}, gate.ReasonLead, leads.StatusCompleted},
		"another number": {func(t *testing.T, _ leads.Lead, req *admission.Request) {
			t.Helper()
			req.To = mustPhone(t, "9000000001")
		}, gate.ReasonNumber, leads.StatusNew},
		"no number": {func(_ *testing.T, _ leads.Lead, req *admission.Request) { req.To = store.Phone{} }, gate.ReasonNumber, leads.StatusNew},
		"test key": {func(_ *testing.T, _ leads.Lead, req *admission.Request) {
			req.Environment = "test"
		}, gate.ReasonTestEnvironment, leads.StatusNew},
		"no campaign": {func(_ *testing.T, _ leads.Lead, req *admission.Request) {
			other := uuid.New()
			req.CampaignID = &other
		}, gate.ReasonCampaign, leads.StatusNew},
		"no such lead": {func(_ *testing.T, _ leads.Lead, req *admission.Request) {
			other := uuid.New()
			req.LeadID = &other
		}, gate.ReasonLead, leads.StatusNew},
		"no parent": {func(_ *testing.T, _ leads.Lead, req *admission.Request) {
			req.Purpose = admission.PurposeTransfer
		}, gate.ReasonCall, leads.StatusNew},
	} {
		next++
		phone := fmt.Sprintf("98765%05d", next)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lead := b.push(t, campaign.ID, phone)
			req := b.request(t, campaign.ID, lead)
			c.prepare(t, lead, &req)
			before := b.lead(t, lead.ID)
			_, err := passGate(t.Context(), b.svc.Gate, req)
			require.Equal(t, c.reason, reason(t, err))
			after := b.lead(t, lead.ID)
			require.Equal(t, string(c.status), after.Status)
			require.Equal(t, before.Attempts, after.Attempts)
			require.Zero(t, storetest.Count(t, b.st, "SELECT count(*) FROM calls WHERE lead_id = $1", lead.ID))
			completed := 0
			for _, e := range b.events(t, store.EventLeadCompleted) {
				if e["lead_id"] == lead.ID.String() {
					completed++
					require.Equal(t, string(c.status), e["status"])
				}
			}
			if before.Status != after.Status {
				require.Equal(t, 1, completed)
			} else {
				require.Zero(t, completed)
			}
		})
	}
	require.Zero(t, b.units(t))
}

func TestGateScrubsAgainAfterAWeek(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	fresh, stale := b.push(t, campaign.ID, "9876543210"), b.push(t, campaign.ID, "9876543211")
	storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET dnd_checked_at = $1 WHERE id = $2", b.clock.Now().Add(-8*24*time.Hour), stale.ID)
	b.registry.setDown(true)
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, fresh))
	require.NoError(t, err, "a fresh mark holds while the registry is down")
	b.end(t, adm.Call, "failed", "USER_BUSY")
	_, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, stale))
	require.Equal(t, gate.ReasonUnscrubbed, reason(t, err), "an old one does not")
	b.registry.setDown(false)
	_, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, stale))
	require.NoError(t, err)
	require.WithinDuration(t, b.clock.Now(), *b.lead(t, stale.ID).DndCheckedAt, time.Second)
}

func TestGateCeilings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql    string
		admits int
		reason gate.Reason
	}{
		"campaign":        {"UPDATE campaigns SET max_concurrent = 2", 2, gate.ReasonCampaignCeiling},
		"voice agent":     {"UPDATE voice_agents SET max_concurrent = 3", 3, gate.ReasonAgentCeiling},
		"trunk channels":  {"UPDATE trunks SET max_channels = 4", 4, gate.ReasonChannels},
		"trunk rate":      {"UPDATE trunks SET cps = 2", 2, gate.ReasonTrunkRate},
		"fallback":        {"UPDATE trunks SET is_active = false", 10, gate.ReasonFallback},
		"fallback of own": {"WITH off AS (UPDATE trunks SET is_active = false) UPDATE campaigns SET max_concurrent = 12", 12, gate.ReasonCampaignCeiling},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(c *Config) {
				c.HostTrunk = &carrier.HostTrunk{Host: "carrier.example", Port: 5061, Transport: "tls", NumberFormat: "national"}
			}).trunkAndNumber(t)
			campaign := b.running(t)
			storetest.Exec(t, b.st, b.tenant, c.sql)
			var calls []db.Call
			var err error
			for i := range 20 {
				lead := b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", i))
				var adm admission.Terms
				if adm, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, lead)); err != nil {
					require.Equal(t, string(leads.StatusNew), b.lead(t, lead.ID).Status)
					require.Zero(t, b.lead(t, lead.ID).Attempts, "a ceiling costs no attempt")
					break
				}
				calls = append(calls, adm.Call)
				b.began(t, time.Minute) // however long this takes
			}
			require.Len(t, calls, c.admits)
			require.Equal(t, c.reason, reason(t, err))
			var limit *fault.Error
			require.ErrorAs(t, err, &limit)
			require.Positive(t, limit.RetryAfter)
			if c.reason == gate.ReasonAgentCeiling {
				require.Equal(t, "max_concurrent", limit.Code)
			}
			b.end(t, calls[0], "failed", "USER_BUSY")
			b.began(t, -time.Minute)
			_, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, "9000000000")))
			require.NoError(t, err, "a unit given back is free again")
		})
	}
}

func TestGateCountsAllCallsOfTheAccount(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET max_channels = 3")
	one, two := b.running(t), b.running(t)
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, one.ID, b.push(t, one.ID, "9876543210")))
	require.NoError(t, err)
	_, err = passGate(t.Context(), b.svc.Gate, admission.Request{TenantID: b.tenant, To: mustPhone(t, "9876543211"), Purpose: admission.PurposeSingle})
	require.NoError(t, err)
	transfer := admission.Request{TenantID: b.tenant, To: mustPhone(t, "9876543212"), Purpose: admission.PurposeTransfer, ParentCallID: &adm.Call.ID}
	moved, err := passGate(t.Context(), b.svc.Gate, transfer)
	require.NoError(t, err)
	require.Equal(t, adm.Call.ID, moved.Call.ID)
	require.NotEqual(t, adm.UnitID, moved.UnitID)
	require.Equal(t, 2, storetest.Count(t, b.st, "SELECT count(*) FROM calls"), "a transfer has no row of its own")
	_, err = passGate(t.Context(), b.svc.Gate, b.request(t, two.ID, b.push(t, two.ID, "9876543213")))
	require.Equal(t, gate.ReasonChannels, reason(t, err))
	usage, err := b.svc.Statistics.ChannelsUsage(t.Context(), b.tenant)
	require.NoError(t, err)
	require.Equal(t, 3, usage.ChannelsAllocated)
	require.Equal(t, 3, usage.ChannelsInUse)
	require.True(t, usage.Ceilings.Channels.Enforced)
	b.end(t, adm.Call, "failed", "USER_BUSY")
	require.Equal(t, 1, b.units(t), "both units of the call are given back")

	b.registry.add("9876543212")
	adm, err = passGate(t.Context(), b.svc.Gate, b.request(t, two.ID, b.push(t, two.ID, "9876543214")))
	require.NoError(t, err)
	transfer.ParentCallID = &adm.Call.ID
	_, err = passGate(t.Context(), b.svc.Gate, transfer)
	require.Equal(t, gate.ReasonDNC, reason(t, err), "the rules of numbers hold for transfers")
}

func TestGateRoutesByPriority(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	add := func(host, format string, priority, channels int, change string) uuid.UUID {
		id := storetest.Trunk(t, b.st, b.tenant, host, 5060, channels)
		storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET number_format = $1, priority = $2, cps = 100, "+change+" WHERE id = $3", format, priority, id)
		return id
	}
	last := add("c.example", "0national", 3, 10, "transport = 'tcp'")
	first := add("a.example", "national", 1, 1, "register = true, username = 'u'")
	add("off.example", "e164", 0, 10, "is_active = false")
	second := add("b.example", "e164", 2, 10, "transport = 'udp'")
	campaign := b.running(t)
	adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, "9876543210")))
	require.NoError(t, err)
	require.Equal(t, []admission.Route{
		{TrunkID: &first, Endpoint: "sofia/gateway/rm_" + first.String() + "/9876543210"},
		{TrunkID: &second, Endpoint: "sofia/external/+919876543210@b.example:5060;transport=udp"},
		{TrunkID: &last, Endpoint: "sofia/external/09876543210@c.example:5060;transport=tcp"},
	}, adm.Routes)
	adm, err = passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, "9876543211")))
	require.NoError(t, err)
	require.Equal(t, &second, adm.Routes[0].TrunkID, "a trunk without a free channel is passed over")
}

func TestGateCallerID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5070, 200)
	campaign := b.running(t)
	admit := func(phone string) (admission.Terms, error) {
		return passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, phone)))
	}
	_, err := admit("9876543210")
	require.Equal(t, gate.ReasonCallerID, reason(t, err))
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000001")
	storetest.InboundNumber(t, b.st, b.tenant, "+918000000002")
	seen := map[string]int{}
	for i := range 4 {
		adm, err := admit(fmt.Sprintf("987654322%d", i))
		require.NoError(t, err)
		seen[adm.From]++
	}
	require.Equal(t, map[string]int{"+918000000001": 2, "+918000000002": 2}, seen, "the tenant's own numbers in turn")
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET caller_id = '08000000002'")
	adm, err := admit("9876543230")
	require.NoError(t, err)
	require.Equal(t, "+918000000002", adm.From)
	storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET is_active = false WHERE e164 = '+918000000002'")
	_, err = admit("9876543231")
	require.Equal(t, gate.ReasonCallerID, reason(t, err), "the tenant has it no more")
}

// The numbers of the call's trunk and those of none are shown equally often, those of another trunk where there are no others.
func TestGateCallerIDsOfTrunks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	used := storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5070, 200)
	other := storetest.Trunk(t, b.st, b.tenant, "127.0.0.1", 5071, 200)
	storetest.Exec(t, b.st, b.tenant, "UPDATE trunks SET cps = 100, priority = CASE WHEN id = $1 THEN 0 ELSE 1 END", used)
	campaign := b.running(t)
	number := func(e164 string, trunk *uuid.UUID) {
		storetest.Exec(t, b.st, b.tenant, "UPDATE numbers SET trunk_id = $1 WHERE id = $2", trunk,
			storetest.InboundNumber(t, b.st, b.tenant, e164))
	}
	callee := 0
	shown := func(calls int) map[string]int {
		seen := map[string]int{}
		for range calls {
			callee++
			adm, err := passGate(t.Context(), b.svc.Gate, b.request(t, campaign.ID, b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", callee))))
			require.NoError(t, err)
			require.Equal(t, &used, adm.Routes[0].TrunkID)
			seen[adm.From]++
		}
		return seen
	}
	number("+918000000001", &other)
	number("+918000000002", &other)
	require.Equal(t, map[string]int{"+918000000001": 1, "+918000000002": 1}, shown(2), "nothing else is left")
	number("+918000000003", &used)
	number("+918000000004", nil)
	number("+918000000005", nil)
	number("+911400000006", nil)
	require.Equal(t, map[string]int{
		"+918000000003": 3, "+918000000004": 3, "+918000000005": 3, "+911400000006": 3,
	}, shown(12), "another trunk's carrier alone takes its numbers")
}

func TestGateHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET max_concurrent = 5")
	shared := b.push(t, campaign.ID, "9876543299")
	requests := []admission.Request{b.request(t, campaign.ID, shared), b.request(t, campaign.ID, shared)}
	for i := range 14 {
		requests = append(requests, b.request(t, campaign.ID, b.push(t, campaign.ID, fmt.Sprintf("98765432%02d", i))))
	}
	other := b.another(t, "node-2")
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted, sharedAdmitted := 0, 0
	for i, req := range requests {
		svc := b.svc
		if i%2 == 1 {
			svc = other
		}
		wg.Go(func() {
			if _, err := passGate(t.Context(), svc.Gate, req); err == nil {
				mu.Lock()
				defer mu.Unlock()
				admitted++
				if *req.LeadID == shared.ID {
					sharedAdmitted++
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 5, admitted)
	require.LessOrEqual(t, sharedAdmitted, 1)
	require.Equal(t, 5, b.units(t))
}
