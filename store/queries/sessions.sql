-- AI sessions and their callback tokens.

-- name: SessionInsert :one
INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, external_agent_id, ws_url, status, started_at, token_hash, parameters)
VALUES (@tenant_id, @id, @call_id, @voice_agent_id, sqlc.narg('external_agent_id'), @ws_url, 'active',
  @started_at::timestamptz, sqlc.narg('token_hash'), sqlc.narg('parameters'))
RETURNING *;

-- SessionBegin writes a session and its token in one statement where nothing has to be asked before: the call is up, has no other session, and holds
-- a unit of the voice agent. Else no row comes back, and nothing is written. A session that was committed while this waited for the call's row is in
-- no snapshot of it, and is a conflict.
-- name: SessionBegin :one
WITH up AS (
  SELECT FROM calls c WHERE c.tenant_id = @tenant_id AND c.id = @call_id /* month of c.id */ AND c.status NOT IN ('completed', 'failed') FOR UPDATE
), begun AS (
  INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, external_agent_id, ws_url, status, started_at, token_hash, parameters)
  SELECT @tenant_id, @id, @call_id, @voice_agent_id, sqlc.narg('external_agent_id'), @ws_url, 'active', @started_at::timestamptz, @token_hash::text,
    sqlc.narg('parameters')
  FROM up JOIN live_calls u ON u.tenant_id = @tenant_id AND u.unit_id = @call_id AND u.kind = 'call' AND u.voice_agent_id = @voice_agent_id
  WHERE NOT EXISTS (SELECT FROM ai_sessions s WHERE s.tenant_id = @tenant_id AND s.call_id = @call_id AND s.status = 'active')
  ON CONFLICT DO NOTHING
  RETURNING *
), token AS (
  INSERT INTO callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, expires_at, created_at)
  SELECT b.tenant_id, @token_hash::text, b.call_id, b.id, @jwt, @scope, @expires_at::timestamptz, @created_at::timestamptz FROM begun b
)
SELECT * FROM begun;

-- SessionNote writes a session that has ended as it began, once: it never was, and has an entry of its log.
-- name: SessionNote :one
INSERT INTO ai_sessions (tenant_id, id, call_id, voice_agent_id, external_agent_id, ws_url, status, outcome, started_at, ended_at)
VALUES (@tenant_id, @id, @call_id, @voice_agent_id, sqlc.narg('external_agent_id'), @ws_url, 'ended', @outcome::text, @at::timestamptz, @at::timestamptz)
ON CONFLICT DO NOTHING
RETURNING *;

-- name: SessionOpened :execrows
UPDATE ai_sessions SET opened_at = now() WHERE tenant_id = @tenant_id AND id = @id AND opened_at IS NULL;

-- name: SessionEnd :one
UPDATE ai_sessions SET status = 'ended', outcome = @outcome::text, ended_at = @ended_at::timestamptz,
  metadata = CASE WHEN sqlc.narg('final')::jsonb IS NULL THEN metadata
    ELSE jsonb_set(metadata, '{final}', sqlc.narg('final')::jsonb) END
WHERE tenant_id = @tenant_id AND id = @id AND status = 'active'
RETURNING *;

-- name: SessionActiveOfCall :one
SELECT * FROM ai_sessions WHERE tenant_id = @tenant_id AND call_id = @call_id AND status = 'active';

-- SessionToClose locks the session that a call's end ends, and tells how long its tokens live; empty for a voice agent that was deleted.
-- name: SessionToClose :one
SELECT sqlc.embed(s), coalesce(v.token_lifetime, '')::text AS token_lifetime
FROM ai_sessions s LEFT JOIN voice_agents v ON v.tenant_id = s.tenant_id AND v.id = s.voice_agent_id
WHERE s.tenant_id = @tenant_id AND s.call_id = @call_id AND s.status = 'active' FOR UPDATE OF s;

-- name: SessionLogsOfCall :many
SELECT l.id, l.at, l.source, l.type, l.metadata
FROM ai_sessions s JOIN ai_session_logs l ON l.tenant_id = s.tenant_id AND l.session_id = s.id
WHERE s.tenant_id = @tenant_id AND s.call_id = @call_id AND s.status = 'active' ORDER BY l.id;

-- name: SessionLastOfCall :one
SELECT * FROM ai_sessions WHERE tenant_id = @tenant_id AND call_id = @call_id ORDER BY started_at DESC, id DESC LIMIT 1;

-- SessionAppendLogs writes entries, each once: {"id", "at", "source", "type", "metadata"}.
-- name: SessionAppendLogs :execrows
INSERT INTO ai_session_logs (tenant_id, session_id, id, at, source, type, metadata)
SELECT @tenant_id::uuid, @session_id::uuid, e.id, e.at, e.source, e.type, nullif(e.metadata, 'null'::jsonb)
FROM jsonb_to_recordset(@entries::jsonb) AS e(id uuid, at timestamptz, source text, type text, metadata jsonb)
ON CONFLICT DO NOTHING;

-- name: SessionLogs :many
SELECT id, at, source, type, metadata FROM ai_session_logs WHERE tenant_id = @tenant_id AND session_id = @session_id ORDER BY id;

-- SessionLogUsage is how many entries a session has, and how large they are.
-- name: SessionLogUsage :one
SELECT count(*) AS entries, coalesce(sum(octet_length(metadata::text)), 0)::bigint AS bytes
FROM ai_session_logs WHERE tenant_id = @tenant_id AND session_id = @session_id;

-- name: SessionSetToken :execrows
UPDATE ai_sessions SET token_hash = @token_hash::text WHERE tenant_id = @tenant_id AND id = @id;

-- CallbackTokenInsert writes a token. No row comes back where its id is another token's already; the same one may be written again, also while the
-- first writing of it is still to be committed.
-- name: CallbackTokenInsert :one
INSERT INTO callback_tokens (tenant_id, jti_hash, call_id, session_id, jwt, scope, expires_at, created_at)
VALUES (@tenant_id, @jti_hash, @call_id, @session_id, @jwt, @scope, @expires_at::timestamptz, @created_at::timestamptz)
ON CONFLICT (tenant_id, jti_hash) DO UPDATE SET jwt = excluded.jwt
WHERE callback_tokens.call_id = excluded.call_id AND callback_tokens.session_id = excluded.session_id AND callback_tokens.jwt = excluded.jwt
RETURNING jti_hash;

-- CallbackTokenRevokeOfSession gives the hashes of those that it ends. Controllers aren't told by the transaction itself: see Tx.ForgetTokenLater.
-- name: CallbackTokenRevokeOfSession :many
UPDATE callback_tokens SET revoked_at = @revoked_at::timestamptz
FROM (SELECT set_config('app.told_later', 'on', true)) AS later
WHERE tenant_id = @tenant_id AND call_id = @call_id AND session_id = @session_id AND revoked_at IS NULL
RETURNING jti_hash;

-- TellTokens tells all controllers that callback tokens have changed, by the hashes of their jti.
-- name: TellTokens :exec
SELECT pg_notify('ringmaster_credentials', 'callback ' || t.hash) FROM unnest(@hashes::text[]) AS t (hash);

-- name: CallbackTokenRevoke :execrows
UPDATE callback_tokens SET revoked_at = @revoked_at::timestamptz WHERE tenant_id = @tenant_id AND jti_hash = @jti_hash AND revoked_at IS NULL;

-- name: CallbackTokenGet :one
SELECT * FROM callback_tokens WHERE tenant_id = @tenant_id AND jti_hash = @jti_hash;

-- name: SessionVoiceAgent :one
SELECT * FROM voice_agents WHERE tenant_id = @tenant_id AND id = @id;

-- SessionVoiceAgentLimit reads a voice agent's ceiling, and what the call's own unit counts for.
-- name: SessionVoiceAgentLimit :one
SELECT v.max_concurrent, u.voice_agent_id AS held FROM voice_agents v
LEFT JOIN live_calls u ON u.tenant_id = @tenant_id AND u.unit_id = @call_id AND u.kind = 'call'
WHERE v.tenant_id = @tenant_id AND v.id = @id;

-- name: LiveUnitVoiceAgentUsage :one
SELECT count(*) FROM live_calls
WHERE tenant_id = @tenant_id AND voice_agent_id = @voice_agent_id::uuid AND call_id <> @call_id;

-- name: LiveUnitSetVoiceAgent :execrows
UPDATE live_calls SET voice_agent_id = @voice_agent_id::uuid
WHERE tenant_id = @tenant_id AND unit_id = @call_id AND kind = 'call';

-- A session's end gives the voice agent's unit back; the call may go on with a person.
-- name: LiveUnitClearVoiceAgent :execrows
UPDATE live_calls SET voice_agent_id = NULL WHERE tenant_id = @tenant_id AND unit_id = @call_id AND kind = 'call';

-- name: CallSetVoiceAgent :execrows
UPDATE calls SET voice_agent_id = @voice_agent_id::uuid WHERE tenant_id = @tenant_id AND id = @id;

-- MonitorFacts reads what decides whether a voice agent's session may monitor a call. A voice agent that was deleted allows nothing.
-- name: MonitorFacts :one
SELECT coalesce(v.monitor_scope, 'none')::text AS monitor_scope, c.voice_agent_id AS target_agent_id, c.agent_id AS target_person_id
FROM calls c LEFT JOIN voice_agents v ON v.tenant_id = @tenant_id AND v.id = @voice_agent_id
WHERE c.tenant_id = @tenant_id AND c.id = @target_id;
