-- The protocol that a voice agent speaks on its socket.
-- +goose Up
ALTER TABLE voice_agents ADD COLUMN transport text NOT NULL DEFAULT 'websocket' CHECK (transport IN ('websocket', 'twilio'));

-- +goose Down
ALTER TABLE voice_agents DROP COLUMN transport;
