-- Reports of calls are a queue by themselves: each tenant's by when they are due. Whoever wants to know what waits asks each tenant's.
-- +goose NO TRANSACTION
-- +goose Up

DROP INDEX CONCURRENTLY IF EXISTS call_reports_due;
CREATE INDEX CONCURRENTLY call_reports_due ON call_reports (purpose, tenant_id, next_attempt_at) WHERE status = 'pending';
DROP INDEX CONCURRENTLY IF EXISTS call_reports_pending;

-- +goose Down
CREATE INDEX CONCURRENTLY IF NOT EXISTS call_reports_pending ON call_reports (purpose, created_at) WHERE status = 'pending';
DROP INDEX CONCURRENTLY IF EXISTS call_reports_due;
