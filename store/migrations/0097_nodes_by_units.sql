-- Controllers that find open calls by their units (migration 0095) say so at each start: units_since is their started_at then. Those of the version
-- before leave it alone, also when they are started again after the migration, or in place of one of this version.
-- +goose Up
ALTER TABLE nodes ADD COLUMN units_since timestamptz;

-- +goose Down
ALTER TABLE nodes DROP COLUMN units_since;
