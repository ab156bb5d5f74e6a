-- Who is asked before each of a voice agent's sessions where its socket is, and what the answer says of the call.
-- +goose Up
ALTER TABLE voice_agents ADD COLUMN connect_url text CHECK (connect_url LIKE 'http://%' OR connect_url LIKE 'https://%');
-- An object of strings.
ALTER TABLE ai_sessions ADD COLUMN parameters jsonb;

-- +goose Down
ALTER TABLE ai_sessions DROP COLUMN parameters;
ALTER TABLE voice_agents DROP COLUMN connect_url;
