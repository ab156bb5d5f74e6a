package dialer

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl"
)

// What a lead's call waits for before it is dialed, in round trips to the database. The least of some is what it takes: others use the store, too.
func TestRoundTripsOfAnAdmission(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st).trunkAndNumber(t)
	storetest.Subscription(t, st, b.tenant, nil, "call.*")
	campaign := b.running(t)
	takes := func(trips int, how string) {
		fewest := 100
		for range 20 { // each connection has its statements prepared first
			req := b.request(t, campaign.ID, b.push(t, campaign.ID, b.freshNumber()))
			req.VoiceAgentID = campaign.VoiceAgentID // as its pacer asks
			fewest = min(fewest, proxy.RoundTrips(func() {
				_, err := b.svc.Gate.Admit(t.Context(), req)
				require.NoError(t, err)
			}))
			if fewest <= trips {
				break
			}
		}
		require.Equal(t, trips, fewest, how)
	}
	takes(2, "what the rules look at, under the lock; then what is admitted, and the commit")
	number := "+918000777777"
	storetest.InboundNumber(t, st, b.tenant, number)
	storetest.Exec(t, st, b.tenant, "UPDATE campaigns SET caller_id = $1", number)
	takes(2, "with a number of the campaign's own")
	storetest.Exec(t, st, b.tenant, "UPDATE campaigns SET caller_id = '8000777777'")
	takes(3, "which is written in another way")
	require.Positive(t, storetest.Count(t, st, fmt.Sprintf("SELECT count(*) FROM calls WHERE from_number = '%s'", number)))
	storetest.Exec(t, st, b.tenant, "UPDATE campaigns SET caller_id = NULL")
	b.strict(t)
	takes(2, "of a strict tenant")
}

// What a pacer's round waits for that dials nothing: a look at its campaign and its calls, and the end of that.
func TestRoundTripsOfARound(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st).trunkAndNumber(t)
	campaign := b.running(t)
	storetest.Exec(t, st, b.tenant, "UPDATE campaigns SET max_concurrent = 3")
	for range 10 {
		b.push(t, campaign.ID, b.freshNumber())
	}
	p := newPacer(b.svc.Pacers, &fakeSwitch{}, b.tenant, campaign.ID, nil)
	round := func(began int) int {
		return proxy.RoundTrips(func() {
			p.round(t.Context())
			require.Equal(t, began, p.begun)
		})
	}
	round(3)
	require.Equal(t, 2, min(round(0), round(0), round(0)), "a look")
	fewest := 100
	for range 4 {
		calls := storetest.Query[uuid.UUID](t, st, b.tenant, "SELECT id FROM calls WHERE end_time IS NULL ORDER BY id LIMIT 1")
		storetest.Exec(t, st, b.tenant, "UPDATE calls SET status = 'failed', end_time = now(), hangup_cause = 'NO_ANSWER' WHERE id = $1", calls[0])
		storetest.Exec(t, st, b.tenant, "DELETE FROM live_calls WHERE call_id = $1", calls[0])
		fewest = min(fewest, round(1))
	}
	require.Equal(t, 6, fewest, "a look, a claim, and an admission")
}

// What an inbound call waits for before it is taken.
func TestRoundTripsOfAnInboundCall(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st).trunkAndNumber(t)
	b.agent(t)
	storetest.Exec(t, st, b.tenant, "UPDATE tenants SET default_voice_agent_id = (SELECT id FROM voice_agents LIMIT 1)")
	to := storetest.Query[string](t, st, b.tenant, "SELECT e164 FROM numbers")[0]
	fewest := 100
	for range 5 {
		in := switchctl.Inbound{CallID: storetest.NewID(t), FSUUID: uuid.NewString(), From: "+919876543210", To: to, Peer: "127.0.0.1"}
		fewest = min(fewest, proxy.RoundTrips(func() {
			_, err := b.svc.Answers.Route(t.Context(), in)
			require.NoError(t, err)
		}))
	}
	require.LessOrEqual(t, fewest, 8)
}
