-- A call's own unit is found by its key (migration 0094), and those of transfers by their calls. No query looks for recordings that aren't finished.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS live_calls_transfers;
CREATE INDEX CONCURRENTLY live_calls_transfers ON live_calls (tenant_id, call_id) WHERE kind = 'transfer';
DROP INDEX CONCURRENTLY IF EXISTS live_calls_call_once;
DROP INDEX CONCURRENTLY IF EXISTS live_calls_by_call;
DROP INDEX CONCURRENTLY IF EXISTS recordings_unfinished;

-- +goose Down
CREATE INDEX CONCURRENTLY IF NOT EXISTS recordings_unfinished ON recordings (created_at) WHERE status IN ('recording', 'processing');
CREATE INDEX CONCURRENTLY IF NOT EXISTS live_calls_by_call ON live_calls (tenant_id, call_id);
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS live_calls_call_once ON live_calls (tenant_id, call_id) WHERE kind = 'call';
DROP INDEX CONCURRENTLY IF EXISTS live_calls_transfers;
