-- Where a tenant has its calls reported to, its CRM and its insights, and how far the report of each call has come.
-- +goose Up

-- One row for each purpose. What a tenant says of the integration (addresses, templates, credentials) is sealed as a whole: credentials may stand
-- anywhere in it. id changes with the system at the other end: records of the one before aren't updated in the next.
CREATE TABLE integrations (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  purpose text NOT NULL CHECK (purpose IN ('crm', 'insights')),
  id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('rest', 'hubspot', 'insights')),
  -- host is for the audit.
  host text NOT NULL,
  is_active boolean NOT NULL DEFAULT true,
  config_sealed bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, purpose)
);
SELECT protect_tenant_rows('integrations');
SELECT audit_changes('integrations', 'integration');

-- A row commits with the end of its call, and with it a job that brings the other end up to date. revision counts what there is to report: the end,
-- then each recording, insight and disposition that comes later; written is the revision that the other end has.
CREATE TABLE call_reports (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  call_id uuid NOT NULL,
  purpose text NOT NULL CHECK (purpose IN ('crm', 'insights')),
  integration_id uuid NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'written', 'failed')),
  revision int NOT NULL DEFAULT 1,
  written int NOT NULL DEFAULT 0,
  -- external_id is the other end's.
  external_id text,
  attempts int NOT NULL DEFAULT 0,
  -- failures are those since the last write, by which the next attempt waits.
  failures int NOT NULL DEFAULT 0,
  last_error text,
  -- What is being written, but for numbers and the lead's id at the CRM, from its first attempt until it is written: a repetition under the same
  -- idempotency key says the same.
  outcome jsonb CHECK (jsonb_typeof(outcome) = 'object'),
  -- attempted_at is when the last attempt began; until busy_until nobody else begins one.
  attempted_at timestamptz,
  busy_until timestamptz,
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  give_up_at timestamptz NOT NULL,
  written_at timestamptz,
  updated_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, call_id, purpose),
  CONSTRAINT call_reports_written_has_time CHECK ((written > 0) = (written_at IS NOT NULL))
);
CREATE INDEX call_reports_pending ON call_reports (purpose, created_at) WHERE status = 'pending';
SELECT protect_tenant_rows('call_reports');

-- +goose Down
DROP TABLE call_reports, integrations;
