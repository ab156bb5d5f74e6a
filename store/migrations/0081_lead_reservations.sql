-- What an agent holds stands in a column of its own, so that a pacer's claim, which is in no index then, is a HOT update. Reservations of before are not
-- found again by the agent, and end when their time is over.
-- +goose Up
ALTER TABLE leads ADD COLUMN reserved_by text;

-- +goose Down
ALTER TABLE leads DROP COLUMN reserved_by;
