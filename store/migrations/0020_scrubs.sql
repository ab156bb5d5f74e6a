-- A scrub of a campaign's leads that is not done. It outlives the request that asked for it, and any controller goes on with it.
-- +goose Up
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
DROP TABLE scrubs;
