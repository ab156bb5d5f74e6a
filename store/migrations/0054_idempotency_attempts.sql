-- Whose claim a key's row is, so that the claim can be repeated when the answer to its commit was lost.
-- +goose Up
ALTER TABLE idempotent_requests ADD COLUMN attempt uuid;

-- +goose Down
ALTER TABLE idempotent_requests DROP COLUMN attempt;
