-- A call's own unit is found by its key (migration 0094), and those of transfers by their calls. No query looks for recordings that aren't finished.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS live_calls_transfers;
CREATE INDEX CONCURRENTLY live_calls_transfers ON live_calls (tenant_id, call_id) WHERE kind = 'transfer';
DROP INDEX CONCURRENTLY IF EXISTS live_calls_call_once;
DROP INDEX CONCURRENTLY IF EXISTS live_calls_by_call;
DROP INDEX CONCURRENTLY IF EXISTS recordings_unfinished;

-- Recordings have room on their pages for what is noted of each, which is in no index. And tables of which calls change a row are analyzed after more
-- changes: their statistics stay what they are, and after each analysis every connection plans every statement on the table anew. A table that is being
-- vacuumed is waited for here, where nobody waits behind.
ALTER TABLE live_calls SET (autovacuum_analyze_threshold = 20000);
ALTER TABLE held_events SET (autovacuum_analyze_threshold = 20000);
ALTER TABLE webhook_queue SET (autovacuum_analyze_threshold = 20000);
ALTER TABLE agents SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE numbers SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE agent_status_log SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE campaign_counts SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE call_counts SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE call_totals SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE callback_tokens SET (autovacuum_analyze_threshold = 2000);
ALTER TABLE ai_sessions SET (autovacuum_analyze_threshold = 2000);
ALTER TABLE leads SET (autovacuum_analyze_threshold = 2000);
ALTER TABLE recordings SET (fillfactor = 60, autovacuum_analyze_threshold = 2000);

-- +goose Down
-- Storage parameters stay.
CREATE INDEX CONCURRENTLY IF NOT EXISTS recordings_unfinished ON recordings (created_at) WHERE status IN ('recording', 'processing');
CREATE INDEX CONCURRENTLY IF NOT EXISTS live_calls_by_call ON live_calls (tenant_id, call_id);
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS live_calls_call_once ON live_calls (tenant_id, call_id) WHERE kind = 'call';
DROP INDEX CONCURRENTLY IF EXISTS live_calls_transfers;
