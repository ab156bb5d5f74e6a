-- Voice agents that are OpenAI's Realtime API, and the session that each asks for.
-- +goose Up
ALTER TABLE voice_agents DROP CONSTRAINT voice_agents_transport_check;
ALTER TABLE voice_agents ADD CONSTRAINT voice_agents_transport_check CHECK (transport IN ('websocket', 'twilio', 'openai_realtime'));
ALTER TABLE voice_agents ADD COLUMN transport_config jsonb;

-- +goose Down
SELECT set_config('app.system', 'on', true);
ALTER TABLE voice_agents DROP COLUMN transport_config;
DELETE FROM voice_agents WHERE transport = 'openai_realtime';
ALTER TABLE voice_agents DROP CONSTRAINT voice_agents_transport_check;
ALTER TABLE voice_agents ADD CONSTRAINT voice_agents_transport_check CHECK (transport IN ('websocket', 'twilio'));
