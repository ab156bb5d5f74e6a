-- Pages of calls of a disposition, and of a direction, cost the same however rare it is. No index has a call's status: it changes while a call goes
-- on, and each change would be written to all indexes.
-- +goose Up

-- Migrate builds those of the partitions, beside the writers (store/indexes.go).
CREATE INDEX calls_by_disposition ON ONLY calls (tenant_id, disposition, id) WHERE disposition IS NOT NULL;
CREATE INDEX calls_by_campaign_disposition ON ONLY calls (tenant_id, campaign_id, disposition, id) WHERE disposition IS NOT NULL;
CREATE INDEX calls_by_direction ON ONLY calls (tenant_id, direction, id);

-- +goose Down
DROP INDEX calls_by_direction, calls_by_campaign_disposition, calls_by_disposition;
