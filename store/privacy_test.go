package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// strictNow has a tenant become strict.
func strictNow(t *testing.T, st *store.Store, tenant uuid.UUID) {
	t.Helper()
	storetest.Exec(t, st, tenant, "UPDATE tenants SET privacy_mode = 'strict' WHERE id = $1", tenant)
}

func sweepNow(t *testing.T, st *store.Store) store.Swept {
	t.Helper()
	done, err := st.Sweep(t.Context(), time.Now(), store.DefaultRetention())
	require.NoError(t, err)
	return done
}

func TestLeadsOfATenantThatBecomesStrictAreSealed(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, standard := storetest.Tenant(t, st), storetest.Tenant(t, st)
	campaign := storetest.Campaign(t, st, tenant, nil)
	lead, gone := storetest.Lead(t, st, tenant, campaign, "9876543210"), storetest.Lead(t, st, tenant, campaign, "9876543211")
	storetest.Exec(t, st, tenant, "UPDATE leads SET status = 'opted_out', completed_at = now() WHERE id = $1", gone)
	storetest.Lead(t, st, standard, storetest.Campaign(t, st, standard, nil), "9876543210")
	before := storetest.Query[time.Time](t, st, tenant, "SELECT updated_at FROM leads WHERE id = $1", lead)
	strictNow(t, st, tenant)

	require.Equal(t, store.Swept{Leads: 1, Sealed: 1}, sweepNow(t, st))
	require.NoError(t, st.InTenant(t.Context(), tenant, func(tx *store.Tx) error {
		row, err := tx.Q.LeadGet(t.Context(), tenant, lead)
		require.NoError(t, err)
		require.True(t, row.Phone.IsZero())
		number, err := tx.OpenPhone(t.Context(), tenant, row.PhoneSealed)
		require.NoError(t, err)
		require.Equal(t, "9876543210", number.National())
		require.Equal(t, before[0], row.UpdatedAt, "how long a lead has waited is not counted anew")
		row, err = tx.Q.LeadGet(t.Context(), tenant, gone)
		require.NoError(t, err)
		require.True(t, row.Phone.IsZero() && row.PhoneSealed == nil, "an opt-out's number is forgotten at once")
		return nil
	}))
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM leads WHERE phone IS NOT NULL"))
	require.Zero(t, sweepNow(t, st))
}

// A sweep seals more leads than one transaction takes.
func TestManyLeadsAreSealed(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.StrictTenant(t, st)
	storetest.Exec(t, st, tenant, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4)
		SELECT $1, gen_random_uuid(), $2, (9800000000 + i)::text, sha256(i::text::bytea), '0000' FROM generate_series(1, 6100) i`,
		tenant, storetest.Campaign(t, st, tenant, nil))
	require.Equal(t, store.Swept{Sealed: 6100}, sweepNow(t, st))
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM leads WHERE phone IS NOT NULL OR phone_sealed IS NULL"))
}

// A tenant whose data key is damaged keeps neither other tenants' numbers nor anything else from being forgotten.
func TestSweepGoesOnBehindAFault(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	damaged, other := storetest.StrictTenant(t, st), storetest.StrictTenant(t, st)
	campaign := storetest.Campaign(t, st, damaged, nil)
	storetest.Exec(t, st, damaged, `INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4)
		VALUES ($1, $2, $3, '9876543210', sha256('x'), '3210')`, damaged, storetest.NewID(t), campaign)
	storetest.Exec(t, st, damaged, "UPDATE tenants SET data_key = set_byte(data_key, 20, get_byte(data_key, 20) # 1) WHERE id = $1", damaged)
	out := startedEvent(t, st, damaged, time.Now().AddDate(0, 0, -20), "outbound")
	leftovers(t, st, other, agentOf(t, st, other), 1, time.Now().AddDate(-3, 0, 0))
	late := startedEvent(t, st, other, time.Now().AddDate(0, 0, -20), "outbound")

	done, err := st.Sweep(t.Context(), time.Now(), store.DefaultRetention())
	require.ErrorIs(t, err, store.ErrUnseal)
	require.ErrorContains(t, err, damaged.String())
	require.Equal(t, maskedOut, told(t, st, damaged, out))
	require.Equal(t, maskedOut, told(t, st, other, late))
	require.EqualValues(t, 1, done.Sessions)
	require.Equal(t, 1, storetest.Count(t, st, "SELECT count(*) FROM leads WHERE phone IS NOT NULL"))
}

// startedEvent writes a call.started of a moment, as a standard tenant has it.
func startedEvent(t *testing.T, st *store.Store, tenant uuid.UUID, at time.Time, direction string) uuid.UUID {
	t.Helper()
	id := idAt(t, at)
	storetest.Exec(t, st, tenant, `INSERT INTO events (tenant_id, id, type, call_id, data, created_at) VALUES ($1, $2, 'call.started', $2,
		jsonb_build_object('direction', $3::text, 'metadata', '{"from": "kept"}'::jsonb,
			'from', CASE $3 WHEN 'inbound' THEN '+919876543210' ELSE '+918000000001' END,
			'to', CASE $3 WHEN 'inbound' THEN '+918000000001' ELSE '+919876543210' END), $4)`, tenant, id, direction, at)
	return id
}

// told gives the two numbers of an event.
func told(t *testing.T, st *store.Store, tenant, event uuid.UUID) string {
	t.Helper()
	return storetest.Query[string](t, st, tenant, "SELECT (data ->> 'from') || ' ' || (data ->> 'to') FROM events WHERE id = $1", event)[0]
}

func TestEventsOfATenantThatBecomesStrictAreMasked(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, standard, now := storetest.Tenant(t, st), storetest.Tenant(t, st), time.Now()
	old, lately := now.AddDate(0, 0, -20), now.Add(-time.Minute)
	out, in := startedEvent(t, st, tenant, old, "outbound"), startedEvent(t, st, tenant, lately, "inbound")
	others := startedEvent(t, st, standard, old, "outbound")
	ended := idAt(t, old)
	storetest.Exec(t, st, tenant, `INSERT INTO events (tenant_id, id, type, call_id, data) VALUES ($1, $2, 'call.ended', $2, '{"to": "+919876543210"}')`,
		tenant, ended)
	require.Zero(t, sweepNow(t, st))

	strictNow(t, st, tenant)
	require.Equal(t, store.Swept{Events: 2}, sweepNow(t, st))
	require.Equal(t, maskedOut, told(t, st, tenant, out))
	require.Equal(t, maskedIn, told(t, st, tenant, in))
	require.Equal(t, clearOut, told(t, st, standard, others))
	require.Equal(t, 2, storetest.Count(t, st, "SELECT count(*) FROM events WHERE tenant_id = $1 AND data -> 'metadata' ->> 'from' = 'kept'", tenant))
	require.Equal(t, 1, storetest.Count(t, st, `SELECT count(*) FROM events WHERE id = $1 AND data = '{"to": "+919876543210"}'`, ended), "what has no number stays")
	require.Zero(t, sweepNow(t, st))

	// Events of the last day are looked at again, those of before are done.
	late, seen := startedEvent(t, st, tenant, now.Add(-2*time.Hour), "outbound"), startedEvent(t, st, tenant, now.AddDate(0, 0, -2), "outbound")
	require.Equal(t, store.Swept{Events: 1}, sweepNow(t, st))
	require.Equal(t, maskedOut, told(t, st, tenant, late))
	require.Equal(t, clearOut, told(t, st, tenant, seen))
}

// Wherever an event, a session or an answer that is kept has a number, it is masked once the tenant is strict, and nothing else is changed.
func TestWhatHasNumbersIsMasked(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant, standard, now := storetest.Tenant(t, st), storetest.Tenant(t, st), time.Now()
	call := clearCall(t, st, tenant, now.Add(-time.Hour), "outbound", false)
	owner := map[uuid.UUID]uuid.UUID{}
	event := func(of uuid.UUID, typ, data string) uuid.UUID {
		id := idAt(t, now)
		owner[id] = of
		storetest.Exec(t, st, of, `INSERT INTO events (tenant_id, id, type, call_id, data) VALUES ($1, $2, $3, $4, $5)`, of, id, typ, call, data)
		return id
	}
	const ended = `{"metadata": {"logs": [], "final": {"action": "transfer", "destination": "+919876543210"}}}`
	masked := map[uuid.UUID]string{
		event(tenant, "ai_session.transferred", `{"destination_type": "e164", "destination": "+919876543210", "metadata": {"to": "9876543210"}}`): `{"destination_type": "e164", "destination": "••••3210", "metadata": {"to": "9876543210"}}`,
		event(tenant, "ai_session.transferred", `{"destination": "sip:+919876543210@gw.example:5070;transport=tcp"}`):                             `{"destination": "sip:••••3210@gw.example:5070;transport=tcp"}`,
		event(tenant, "ai_session.transferred", `{"destination": "sip:desk@gw.example"}`):                                                         `{"destination": "sip:desk@gw.example"}`,
		event(tenant, "ai_session.transferred", `{"destination": "default"}`):                                                                     `{"destination": "default"}`,
		event(tenant, "ai_session.ended", ended):                                                                                                  `{"metadata": {"logs": [], "final": {"action": "transfer", "destination": "••••3210"}}}`,
		event(tenant, "ai_session.ended", `{"metadata": {"logs": [], "final": null}}`):                                                            `{"metadata": {"logs": [], "final": null}}`,
		event(tenant, "ai_session.conference_changed", `{"participants": [{"role": "caller", "destination": null}, {"role": "agent", "destination": "1001"}, {"role": "destination", "destination": "9876543210"}]}`): `{"participants": [{"role": "caller", "destination": null}, {"role": "agent", "destination": "1001"}, {"role": "destination", "destination": "••••3210"}]}`,
		event(standard, "ai_session.ended", ended): ended,
	}
	for of, n := range map[uuid.UUID]string{tenant: "1", standard: "2"} {
		agent := storetest.VoiceAgent(t, st, of, "ws://127.0.0.1:9/")
		storetest.Exec(t, st, of, `INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url, status, outcome, ended_at, metadata)
			VALUES ($1, $2, $3, $4, 'ws://x', 'ended', 'transferred_e164', now(), ($5::jsonb -> 'metadata'))`, of, storetest.NewID(t), call, agent, ended)
		storetest.Exec(t, st, of, `INSERT INTO idempotent_requests (tenant_id, environment, scope, key, status_code, response, created_at)
			VALUES ($1, 'live', 'POST /x', 'k' || $2::text, 201, '{"body": {"phone": "9876543210", "crm_lead_id": "9876543210", "to": "+91 98765-43210", "n": 9876543210}}', now())`,
			of, n)
	}
	strictNow(t, st, tenant)
	done, err := st.HideNumbers(t.Context(), standard, now)
	require.NoError(t, err)
	require.Zero(t, done)
	done, err = st.HideNumbers(t.Context(), tenant, now)
	require.NoError(t, err)
	require.Equal(t, store.Swept{Calls: 1, Events: 4}, done)
	for id, want := range masked {
		require.JSONEq(t, want, storetest.Query[string](t, st, owner[id], "SELECT data::text FROM events WHERE id = $1", id)[0])
	}
	one := func(of uuid.UUID, query string) string { return storetest.Query[string](t, st, of, query, of)[0] }
	const session, answer = "SELECT metadata #>> '{final,destination}' FROM ai_sessions WHERE tenant_id = $1", "SELECT response::text FROM idempotent_requests WHERE tenant_id = $1"
	require.Equal(t, "••••3210", one(tenant, session))
	require.Equal(t, "+919876543210", one(standard, session))
	require.JSONEq(t, `{"body": {"phone": "••••3210", "crm_lead_id": "9876543210", "to": "••••3210", "n": 9876543210}}`, one(tenant, answer))
	require.Contains(t, one(standard, answer), `"phone": "9876543210"`)
	done, err = st.HideNumbers(t.Context(), tenant, now)
	require.NoError(t, err)
	require.Zero(t, done)
}

func TestManyEventsAreMasked(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.StrictTenant(t, st)
	storetest.Exec(t, st, tenant, `INSERT INTO events (tenant_id, id, type, data)
		SELECT $1, overlay($2::text placing lpad(to_hex(i), 12, '0') from 25)::uuid, 'call.started',
			'{"direction": "outbound", "from": "+918000000001", "to": "+919876543210"}' FROM generate_series(1, 11000) i`,
		tenant, idAt(t, time.Now().AddDate(0, 0, -3)))
	require.Equal(t, store.Swept{Events: 11000}, sweepNow(t, st))
	require.Zero(t, storetest.Count(t, st, "SELECT count(*) FROM events WHERE data ->> 'to' <> '••••3210'"))
}

// Numbers are masked in kept answers however they are written, in as many answers as there are.
func TestKeptAnswersAreMasked(t *testing.T) {
	t.Parallel()
	st := storetest.New(t)
	tenant := storetest.StrictTenant(t, st)
	wanted := map[string]string{
		`{"phone": "98123 456 01"}`:                                                 `{"phone": "••••5601"}`,
		`{"phone": "9812-34-56-01"}`:                                                `{"phone": "••••5601"}`,
		`{"rows": [{"phone": "+91 (98123) 4.5.6.0.1 "}]}`:                           `{"rows": [{"phone": "••••5601"}]}`,
		`{"phone": "••••5601"}`:                                                     `{"phone": "••••5601"}`,
		`{"phone": null, "to": "queue 2026"}`:                                       `{"phone": null, "to": "queue 2026"}`,
		`{"to": "2026-11-26T00:00:00Z"}`:                                            `{"to": "2026-11-26T00:00:00Z"}`,
		`{"destination": "+91 98123 45601"}`:                                        `{"destination": "••••5601"}`,
		`{"destination": "sip:+919812345601@gw.example"}`:                           `{"destination": "sip:••••5601@gw.example"}`,
		`{"destination": "1001"}`:                                                   `{"destination": "1001"}`,
		`{"direction": "inbound", "from": "+919812345601"}`:                         `{"direction": "inbound", "from": "••••5601"}`,
		`{"direction": "outbound", "from": "+918000000001", "to": "+919812345601"}`: `{"direction": "outbound", "from": "+918000000001", "to": "••••5601"}`,
	}
	for answer := range wanted {
		storetest.Exec(t, st, tenant, `INSERT INTO idempotent_requests (tenant_id, environment, scope, key, status_code, response, created_at)
			VALUES ($1, 'test', 'POST /y', $2::text, 200, $2::text::jsonb, now())`, tenant, answer)
	}
	storetest.Exec(t, st, tenant, `INSERT INTO idempotent_requests (tenant_id, environment, scope, key, status_code, response, created_at)
		SELECT $1, 'live', 'POST /x', i::text, 200, '{"phone": "9812345601"}', now() FROM generate_series(1, 11000) i`, tenant)
	sweepNow(t, st)
	for answer, want := range wanted {
		got := storetest.Query[string](t, st, tenant, "SELECT response::text FROM idempotent_requests WHERE tenant_id = $1 AND key = $2", tenant, answer)
		require.JSONEq(t, want, got[0])
	}
	require.Equal(t, 11000, storetest.Count(t, st, "SELECT count(*) FROM idempotent_requests WHERE environment = 'live' AND response ->> 'phone' = '••••5601'"))
}
