-- The credentials of flows' requests, sealed. The nodes have masks in their place.
-- +goose Up
CREATE TABLE flow_secrets (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  flow_id uuid NOT NULL,
  version int NOT NULL,
  secrets_sealed bytea NOT NULL,
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, flow_id, version),
  FOREIGN KEY (tenant_id, flow_id, version) REFERENCES flow_versions (tenant_id, flow_id, version) ON DELETE CASCADE
);
SELECT protect_tenant_rows('flow_secrets');

-- +goose Down
DROP TABLE flow_secrets;
