-- Subscriptions whose secret is being replaced, that have been failing, or that were disabled for it; how long events are kept.
-- +goose Up
ALTER TABLE webhook_subscriptions
  -- The secret before the present one. Until its time is over both sign.
  ADD COLUMN previous_secret_sealed bytea,
  ADD COLUMN previous_secret_until timestamptz,
  -- failing_since is when the first of the deliveries failed that have all failed since.
  ADD COLUMN failing_since timestamptz,
  ADD COLUMN disabled_at timestamptz,
  ADD COLUMN disabled_reason text,
  ADD CONSTRAINT webhook_previous_secret CHECK ((previous_secret_sealed IS NULL) = (previous_secret_until IS NULL)),
  ADD CONSTRAINT webhook_disabled CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL) AND (disabled_at IS NULL OR NOT is_active));
ALTER TABLE tenants
  ADD COLUMN webhook_retention_days int NOT NULL DEFAULT 30 CONSTRAINT tenants_webhook_retention CHECK (webhook_retention_days >= 1);

-- +goose Down
ALTER TABLE tenants DROP COLUMN webhook_retention_days;
ALTER TABLE webhook_subscriptions DROP COLUMN previous_secret_sealed, DROP COLUMN previous_secret_until, DROP COLUMN failing_since,
  DROP COLUMN disabled_at, DROP COLUMN disabled_reason;
