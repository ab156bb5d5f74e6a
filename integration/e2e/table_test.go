package e2e

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/integration/stack"
	"github.com/ringmaster/ringmaster/store"
)

// row of the number table.
type row struct {
	number, status, cause, disposition string
}

func table() []row {
	answered := func(n string) row { return row{n, "completed", "NORMAL_CLEARING", "send_bye"} }
	return []row{
		answered("9871000000"), answered("9871000059"), answered("9871000076"), answered("9871000089"),
		{"9871000060", "failed", "USER_BUSY", "recv_refuse"},
		{"9871000061", "failed", "NO_ANSWER", "send_cancel"},
		{"9871000062", "failed", "CALL_REJECTED", "recv_refuse"},
		{"9871000063", "failed", "NORMAL_TEMPORARY_FAILURE", "recv_refuse"},
		answered("9871000064"),
		{"9871000070", "failed", "UNALLOCATED_NUMBER", "recv_refuse"},
		{"9871000071", "completed", "NORMAL_CLEARING", "recv_bye"},
		answered("9871000072"), answered("9871000073"), answered("9871000074"), answered("9871000075"),
	}
}

// Every row of the number table ends with the status, the hangup cause and the disposition that the table gives.
func TestNumberTable(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		campaign := c.campaign(t, c.voiceAgent(t, "/echo?end_after=5s", nil), nil)
		byLead := map[string]row{}
		for _, r := range table() {
			byLead[c.push(t, campaign, r.number)] = r
		}
		c.start(t, campaign)
		for _, call := range c.ended(t, campaign, len(byLead), time.Minute) {
			require.NotNil(t, call.LeadID)
			want := byLead[*call.LeadID]
			got := row{want.number, call.Status, deref(call.HangupCause), deref(call.HangupDisposition)}
			require.Equal(t, want, got)
			require.Equal(t, want.status == "completed", call.AnswerTime != nil, want.number)
			require.Equal(t, call.ID, call.FSUUID, "an outbound call's channel carries its id")
		}
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/stop", nil, nil)
		c.atRest(t)
	})
}

// A number of the registry, one that is suppressed and one outside its window are never originated, singly or in bulk.
func TestForbiddenNumbersNeverRing(t *testing.T) {
	onEachSwitch(t, func(t *testing.T, c *customer) {
		const registered, registered2, suppressed, open = "9872000090", "9872000099", "9872000001", "9872000002"
		st := c.open(t)
		tenant := c.tenant.ID
		phone, err := store.ParsePhone(suppressed)
		require.NoError(t, err)
		require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
			_, err := tx.Pgx().Exec(t.Context(), `INSERT INTO suppressions (tenant_id, phone_hash, reason) VALUES ($1, $2, 'opt_out')
				ON CONFLICT DO NOTHING`, tenant, st.PhoneHash(tenant, phone))
			return err
		}))
		agent := c.voiceAgent(t, "/echo?end_after=2s", nil)
		campaign := c.campaign(t, agent, nil)
		c.push(t, campaign, registered)
		c.push(t, campaign, suppressed)
		var bulk struct {
			Valid int `json:"valid"`
		}
		c.do(t, http.StatusOK, http.MethodPost, "/api/v1/campaigns/"+campaign+"/leads:bulk",
			map[string]any{"leads": []map[string]any{{"phone": "0" + registered2}, {"phone": "+91" + open}}}, &bulk)
		require.Equal(t, 2, bulk.Valid)
		// A window that is closed at this hour, and at every hour that this test could last until.
		now := time.Now().UTC()
		from := now.Add(6 * time.Hour).Format("15:04")
		to := now.Add(6*time.Hour + 30*time.Minute).Format("15:04")
		if from > to {
			from, to = "00:30", "01:00"
		}
		closed := c.campaign(t, agent, map[string]any{
			"calling_window": map[string]any{"timezone": "UTC", "days": []string{}, "from": from, "to": to},
		})
		c.push(t, closed, "9872000003")
		c.start(t, closed)
		c.start(t, campaign)
		c.ended(t, campaign, 1, 30*time.Second) // the one number that may be called
		require.Empty(t, c.calls(t, closed))
		for _, n := range []string{registered, registered2, suppressed, "9872000003"} {
			_, rang := c.report(t, "+91"+n)
			require.False(t, rang, n)
		}
		var stats struct {
			ForbiddenInvites int `json:"forbidden_invites"`
		}
		c.get(t, c.carrier+"/stats", &stats)
		require.Zero(t, stats.ForbiddenInvites)
	})
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// open gives the stack's database.
func (c *customer) open(t *testing.T) *store.Store {
	t.Helper()
	st, err := theSuite.stores.of(t.Context(), c.Stack)
	require.NoError(t, err)
	return st
}

// stores has one store for each stack's database. Safe for concurrent use.
type stores struct {
	mu    sync.Mutex
	byURL map[string]*store.Store
}

func (s *stores) of(ctx context.Context, on *stack.Stack) (*store.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	url := on.Bootstrap.DatabaseURL
	if st := s.byURL[url]; st != nil {
		return st, nil
	}
	st, err := store.Open(ctx, store.Config{URL: url, MasterKey: on.MasterKey, MaxConns: 8})
	if err == nil {
		s.byURL[url] = st
	}
	return st, err
}

func (s *stores) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.byURL {
		st.Close()
	}
}

// atRest asserts that the tenant holds no unit and has no open row.
func (c *customer) atRest(t *testing.T) {
	t.Helper()
	st := c.open(t)
	count := func(query string) int {
		var n int
		require.NoError(t, st.InTenant(t.Context(), c.tenant.ID, func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), query).Scan(&n)
		}))
		return n
	}
	eventually(t, 10*time.Second, "every unit is given back", func() bool { return count("SELECT count(*) FROM live_calls") == 0 })
	require.Zero(t, count("SELECT count(*) FROM calls WHERE end_time IS NULL"), "open calls")
	require.Zero(t, count("SELECT count(*) FROM held_events"), "events behind an answer")
	require.Zero(t, count("SELECT count(*) FROM ai_sessions WHERE status = 'active'"), "open sessions")
	require.Zero(t, count("SELECT count(*) FROM leads WHERE lead_status(status, claimed_by) IN ('dialing', 'connected')"), "leads in a call")
}

// callRow is what the database has of a call, with times to the microsecond.
type callRow struct {
	answered, ended *time.Time
	to              string
}

func (c *customer) row(t *testing.T, callID string) callRow {
	t.Helper()
	var out callRow
	require.NoError(t, c.open(t).InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT answer_time, end_time, to_number FROM calls WHERE id = $1", callID).
			Scan(&out.answered, &out.ended, &out.to)
	}))
	return out
}
