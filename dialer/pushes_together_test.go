package dialer

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/dialer/leads"
	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/fault"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// heldPush has a statement of one push wait in the database, so that those which come after it wait for its end, until release.
type heldPush struct {
	*bundle
	campaign uuid.UUID
	pushing  sync.WaitGroup
	release  func()
}

func (b *bundle) holdPush(t *testing.T, campaign uuid.UUID) *heldPush {
	t.Helper()
	h := &heldPush{bundle: b, campaign: campaign}
	storetest.Exec(t, b.st, b.tenant, `CREATE FUNCTION hold_push() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			WHILE NEW.phone_last4 = '0000' AND NOT pg_try_advisory_xact_lock_shared(7) LOOP PERFORM pg_sleep(0.002); END LOOP;
			RETURN NEW;
		END $$`)
	storetest.Exec(t, b.st, b.tenant, "CREATE TRIGGER hold_push BEFORE INSERT ON leads FOR EACH ROW EXECUTE FUNCTION hold_push()")
	tx, err := b.st.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7)")
	require.NoError(t, err)
	h.release = sync.OnceFunc(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) })
	h.push(t.Context(), t, `{"phone":"9812340000"}`, func(_ leads.Lead, err error) { assertNoError(t, err) })
	require.Eventually(t, func() bool {
		var waits bool
		err := tx.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'leads'::regclass AND mode = 'RowExclusiveLock' AND granted)").Scan(&waits)
		require.NoError(t, err)
		return waits
	}, 20*time.Second, time.Millisecond)
	return h
}

// push begins one and waits until it has asked the registry, which comes last before the database.
func (h *heldPush) push(ctx context.Context, t *testing.T, text string, answer func(leads.Lead, error)) {
	t.Helper()
	asked := func() int {
		h.registry.mu.Lock()
		defer h.registry.mu.Unlock()
		return h.registry.asked
	}
	before := asked()
	var in leads.Input
	require.NoError(t, json.Unmarshal([]byte(text), &in))
	h.pushing.Go(func() { answer(h.svc.Leads.PushLead(ctx, h.tenant, h.campaign, in)) })
	require.Eventually(t, func() bool { return asked() > before }, 20*time.Second, time.Millisecond)
}

// Leads that are pushed one a request while others are on their way into the database follow them in one statement, and each client is told what
// became of its own.
func TestPushesThatWaitGoTogether(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st)
	campaign := storetest.Campaign(t, st, b.tenant, nil)
	h := b.holdPush(t, campaign)
	const many = 30
	for n := range many {
		text := fmt.Sprintf(`{"phone":"98123401%02d","name":"Lead %d","metadata":{"n":%d},"crm_lead_id":"c%d"}`, n, n, n, n)
		h.push(t.Context(), t, text, func(lead leads.Lead, err error) {
			assertNoError(t, err)
			assertTrue(t, lead.Phone == fmt.Sprintf("98123401%02d", n) && *lead.Name == fmt.Sprintf("Lead %d", n) && *lead.CRMLeadID == fmt.Sprintf("c%d", n) &&
				string(lead.Metadata) == fmt.Sprintf(`{"n": %d}`, n) && lead.DNDClean && lead.DNDCheckedAt != nil && lead.Status == leads.StatusNew, err)
		})
	}
	trips := proxy.RoundTrips(func() {
		h.release()
		h.pushing.Wait()
	})
	require.Less(t, trips, many/2, "round trips")
	require.Equal(t, []int64{many + 1}, storetest.Query[int64](t, st, b.tenant, "SELECT count(*) FROM leads WHERE phone IS NOT NULL AND dnd_clean"))
}

// Of leads that go together the one that can't be added, and the one whose client is gone, harm no other.
func TestPushesTogetherFailByThemselves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	storetest.Lead(t, b.st, b.tenant, campaign, "9812340102")
	number, err := store.ParsePhone("9812340103")
	require.NoError(t, err)
	storetest.Exec(t, b.st, b.tenant, "INSERT INTO suppressions (tenant_id, phone_hash, reason) VALUES ($1, $2, 'asked')", b.tenant,
		b.st.PhoneHash(b.tenant, number))
	h := b.holdPush(t, campaign)
	gone, leave := context.WithCancel(t.Context())
	var mu sync.Mutex // guards what follows
	answers := map[string]error{}
	statuses := map[string]leads.Status{}
	for name, text := range map[string]string{
		"good": `{"phone":"9812340101"}`, "there already": `{"phone":"9812340102"}`, "opted out": `{"phone":"9812340103"}`,
		"beyond all numbers": `{"phone":"9812340104","metadata":{"n":1e400000}}`, "gone": `{"phone":"9812340105"}`, "good too": `{"phone":"9812340106"}`,
	} {
		ctx := t.Context()
		if name == "gone" {
			ctx = gone
		}
		h.push(ctx, t, text, func(lead leads.Lead, err error) {
			mu.Lock()
			defer mu.Unlock()
			answers[name], statuses[name] = err, lead.Status
		})
	}
	leave()
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return answers["gone"] != nil
	}, 20*time.Second, time.Millisecond)
	h.release()
	h.pushing.Wait()
	require.ErrorIs(t, answers["gone"], context.Canceled)
	require.NoError(t, answers["good"])
	require.NoError(t, answers["good too"])
	require.NoError(t, answers["opted out"])
	require.Equal(t, leads.StatusOptedOut, statuses["opted out"])
	require.Equal(t, leads.StatusNew, statuses["good"])
	duplicate, ok := fault.As(answers["there already"], fault.Conflict)
	require.True(t, ok, answers["there already"])
	require.Equal(t, leads.CodeDuplicateLead, duplicate.Code)
	require.ErrorIs(t, answers["beyond all numbers"], store.ErrValue)
	require.ElementsMatch(t, []string{"0000", "0101", "0102", "0103", "0106"},
		storetest.Query[string](t, b.st, b.tenant, "SELECT phone_last4 FROM leads"))
}

// A number that another transaction is bringing holds up its own lead alone.
func TestPushThatWaitsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	storetest.Lead(t, b.st, b.tenant, campaign, "9812340102")
	hash := storetest.Query[[]byte](t, b.st, b.tenant, "SELECT phone_hash FROM leads")[0]
	storetest.Exec(t, b.st, b.tenant, "DELETE FROM leads")
	h := b.holdPush(t, campaign)
	tx, err := b.st.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT set_config('app.tenant_id', $1, true)", b.tenant.String())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4) VALUES ($1, $2, $3, '9812340102', $4, '0102')`,
		b.tenant, storetest.NewID(t), campaign, hash)
	require.NoError(t, err)
	var others sync.WaitGroup
	held := make(chan error, 1)
	for n := range 6 {
		text := fmt.Sprintf(`{"phone":"98123401%02d"}`, n)
		if n == 2 {
			h.push(t.Context(), t, text, func(_ leads.Lead, err error) { held <- err })
			continue
		}
		others.Add(1)
		h.push(t.Context(), t, text, func(_ leads.Lead, err error) {
			defer others.Done()
			assertNoError(t, err)
		})
	}
	h.release()
	others.Wait()
	select {
	case err := <-held:
		require.Fail(t, "the number is in another's transaction", "%v", err)
	default:
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-held)
	h.pushing.Wait()
	require.Equal(t, []int64{7}, storetest.Query[int64](t, b.st, b.tenant, "SELECT count(*) FROM leads"))
}

// Those whose leads came in are told so when the answer to the statement for them all was lost.
func TestAnswerOfPushesTogetherIsLost(t *testing.T) {
	t.Parallel()
	st, proxy := storetest.NewProxied(t)
	b := setupOn(t, st)
	campaign := storetest.Campaign(t, st, b.tenant, nil)
	storetest.Lead(t, st, b.tenant, campaign, "9812340105")
	h := b.holdPush(t, campaign)
	var mu sync.Mutex // guards what follows
	failed := map[string]error{}
	for n := range 6 {
		number := fmt.Sprintf("98123401%02d", n)
		h.push(t.Context(), t, `{"phone":"`+number+`"}`, func(_ leads.Lead, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[number] = err
			}
		})
	}
	lost := proxy.LoseAnswer("LeadsPush")
	h.release()
	h.pushing.Wait()
	require.True(t, lost())
	require.Len(t, failed, 1)
	duplicate, ok := fault.As(failed["9812340105"], fault.Conflict)
	require.True(t, ok, failed)
	require.Equal(t, leads.CodeDuplicateLead, duplicate.Code)
	require.Equal(t, []int64{7}, storetest.Query[int64](t, st, b.tenant, "SELECT count(*) FROM leads"))
}

// Of the rows of a bulk push that have a number or a crm_lead_id twice the first is added, in whatever order the statement takes them.
func TestOfRepeatedRowsTheFirstIsAdded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	campaign := storetest.Campaign(t, b.st, b.tenant, nil)
	var in leads.BulkInput
	in.Leads.Set = true
	for n := range 40 {
		for twice := range 2 {
			in.Leads.Value = append(in.Leads.Value, fmt.Appendf(nil, `{"phone":"9812%04d%02d","crm_lead_id":"c%d"}`, twice, n, n))
		}
	}
	out, err := b.svc.Leads.PushLeads(t.Context(), b.tenant, campaign, in)
	require.NoError(t, err)
	for i, row := range out.Results {
		require.Equal(t, []leads.BulkStatus{leads.BulkAdded, leads.BulkDuplicate}[i%2], row.Status, "row %d", i)
	}
}
