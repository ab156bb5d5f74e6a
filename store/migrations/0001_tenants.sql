-- Tenants and what belongs to them by configuration: users, keys, trunks, flows, numbers, voice agents.
-- +goose Up

-- Row-level security is the second lock behind the tenant id that every query carries. A transaction states its scope with
-- set_config(..., true): app.tenant_id for one tenant's work, app.system = 'on' for the service's own. Neither set: no rows.
-- +goose StatementBegin
CREATE FUNCTION current_tenant() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT NULLIF(current_setting('app.tenant_id', true), '')::uuid
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION in_system_scope() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT COALESCE(current_setting('app.system', true) = 'on', false)
$$;
-- +goose StatementEnd

-- FORCE, because the service owns its tables and an owner is otherwise exempt. The sub-selects make the planner evaluate the
-- settings once per statement instead of once per row.
-- +goose StatementBegin
CREATE FUNCTION protect_tenant_rows(target regclass, tenant_column text DEFAULT 'tenant_id') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
  EXECUTE format(
    'CREATE POLICY tenant_rows ON %s USING (%2$I = (SELECT current_tenant()) OR (SELECT in_system_scope()))'
    ' WITH CHECK (%2$I = (SELECT current_tenant()) OR (SELECT in_system_scope()))', target, tenant_column);
END
$$;
-- +goose StatementEnd

CREATE TABLE tenants (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (name <> ''),
  privacy_mode text NOT NULL DEFAULT 'standard' CHECK (privacy_mode IN ('standard', 'strict')),
  pii_retention_days int NOT NULL DEFAULT 30 CHECK (pii_retention_days >= 0),
  recording_retention_days int CHECK (recording_retention_days >= 0),
  -- No foreign key: a voice agent may be deleted while it is the default, which then resolves to nothing.
  default_voice_agent_id uuid,
  voice_agent_default_ws_url text,
  default_max_concurrent int CHECK (default_max_concurrent >= 0),
  calling_window jsonb,
  dispositions text[] NOT NULL DEFAULT '{}',
  -- The tenant's AES-256 key for phone numbers, wrapped by the master key: the database alone decrypts nothing.
  data_key bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
SELECT protect_tenant_rows('tenants', 'id');

-- The service signs in by e-mail alone, so an address is unique across tenants. It is kept in lower case instead of indexed by
-- lower(email), which is not leakproof and so could not serve as an index condition under row-level security.
CREATE TABLE users (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  email text NOT NULL UNIQUE CHECK (email = lower(email) AND email LIKE '%_@_%'),
  password_hash text NOT NULL,
  display_name text,
  role text NOT NULL CHECK (role IN ('admin', 'supervisor', 'agent')),
  -- One SIP domain per switch host: an extension belongs to one user, whichever the tenant.
  extension text UNIQUE CHECK (extension ~ '^[0-9]{2,10}$'),
  phone_mode text NOT NULL DEFAULT 'held' CHECK (phone_mode IN ('held', 'on_hook')),
  is_active boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);
SELECT protect_tenant_rows('users');

-- Only a hash of a key is stored. The hash is unique across tenants, since a request names no tenant but its key.
CREATE TABLE api_keys (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  label text NOT NULL CHECK (char_length(label) BETWEEN 1 AND 200),
  environment text NOT NULL DEFAULT 'live' CHECK (environment IN ('live', 'test')),
  key_hash bytea NOT NULL UNIQUE CHECK (octet_length(key_hash) = 32),
  key_prefix text NOT NULL,
  last_four text NOT NULL CHECK (char_length(last_four) = 4),
  scopes text[] NOT NULL DEFAULT '{}',
  rate_limit_per_min int NOT NULL DEFAULT 600 CHECK (rate_limit_per_min BETWEEN 1 AND 100000),
  allowed_origins text[] NOT NULL DEFAULT '{}',
  is_active boolean NOT NULL DEFAULT true,
  last_used_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz,
  revoke_reason text,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT api_keys_revoked_is_inactive CHECK (revoked_at IS NULL OR NOT is_active)
);
SELECT protect_tenant_rows('api_keys');

CREATE TABLE trunks (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  name text NOT NULL CHECK (name <> ''),
  host text NOT NULL CHECK (host <> ''),
  port int NOT NULL DEFAULT 5060 CHECK (port BETWEEN 1 AND 65535),
  transport text NOT NULL DEFAULT 'udp' CHECK (transport IN ('udp', 'tcp', 'tls')),
  username text,
  password_sealed bytea,
  register boolean NOT NULL DEFAULT false,
  number_format text NOT NULL DEFAULT 'e164' CHECK (number_format IN ('e164', 'national', '0national')),
  max_channels int NOT NULL DEFAULT 10 CHECK (max_channels >= 0),
  cps int NOT NULL DEFAULT 10 CHECK (cps > 0),
  priority int NOT NULL DEFAULT 0,
  media_mode text NOT NULL DEFAULT 'bridge' CHECK (media_mode IN ('bridge', 'bypass')),
  is_active boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, name)
);
SELECT protect_tenant_rows('trunks');

CREATE TABLE flows (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  name text NOT NULL CHECK (name <> ''),
  version int NOT NULL DEFAULT 1 CHECK (version >= 1),
  nodes jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(nodes) = 'array'),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);
SELECT protect_tenant_rows('flows');

-- A number rings for one tenant only, so that an inbound call has one owner. A flow or trunk in use can't be deleted.
CREATE TABLE numbers (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  e164 text NOT NULL UNIQUE CHECK (e164 ~ '^\+[1-9][0-9]{4,14}$'),
  label text,
  flow_id uuid,
  trunk_id uuid,
  is_active boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id),
  FOREIGN KEY (tenant_id, flow_id) REFERENCES flows (tenant_id, id),
  FOREIGN KEY (tenant_id, trunk_id) REFERENCES trunks (tenant_id, id)
);
SELECT protect_tenant_rows('numbers');

CREATE TABLE voice_agents (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
  ws_url text NOT NULL CHECK (ws_url LIKE 'ws://%' OR ws_url LIKE 'wss://%'),
  auth_token_sealed bytea,
  audio_format jsonb NOT NULL DEFAULT '{"encoding":"pcm_s16le","sample_rate_hz":16000,"channels":1,"frame_ms":20}',
  external_agent_id text,
  transfer_destination text,
  max_concurrent int NOT NULL DEFAULT 10 CHECK (max_concurrent BETWEEN 1 AND 10000),
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'archived')),
  token_lifetime text NOT NULL DEFAULT '30min_with_refresh' CHECK (token_lifetime IN ('30min_with_refresh', 'ws_session')),
  subprotocol text NOT NULL DEFAULT 'audio.alpha.org' CHECK (subprotocol IN ('audio.alpha.org', 'audio.beta.org')),
  ws_disconnect_action text NOT NULL DEFAULT 'hangup' CHECK (ws_disconnect_action IN ('hangup', 'transfer_to_queue')),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);
SELECT protect_tenant_rows('voice_agents');

-- Controllers, one per switch host. They serve all tenants.
CREATE TABLE nodes (
  id text PRIMARY KEY,
  started_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz NOT NULL DEFAULT now(),
  switch_core_uuid text
);

-- +goose Down
DROP TABLE nodes, voice_agents, numbers, flows, trunks, api_keys, users, tenants;
DROP FUNCTION protect_tenant_rows(regclass, text);
DROP FUNCTION in_system_scope();
DROP FUNCTION current_tenant();
