package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

func TestNextSweep(t *testing.T) {
	t.Parallel()
	india := time.FixedZone("IST", 5*3600+1800)
	for now, want := range map[time.Time]time.Time{
		time.Date(2026, 11, 22, 2, 59, 59, 0, india): time.Date(2026, 11, 22, 3, 0, 0, 0, india),
		time.Date(2026, 11, 22, 3, 0, 0, 0, india):   time.Date(2026, 11, 23, 3, 0, 0, 0, india),
		time.Date(2026, 11, 22, 12, 0, 0, 0, india):  time.Date(2026, 11, 23, 3, 0, 0, 0, india),
		time.Date(2026, 12, 31, 23, 0, 0, 0, india):  time.Date(2027, 1, 1, 3, 0, 0, 0, india),
	} {
		require.WithinDuration(t, want, store.NextSweep(now), 0, "%s", now)
	}
}

// numbers tells which of a tenant's leads still have one, by name.
func numbers(t *testing.T, st *store.Store, tenant uuid.UUID) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		rows, err := tx.Pgx().Query(t.Context(), `SELECT name, phone IS NOT NULL OR phone_sealed IS NOT NULL FROM leads
			WHERE octet_length(phone_hash) = 32 AND phone_last4 ~ '^[0-9]{4}$' ORDER BY id`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			var has bool
			if err := rows.Scan(&name, &has); err != nil {
				return err
			}
			out[name] = has
		}
		return rows.Err()
	}))
	return out
}

func TestSweepForgetsNumbersOfEndedLeads(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	strict, short, standard := storetest.StrictTenant(t, st), storetest.StrictTenant(t, st), storetest.Tenant(t, st)
	now := time.Now()
	storetest.Exec(t, st, short, "UPDATE tenants SET pii_retention_days = 0 WHERE id = $1", short)
	day := 24 * time.Hour
	for _, tenant := range []uuid.UUID{strict, short, standard} {
		campaign := storetest.Campaign(t, st, tenant, nil)
		for _, l := range []struct {
			name, status string
			ended        time.Duration
			sealed       bool
		}{
			{"completed", "completed", 31 * day, true},
			{"exhausted", "exhausted", 31 * day, true},
			{"listed", "dnc", 31 * day, true},
			{"invalid", "invalid", 31 * day, true},
			{"from before it was strict", "completed", 31 * day, false},
			{"lately", "completed", 29 * day, true},
			{"to be called back", "callback", 0, true},
			{"tried again", "retry", 31 * day, true},
			{"new", "new", 0, true},
		} {
			var ended *time.Time
			if l.ended > 0 {
				at := now.Add(-l.ended)
				ended = &at
			}
			storetest.Exec(t, st, tenant, `INSERT INTO leads (tenant_id, id, campaign_id, name, status, completed_at, phone, phone_sealed, phone_hash,
				phone_last4) VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $7 THEN NULL ELSE '9876543210' END, CASE WHEN $7 THEN '\x01'::bytea END,
				sha256($4::text::bytea), '3210')`, tenant, storetest.NewID(t), campaign, l.name, l.status, ended, l.sealed)
		}
	}
	done, err := st.Sweep(t.Context(), now, store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Leads: 5 + 6}, done)
	kept := map[string]bool{
		"completed": false, "exhausted": false, "listed": false, "invalid": false, "from before it was strict": false, "lately": true,
		"to be called back": true, "tried again": true, "new": true,
	}
	require.Equal(t, kept, numbers(t, st, strict))
	kept["lately"] = false
	require.Equal(t, kept, numbers(t, st, short), "a retention of no days")
	for name, has := range numbers(t, st, standard) {
		require.True(t, has, name)
	}
	again, err := st.Sweep(t.Context(), now, store.DefaultRetention())
	require.NoError(t, err)
	require.Zero(t, again)
}

// What waits in a campaign that was stopped is never dialed any more.
func TestSweepForgetsNumbersOfStoppedCampaigns(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	now, tenant := time.Now(), storetest.StrictTenant(t, st)
	past, lately := now.AddDate(0, 0, -31), now.AddDate(0, 0, -29)
	for _, c := range []struct {
		name, status  string
		changed, lead time.Time
	}{
		{"stopped", "completed", past, past},
		{"stopped lately", "completed", lately, past},
		{"added lately", "completed", past, lately},
		{"paused", "paused", past, past},
		{"running", "running", past, past},
		{"draft", "draft", past, past},
	} {
		campaign := storetest.Campaign(t, st, tenant, nil)
		storetest.Exec(t, st, tenant, "UPDATE campaigns SET status = $3, updated_at = $4 WHERE tenant_id = $1 AND id = $2", tenant, campaign, c.status, c.changed)
		for i, status := range []string{"new", "queued", "retry", "callback", "dialing", "connected"} {
			storetest.Exec(t, st, tenant, `INSERT INTO leads (tenant_id, id, campaign_id, name, status, updated_at, phone_sealed, phone_hash, phone_last4)
				VALUES ($1, $2, $3, $4, $5, $6, '\x01', sha256($4::text::bytea), '3210')`,
				tenant, storetest.NewID(t), campaign, fmt.Sprintf("%s %d", c.name, i), status, c.lead)
		}
	}
	done, err := st.Sweep(t.Context(), now, store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Leads: 4}, done)
	left := numbers(t, st, tenant)
	for i := range 4 {
		require.False(t, left[fmt.Sprintf("stopped %d", i)])
	}
	require.True(t, left["stopped 4"] && left["stopped 5"], "in a call")
	require.Len(t, left, 36)
}

// A sweep goes over more leads than one transaction takes.
func TestSweepOfManyLeads(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.StrictTenant(t, st)
	campaign := storetest.Campaign(t, st, tenant, nil)
	storetest.Exec(t, st, tenant, `INSERT INTO leads (tenant_id, id, campaign_id, name, status, completed_at, phone_sealed, phone_hash, phone_last4)
		SELECT $1, gen_random_uuid(), $2, i::text, 'completed', now() - interval '40 days', '\x01', sha256(i::text::bytea), '3210'
		FROM generate_series(1, 11000) i`, tenant, campaign)
	done, err := st.Sweep(t.Context(), time.Now(), store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Leads: 11000}, done)
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM leads WHERE phone_sealed IS NOT NULL"))
}

func TestSweepForgetsNumbersOfEndedCalls(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	now := time.Now()
	tenant := storetest.StrictTenant(t, st)
	call := func(ended *time.Time) uuid.UUID {
		id := store.IDFloor(now.Add(-time.Hour))
		if ended != nil {
			id = store.IDFloor(ended.Add(-time.Minute))
		}
		unique := storetest.NewID(t)
		copy(id[6:], unique[6:])
		storetest.Exec(t, st, tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, status, from_number, to_number, peer_hash, peer_sealed,
			end_time, hangup_cause) VALUES ($1, $2, 'n', $3, 'outbound', CASE WHEN $4::timestamptz IS NULL THEN 'dialing' ELSE 'failed' END, '+911', '••••3210',
			sha256('x'), '\x01', $4, CASE WHEN $4::timestamptz IS NULL THEN NULL ELSE 'NO_ANSWER' END)`, tenant, id, id.String(), ended)
		return id
	}
	past, lately := now.AddDate(0, 0, -31), now.AddDate(0, 0, -29)
	call(&past)
	kept := []uuid.UUID{call(&lately), call(nil)}
	done, err := st.Sweep(t.Context(), now, store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Calls: 1}, done)
	require.Equal(t, 2, storetest.Count(t, st, "SELECT count(*) FROM calls WHERE peer_sealed IS NOT NULL AND id = ANY($1)", kept))
}

// clearCall writes a call of a standard tenant that began and, unless it goes on, ended a minute later.
func clearCall(t *testing.T, st *store.Store, tenant uuid.UUID, began time.Time, direction string, goesOn bool) uuid.UUID {
	t.Helper()
	id := idAt(t, began)
	storetest.Exec(t, st, tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, status, from_number, to_number, peer_hash, end_time, hangup_cause)
		VALUES ($1, $2::uuid, 'n', $2::text, $3::text, CASE WHEN $4 THEN 'dialing' ELSE 'failed' END,
		CASE $3 WHEN 'inbound' THEN '+919876543210' ELSE '+918000000001' END, CASE $3 WHEN 'inbound' THEN '+918000000001' ELSE '+919876543210' END,
		sha256('x'), CASE WHEN $4 THEN NULL ELSE $5::timestamptz END, CASE WHEN $4 THEN NULL ELSE 'NO_ANSWER' END)`,
		tenant, id, direction, goesOn, began.Add(time.Minute))
	return id
}

// ends gives the two numbers of a call as they are stored.
func ends(t *testing.T, st *store.Store, id uuid.UUID) string {
	t.Helper()
	var from, to string
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		return tx.Pgx().QueryRow(t.Context(), "SELECT from_number, to_number FROM calls WHERE id = $1", id).Scan(&from, &to)
	}))
	return from + " " + to
}

const (
	clearOut, clearIn   = "+918000000001 +919876543210", "+919876543210 +918000000001"
	maskedOut, maskedIn = "+918000000001 ••••3210", "••••3210 +918000000001"
)

func TestSweepMasksCallsFromBeforeATenantWasStrict(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	now, tenant, standard := time.Now(), storetest.StrictTenant(t, st), storetest.Tenant(t, st)
	past := now.AddDate(0, 0, -33)
	out, in := clearCall(t, st, tenant, past, "outbound", false), clearCall(t, st, tenant, past, "inbound", false)
	open := clearCall(t, st, tenant, past.Add(time.Minute), "outbound", true)
	behind := clearCall(t, st, tenant, past.Add(2*time.Minute), "outbound", false)
	lately := clearCall(t, st, tenant, now.AddDate(0, 0, -29), "inbound", false)
	others := clearCall(t, st, standard, past, "outbound", false)
	anonymous := clearCall(t, st, tenant, past, "inbound", false)
	storetest.Exec(t, st, tenant, "UPDATE calls SET from_number = 'anonymous' WHERE id = $1", anonymous)

	done, err := st.Sweep(t.Context(), now, store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Calls: 5}, done)
	require.Equal(t, maskedOut, ends(t, st, out))
	require.Equal(t, maskedIn, ends(t, st, in))
	require.Equal(t, "•••• +918000000001", ends(t, st, anonymous))
	require.Equal(t, maskedOut, ends(t, st, behind))
	require.Equal(t, clearOut, ends(t, st, open))
	require.Equal(t, maskedIn, ends(t, st, lately))
	kept := storetest.Query[[]byte](t, st, tenant, "SELECT peer_sealed FROM calls WHERE id = $1", lately)[0]
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		number, err := tx.OpenPhone(t.Context(), tenant, kept)
		require.Equal(t, "+919876543210", number.E164())
		return err
	}))
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM calls WHERE peer_sealed IS NOT NULL"), "those of the last 30 days")
	require.Equal(t, clearOut, ends(t, st, others))

	storetest.Exec(t, st, tenant, "UPDATE calls SET status = 'failed', end_time = $2, hangup_cause = 'X' WHERE id = $1", open, past.Add(time.Hour))
	done, err = st.Sweep(t.Context(), now, store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Calls: 1}, done, "a call that had not ended is met again")
	require.Equal(t, maskedOut, ends(t, st, open))
}

func TestSweepOfManyCalls(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, now := storetest.StrictTenant(t, st), time.Now()
	storetest.Exec(t, st, tenant, `INSERT INTO calls (tenant_id, id, node, fs_uuid, direction, status, from_number, to_number, end_time, hangup_cause)
		SELECT $1, overlay($2::text placing lpad(to_hex(i), 12, '0') from 25)::uuid, 'n', i::text, 'outbound', 'failed', '+918000000001', '+919876543210',
		$3, 'NO_ANSWER' FROM generate_series(1, 11000) i`, tenant, idAt(t, now.AddDate(0, 0, -40)), now.AddDate(0, 0, -39))
	done, err := st.Sweep(t.Context(), now, store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Calls: 11000}, done)
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM calls WHERE to_number <> '••••3210'"))
}

// A sweep does not look again at calls that the one before has done, but at all of the last day.
func TestSweepGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	now, tenant := time.Now(), storetest.StrictTenant(t, st)
	first := clearCall(t, st, tenant, now.AddDate(0, 0, -40), "outbound", false)
	day := clearCall(t, st, tenant, now.Add(-time.Hour), "outbound", false)
	sweep := func(calls int64) {
		t.Helper()
		done, err := st.Sweep(t.Context(), now, store.DefaultRetention())
		require.NoError(t, err)
		require.Equal(t, store.Swept{Calls: calls}, done)
	}
	sweep(2)
	seen := clearCall(t, st, tenant, now.AddDate(0, 0, -40).Add(-time.Hour), "outbound", false)
	late := clearCall(t, st, tenant, now.Add(-2*time.Hour), "outbound", false)
	sweep(1)
	for id, want := range map[uuid.UUID]string{first: maskedOut, day: maskedOut, late: maskedOut, seen: clearOut} {
		require.Equal(t, want, ends(t, st, id))
	}
}

// The database masks as the API does.
func TestMasksOfTheDatabase(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	for _, number := range []string{"", "+919876543210", "09876543210", "••••3210", "••••", "anonymous", "1234", "12345", "sip:98765@10.0.0.1", "+91 98765-43210"} {
		var mask string
		require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
			return tx.Pgx().QueryRow(t.Context(), "SELECT mask_number($1)", number).Scan(&mask)
		}))
		require.Equal(t, store.NewNumber(number).Mask(), mask, number)
	}
}

func TestSweepForgetsOldIdempotencyKeys(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	for _, age := range []string{"49 hours", "25 hours", "1 minute"} {
		storetest.Exec(t, st, tenant, `INSERT INTO idempotent_requests (tenant_id, environment, scope, key, created_at)
			VALUES ($1, 'live', 'POST /api/v1/calls', $2, now() - $3::interval)`, tenant, age, age)
	}
	done, err := st.Sweep(t.Context(), time.Now(), store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Keys: 1}, done)
	require.Equal(t, 2, storetest.Count(t, st, "SELECT count(*) FROM idempotent_requests"))
}

// Keys that were revoked long ago are forgotten, with nothing of the audit; those that are good stay, however old.
func TestSweepForgetsRevokedKeys(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.Tenant(t, st)
	for _, revoked := range []any{"366 days", "364 days", nil} {
		storetest.Exec(t, st, tenant, `INSERT INTO api_keys (tenant_id, id, label, key_hash, key_prefix, last_four, created_at, is_active, revoked_at)
			VALUES ($1, $2::uuid, coalesce($3::text, 'good'), sha256($2::uuid::text::bytea), 'svc_live_', 'abcd', now() - interval '3 years', $3::text IS NULL,
				now() - $3::interval)`, tenant, storetest.NewID(t), revoked)
	}
	storetest.Exec(t, st, tenant, `INSERT INTO audit (tenant_id, id, at, actor, action, object_id) SELECT tenant_id, audit_id(now()), now(), 'user:x', 'api_key.updated', id::text
		FROM api_keys`)
	for _, keep := range []store.Retention{{}, store.DefaultRetention()} {
		done, err := st.Sweep(t.Context(), time.Now(), keep)
		require.NoError(t, err)
		require.Equal(t, store.Swept{RevokedKeys: int64(min(keep.RevokedKeys, 1))}, done)
	}
	require.ElementsMatch(t, []string{"364 days", "good"}, storetest.Query[string](t, st, tenant, "SELECT label FROM api_keys"))
	require.Equal(t, 3, storetest.Count(t, st, "SELECT count(*) FROM audit"))
}

// leftovers writes what a call of an age leaves besides its record, and gives the call's id.
func leftovers(t *testing.T, st *store.Store, tenant, agent uuid.UUID, version int, ended time.Time) uuid.UUID {
	t.Helper()
	call, session := idAt(t, ended.Add(-time.Minute)), idAt(t, ended.Add(-time.Minute))
	storetest.Exec(t, st, tenant, `INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url, status, outcome, started_at, ended_at)
		VALUES ($1, $2, $3, $2, 'wss://ai.example/', 'ended', 'hangup', $4::timestamptz - interval '1 minute', $4)`, tenant, session, call, ended)
	storetest.Exec(t, st, tenant, `INSERT INTO ai_session_logs (tenant_id, session_id, id, at, source, type, metadata)
		SELECT $1, $2, gen_random_uuid(), $3, 'ai', 'note', '{"text": "is ill"}' FROM generate_series(1, 3)`, tenant, session, ended)
	storetest.Exec(t, st, tenant, `INSERT INTO flow_runs (tenant_id, call_id, flow_id, version, trace, outcome, started_at, ended_at)
		VALUES ($1, $2, $3, 1, '[{"node": "n"}]', 'default', $4::timestamptz - interval '1 minute', $4)`, tenant, call, session, ended)
	storetest.Exec(t, st, tenant, `INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, status, written, written_at, give_up_at, created_at)
		VALUES ($1, $2, 'crm', $3, 'written', 1, $4, $4, $4)`, tenant, call, session, ended)
	storetest.Exec(t, st, tenant, `INSERT INTO agent_status_log (tenant_id, agent_id, version, status, cause, call_id, at)
		VALUES ($1, $2, $3, 'on_call', 'offered', $4, $5)`, tenant, agent, version, call, ended)
	storetest.Exec(t, st, tenant, `INSERT INTO supervisor_sessions (tenant_id, id, supervisor_id, call_id, mode, node, started_at, ended_at, end_reason)
		VALUES ($1, $2, $2, $3, 'listen', 'n', $4, $4, 'call_ended')`, tenant, session, call, ended)
	storetest.Exec(t, st, tenant, `INSERT INTO escalations (tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at)
		VALUES ($1, $2, $3, $2, '', 'high', $4)`, tenant, session, call, ended)
	storetest.Exec(t, st, tenant, `INSERT INTO recording_access (tenant_id, id, call_id, recording_id, accessor, method, at)
		VALUES ($1, $2, $3, $2, 'api_key:x', 'stream', $4)`, tenant, idAt(t, ended), call, ended)
	storetest.Exec(t, st, tenant, `INSERT INTO audit (tenant_id, id, at, actor, action) VALUES ($1, $2, $3, 'user:x', 'call.monitored')`,
		tenant, idAt(t, ended), ended)
	storetest.Exec(t, st, tenant, `INSERT INTO callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, expires_at)
		VALUES ($1, $2, $3, $4, 'x', 'calls', $5)`, tenant, call.String(), call, session, ended)
	return call
}

// left counts what is left of some calls, by table.
func left(t *testing.T, st *store.Store) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, table := range []string{
		"ai_sessions", "ai_session_logs", "flow_runs", "supervisor_sessions", "escalations", "agent_status_log", "recording_access", "audit",
		"callback_tokens", "call_reports",
	} {
		out[table] = storetest.Count(t, st, "SELECT count(*) FROM "+table)
	}
	return out
}

func agentOf(t *testing.T, st *store.Store, tenant uuid.UUID) uuid.UUID {
	t.Helper()
	id := storetest.NewID(t)
	storetest.Exec(t, st, tenant, "INSERT INTO users (tenant_id, id, email, password_hash, role) VALUES ($1, $2::uuid, $2::text || '@a.example', 'x', 'agent')",
		tenant, id)
	storetest.Exec(t, st, tenant, "INSERT INTO agents (tenant_id, id, node, last_status_at) VALUES ($1, $2, 'n', now())", tenant, id)
	return id
}

func TestSweepForgetsWhatCallsLeave(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	now := time.Now().UTC()
	for range 2 {
		tenant := storetest.Tenant(t, st)
		agent := agentOf(t, st, tenant)
		for version, age := range []int{800, 731, 729, 366, 364, 91, 89, 0} {
			leftovers(t, st, tenant, agent, version+1, now.AddDate(0, 0, -age))
		}
		// What goes on has no end yet, however old it is.
		old := idAt(t, now.AddDate(-3, 0, 0))
		storetest.Exec(t, st, tenant, "INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url) VALUES ($1, $2, $2, $2, 'x')", tenant, old)
		storetest.Exec(t, st, tenant, "INSERT INTO flow_runs (tenant_id, call_id, flow_id, version) VALUES ($1, $2, $2, 1)", tenant, old)
		storetest.Exec(t, st, tenant, `INSERT INTO supervisor_sessions (tenant_id, id, supervisor_id, call_id, mode, node, started_at)
			VALUES ($1, $2, $2, $2, 'listen', 'n', now())`, tenant, old)
		storetest.Exec(t, st, tenant, `INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at, created_at)
			VALUES ($1, $2, 'crm', $2, now(), now() - interval '3 years')`, tenant, old)
	}
	sweep := func(keep store.Retention, want store.Swept) {
		t.Helper()
		done, err := st.Sweep(t.Context(), now, keep)
		require.NoError(t, err)
		require.Equal(t, want, done)
	}
	sweep(store.Retention{}, store.Swept{Tokens: 14})
	sweep(store.DefaultRetention(), store.Swept{Sessions: 8, FlowRuns: 8, Reports: 8, Supervisions: 8, Escalations: 8, AgentLog: 8, Audit: 4, Accesses: 4})
	require.Equal(t, map[string]int{
		"ai_sessions": 10, "ai_session_logs": 24, "flow_runs": 10, "supervisor_sessions": 10, "escalations": 8, "agent_status_log": 8,
		"recording_access": 12, "audit": 12, "callback_tokens": 2, "call_reports": 10,
	}, left(t, st))
	sweep(store.Retention{CallDetails: 90}, store.Swept{Sessions: 4, FlowRuns: 4, Reports: 4, Supervisions: 4, Escalations: 4})
	sweep(store.Retention{AgentLog: 90}, store.Swept{AgentLog: 4})
	sweep(store.Retention{Audit: 90}, store.Swept{Audit: 8, Accesses: 8})
	sweep(store.Retention{CallDetails: 90, AgentLog: 90, Audit: 90}, store.Swept{})
	require.Equal(t, map[string]int{
		"ai_sessions": 6, "ai_session_logs": 12, "flow_runs": 6, "supervisor_sessions": 6, "escalations": 4, "agent_status_log": 4,
		"recording_access": 4, "audit": 4, "callback_tokens": 2, "call_reports": 6,
	}, left(t, st))
}

// Many rows go in several transactions.
func TestSweepOfManySessions(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, now := storetest.Tenant(t, st), time.Now()
	storetest.Exec(t, st, tenant, `INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url, status, outcome, ended_at)
		SELECT $1, overlay($2::text placing lpad(to_hex(i), 12, '0') from 25)::uuid, $1, $1, 'x', 'ended', 'hangup', $3 FROM generate_series(1, 250) i`,
		tenant, idAt(t, now.AddDate(-2, 0, 0)), now.AddDate(-2, 0, 0))
	done, err := st.Sweep(t.Context(), now, store.DefaultRetention())
	require.NoError(t, err)
	require.Equal(t, store.Swept{Sessions: 250}, done)
}

// Of the controllers of a database one sweeps.
func TestOneSweepAtATime(t *testing.T) {
	t.Parallel()
	url := storetest.NewURL(t)
	first, second := storetest.Open(t, url), storetest.Open(t, url)
	tenant := storetest.Tenant(t, first)
	storetest.Exec(t, first, tenant, `INSERT INTO idempotent_requests (tenant_id, environment, scope, key, created_at)
		VALUES ($1, 'live', 'POST /api/v1/calls', 'k', now() - interval '49 hours')`, tenant)
	held, err := first.Pool().Acquire(t.Context())
	require.NoError(t, err)
	defer held.Release()
	_, err = held.Exec(t.Context(), "SELECT pg_advisory_lock($1)", store.SweepLock)
	require.NoError(t, err)
	done, err := second.Sweep(t.Context(), time.Now(), store.DefaultRetention())
	require.NoError(t, err)
	require.Zero(t, done)
	_, err = held.Exec(t.Context(), "SELECT pg_advisory_unlock($1)", store.SweepLock)
	require.NoError(t, err)
	for _, want := range []int64{1, 0} { // it leaves the lock behind
		done, err = second.Sweep(t.Context(), time.Now(), store.DefaultRetention())
		require.NoError(t, err)
		require.Equal(t, store.Swept{Keys: want}, done)
	}
	require.Zero(t, storetest.Count(t, first, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"))
}
