-- The list of suppressed numbers is paged by id: those of opt-outs are in the order of their making, as other ids are.
-- +goose Up
-- Without a scope this sees no row; 0071 does it.
UPDATE suppressions SET id = audit_id(created_at) WHERE substring(id::text FROM 15 FOR 1) <> '7';
ALTER TABLE suppressions ALTER COLUMN id SET DEFAULT audit_id(now());

-- +goose Down
ALTER TABLE suppressions ALTER COLUMN id SET DEFAULT gen_random_uuid();
