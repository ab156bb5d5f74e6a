-- What calls go through and to: trunks, flows, numbers, voice agents, controllers.
-- +goose Up

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
  -- What was learned of a trunk's bypass, apart from media_mode, which is what was configured. Calls are taken into bypass while
  -- media_mode is 'bypass' and no failure stands: a failure of any call sets bypass_failed_at, a probe that succeeds clears it.
  bypass_proven_at timestamptz,
  bypass_failed_at timestamptz,
  bypass_failure text,
  -- failures weighs the calls in a row, since failing_since, that failed for the trunk's sake, the last of them with failure: 2 for one
  -- that it refused, 1 for one of which nothing was heard.
  -- A trunk that rests_until a moment carries no call before; from then on one call tries it, the probe, while it rests on. rests counts
  -- the rests in a row, each longer than the one before, until there is a sign of life. heard_at is when there was the first one, rang_at
  -- when a callee was first heard ringing through it: of a trunk that is heard but never tells of ringing silence proves nothing.
  failures int NOT NULL DEFAULT 0 CHECK (failures >= 0),
  failing_since timestamptz,
  rests int NOT NULL DEFAULT 0 CHECK (rests >= 0),
  rests_until timestamptz,
  probe uuid,
  failure text,
  heard_at timestamptz,
  rang_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, name),
  CONSTRAINT trunks_bypass_failure_told CHECK ((bypass_failed_at IS NULL) = (bypass_failure IS NULL)),
  CONSTRAINT trunks_failing CHECK ((failures = 0) = (failing_since IS NULL)),
  CONSTRAINT trunks_rest_while_failing CHECK ((rests = 0) = (rests_until IS NULL) AND (rests = 0 OR failures > 0))
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

-- A call keeps the version that it began with, also through a restart. Versions that no call can have any more are dropped by
-- whoever writes a new one.
CREATE TABLE flow_versions (
  tenant_id uuid NOT NULL,
  flow_id uuid NOT NULL,
  version int NOT NULL CHECK (version >= 1),
  nodes jsonb NOT NULL CHECK (jsonb_typeof(nodes) = 'array'),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, flow_id, version),
  FOREIGN KEY (tenant_id, flow_id) REFERENCES flows (tenant_id, id) ON DELETE CASCADE
);
SELECT protect_tenant_rows('flow_versions');

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
  -- When the number last was the caller id of a call that could show any: the one whose turn is longest ago is next.
  shown_at timestamptz,
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
  -- Which other calls a voice agent's callback tokens may monitor: those of the tenant, those of the same voice agent, or none.
  monitor_scope text NOT NULL DEFAULT 'tenant' CHECK (monitor_scope IN ('tenant', 'same_agent', 'none')),
  PRIMARY KEY (tenant_id, id)
);
SELECT protect_tenant_rows('voice_agents');

-- Controllers, one per switch host. They serve all tenants.
CREATE TABLE nodes (
  id text PRIMARY KEY,
  started_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz NOT NULL DEFAULT now(),
  switch_core_uuid text,
  -- A controller that the others have not seen for their grace is lost: they close its calls. The mark fences it, since it may be
  -- alive behind a broken network: a call is closed for it only while the mark stands, and whoever comes back takes it off and is told
  -- in the same step which of its calls are still open.
  lost_at timestamptz,
  -- When a controller last had its switch's calls in sight: those that were lost since ended then.
  switch_seen_at timestamptz
);

-- +goose Down
DROP TABLE nodes, voice_agents, numbers, flow_versions, flows, trunks;
