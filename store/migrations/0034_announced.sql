-- When a callee began to hear a campaign's announcement: who leaves during it was told, and is nobody whom nobody served.
-- +goose Up
ALTER TABLE calls ADD COLUMN announced_at timestamptz;

-- +goose Down
ALTER TABLE calls DROP COLUMN announced_at;
