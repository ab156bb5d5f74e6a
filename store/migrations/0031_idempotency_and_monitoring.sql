-- +goose Up

-- An Idempotency-Key is any text of up to 255 characters, on every POST of the Public API. It is bound to tenant and environment, and to
-- its scope: 'call <id>' at the control endpoint, 'POST <path>' elsewhere. request_hash is the SHA-256 of the request's body: the same key
-- with another body is refused. It is NULL for keys from before this migration, which are compared with nothing.
CREATE TABLE idempotent_requests (
  tenant_id uuid NOT NULL,
  environment text NOT NULL CHECK (environment IN ('live', 'test')),
  scope text NOT NULL,
  key text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
  request_hash bytea,
  status_code int,
  response jsonb,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, environment, scope, key)
);
-- The sweep takes the oldest.
CREATE INDEX idempotent_requests_by_age ON idempotent_requests (created_at);
SELECT protect_tenant_rows('idempotent_requests');

SELECT set_config('app.system', 'on', true);
INSERT INTO idempotent_requests (tenant_id, environment, scope, key, status_code, response, created_at)
SELECT tenant_id, 'live',
  CASE WHEN call_id = '00000000-0000-0000-0000-000000000000' THEN 'POST /api/v1/calls' ELSE 'call ' || call_id END,
  key::text, status_code, response, created_at
FROM idempotency_keys;
SELECT set_config('app.system', '', true);
DROP TABLE idempotency_keys;

-- Which other calls a voice agent's callback tokens may monitor: those of the tenant, those of the same voice agent, or none.
ALTER TABLE voice_agents ADD COLUMN monitor_scope text NOT NULL DEFAULT 'tenant'
  CHECK (monitor_scope IN ('tenant', 'same_agent', 'none'));

-- +goose Down
ALTER TABLE voice_agents DROP COLUMN monitor_scope;
CREATE TABLE idempotency_keys (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  call_id uuid NOT NULL,
  key uuid NOT NULL,
  verb text NOT NULL,
  status_code int,
  response jsonb,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, call_id, key)
);
SELECT protect_tenant_rows('idempotency_keys');
DROP TABLE idempotent_requests;
