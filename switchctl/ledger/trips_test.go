package ledger

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
	"github.com/ringmaster/ringmaster/switchctl/callbacktoken"
)

// What a voice agent's call waits for between the ringing and the first word, in round trips to the database. The least of some is what each step
// takes: the first of them has its statements prepared.
func TestRoundTripsOfACall(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := newPGBenchOn(t, st)
	trunk := storetest.Trunk(t, st, b.tenant, "127.0.0.1", 5070, 10)
	campaign, lead, agent := b.call.CampaignID, b.call.LeadID, b.call.VoiceAgentID
	fewest := map[string]int{}
	step := func(name string, do func() error) {
		n := proxy.RoundTrips(func() { require.NoError(t, do(), name) })
		if was, ok := fewest[name]; !ok || n < was {
			fewest[name] = n
		}
	}
	for range 4 {
		call := b.open(t, campaign, lead, agent)
		storetest.Exec(t, st, b.tenant, "UPDATE calls SET trunk_id = $1, amd = true WHERE id = $2", trunk, call.ID)
		call.TrunkID, call.Amd = &trunk, true
		step("ringing", func() error { return b.l.Ringing(t.Context(), call, time.Now()) })
		step("answered", func() error { return b.l.Answered(t.Context(), call, time.Now()) })
		start := SessionStart{Call: call, Agent: b.agent, ID: storetest.NewID(t), At: time.Now()}
		var err error
		start.Token, err = callbacktoken.Mint(testKeys(), b.tenant, call.ID, time.Now(), callbacktoken.Life)
		require.NoError(t, err)
		var grant SessionGrant
		step("session", func() error {
			grant, err = b.l.StartSession(t.Context(), start)
			return err
		})
		require.Equal(t, start.ID, grant.Session.ID)
		require.NotNil(t, grant.Lead)
		step("opened", func() error {
			return b.l.SessionOpened(t.Context(), call, grant.Session, "/tmp/"+call.ID.String()+".wav")
		})
		step("connected", func() error { return b.l.AgentConnected(t.Context(), call, time.Now()) })
		step("quality", func() error { return b.l.Quality(t.Context(), call, json.RawMessage(`{"mos":4.2}`)) })

		// Without machine detection the answer is told at once; a call that has none of the voice agent's units takes one, under the gate's lock.
		plain := b.open(t, campaign, lead, nil)
		plain.TrunkID = &trunk
		step("answered, told", func() error { return b.l.Answered(t.Context(), plain, time.Now()) })
		start.Call, start.ID = plain, storetest.NewID(t)
		start.Token, err = callbacktoken.Mint(testKeys(), b.tenant, plain.ID, time.Now(), callbacktoken.Life)
		require.NoError(t, err)
		step("session, with a unit", func() error {
			_, err = b.l.StartSession(t.Context(), start)
			return err
		})
		require.Equal(t, 1, b.count(t, "SELECT count(*) FROM live_calls WHERE call_id = $1 AND voice_agent_id = $2", plain.ID, *agent))
	}
	require.Equal(t, map[string]int{
		"ringing": 1, "answered": 1, "session": 1, "opened": 2, "connected": 1, "quality": 1, "answered, told": 2, "session, with a unit": 3,
	}, fewest)
	require.Equal(t, 4, b.count(t, "SELECT count(*) FROM calls WHERE status = 'agent_connected' AND ring_time IS NOT NULL AND quality IS NOT NULL"))
}
