-- Voice agents and the tenant's default one.

-- name: VoiceAgentInsert :one
INSERT INTO voice_agents (tenant_id, id, name, ws_url, auth_token_sealed, audio_format, external_agent_id, transfer_destination,
  max_concurrent, status, token_lifetime, subprotocol, ws_disconnect_action, monitor_scope, transport, transport_config, connect_url)
VALUES (@tenant_id, @id, @name, @ws_url, sqlc.narg('auth_token_sealed'), @audio_format, sqlc.narg('external_agent_id'),
  sqlc.narg('transfer_destination'), @max_concurrent, @status, @token_lifetime, @subprotocol, @ws_disconnect_action, @monitor_scope, @transport,
  sqlc.narg('transport_config'), sqlc.narg('connect_url'))
RETURNING *;

-- name: VoiceAgentGet :one
SELECT * FROM voice_agents WHERE tenant_id = @tenant_id AND id = @id;

-- name: VoiceAgentsGet :many
SELECT * FROM voice_agents WHERE tenant_id = @tenant_id AND id = ANY(@ids::uuid[]);

-- name: VoiceAgentLock :one
SELECT * FROM voice_agents WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: VoiceAgentList :many
SELECT * FROM voice_agents
WHERE tenant_id = @tenant_id AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status')::text) ORDER BY id;

-- name: VoiceAgentCount :one
SELECT count(*) FROM voice_agents WHERE tenant_id = @tenant_id;

-- name: VoiceAgentUpdate :one
UPDATE voice_agents SET name = @name, ws_url = @ws_url, auth_token_sealed = sqlc.narg('auth_token_sealed'),
  audio_format = @audio_format, external_agent_id = sqlc.narg('external_agent_id'),
  transfer_destination = sqlc.narg('transfer_destination'), max_concurrent = @max_concurrent, status = @status,
  token_lifetime = @token_lifetime, subprotocol = @subprotocol, ws_disconnect_action = @ws_disconnect_action, monitor_scope = @monitor_scope,
  transport = @transport, transport_config = sqlc.narg('transport_config'), connect_url = sqlc.narg('connect_url'),
  updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id
RETURNING *;

-- name: VoiceAgentArchive :one
UPDATE voice_agents SET status = 'archived', updated_at = now() WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- VoiceAgentInUse tells of a live session, or of a call on its way to the agent.
-- name: VoiceAgentInUse :one
SELECT (EXISTS (SELECT 1 FROM ai_sessions s WHERE s.tenant_id = @tenant_id AND s.voice_agent_id = @voice_agent_id::uuid
    AND s.status = 'active')
  OR EXISTS (SELECT 1 FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.voice_agent_id = @voice_agent_id::uuid))::bool AS in_use;

-- name: VoiceAgentDelete :execrows
DELETE FROM voice_agents WHERE tenant_id = @tenant_id AND id = @id;

-- VoiceAgentUnsetDefault clears the default when it is the given agent.
-- name: VoiceAgentUnsetDefault :exec
UPDATE tenants SET default_voice_agent_id = NULL, updated_at = now()
WHERE id = @tenant_id AND default_voice_agent_id = @voice_agent_id::uuid;

-- name: TenantLock :one
SELECT * FROM tenants WHERE id = @tenant_id FOR NO KEY UPDATE;
