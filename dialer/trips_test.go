package dialer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store/storetest"
)

// What a lead's call waits for before it is dialed, in round trips to the database. The least of some is what it takes: others use the store, too.
func TestRoundTripsOfAnAdmission(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st).trunkAndNumber(t)
	storetest.Subscription(t, st, b.tenant, nil, "call.*")
	campaign := b.running(t)
	admit := func() int {
		fewest := 100
		for range 5 {
			req := b.request(t, campaign.ID, b.push(t, campaign.ID, b.freshNumber()))
			req.VoiceAgentID = campaign.VoiceAgentID // as its pacer asks
			fewest = min(fewest, proxy.RoundTrips(func() {
				_, err := b.svc.Gate.Admit(t.Context(), req)
				require.NoError(t, err)
			}))
		}
		return fewest
	}
	require.Equal(t, 2, admit(), "what the rules look at, under the lock; then what is admitted, and the commit")
	number := "+918000777777"
	storetest.InboundNumber(t, st, b.tenant, number)
	storetest.Exec(t, st, b.tenant, "UPDATE campaigns SET caller_id = $1", number)
	require.Equal(t, 2, admit(), "with a number of the campaign's own")
	storetest.Exec(t, st, b.tenant, "UPDATE campaigns SET caller_id = '8000777777'")
	require.Equal(t, 3, admit(), "which is written in another way")
	require.Equal(t, 10, storetest.Count(t, st, fmt.Sprintf("SELECT count(*) FROM calls WHERE from_number = '%s'", number)))
	b.strict(t)
	require.LessOrEqual(t, admit(), 4, "of a strict tenant")
}
