-- The index of reserved leads is by reserved_by.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS leads_reserved_by;
CREATE INDEX CONCURRENTLY leads_reserved_by ON leads (tenant_id, reserved_by, campaign_id) WHERE reserved_by IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS leads_reserved;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS leads_reserved;
CREATE INDEX CONCURRENTLY leads_reserved ON leads (tenant_id, claimed_by) WHERE claimed_by LIKE 'agent:%';
DROP INDEX CONCURRENTLY IF EXISTS leads_reserved_by;
