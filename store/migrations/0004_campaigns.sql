-- Campaigns, their leads, the marks that keep a number from being dialed, and how campaigns are paced and scrubbed.
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
  -- wrap_up_s null: the deployment's time limit; 0: none. overflow_action is what becomes of a callee whom no agent takes in time.
  agent_whisper_url text,
  wrap_up_s int CHECK (wrap_up_s BETWEEN 0 AND 3600),
  overflow_action text NOT NULL DEFAULT 'hangup' CHECK (overflow_action IN ('hangup', 'flow', 'voicemail')),
  -- Over-dialing that is paused while the campaign runs on.
  predictive_paused boolean NOT NULL DEFAULT false,
  -- call_category is what the regulator's numbering asks about: the series that callees see. null: not declared, and not checked.
  -- overflow_greeting_url is what a callee whom no agent took hears before leaving a message.
  call_category text CHECK (call_category IN ('promotional', 'service', 'transactional')),
  overflow_greeting_url text,
  -- A campaign that is deleted is marked, and nothing shows or dials it any more; its leads go in batches behind the answer, its row last.
  deleted_at timestamptz,
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
  -- The calls of a lead that failed for a trunk's sake and cost it no attempt.
  trunk_failures int NOT NULL DEFAULT 0,
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
-- What an agent holds for preview; such claims are few.
CREATE INDEX leads_reserved ON leads (tenant_id, claimed_by) WHERE claimed_by LIKE 'agent:%';
-- Callbacks are claimed before retries, however many of those have fallen due; retries by priority, then by the time at which they fell due.
CREATE INDEX leads_callbacks ON leads (tenant_id, campaign_id, next_attempt_at) WHERE status = 'callback' AND dnd_clean;
CREATE INDEX leads_retries ON leads (tenant_id, campaign_id, priority, next_attempt_at) WHERE status = 'retry' AND dnd_clean;
-- The leads of a campaign that is being deleted.
CREATE INDEX leads_by_campaign ON leads (tenant_id, campaign_id, id);
-- Whether a lead that was never dialed can be now, and when the next one can: leads_fresh doesn't know their times.
CREATE INDEX leads_fresh_due ON leads (tenant_id, campaign_id, next_attempt_at) WHERE status IN ('new', 'queued') AND dnd_clean;
-- Leads that nobody has checked, and those that a registry lists.
CREATE INDEX leads_not_clean ON leads (tenant_id, campaign_id, dnd_checked) WHERE NOT dnd_clean;
-- Rows change status several times in their life: room on the page keeps those updates local.
ALTER TABLE leads SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
SELECT protect_tenant_rows('leads');

-- A tenant's suppression list can be looked at: each entry has an id, and what the mask shows of its number. Those of people who
-- opted out stay for good, the tenant's own may be taken back.
CREATE TABLE suppressions (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  phone_hash bytea NOT NULL CHECK (octet_length(phone_hash) = 32),
  reason text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  id uuid NOT NULL DEFAULT gen_random_uuid(),
  opted_out boolean NOT NULL DEFAULT true,
  phone_last4 text NOT NULL DEFAULT '' CHECK (phone_last4 ~ '^([0-9]{4})?$'),
  PRIMARY KEY (tenant_id, phone_hash),
  CONSTRAINT suppressions_id_once UNIQUE (tenant_id, id)
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

-- What the pacer of a running campaign does now, for whoever asks any controller. A row is written when it changes.
CREATE TABLE campaign_paces (
  tenant_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  node text NOT NULL,
  mode text NOT NULL CHECK (mode IN ('preview', 'progressive', 'predictive')),
  lines_per_agent double precision NOT NULL CHECK (lines_per_agent >= 0),
  updated_at timestamptz NOT NULL,
  -- Why the campaign is not dialed: waits_for is a code of the API, which lists them; waits_until is when it passes, where that is known.
  waits_for text CHECK (waits_for ~ '^[a-z_]{1,40}$'),
  waits_until timestamptz,
  PRIMARY KEY (tenant_id, campaign_id),
  FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE campaign_paces SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
SELECT protect_tenant_rows('campaign_paces');

-- A scrub of a campaign's leads that is not done. It outlives the request that asked for it, and any controller goes on with it.
CREATE TABLE scrubs (
  tenant_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  -- Leads that were checked since need no other check.
  began_at timestamptz NOT NULL,
  -- The version of the registry that it began with; '' where none is told.
  registry text NOT NULL,
  -- The last lead that it came to.
  after uuid NOT NULL,
  -- Who works on it, until when at the latest; others leave it alone till then.
  held_by uuid,
  held_until timestamptz NOT NULL DEFAULT '-infinity',
  -- When it is gone on with, unless somebody asks for it before.
  due_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, campaign_id),
  FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id) ON DELETE CASCADE
);
SELECT protect_tenant_rows('scrubs');

-- +goose Down
DROP TABLE scrubs, campaign_paces, dnc_loads, suppressions, leads, campaigns;
