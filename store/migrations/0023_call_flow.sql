-- The flow that a single call was placed for; null for a call that has its flow, or voice agent, from its campaign or its number.
-- +goose Up
ALTER TABLE calls ADD COLUMN flow_id uuid;

-- +goose Down
ALTER TABLE calls DROP COLUMN flow_id;
