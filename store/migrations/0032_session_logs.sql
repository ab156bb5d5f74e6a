-- The log entries of AI sessions are rows of their own: appending to a JSON array rewrote the whole of it each time. Entries
-- written before stay in ai_sessions.metadata, and stand before the others where they are shown.
-- +goose Up
CREATE TABLE ai_session_logs (
  tenant_id uuid NOT NULL,
  session_id uuid NOT NULL,
  -- UUIDv7: the entries of a session lie in order.
  id uuid NOT NULL,
  at timestamptz NOT NULL,
  source text NOT NULL,
  type text NOT NULL,
  metadata jsonb,
  PRIMARY KEY (tenant_id, session_id, id),
  FOREIGN KEY (tenant_id, session_id) REFERENCES ai_sessions (tenant_id, id) ON DELETE CASCADE
);
SELECT protect_tenant_rows('ai_session_logs');

-- +goose Down
SELECT set_config('app.system', 'on', true);
UPDATE ai_sessions s SET metadata = jsonb_set(s.metadata, '{logs}', coalesce(s.metadata -> 'logs', '[]'::jsonb) || l.entries)
FROM (
  SELECT tenant_id, session_id,
    jsonb_agg(jsonb_build_object('at', at, 'source', source, 'type', type, 'metadata', metadata) ORDER BY id) AS entries
  FROM ai_session_logs GROUP BY tenant_id, session_id
) l
WHERE s.tenant_id = l.tenant_id AND s.id = l.session_id;
SELECT set_config('app.system', '', true);
DROP TABLE ai_session_logs;
