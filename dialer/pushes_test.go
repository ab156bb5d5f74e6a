package dialer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/campaigns"
	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// A lead that nothing is special about is pushed in one round trip.
func TestPushTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st)
	campaign := storetest.Campaign(t, st, b.tenant, nil)
	push := func(phone string) func() {
		return func() {
			var in leads.Input
			require.NoError(t, json.Unmarshal([]byte(`{"phone":"`+phone+`","crm_lead_id":"`+phone+`","metadata":{"a":1}}`), &in))
			lead, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign, in)
			require.NoError(t, err)
			require.Equal(t, phone, lead.Phone)
			require.Equal(t, leads.StatusNew, lead.Status)
		}
	}
	push("9812345601")() // has the statement prepared
	require.Equal(t, 1, proxy.RoundTrips(push("9812345602")))
}

// 64 clients push the same leads into the same campaign, one by one and in bulk, change one of them, and start, pause and edit the campaign. Each
// lead is there once, by its number and by its id of the CRM, each push is told truly what became of it, no change is lost, and nothing blocks for good.
func TestManyClientsOfOneCampaign(t *testing.T) {
	t.Parallel()
	const clients, numbers, edits = 64, 40, 4
	b := setup(t)
	agent := storetest.VoiceAgent(t, b.st, b.tenant, "ws://127.0.0.1:1/")
	campaign := storetest.Campaign(t, b.st, b.tenant, &agent)
	var input leads.Input
	require.NoError(t, json.Unmarshal([]byte(`{"phone":"9812345699"}`), &input))
	shared, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign, input)
	require.NoError(t, err)
	lead := func(n int) string {
		return fmt.Sprintf(`{"phone":"98123%05d","crm_lead_id":"crm-%d","name":"Lead"}`, n*100+n%60, n)
	}
	var mu sync.Mutex // guards those below
	added := map[int]int{}
	note := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		added[n]++
	}
	var running sync.WaitGroup
	for client := range clients {
		running.Go(func() {
			order := rand.New(rand.NewPCG(1, uint64(client))).Perm(numbers) //nolint:gosec // another order for each
			switch {
			case client < edits:
				var edit leads.Edit
				if !assertNoError(t, json.Unmarshal(fmt.Appendf(nil, `{"custom_fields":{"by":%d}}`, client), &edit)) {
					return
				}
				_, err := b.svc.Leads.PatchLead(t.Context(), b.tenant, shared.ID, edit)
				assertNoError(t, err)
				for _, do := range []func() (campaigns.Campaign, error){
					func() (campaigns.Campaign, error) {
						return b.svc.Campaigns.PauseCampaign(t.Context(), b.tenant, campaign)
					},
					func() (campaigns.Campaign, error) {
						return b.svc.Campaigns.StartCampaign(t.Context(), b.tenant, campaign, campaigns.EnvironmentTest)
					},
				} {
					if _, err := do(); err != nil {
						_, conflict := fault.As(err, fault.Conflict)
						assertTrue(t, conflict, err)
					}
				}
			case client%2 == 0:
				var rows []json.RawMessage
				for _, n := range order {
					rows = append(rows, json.RawMessage(lead(n)))
				}
				var in leads.BulkInput
				in.Leads.Set, in.Leads.Value = true, rows
				out, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign, in)
				if assertNoError(t, err) {
					for i, row := range out.Results {
						if row.Status == leads.BulkAdded {
							note(order[i])
						}
					}
				}
			default:
				for _, n := range order {
					var in leads.Input
					if !assertNoError(t, json.Unmarshal([]byte(lead(n)), &in)) {
						return
					}
					_, err := b.svc.Leads.PushLead(t.Context(), b.tenant, campaign, in)
					if err == nil {
						note(n)
						continue
					}
					_, conflict := fault.As(err, fault.Conflict)
					assertTrue(t, conflict, err)
				}
			}
		})
	}
	running.Wait()
	require.Len(t, added, numbers)
	for n, times := range added {
		require.Equal(t, 1, times, "lead %d was added for so many", n)
	}
	_, total, err := b.svc.Leads.ListLeads(t.Context(), b.tenant, campaign, leads.Filter{Limit: 1})
	require.NoError(t, err)
	require.EqualValues(t, numbers+1, total)
	require.Equal(t, []int64{numbers + 1}, storetest.Query[int64](t, b.st, b.tenant, "SELECT count(DISTINCT phone_hash) FROM leads WHERE campaign_id = $1", campaign))
	require.Equal(t, []uuid.UUID{shared.ID}, storetest.Query[uuid.UUID](t, b.st, b.tenant, "SELECT id FROM leads WHERE custom_fields ? 'by'"))
}

func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	return assertTrue(t, err == nil, err)
}

func assertTrue(t *testing.T, ok bool, err error) bool {
	t.Helper()
	if !ok {
		t.Errorf("a client was told: %v", err)
	}
	return ok
}
