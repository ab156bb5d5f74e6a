-- Each controller looks every second for SIP accounts that have ended. The agents who are logged in are few of those who ever were.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS agents_accounts;
CREATE INDEX CONCURRENTLY agents_accounts ON agents (node) WHERE sip_expires_at IS NOT NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS agents_accounts;
