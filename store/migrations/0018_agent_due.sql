-- By when an agent must have the callee of a campaign, or the call counts as abandoned, whoever takes it later. It is set when the
-- call asks for an agent, by what its campaign says then.
-- +goose Up
ALTER TABLE calls ADD COLUMN agent_due timestamptz;

-- +goose Down
ALTER TABLE calls DROP COLUMN agent_due;
