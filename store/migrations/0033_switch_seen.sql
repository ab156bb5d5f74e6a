-- When a controller last had its switch's calls in sight: those that were lost since ended then.
-- +goose Up
ALTER TABLE nodes ADD COLUMN switch_seen_at timestamptz;

-- +goose Down
ALTER TABLE nodes DROP COLUMN switch_seen_at;
