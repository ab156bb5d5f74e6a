package store_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/ringmaster/ringmaster/store"
	"github.com/ringmaster/ringmaster/store/storetest"
)

// Rows as an installation has them after some months: one tenant with most of them, one campaign that is worked off beside one that is
// fresh and a small new one, as many calls in each of four months with all that hangs on a call, a handful of open ones.
// Foreign keys are away meanwhile and checked at once when all is there: row by row they took most of the server's time.
const seedHistory = `
ALTER TABLE calls DISABLE TRIGGER USER; ALTER TABLE leads DISABLE TRIGGER USER;
CREATE TEMP TABLE keys AS SELECT conrelid::regclass AS of, conname, pg_get_constraintdef(oid) AS def FROM pg_constraint
WHERE contype = 'f' AND conparentid = 0 AND connamespace = 'public'::regnamespace;
DO $$ DECLARE k keys; BEGIN FOR k IN SELECT * FROM keys LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', k.of, k.conname); END LOOP; END $$;
SELECT ensure_partition(parent::regclass, (date_trunc('month', now() AT TIME ZONE 'UTC') - make_interval(months => back))::date)
FROM unnest(ARRAY['calls', 'events', 'webhook_deliveries']) parent CROSS JOIN generate_series(2, 3) back;

INSERT INTO nodes (id) SELECT 'node-' || n FROM generate_series(1, 3) n;
INSERT INTO users (tenant_id, id, email, password_hash, role, extension)
SELECT id, gen_random_uuid(), 'agent-' || n || '@' || id, '', 'agent', (1000 * row_number() OVER () + n)::text
FROM tenants CROSS JOIN generate_series(1, 5) n;
INSERT INTO agents (tenant_id, id, status, node, last_status_at) SELECT tenant_id, id, 'offline', 'node-1', now() FROM users;
INSERT INTO voice_agents (tenant_id, id, name, ws_url) SELECT id, gen_random_uuid(), 'agent', 'wss://127.0.0.1/' FROM tenants;
INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, secret_sealed)
SELECT id, gen_random_uuid(), 'https://127.0.0.1/', '{*}', '' FROM tenants;
INSERT INTO flows (tenant_id, id, name) SELECT id, gen_random_uuid(), 'flow-' || n FROM tenants CROSS JOIN generate_series(1, 5) n;

CREATE TEMP TABLE plan (big bool, campaign text, status text, leads int, calls int);
INSERT INTO plan VALUES (true, 'worked off', 'completed', 30000, 20000), (true, 'fresh', 'new', 30000, 0), (true, 'small', 'new', 100, 0),
  (false, 'worked off', 'completed', 1500, 1500), (false, 'fresh', 'new', 1500, 0);
INSERT INTO campaigns (tenant_id, id, name, dial_mode, status, started_at)
SELECT t.id, audit_id(now()), p.campaign, 'progressive', 'running', now()
FROM tenants t JOIN plan p ON p.big = (t.name = (SELECT min(name) FROM tenants));

INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, dnd_checked, dnd_clean, dnd_checked_at, status, next_attempt_at,
  completed_at)
SELECT k.tenant_id, audit_id(now() - (p.leads - n) * interval '1 second'), k.id, '9' || lpad(n::text, 9, '0'), sha256(convert_to(k.id::text || n, 'UTF8')),
  '0000', n % 10 <> 0, n % 10 > 1, CASE WHEN n % 10 <> 0 THEN now() - interval '1 day' END, 
  CASE WHEN p.status = 'new' THEN coalesce((ARRAY['dialing', 'retry', 'callback'])[n % 100], 'new') ELSE p.status END,
  CASE WHEN p.status = 'new' AND n % 100 IN (2, 3) THEN now() END, CASE WHEN p.status = 'completed' THEN now() END
FROM plan p JOIN tenants t ON p.big = (t.name = (SELECT min(name) FROM tenants))
JOIN campaigns k ON k.tenant_id = t.id AND k.name = p.campaign CROSS JOIN generate_series(1, p.leads) n;

INSERT INTO campaign_counts (tenant_id, campaign_id, figure, n)
SELECT tenant_id, campaign_id, 'lead:' || status, count(*) FROM leads GROUP BY 1, 2, 3;

INSERT INTO calls (tenant_id, id, campaign_id, lead_id, agent_id, voice_agent_id, node, fs_uuid, direction, status, from_number, to_number,
  peer_hash, peer_sealed, dial_time, answer_time, end_time, hangup_cause, answered_by_amd, created_at, disposition)
SELECT l.tenant_id, audit_id(l.at), l.campaign_id, l.id, CASE WHEN l.n / 4 % 2 = 0 THEN u.ids[1 + l.n / 4 % 5] END, v.id, 'node-' || 1 + l.n % 3,
  gen_random_uuid(), 'outbound', 'completed', '+918000000001', '+910000000000', l.phone_hash, CASE WHEN l.n % 3 = 0 THEN '\x00'::bytea END,
  l.at, l.at, l.at + interval '1 minute', 'NORMAL_CLEARING', 'human', l.at, CASE WHEN l.n % 100 = 1 THEN 'sale' WHEN l.n % 3 = 0 THEN 'no_interest' END
FROM (
  SELECT m.*, m.month + (least(m.month + interval '1 month', now()) - m.month) * ((m.n - 1) / greatest(m.calls, 1)::float8) AS at
  FROM (
    SELECT l.*, row_number() OVER w AS n, p.calls,
      (date_trunc('month', now() AT TIME ZONE 'UTC') - make_interval(months => (row_number() OVER w % 4)::int)) AT TIME ZONE 'UTC' AS month
    FROM leads l JOIN campaigns k ON k.tenant_id = l.tenant_id AND k.id = l.campaign_id JOIN tenants t ON t.id = k.tenant_id
    JOIN plan p ON p.campaign = k.name AND p.big = (t.name = (SELECT min(name) FROM tenants))
    WINDOW w AS (PARTITION BY l.tenant_id, l.campaign_id ORDER BY l.id)
  ) m WHERE m.n <= m.calls
) l JOIN voice_agents v ON v.tenant_id = l.tenant_id
JOIN (SELECT tenant_id, array_agg(id) AS ids FROM users GROUP BY 1) u ON u.tenant_id = l.tenant_id;
INSERT INTO calls (tenant_id, id, campaign_id, voice_agent_id, node, fs_uuid, direction, status, from_number, to_number, dial_time, answer_time,
  answered_by_amd)
SELECT k.tenant_id, audit_id(now()), k.id, v.id, 'node-' || 1 + n % 3, gen_random_uuid(), 'outbound', 'answered', '+918000000001', '+910000000000',
  now(), now(), 'human'
FROM campaigns k JOIN voice_agents v ON v.tenant_id = k.tenant_id CROSS JOIN generate_series(1, 40) n WHERE k.name = 'fresh';
INSERT INTO live_calls (tenant_id, unit_id, call_id, campaign_id, node) SELECT tenant_id, id, id, campaign_id, node FROM calls WHERE end_time IS NULL;

INSERT INTO events (tenant_id, id, type, call_id, campaign_id, data, created_at)
SELECT tenant_id, audit_id(created_at), 'call.' || n, id, campaign_id, '{}', created_at FROM calls CROSS JOIN generate_series(1, 2) n;
INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, status, created_at)
SELECT e.tenant_id, audit_id(e.created_at), s.id, e.id, e.type,
  CASE WHEN e.created_at > now() - interval '1 minute' THEN 'pending' ELSE 'delivered' END, e.created_at
FROM events e JOIN webhook_subscriptions s ON s.tenant_id = e.tenant_id;
INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id, due_at)
SELECT d.tenant_id, d.subscription_id, d.id, d.event_id, e.call_id, CASE WHEN random() < 0.5 THEN now() END
FROM webhook_deliveries d JOIN events e ON e.tenant_id = d.tenant_id AND e.id = d.event_id WHERE d.status = 'pending';
INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, secret_sealed)
SELECT id, gen_random_uuid(), 'https://127.0.0.1/new', '{*}', '' FROM tenants;
INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, ws_url, status, outcome, started_at, ended_at)
SELECT tenant_id, audit_id(created_at), id, voice_agent_id, 'wss://127.0.0.1/', CASE WHEN end_time IS NULL THEN 'active' ELSE 'ended' END,
  CASE WHEN end_time IS NOT NULL THEN 'hangup' END, created_at, end_time FROM calls;
INSERT INTO ai_session_logs (tenant_id, session_id, id, at, source, type)
SELECT tenant_id, id, audit_id(started_at), started_at, 'ai', 'note' FROM ai_sessions;
INSERT INTO callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, expires_at)
SELECT tenant_id, encode(sha256(id::text::bytea), 'hex'), call_id, id, '', 'call', started_at + interval '30 days' FROM ai_sessions;
INSERT INTO flow_runs (tenant_id, call_id, flow_id, version, started_at, ended_at)
SELECT c.tenant_id, c.id, f.ids[1 + c.seq % 5], 1, c.created_at, c.end_time
FROM (SELECT *, row_number() OVER () AS seq FROM calls) c
JOIN (SELECT tenant_id, array_agg(id) AS ids FROM flows GROUP BY 1) f ON f.tenant_id = c.tenant_id;
INSERT INTO flow_versions (tenant_id, flow_id, version, nodes) SELECT tenant_id, id, n, '[]' FROM flows CROSS JOIN generate_series(1, 5) n;
INSERT INTO integrations (tenant_id, purpose, id, kind, host, config_sealed)
SELECT id, purpose, gen_random_uuid(), 'rest', 'crm.example', '' FROM tenants CROSS JOIN unnest(ARRAY['crm', 'insights']) purpose;
INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, status, written, written_at, give_up_at, created_at)
SELECT c.tenant_id, c.id, i.purpose, i.id, CASE WHEN r.pending THEN 'pending' ELSE 'written' END, CASE WHEN r.pending THEN 0 ELSE 1 END,
  CASE WHEN NOT r.pending THEN c.end_time END, c.end_time + interval '1 day', c.end_time
FROM calls c JOIN integrations i ON i.tenant_id = c.tenant_id CROSS JOIN LATERAL (SELECT c.end_time > now() - interval '1 hour' AS pending) r
WHERE c.end_time IS NOT NULL;
INSERT INTO recordings (tenant_id, id, call_id, status, storage_key, ready_at)
SELECT tenant_id, audit_id(created_at), id, CASE WHEN end_time IS NULL THEN 'recording' ELSE 'ready' END, 'key', end_time
FROM calls;
INSERT INTO recording_access (tenant_id, id, call_id, recording_id, accessor, method)
SELECT tenant_id, audit_id(created_at), call_id, id, 'user:1', 'stream' FROM recordings;
INSERT INTO agent_status_log (tenant_id, agent_id, version, status, cause, call_id, at)
SELECT tenant_id, agent_id, row_number() OVER (), 'on_call', 'call', id, created_at FROM calls WHERE agent_id IS NOT NULL;
INSERT INTO audit (tenant_id, id, at, actor, action, call_id)
SELECT tenant_id, audit_id(created_at), created_at, 'user:' || coalesce(agent_id, id), CASE WHEN n % 100 = 0 THEN 'supervision.ended' ELSE 'call.changed' END, id
FROM (SELECT *, row_number() OVER (PARTITION BY tenant_id) AS n FROM calls) c;
INSERT INTO escalations (tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at)
SELECT tenant_id, audit_id(created_at), id, voice_agent_id, 'asked', 'high', created_at FROM calls;
INSERT INTO supervisor_sessions (tenant_id, id, supervisor_id, call_id, mode, node, started_at, ended_at, end_reason)
SELECT tenant_id, audit_id(created_at), id, id, 'listen', node, created_at, end_time, CASE WHEN end_time IS NOT NULL THEN 'call_ended' END FROM calls;
INSERT INTO idempotent_requests (tenant_id, environment, scope, key, created_at)
SELECT tenant_id, 'live', 'call ' || id, 'key', created_at FROM calls;
INSERT INTO suppressions (tenant_id, phone_hash, reason) SELECT tenant_id, phone_hash, 'asked' FROM leads ON CONFLICT DO NOTHING;
DO $$ DECLARE k keys; BEGIN FOR k IN SELECT * FROM keys LOOP EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', k.of, k.conname, k.def); END LOOP; END $$;
DROP TABLE plan, keys;
ALTER TABLE calls ENABLE TRIGGER USER; ALTER TABLE leads ENABLE TRIGGER USER;
`

// historyTables are those whose rows grow with leads, calls and time. No query may read one of them as a whole.
func historyTables() []string {
	return []string{
		"leads", "calls", "events", "webhook_deliveries", "callback_tokens", "ai_sessions", "ai_session_logs", "flow_runs", "audit",
		"recordings", "recording_access", "agent_status_log", "idempotent_requests", "suppressions", "supervisor_sessions", "escalations", "call_reports",
	}
}

// historyIDs gives ids of the tenant with most rows for words in braces.
func historyIDs(t *testing.T, st *store.Store) *strings.Replacer {
	t.Helper()
	var out []string
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.Pgx().Query(t.Context(), `WITH big AS (SELECT id FROM tenants ORDER BY name LIMIT 1)
			SELECT '{tenant}', id FROM big
			UNION ALL SELECT '{' || k.name || '}', k.id FROM campaigns k JOIN big ON big.id = k.tenant_id
			UNION ALL (SELECT '{agent}', u.id FROM users u JOIN big ON big.id = u.tenant_id LIMIT 1)
			UNION ALL (SELECT '{delivery}', d.id FROM webhook_deliveries d JOIN big ON big.id = d.tenant_id ORDER BY d.id DESC LIMIT 1)
			UNION ALL SELECT '{subscription}', s.id FROM webhook_subscriptions s JOIN big ON big.id = s.tenant_id WHERE s.url LIKE '%/new'`)
		if err != nil {
			return err
		}
		var word string
		var id uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&word, &id}, func() error {
			out = append(out, word, "'"+id.String()+"'")
			return nil
		})
		return err
	}))
	return strings.NewReplacer(out...)
}

// withHistory gives a store with some months' rows of one or several tenants, and with as many that have none, analyzed.
func withHistory(t *testing.T, tenants, without int) *store.Store {
	t.Helper()
	st := storetest.New(t)
	for range tenants {
		storetest.Tenant(t, st)
	}
	require.NoError(t, st.InSystem(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Pgx().Exec(t.Context(), seedHistory)
		if err == nil {
			_, err = tx.Pgx().Exec(t.Context(), `INSERT INTO tenants (id, name, data_key)
				SELECT gen_random_uuid(), 'without rows ' || n, '' FROM generate_series(1, $1::int) n`, without)
		}
		return err
	}))
	_, err := st.Pool().Exec(t.Context(), "VACUUM ANALYZE")
	require.NoError(t, err)
	return st
}
