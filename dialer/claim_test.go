package dialer

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Callbacks come first, then the highest priority: its retries that are due, the longest overdue first, then what was never
// dialed, the oldest first. It holds over many claims, as the claimer goes on where it stood, and for what comes in meanwhile.
func TestClaimOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.running(t).ID
	now := b.clock.Now()
	_, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign, decode[leads.BulkInput](t, `{"leads":[
		{"phone":"9800000010"}, {"phone":"9800000011"}, {"phone":"9800000012"}, {"phone":"9800000013"}, {"phone":"9800000014"},
		{"phone":"9800000001","priority":-5},
		{"phone":"9800000050","priority":5}, {"phone":"9800000051","priority":5}, {"phone":"9800000052","priority":5},
		{"phone":"9800000053","priority":5}, {"phone":"9800000090","priority":99}]}`))
	require.NoError(t, err)
	_, err = b.svc.Leads.UploadLeads(t.Context(), b.tenant, campaign, strings.NewReader("phone,priority\n9800000091,99\n9800000054,5\n"))
	require.NoError(t, err)
	set := func(number, status string, due time.Time) {
		storetest.Exec(t, b.st, b.tenant, "UPDATE leads SET status = $1, attempts = 1, next_attempt_at = $2 WHERE phone = $3", status, due, number)
	}
	set("9800000014", "callback", now.Add(-time.Second))
	set("9800000001", "callback", now.Add(-time.Minute))
	set("9800000013", "retry", now.Add(-time.Hour))
	set("9800000012", "retry", now.Add(-2*time.Hour))
	set("9800000053", "retry", now.Add(-time.Second))
	set("9800000052", "retry", now.Add(-time.Minute))
	set("9800000091", "retry", now.Add(time.Minute)) // not yet due
	p := newPacer(b.svc.Pacers, &fakeSwitch{}, b.tenant, campaign, nil)
	var got []string
	claim := func(n, want int) {
		t.Helper()
		leads, taken, err := p.Claim(t.Context(), n, now)
		require.NoError(t, err)
		require.Equal(t, want, taken)
		for _, lead := range leads {
			got = append(got, lead.Number.National()[8:])
		}
	}
	claim(1, 1)
	claim(4, 4)
	claim(3, 3)
	b.push(t, campaign, "9800000015")
	claim(50, 5)
	require.Equal(t, []string{"01", "14", "90", "52", "53", "50", "51", "54", "12", "13", "10", "11", "15"}, got)
	claim(50, 0)
	_, err = b.svc.Leads.PushLead(t.Context(), b.tenant, campaign, decode[leads.Input](t, `{"phone":"9800000092","priority":99}`))
	require.NoError(t, err)
	now = now.Add(time.Minute)
	claim(50, 2)
	require.Equal(t, []string{"91", "92"}, got[13:])
}
