-- Calls and what hangs on one: ceilings, AI sessions, callback tokens, control verbs, recordings.
-- +goose Up

-- Partitioned by month through the time in the UUIDv7 id, so that a look-up by id reads one partition and retention drops
-- whole ones. For that reason nothing refers to a call by foreign key.
CREATE TABLE calls (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  campaign_id uuid,
  lead_id uuid,
  agent_id uuid,
  voice_agent_id uuid,
  trunk_id uuid,
  node text NOT NULL,
  fs_uuid text NOT NULL,
  direction text NOT NULL CHECK (direction IN ('outbound', 'inbound')),
  environment text NOT NULL DEFAULT 'live' CHECK (environment IN ('live', 'test')),
  status text NOT NULL DEFAULT 'dialing'
    CHECK (status IN ('dialing', 'ringing', 'answered', 'agent_connected', 'completed', 'failed')),
  -- E.164, or the mask for a strict tenant, whose number stands in peer_sealed.
  from_number text NOT NULL,
  to_number text NOT NULL,
  peer_hash bytea,
  peer_sealed bytea,
  dial_time timestamptz,
  ring_time timestamptz,
  answer_time timestamptz,
  agent_connect_time timestamptz,
  end_time timestamptz,
  hangup_cause text,
  hangup_disposition text,
  sip_status int,
  disposition text CHECK (disposition ~ '^[a-z0-9_]{1,64}$'),
  disposition_source text CHECK (disposition_source IN ('agent', 'ai', 'system')),
  notes text,
  ai_summary text,
  ai_sentiment text CHECK (ai_sentiment IN ('positive', 'negative', 'neutral')),
  ai_next_action text,
  metadata jsonb,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT calls_closed_has_end CHECK ((status IN ('completed', 'failed')) = (end_time IS NOT NULL)),
  CONSTRAINT calls_closed_has_cause CHECK (end_time IS NULL OR hangup_cause IS NOT NULL),
  CONSTRAINT calls_completed_was_answered CHECK (status <> 'completed' OR answer_time IS NOT NULL),
  CONSTRAINT calls_failed_was_not_answered CHECK (status <> 'failed' OR answer_time IS NULL)
) PARTITION BY RANGE (id);
CREATE INDEX calls_by_campaign ON calls (tenant_id, campaign_id, id);
CREATE INDEX calls_by_lead ON calls (tenant_id, lead_id, id) WHERE lead_id IS NOT NULL;
CREATE INDEX calls_by_peer ON calls (tenant_id, peer_hash, id) WHERE peer_hash IS NOT NULL;
CREATE INDEX calls_open ON calls (node, id) WHERE end_time IS NULL;
CREATE INDEX calls_by_channel ON calls (fs_uuid);
SELECT protect_tenant_rows('calls');

-- The ledger of ceilings: a row is written with the call and deleted in the transaction that closes it, so that counting rows
-- is the usage of campaign, voice agent, tenant and trunk, and no unit can outlive its call.
CREATE TABLE live_calls (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  unit_id uuid NOT NULL,
  call_id uuid NOT NULL,
  kind text NOT NULL DEFAULT 'call' CHECK (kind IN ('call', 'transfer')),
  campaign_id uuid,
  voice_agent_id uuid,
  trunk_id uuid,
  node text NOT NULL,
  opened_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, unit_id)
);
CREATE INDEX live_calls_by_call ON live_calls (tenant_id, call_id);
CREATE UNIQUE INDEX live_calls_call_once ON live_calls (tenant_id, call_id) WHERE kind = 'call';
ALTER TABLE live_calls SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
SELECT protect_tenant_rows('live_calls');

CREATE TABLE ai_sessions (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  call_id uuid NOT NULL,
  voice_agent_id uuid NOT NULL,
  external_agent_id text,
  ws_url text NOT NULL,
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'ended')),
  outcome text CHECK (outcome IN (
    'transferred_agent', 'transferred_e164', 'transferred_sip_uri', 'hangup', 'error', 'timeout')),
  token_jti text,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz,
  metadata jsonb NOT NULL DEFAULT '{"logs":[],"final":null}',
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT ai_sessions_ended_has_outcome
    CHECK ((status = 'ended') = (ended_at IS NOT NULL) AND (status = 'ended') = (outcome IS NOT NULL))
);
CREATE UNIQUE INDEX ai_sessions_one_live_per_call ON ai_sessions (tenant_id, call_id) WHERE status = 'active';
CREATE INDEX ai_sessions_by_call ON ai_sessions (tenant_id, call_id);
CREATE INDEX ai_sessions_live_by_voice_agent ON ai_sessions (tenant_id, voice_agent_id) WHERE status = 'active';
SELECT protect_tenant_rows('ai_sessions');

CREATE TABLE callback_tokens (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  jti text NOT NULL,
  call_id uuid NOT NULL,
  session_id uuid NOT NULL,
  jwt text NOT NULL,
  scope text NOT NULL,
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, jti)
);
-- A request shows the token and nothing else, so the look-up starts from the jti.
CREATE UNIQUE INDEX callback_tokens_by_jti ON callback_tokens (jti);
CREATE INDEX callback_tokens_by_call ON callback_tokens (tenant_id, call_id);
SELECT protect_tenant_rows('callback_tokens');

-- A verb's key is written before its effect: a second request finds the first one's answer, or that it has none.
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

CREATE TABLE recordings (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  call_id uuid NOT NULL,
  status text NOT NULL DEFAULT 'recording' CHECK (status IN ('recording', 'processing', 'ready', 'failed')),
  local_path text,
  storage_key text,
  bytes bigint CHECK (bytes >= 0),
  duration_ms bigint CHECK (duration_ms >= 0),
  stereo boolean NOT NULL DEFAULT false,
  format text NOT NULL DEFAULT 'audio/wav',
  sha256 text CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  parts jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(parts) = 'array'),
  error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  ready_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT recordings_one_per_call UNIQUE (tenant_id, call_id),
  CONSTRAINT recordings_ready_has_time CHECK (status <> 'ready' OR ready_at IS NOT NULL)
);
CREATE INDEX recordings_unfinished ON recordings (created_at) WHERE status IN ('recording', 'processing');
SELECT protect_tenant_rows('recordings');

-- Who fetched which recording: an audit that no query of the service updates.
CREATE TABLE recording_access (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  call_id uuid NOT NULL,
  recording_id uuid NOT NULL,
  accessor text NOT NULL,
  method text NOT NULL CHECK (method IN ('signed_url', 'stream')),
  at timestamptz NOT NULL DEFAULT now(),
  remote_addr text,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX recording_access_by_call ON recording_access (tenant_id, call_id);
SELECT protect_tenant_rows('recording_access');

-- +goose Down
DROP TABLE recording_access, recordings, idempotency_keys, callback_tokens, ai_sessions, live_calls, calls;
