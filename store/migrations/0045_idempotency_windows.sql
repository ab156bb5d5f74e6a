-- How long a key is remembered stands with it.
-- +goose Up

-- A verb that may well be meant again is remembered for a minute, any other request for a day. By the age of the row alone the window of the newer
-- request would decide for the older one, too. NULL: of before this column, a day.
ALTER TABLE idempotent_requests ADD COLUMN expires_at timestamptz;

-- +goose Down
ALTER TABLE idempotent_requests DROP COLUMN expires_at;
