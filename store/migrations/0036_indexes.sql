-- Indexes that large tables get while they are written; one that was left half built is dropped. What is outside of a transaction waits for its
-- locks without limit, and others behind it: nothing but CONCURRENTLY stands here.
-- +goose NO TRANSACTION
-- +goose Up

-- The leads of a campaign that is being deleted.
DROP INDEX CONCURRENTLY IF EXISTS leads_by_campaign;
CREATE INDEX CONCURRENTLY leads_by_campaign ON leads (tenant_id, campaign_id, id);
-- Whether a lead that was never dialed can be now, and when the next one can: leads_fresh doesn't know their times.
DROP INDEX CONCURRENTLY IF EXISTS leads_fresh_due;
CREATE INDEX CONCURRENTLY leads_fresh_due ON leads (tenant_id, campaign_id, next_attempt_at) WHERE status IN ('new', 'queued') AND dnd_clean;
-- Leads that nobody has checked, and those that a registry lists.
DROP INDEX CONCURRENTLY IF EXISTS leads_not_clean;
CREATE INDEX CONCURRENTLY leads_not_clean ON leads (tenant_id, campaign_id, dnd_checked) WHERE NOT dnd_clean;
-- Whether a version of a flow is still run.
DROP INDEX CONCURRENTLY IF EXISTS flow_runs_open;
CREATE INDEX CONCURRENTLY flow_runs_open ON flow_runs (tenant_id, flow_id, version) WHERE ended_at IS NULL;
-- The tokens that the sweep takes.
DROP INDEX CONCURRENTLY IF EXISTS callback_tokens_by_age;
CREATE INDEX CONCURRENTLY callback_tokens_by_age ON callback_tokens (expires_at);

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS callback_tokens_by_age;
DROP INDEX CONCURRENTLY IF EXISTS flow_runs_open;
DROP INDEX CONCURRENTLY IF EXISTS leads_not_clean;
DROP INDEX CONCURRENTLY IF EXISTS leads_fresh_due;
DROP INDEX CONCURRENTLY IF EXISTS leads_by_campaign;
