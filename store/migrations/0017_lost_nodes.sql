-- A controller that the others have not seen for their grace is lost: they close its calls. The mark fences it, since it may be
-- alive behind a broken network: a call is closed for it only while the mark stands, and whoever comes back takes it off and is told
-- in the same step which of its calls are still open.
-- +goose Up
ALTER TABLE nodes ADD COLUMN lost_at timestamptz;

-- +goose Down
ALTER TABLE nodes DROP COLUMN lost_at;
