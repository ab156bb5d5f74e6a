-- Calls and what hangs on one: ceilings, AI sessions, callback tokens, runs of flows.
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
  -- amd is written at admission: the campaign's setting as it was then. answered_by_amd is what call.answered says, null until
  -- that event is committed; the verdict itself may differ from it, when it came later than the event could wait.
  -- quality holds one object per direction, weighted by its packets when the call had several sessions.
  amd boolean NOT NULL DEFAULT false,
  answered_by_amd text CHECK (answered_by_amd IN ('human', 'machine')),
  amd_class text CHECK (amd_class IN ('human', 'machine', 'unknown')),
  amd_confidence double precision CHECK (amd_confidence BETWEEN 0 AND 1),
  amd_after_ms int CHECK (amd_after_ms >= 0),
  quality jsonb CHECK (jsonb_typeof(quality) = 'object'),
  -- queued_at is when a call first asked for an agent; abandoned, that nobody took it in time, or at all.
  queued_at timestamptz,
  abandoned boolean NOT NULL DEFAULT false,
  -- By when an agent must have the callee of a campaign, or the call counts as abandoned, whoever takes it later. It is set when the
  -- call asks for an agent, by what its campaign says then.
  agent_due timestamptz,
  -- The flow that a single call was placed for; null for a call that has its flow, or voice agent, from its campaign or its number.
  flow_id uuid,
  -- When a callee began to hear a campaign's announcement: who leaves during it was told, and is nobody whom nobody served.
  announced_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT calls_closed_has_end CHECK ((status IN ('completed', 'failed')) = (end_time IS NOT NULL)),
  CONSTRAINT calls_closed_has_cause CHECK (end_time IS NULL OR hangup_cause IS NOT NULL),
  CONSTRAINT calls_completed_was_answered CHECK (status <> 'completed' OR answer_time IS NOT NULL),
  CONSTRAINT calls_failed_was_not_answered CHECK (status <> 'failed' OR answer_time IS NULL),
  CONSTRAINT calls_answered_by_somebody CHECK (answered_by_amd IS NULL OR answer_time IS NOT NULL),
  CONSTRAINT calls_verdict_is_whole CHECK ((amd_class IS NULL) = (amd_confidence IS NULL))
) PARTITION BY RANGE (id);
CREATE INDEX calls_by_campaign ON calls (tenant_id, campaign_id, id);
CREATE INDEX calls_by_lead ON calls (tenant_id, lead_id, id) WHERE lead_id IS NOT NULL;
CREATE INDEX calls_by_peer ON calls (tenant_id, peer_hash, id) WHERE peer_hash IS NOT NULL;
CREATE INDEX calls_open ON calls (node, id) WHERE end_time IS NULL;
CREATE INDEX calls_by_channel ON calls (fs_uuid);
CREATE INDEX calls_by_agent ON calls (tenant_id, agent_id, id) WHERE agent_id IS NOT NULL;
-- The sealed numbers that calls still hold: strict tenants' alone, until the nightly sweep forgets them.
CREATE INDEX calls_sealed ON calls (tenant_id, id) WHERE peer_sealed IS NOT NULL;
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
  -- The call will ask for one of the node's agents and has none yet: what paces dialing to the agents that are ready.
  awaits_agent boolean NOT NULL DEFAULT false,
  -- When a leg went on to another trunk than it began with: there it counts as begun at that time.
  rerouted_at timestamptz,
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
  token_hash text,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz,
  metadata jsonb NOT NULL DEFAULT '{"logs":[],"final":null}',
  -- When the session's socket was first open: ai_session.started was told then, and the session's recording began.
  opened_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  CONSTRAINT ai_sessions_ended_has_outcome
    CHECK ((status = 'ended') = (ended_at IS NOT NULL) AND (status = 'ended') = (outcome IS NOT NULL))
);
CREATE UNIQUE INDEX ai_sessions_one_live_per_call ON ai_sessions (tenant_id, call_id) WHERE status = 'active';
CREATE INDEX ai_sessions_by_call ON ai_sessions (tenant_id, call_id);
CREATE INDEX ai_sessions_live_by_voice_agent ON ai_sessions (tenant_id, voice_agent_id) WHERE status = 'active';
SELECT protect_tenant_rows('ai_sessions');

-- The log entries of AI sessions are rows of their own: appending to a JSON array would rewrite the whole of it each time.
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

-- A callback token's row gives nobody the token: it has the SHA-256 of the jti, in hexadecimal, and the JWT without its claims.
CREATE TABLE callback_tokens (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  jti_hash text NOT NULL,
  call_id uuid NOT NULL,
  session_id uuid NOT NULL,
  jwt text NOT NULL,
  scope text NOT NULL,
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, jti_hash)
);
-- A request shows the token and nothing else, so the look-up starts from the jti's hash.
CREATE UNIQUE INDEX callback_tokens_by_jti ON callback_tokens (jti_hash);
CREATE INDEX callback_tokens_by_call ON callback_tokens (tenant_id, call_id);
-- The tokens that the sweep takes.
CREATE INDEX callback_tokens_by_age ON callback_tokens (expires_at);
SELECT protect_tenant_rows('callback_tokens');

-- How far a flow has come with a call, and its trace. node and variables are there while it runs: after a restart it goes on at
-- that node. Calls and flows are not referred to by foreign key: the one is partitioned, the other may be deleted.
CREATE TABLE flow_runs (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  call_id uuid NOT NULL,
  flow_id uuid NOT NULL,
  version int NOT NULL,
  state jsonb NOT NULL DEFAULT '{}',
  trace jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(trace) = 'array'),
  outcome text,
  error text,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz,
  PRIMARY KEY (tenant_id, call_id, flow_id)
);
-- Whether a version of a flow is still run.
CREATE INDEX flow_runs_open ON flow_runs (tenant_id, flow_id, version) WHERE ended_at IS NULL;
SELECT protect_tenant_rows('flow_runs');

-- mask_number writes a number as it is shown of strict tenants: four bullets and the last four digits.
-- +goose StatementBegin
CREATE FUNCTION mask_number(number text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN number = '' OR number LIKE '••••%' THEN number
    WHEN length(regexp_replace(number, '[^0-9]', '', 'g')) < 5 THEN '••••'
    ELSE '••••' || right(regexp_replace(number, '[^0-9]', '', 'g'), 4)
  END
$$;
-- +goose StatementEnd

-- How far the nightly sweep has come in a strict tenant's calls and events: those up to this one hold no number in clear. Those from before
-- the tenant was strict are masked by the sweep and when their owner opts out.
CREATE TABLE call_masks (
  tenant_id uuid PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
  up_to uuid NOT NULL,
  events_up_to uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);
SELECT protect_tenant_rows('call_masks');

-- +goose Down
DROP TABLE call_masks, flow_runs, callback_tokens, ai_session_logs, ai_sessions, live_calls, calls;
DROP FUNCTION mask_number;
