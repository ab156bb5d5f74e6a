-- A supervisor's session ends with the sign-in that it was begun in.
-- +goose Up

-- Signing out, another password, address or role begin another epoch (users.session_epoch). NULL: of before this column.
ALTER TABLE supervisor_sessions ADD COLUMN session_epoch bigint;

-- +goose Down
ALTER TABLE supervisor_sessions DROP COLUMN session_epoch;
