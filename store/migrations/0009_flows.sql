-- Versions of flows, and what flows did with calls.
-- +goose Up

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
INSERT INTO flow_versions (tenant_id, flow_id, version, nodes) SELECT tenant_id, id, version, nodes FROM flows;

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
SELECT protect_tenant_rows('flow_runs');

-- +goose Down
DROP TABLE flow_runs, flow_versions;
