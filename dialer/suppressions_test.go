package dialer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/dialer/suppressions"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// An opt-out is nobody's to take back, also of a number that was on the tenant's own list before.
func TestOptOutStaysOnTheList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.running(t)
	b.push(t, campaign.ID, "9876543211")
	for _, phone := range []string{"9876543210", "9876543211"} { // on the list before, and not
		if phone == "9876543210" {
			_, err := b.svc.Suppressions.AddSuppression(t.Context(), b.tenant, decode[suppressions.Input](t, `{"phone":"9876543210"}`))
			require.NoError(t, err)
		}
		number, err := store.ParsePhone(phone)
		require.NoError(t, err)
		require.NoError(t, b.st.InTenant(t.Context(), b.tenant, func(tx *store.Tx) error {
			return b.svc.Suppressions.OptOut(t.Context(), tx, b.tenant, b.st.PhoneHash(b.tenant, number), b.clock.Now())
		}))
		list, _, err := b.svc.Suppressions.ListSuppressions(t.Context(), b.tenant, suppressions.Filter{Phone: phone, Limit: 10})
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.True(t, list[0].OptedOut)
		require.Equal(t, "••••"+phone[6:], list[0].Phone)
		var conflict *fault.Error
		require.ErrorAs(t, b.svc.Suppressions.DeleteSuppression(t.Context(), b.tenant, list[0].ID), &conflict)
		require.Equal(t, suppressions.CodeOptedOut, conflict.Code)
	}
}

func TestOptOutForgetsANumberFromBeforeTheTenantWasStrict(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	other := b.push(t, campaign.ID, "9876543211")
	b.strict(t)
	_, err := b.svc.Suppressions.AddSuppression(t.Context(), b.tenant, decode[suppressions.Input](t, `{"phone":"9876543210"}`))
	require.NoError(t, err)
	require.True(t, b.lead(t, lead.ID).Phone.IsZero())
	require.False(t, b.lead(t, other.ID).Phone.IsZero())
}

// A lead's end is told once: who opts out when the lead had ended before makes no second event.
func TestOptOutOfACompletedLead(t *testing.T) {
	t.Parallel()
	b := setup(t).trunkAndNumber(t).strict(t)
	campaign := b.running(t)
	lead := b.push(t, campaign.ID, "9876543210")
	b.end(t, b.dial(t, campaign, lead), "completed", "NORMAL_CLEARING")
	ended := *b.lead(t, lead.ID).CompletedAt
	b.clock.Advance(time.Minute)
	for range 2 {
		_, err := b.svc.Suppressions.AddSuppression(t.Context(), b.tenant, decode[suppressions.Input](t, `{"phone":"9876543210"}`))
		require.NoError(t, err)
	}
	row := b.lead(t, lead.ID)
	require.Equal(t, string(leads.StatusOptedOut), row.Status)
	require.Empty(t, row.PhoneSealed, "a strict tenant forgets the number")
	require.WithinDuration(t, ended, *row.CompletedAt, 0)
	events := b.events(t, store.EventLeadCompleted)
	require.Len(t, events, 1)
	require.Equal(t, string(leads.StatusCompleted), events[0]["status"])
}

// No transaction ends the leads of all the numbers that come at once: others wait for those.
func TestManySuppressionsAreSeveralTransactions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lead := b.push(t, b.running(t).ID, fmt.Sprintf("98%08d", 2*suppressions.SuppressAtOnce))
	var rows []string
	for i := range 2*suppressions.SuppressAtOnce + 1 {
		rows = append(rows, fmt.Sprintf(`{"phone":"98%08d"}`, i))
	}
	rows = append(rows, rows[0])
	in := decode[suppressions.ListInput](t, `{"suppressions":[`+strings.Join(rows, ",")+`]}`)
	result, err := b.svc.Suppressions.AddSuppressions(t.Context(), b.tenant, in)
	require.NoError(t, err)
	last := len(rows) - 1
	require.Equal(t, leads.BulkAdded, result.Results[last-1].Status)
	require.Equal(t, leads.BulkDuplicate, result.Results[last].Status)
	require.Equal(t, result.Results[0].ID, result.Results[last].ID)
	require.Equal(t, string(leads.StatusOptedOut), b.lead(t, lead.ID).Status)
	require.Equal(t, 3, storetest.Count(t, b.st, "SELECT count(DISTINCT xmin::text) FROM suppressions"))
}
