-- served_at is when a campaign's callee was first bridged with a person who is no agent: whom a flow, a connect_url or their voice agent has led them to. It is by the
-- switch's clock, as answer_time is. Whoever has talked with somebody is no machine, and is not dialed again for an agent who didn't come. announced_at is when they
-- began to hear what all are told, and nothing else.
-- +goose Up
ALTER TABLE calls ADD COLUMN served_at timestamptz;
-- +goose Down
ALTER TABLE calls DROP COLUMN served_at;
