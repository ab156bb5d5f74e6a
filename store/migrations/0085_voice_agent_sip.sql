-- Voice agents that are SIP endpoints: their URI is in transport_config, and they have no socket.
-- +goose Up
ALTER TABLE voice_agents DROP CONSTRAINT voice_agents_transport_check;
ALTER TABLE voice_agents ADD CONSTRAINT voice_agents_transport_check CHECK (transport IN ('websocket', 'twilio', 'openai_realtime', 'sip'));
ALTER TABLE voice_agents DROP CONSTRAINT voice_agents_ws_url_check;
ALTER TABLE voice_agents ADD CONSTRAINT voice_agents_ws_url_check
  CHECK (ws_url LIKE 'ws://%' OR ws_url LIKE 'wss://%' OR (transport = 'sip' AND ws_url = ''));
ALTER TABLE voice_agents ADD CONSTRAINT voice_agents_sip_uri_check CHECK (transport <> 'sip' OR transport_config->>'sip_uri' LIKE 'sip:%');

-- +goose Down
SELECT set_config('app.system', 'on', true);
ALTER TABLE voice_agents DROP CONSTRAINT voice_agents_sip_uri_check;
DELETE FROM voice_agents WHERE transport = 'sip';
ALTER TABLE voice_agents DROP CONSTRAINT voice_agents_ws_url_check;
ALTER TABLE voice_agents ADD CONSTRAINT voice_agents_ws_url_check CHECK (ws_url LIKE 'ws://%' OR ws_url LIKE 'wss://%');
ALTER TABLE voice_agents DROP CONSTRAINT voice_agents_transport_check;
ALTER TABLE voice_agents ADD CONSTRAINT voice_agents_transport_check CHECK (transport IN ('websocket', 'twilio', 'openai_realtime'));
