-- Retries are claimed by priority, then by the time at which they fell due. The index is built while leads are written; one that was
-- left half built is dropped.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS leads_retries;
CREATE INDEX CONCURRENTLY leads_retries ON leads (tenant_id, campaign_id, priority, next_attempt_at) WHERE status = 'retry' AND dnd_clean;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS leads_retries;
