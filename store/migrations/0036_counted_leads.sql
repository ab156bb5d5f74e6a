-- Leads are counted by the campaign's figures, and a flow's open runs are found, without reading what there was before. The indexes are
-- built while the tables are written; one that was left half built is dropped.
-- +goose NO TRANSACTION
-- +goose Up

-- Leads that nobody has checked, and those that a registry lists.
DROP INDEX CONCURRENTLY IF EXISTS leads_not_clean;
CREATE INDEX CONCURRENTLY leads_not_clean ON leads (tenant_id, campaign_id, dnd_checked) WHERE NOT dnd_clean;
-- Whether a version of a flow is still run.
DROP INDEX CONCURRENTLY IF EXISTS flow_runs_open;
CREATE INDEX CONCURRENTLY flow_runs_open ON flow_runs (tenant_id, flow_id, version) WHERE ended_at IS NULL;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS flow_runs_open;
DROP INDEX CONCURRENTLY IF EXISTS leads_not_clean;
