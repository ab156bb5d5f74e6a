-- How campaigns are paced.
-- +goose Up

-- What the pacer of a running campaign does now, for whoever asks any controller. A row is written when it changes.
CREATE TABLE campaign_paces (
  tenant_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  node text NOT NULL,
  mode text NOT NULL CHECK (mode IN ('preview', 'progressive', 'predictive')),
  lines_per_agent double precision NOT NULL CHECK (lines_per_agent >= 0),
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, campaign_id),
  FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id) ON DELETE CASCADE
);
ALTER TABLE campaign_paces SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
SELECT protect_tenant_rows('campaign_paces');

-- +goose Down
DROP TABLE campaign_paces;
