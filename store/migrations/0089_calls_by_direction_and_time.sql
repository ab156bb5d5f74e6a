-- A trunk's calls of the last second are found in an index of calls: each admission read half a minute of calls from the table for them. Pages of calls
-- of a direction go by it, too, so that Migrate drops calls_by_direction once this one is whole (store/indexes.go).
-- +goose Up

-- Migrate builds those of the partitions, beside the writers.
CREATE INDEX calls_by_direction_and_time ON ONLY calls (tenant_id, direction, id, created_at);

-- +goose Down
CREATE INDEX IF NOT EXISTS calls_by_direction ON calls (tenant_id, direction, id);
DROP INDEX calls_by_direction_and_time;
