-- Changes that are not folded are few and there for seconds: an index of them cost more than it spared.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS campaign_deltas_by_campaign;
DROP INDEX CONCURRENTLY IF EXISTS call_deltas_by_agent;

-- +goose Down
CREATE INDEX CONCURRENTLY IF NOT EXISTS campaign_deltas_by_campaign ON campaign_deltas (tenant_id, campaign_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS call_deltas_by_agent ON call_deltas (tenant_id, agent_id);
