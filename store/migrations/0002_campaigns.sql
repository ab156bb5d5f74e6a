-- Campaigns, their leads, and the marks that keep a number from being dialed.
-- +goose Up

CREATE TABLE campaigns (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  name text NOT NULL CHECK (name <> ''),
  dial_mode text NOT NULL CHECK (dial_mode IN ('preview', 'progressive', 'predictive')),
  status text NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'running', 'paused', 'completed')),
  environment text NOT NULL DEFAULT 'live' CHECK (environment IN ('live', 'test')),
  -- No foreign keys to voice agent and flow: both may be deleted while a campaign names them; resolution then goes on.
  voice_agent_id uuid,
  post_answer_action text NOT NULL DEFAULT 'connect_agent'
    CHECK (post_answer_action IN ('connect_agent', 'connect_voice_agent', 'run_flow')),
  -- The law's cap on abandoned calls, held here so that no code path can go beyond it.
  predictive_target_abandon double precision NOT NULL DEFAULT 0.03
    CONSTRAINT campaigns_abandon_cap CHECK (predictive_target_abandon >= 0 AND predictive_target_abandon <= 0.03),
  predictive_max_wait_s double precision NOT NULL DEFAULT 2 CHECK (predictive_max_wait_s >= 0),
  max_concurrent int CHECK (max_concurrent >= 0),
  caller_id text,
  flow_id uuid,
  description text,
  script text,
  notes text,
  ring_timeout_s int NOT NULL DEFAULT 25 CHECK (ring_timeout_s BETWEEN 15 AND 60),
  amd boolean NOT NULL DEFAULT false,
  voicemail_action text NOT NULL DEFAULT 'connect' CHECK (voicemail_action IN ('connect', 'hangup', 'message')),
  voicemail_message_url text,
  max_attempts int NOT NULL DEFAULT 3 CHECK (max_attempts >= 1),
  retry jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(retry) = 'object'),
  calling_window jsonb,
  announcement_url text,
  started_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX campaigns_running ON campaigns (tenant_id, id) WHERE status = 'running';
SELECT protect_tenant_rows('campaigns');

-- A standard tenant's number is ten digits in phone; a strict tenant's is sealed under its data key. The keyed hash stands for
-- the number in comparisons and outlives it when the number is purged.
CREATE TABLE leads (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  phone text CHECK (phone ~ '^[0-9]{10}$'),
  phone_sealed bytea,
  phone_hash bytea NOT NULL CHECK (octet_length(phone_hash) = 32),
  phone_last4 text NOT NULL CHECK (phone_last4 ~ '^[0-9]{4}$'),
  name text,
  email text,
  metadata jsonb CHECK (jsonb_typeof(metadata) = 'object'),
  crm_lead_id text,
  dnd_checked boolean NOT NULL DEFAULT false,
  -- False until a scrub says otherwise: a number that nobody checked is never dialed.
  dnd_clean boolean NOT NULL DEFAULT false CONSTRAINT leads_clean_is_checked CHECK (dnd_checked OR NOT dnd_clean),
  dnd_checked_at timestamptz,
  custom_fields jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(custom_fields) = 'object'),
  status text NOT NULL DEFAULT 'new' CHECK (status IN (
    'new', 'queued', 'dialing', 'connected', 'callback', 'retry', 'completed', 'exhausted', 'dnc', 'opted_out', 'invalid')),
  status_set_by text,
  attempts int NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  next_attempt_at timestamptz,
  claimed_by text,
  claimed_until timestamptz,
  priority int NOT NULL DEFAULT 0,
  last_call_id uuid,
  disposition text CHECK (disposition ~ '^[a-z0-9_]{1,64}$'),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  completed_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id) ON DELETE CASCADE,
  CONSTRAINT leads_phone_once UNIQUE (tenant_id, campaign_id, phone_hash),
  CONSTRAINT leads_phone_plain_or_sealed CHECK (phone IS NULL OR phone_sealed IS NULL)
);
CREATE UNIQUE INDEX leads_crm_lead_id_once ON leads (tenant_id, campaign_id, crm_lead_id) WHERE crm_lead_id IS NOT NULL;

-- The next-lead claim reads these two, and they hold dialable rows alone, so its cost does not grow with the campaign: fresh
-- leads by priority, then age; and leads with a due time, by that time, so that a far retry is never stepped over.
CREATE INDEX leads_fresh ON leads (tenant_id, campaign_id, priority DESC, id)
  WHERE status IN ('new', 'queued') AND dnd_clean;
CREATE INDEX leads_due ON leads (tenant_id, campaign_id, next_attempt_at)
  WHERE status IN ('retry', 'callback') AND dnd_clean;
CREATE INDEX leads_unscrubbed ON leads (tenant_id, campaign_id, id)
  WHERE NOT dnd_checked AND status IN ('new', 'queued', 'retry', 'callback');
CREATE INDEX leads_in_call ON leads (tenant_id, campaign_id, id) WHERE status IN ('dialing', 'connected');
CREATE INDEX leads_by_phone ON leads (tenant_id, phone_hash);
-- Rows change status several times in their life: room on the page keeps those updates local.
ALTER TABLE leads SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
SELECT protect_tenant_rows('leads');

CREATE TABLE suppressions (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  phone_hash bytea NOT NULL CHECK (octet_length(phone_hash) = 32),
  reason text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, phone_hash)
);
SELECT protect_tenant_rows('suppressions');

-- Loads of the regulator's registry, which is the same for all tenants.
CREATE TABLE dnc_loads (
  id uuid PRIMARY KEY,
  source text NOT NULL,
  numbers bigint NOT NULL CHECK (numbers >= 0),
  loaded_at timestamptz NOT NULL DEFAULT now(),
  version text NOT NULL
);

-- +goose Down
DROP TABLE dnc_loads, suppressions, leads, campaigns;
