-- Callbacks are claimed before retries, however many of those have fallen due.
-- +goose Up
CREATE INDEX leads_callbacks ON leads (tenant_id, campaign_id, next_attempt_at) WHERE status = 'callback' AND dnd_clean;

-- +goose Down
DROP INDEX leads_callbacks;
