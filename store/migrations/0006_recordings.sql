-- Recordings, and who got which.
-- +goose Up

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
DROP TABLE recording_access, recordings;
