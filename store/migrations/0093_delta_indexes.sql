-- Changes that are not folded are few and there for seconds: an index of them cost more than it spared, and statistics of them are written for nothing.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS campaign_deltas_by_campaign;
DROP INDEX CONCURRENTLY IF EXISTS call_deltas_by_agent;
ALTER TABLE campaign_deltas SET (autovacuum_vacuum_threshold = 2000, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000000000);

-- +goose Down
ALTER TABLE campaign_deltas SET (autovacuum_vacuum_threshold = 5000);
ALTER TABLE campaign_deltas RESET (autovacuum_analyze_scale_factor, autovacuum_analyze_threshold);
CREATE INDEX CONCURRENTLY IF NOT EXISTS campaign_deltas_by_campaign ON campaign_deltas (tenant_id, campaign_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS call_deltas_by_agent ON call_deltas (tenant_id, agent_id);
