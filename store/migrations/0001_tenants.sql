-- Tenants and their credentials: users, keys, sign-ins that failed, idempotent requests.
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
  updated_at timestamptz NOT NULL DEFAULT now(),
  -- daily_cap null: the deployment's. On a day in holidays nobody is called; days are the callee's.
  daily_cap int CHECK (daily_cap >= 1),
  holidays text[] NOT NULL DEFAULT '{}',
  -- The hosts that a tenant's SIP URIs may lead to: names, addresses and networks. The operator's to set; none by default.
  sip_hosts text[] NOT NULL DEFAULT '{}',
  -- Numbers are sealed under data_key, whose number is data_key_no; the keys before it stand in old_data_key, number n at n.
  data_key_no smallint NOT NULL DEFAULT 1 CHECK (data_key_no BETWEEN 1 AND 255),
  old_data_key bytea[] NOT NULL DEFAULT '{}',
  -- A suspended tenant: none of its credentials is good, nothing is dialed for it, and its numbers are unknown to callers.
  suspended_at timestamptz,
  suspend_reason text,
  CONSTRAINT tenants_old_data_keys CHECK (cardinality(old_data_key) = data_key_no - 1)
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
  tags text[] NOT NULL DEFAULT '{}',
  -- A session is of its user's epoch, and ends with it: signing out, another password, address or role, and deactivation begin the next.
  session_epoch bigint NOT NULL DEFAULT 0,
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

-- How often signing in with an address has failed since a moment, whether it is a user's or not; the address by its SHA-256.
CREATE TABLE sign_in_failures (
  email_hash bytea PRIMARY KEY CHECK (octet_length(email_hash) = 32),
  since timestamptz NOT NULL,
  failures int NOT NULL CHECK (failures > 0)
);

-- An Idempotency-Key is any text of up to 255 characters, on every POST of the Public API. It is bound to tenant and environment, and to
-- its scope: 'call <id>' at the control endpoint, 'POST <path>' elsewhere. request_hash is the SHA-256 of the request's body: the same key
-- with another body is refused.
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

-- +goose Down
DROP TABLE idempotent_requests, sign_in_failures, api_keys, users, tenants;
DROP FUNCTION protect_tenant_rows(regclass, text);
DROP FUNCTION in_system_scope();
DROP FUNCTION current_tenant();
