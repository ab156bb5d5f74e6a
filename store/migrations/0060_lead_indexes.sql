-- Pages of a campaign's leads of a status cost the same however rare it is, and a lead that comes in is in one index less of two that nobody needs.
-- +goose NO TRANSACTION
-- +goose Up

DROP INDEX CONCURRENTLY IF EXISTS leads_by_status;
CREATE INDEX CONCURRENTLY leads_by_status ON leads (tenant_id, campaign_id, status, id);
-- The next migration makes it the constraint leads_phone_once, which leads to a tenant's leads of a number as well.
DROP INDEX CONCURRENTLY IF EXISTS leads_number_once;
CREATE UNIQUE INDEX CONCURRENTLY leads_number_once ON leads (tenant_id, phone_hash, campaign_id);
DROP INDEX CONCURRENTLY IF EXISTS leads_in_call;
DROP INDEX CONCURRENTLY IF EXISTS leads_by_phone;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS leads_by_status;
DROP INDEX CONCURRENTLY IF EXISTS leads_number_once;
CREATE INDEX CONCURRENTLY IF NOT EXISTS leads_in_call ON leads (tenant_id, campaign_id, id) WHERE status IN ('dialing', 'connected');
CREATE INDEX CONCURRENTLY IF NOT EXISTS leads_by_phone ON leads (tenant_id, phone_hash);
