-- Replays of a subscription's events of a span of time, which are queued a batch at a time.
-- +goose Up
CREATE TABLE webhook_replays (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL,
  subscription_id uuid NOT NULL,
  event_types text[] NOT NULL,
  campaign_id uuid,
  since timestamptz NOT NULL,
  until timestamptz NOT NULL CHECK (until >= since),
  only_failed boolean NOT NULL,
  -- The last row that was looked at: of events, or of deliveries where those that failed alone are meant.
  after uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id)
);
SELECT protect_tenant_rows('webhook_replays');

-- +goose Down
DROP TABLE webhook_replays;
