package dialer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/db"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Under its lock the gate reads no more than it decides by: one number where one is named, and today's calls up to a cap.
func TestGateReadsWhatItNeeds(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t)
	const own = "+918000777777"
	storetest.InboundNumber(t, b.st, b.tenant, own)
	campaign := b.running(t).ID
	numbers := func(asked ...string) (out []string) {
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			rows, err := tx.Q.GateNumbers(t.Context(), db.GateNumbersParams{
				TenantID: b.tenant, CampaignID: &campaign, Series: []string{}, Asked: append([]string{}, asked...),
			})
			for _, row := range rows {
				out = append(out, row.E164)
			}
			return err
		}))
		return out
	}
	require.Equal(t, []string{own}, numbers(own), "the request's")
	require.Len(t, numbers(), 1, "the one whose turn it is")
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET caller_id = $1", own)
	require.Equal(t, []string{own}, numbers(), "the campaign's")

	number := b.freshNumber()
	storetest.Exec(t, b.st, b.tenant, "UPDATE campaigns SET caller_id = NULL")
	_, err := b.svc.Gate.Admit(t.Context(), b.request(t, campaign, b.push(t, campaign, number)))
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, status, from_number, to_number, peer_hash, dial_time,
			end_time, hangup_cause, sip_status, environment, created_at)
		SELECT tenant_id, uuidv7_floor(now() - i * interval '10 ms'), node, gen_random_uuid()::text, direction, 'failed', from_number, to_number,
			peer_hash, dial_time, now(), 'USER_BUSY', 486, 'live', now() FROM calls, generate_series(1, 20) i`)
	today := func(limit int32) (n int64) {
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) (err error) {
			n, err = tx.Q.GateDialedToday(t.Context(), db.GateDialedTodayParams{
				TenantID: b.tenant, PhoneHash: b.st.PhoneHash(b.tenant, mustPhone(t, number)), FromID: store.IDFloor(time.Now().Add(-time.Hour)), Cap: limit,
			})
			return err
		}))
		return n
	}
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET daily_cap = NULL")
	require.Zero(t, today(0), "there is no cap")
	require.EqualValues(t, 4, today(3), "one beyond the deployment's")
	storetest.Exec(t, b.st, b.tenant, "UPDATE tenants SET daily_cap = 2")
	require.EqualValues(t, 3, today(0), "the tenant's")
	require.EqualValues(t, 3, today(30), "the lower one")
}
