-- A conference may have several agents of one call.
-- +goose Up
DROP INDEX agents_on_call;
CREATE INDEX agents_on_call ON agents (tenant_id, current_call_id) WHERE current_call_id IS NOT NULL;

-- +goose Down
DROP INDEX agents_on_call;
CREATE UNIQUE INDEX agents_on_call ON agents (tenant_id, current_call_id) WHERE current_call_id IS NOT NULL;
