-- Supervisors: their sessions, and the calls that have asked for one.

-- SupervisionInsert begins a session; a supervisor who has one already violates supervisor_sessions_one_each.
-- name: SupervisionInsert :one
INSERT INTO supervisor_sessions (tenant_id, id, supervisor_id, call_id, agent_id, mode, node, started_at, session_epoch)
VALUES (@tenant_id, @id, @supervisor_id, sqlc.narg('call_id'), sqlc.narg('agent_id'), @mode, @node, @started_at::timestamptz, @session_epoch)
RETURNING *;

-- SupervisionBegun notes that the supervisor's phone is there. No row: the session has ended.
-- name: SupervisionBegun :one
UPDATE supervisor_sessions SET begun_at = @at::timestamptz WHERE tenant_id = @tenant_id AND id = @id AND ended_at IS NULL RETURNING *;

-- name: SupervisionLock :one
SELECT * FROM supervisor_sessions WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: SupervisionGet :one
SELECT * FROM supervisor_sessions WHERE tenant_id = @tenant_id AND id = @id;

-- name: SupervisionOf :one
SELECT * FROM supervisor_sessions WHERE tenant_id = @tenant_id AND supervisor_id = @supervisor_id AND ended_at IS NULL;

-- name: SupervisionSetMode :one
UPDATE supervisor_sessions SET mode = @mode WHERE tenant_id = @tenant_id AND id = @id AND ended_at IS NULL RETURNING *;

-- name: SupervisionSetCall :execrows
UPDATE supervisor_sessions SET call_id = @call_id::uuid WHERE tenant_id = @tenant_id AND id = @id AND ended_at IS NULL;

-- SupervisionEnd ends a session. No row: it has ended.
-- name: SupervisionEnd :one
UPDATE supervisor_sessions SET ended_at = @at::timestamptz, end_reason = @reason::text
WHERE tenant_id = @tenant_id AND id = @id AND ended_at IS NULL RETURNING *;

-- SupervisionsOfNode lists the sessions of a controller, over all tenants: it needs the system's scope. unfit says why the supervisor may have
-- none any more; next_call_id is the call that the followed agent is in now, as the one whom it was given to or as one of its conference. One on
-- another controller can't be listened to from here; the node leads to it by the index of open calls.
-- name: SupervisionsOfNode :many
SELECT sqlc.embed(s),
  (CASE WHEN u.id IS NULL OR NOT u.is_active OR u.role = 'agent' THEN 'deactivated' WHEN t.suspended_at IS NOT NULL THEN 'suspended'
    WHEN s.session_epoch <> u.session_epoch THEN 'signed_out' ELSE '' END)::text AS unfit,
  coalesce(a.status, 'offline')::text AS agent_status, c.id AS next_call_id
FROM supervisor_sessions s JOIN tenants t ON t.id = s.tenant_id
LEFT JOIN users u ON u.tenant_id = s.tenant_id AND u.id = s.supervisor_id
LEFT JOIN agents a ON a.tenant_id = s.tenant_id AND a.id = s.agent_id
LEFT JOIN calls c ON c.tenant_id = s.tenant_id AND c.id = a.current_call_id AND c.node = s.node AND c.end_time IS NULL
  AND c.answer_time IS NOT NULL AND c.agent_connect_time IS NOT NULL
WHERE s.node = @node AND s.ended_at IS NULL;

-- SupervisionsOfLostNodes lists the sessions of controllers that are lost, or unknown; like the former.
-- name: SupervisionsOfLostNodes :many
SELECT s.tenant_id, s.id FROM supervisor_sessions s LEFT JOIN nodes n ON n.id = s.node
WHERE s.ended_at IS NULL AND s.node <> @node AND (n.id IS NULL OR n.lost_at IS NOT NULL);

-- SupervisedAgent is an agent as one who is to be followed, with the call that the agent is in, as SupervisionsOfNode reads it.
-- name: SupervisedAgent :one
SELECT u.id, coalesce(a.status, 'offline')::text AS status, coalesce(a.node, '')::text AS node, c.id AS call_id
FROM users u LEFT JOIN agents a ON a.tenant_id = u.tenant_id AND a.id = u.id
LEFT JOIN calls c ON c.tenant_id = u.tenant_id AND c.id = a.current_call_id AND c.node = a.node AND c.end_time IS NULL
  AND c.answer_time IS NOT NULL AND c.agent_connect_time IS NOT NULL
WHERE u.tenant_id = @tenant_id AND u.id = @id AND u.role = 'agent';

-- EscalationInsert writes a voice agent's request for a supervisor. No row: it is there already, or the call has an open one.
-- name: EscalationInsert :one
INSERT INTO escalations (tenant_id, id, call_id, voice_agent_id, reason, urgency, escalated_at)
VALUES (@tenant_id, @id, @call_id, @voice_agent_id, @reason, @urgency, @escalated_at::timestamptz)
ON CONFLICT DO NOTHING
RETURNING *;

-- EscalationOfCall locks the one of a call that nobody has claimed.
-- name: EscalationOfCall :one
SELECT * FROM escalations WHERE tenant_id = @tenant_id AND call_id = @call_id AND claimed_at IS NULL FOR UPDATE;

-- EscalationAgain gives an open one another reason, and another urgency unless that is less.
-- name: EscalationAgain :one
UPDATE escalations SET reason = @reason,
  urgency = CASE WHEN urgency_rank(@urgency) < urgency_rank(urgency) THEN @urgency ELSE urgency END
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- name: EscalationLock :one
SELECT * FROM escalations WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- EscalationTake keeps an escalation for a session whose phone still rings.
-- name: EscalationTake :exec
UPDATE escalations SET claim_id = @session_id::uuid WHERE tenant_id = @tenant_id AND id = @id;

-- name: EscalationClaimed :one
UPDATE escalations SET claimed_by = @claimed_by::uuid, claimed_at = @at::timestamptz
WHERE tenant_id = @tenant_id AND id = @id AND claim_id = @session_id::uuid RETURNING *;

-- EscalationGiveBack lets others claim what a session that came to nothing was to take.
-- name: EscalationGiveBack :exec
UPDATE escalations SET claim_id = NULL
WHERE tenant_id = @tenant_id AND call_id = @call_id AND claim_id = @session_id::uuid AND claimed_by IS NULL;

-- EscalationReopen lets others claim what a session that was lost has claimed since a moment. No row: it had none, or the call has ended, or has
-- another open one.
-- name: EscalationReopen :one
UPDATE escalations e SET claim_id = NULL, claimed_by = NULL, claimed_at = NULL
WHERE e.tenant_id = @tenant_id AND e.call_id = @call_id AND e.claim_id = @session_id::uuid AND e.claimed_at >= @since::timestamptz
  AND EXISTS (SELECT 1 FROM calls c WHERE c.tenant_id = e.tenant_id AND c.id = e.call_id AND c.end_time IS NULL)
  AND NOT EXISTS (SELECT 1 FROM escalations o WHERE o.tenant_id = e.tenant_id AND o.call_id = e.call_id AND o.claimed_at IS NULL)
RETURNING *;

-- EscalationPage lists a tenant's escalations of a period, which the ids bound, the newest first.
-- name: EscalationPage :many
SELECT * FROM escalations WHERE tenant_id = @tenant_id AND id >= @from_id AND id < @to_id
  AND escalated_at >= @since::timestamptz AND escalated_at < @until::timestamptz AND (NOT @claimed::bool OR claimed_at IS NOT NULL)
ORDER BY id DESC LIMIT @page_limit OFFSET @page_offset;

-- name: EscalationCount :one
SELECT count(*) FROM escalations WHERE tenant_id = @tenant_id AND id >= @from_id AND id < @to_id
  AND escalated_at >= @since::timestamptz AND escalated_at < @until::timestamptz AND (NOT @claimed::bool OR claimed_at IS NOT NULL);

-- EscalationsOpen lists what nobody has claimed of calls that are live: the most urgent first, then the oldest.
-- name: EscalationsOpen :many
SELECT e.* FROM live_calls l JOIN escalations e ON e.tenant_id = l.tenant_id AND e.call_id = l.call_id
WHERE l.tenant_id = @tenant_id AND l.kind = 'call' AND e.claimed_at IS NULL
ORDER BY urgency_rank(e.urgency), e.escalated_at, e.id LIMIT @page_limit OFFSET @page_offset;

-- name: EscalationsOpenCount :one
SELECT count(*) FROM live_calls l JOIN escalations e ON e.tenant_id = l.tenant_id AND e.call_id = l.call_id
WHERE l.tenant_id = @tenant_id AND l.kind = 'call' AND e.claimed_at IS NULL;

-- FloorAICalls lists the calls that voice agents have.
-- name: FloorAICalls :many
SELECT s.call_id, s.voice_agent_id, s.started_at FROM ai_sessions s WHERE s.tenant_id = @tenant_id AND s.status = 'active' ORDER BY s.id;

-- FloorEscalations gives the newest escalation of each of those.
-- name: FloorEscalations :many
SELECT DISTINCT ON (e.call_id) e.* FROM ai_sessions s JOIN escalations e ON e.tenant_id = s.tenant_id AND e.call_id = s.call_id
WHERE s.tenant_id = @tenant_id AND s.status = 'active' ORDER BY e.call_id, e.id DESC;

-- FloorAgentCalls lists the calls that agents are on.
-- name: FloorAgentCalls :many
SELECT c.id, c.campaign_id, c.lead_id, c.direction, c.from_number, c.to_number, c.status, c.answer_time, c.agent_connect_time, t.privacy_mode
FROM agents a JOIN calls c ON c.tenant_id = a.tenant_id AND c.id = a.current_call_id
JOIN tenants t ON t.id = a.tenant_id
WHERE a.tenant_id = @tenant_id AND a.current_call_id IS NOT NULL;

-- FloorQueue lists the callers who wait for agents of other controllers than one. Those of a lost one hear nobody any more.
-- name: FloorQueue :many
SELECT l.call_id, l.campaign_id, l.waits_since::timestamptz AS waits_since, l.wait_priority FROM live_calls l JOIN nodes n ON n.id = l.node
WHERE l.tenant_id = @tenant_id AND l.kind = 'call' AND l.waits_since IS NOT NULL AND l.node <> @node AND n.lost_at IS NULL;

-- name: FloorLive :one
SELECT count(*) FROM live_calls WHERE tenant_id = @tenant_id AND kind = 'call';

-- FloorFigures counts a tenant's calls of today, which begins at a moment, and what became of those that people answered in the last 24
-- hours. from_id is the smallest call id of a moment before both; it is planned by values, since all depends on how long ago that is.
-- name: FloorFigures :one
SELECT count(*) FILTER (WHERE c.created_at >= @today::timestamptz) AS calls_today,
  count(*) FILTER (WHERE c.created_at >= @today::timestamptz AND c.end_time IS NOT NULL) AS ended_today,
  count(*) FILTER (WHERE c.created_at >= @today::timestamptz AND c.status = 'completed') AS completed_today,
  count(*) FILTER (WHERE c.direction = 'outbound' AND c.campaign_id IS NOT NULL AND c.answer_time >= @day::timestamptz
    AND c.answered_by_amd IS DISTINCT FROM 'machine') AS persons,
  count(*) FILTER (WHERE c.direction = 'outbound' AND c.campaign_id IS NOT NULL AND c.answer_time >= @day::timestamptz
    AND c.answered_by_amd IS DISTINCT FROM 'machine' AND c.abandoned) AS abandoned,
  coalesce(avg(extract(epoch FROM c.agent_connect_time - coalesce(c.queued_at, c.answer_time)))
    FILTER (WHERE c.created_at >= @today::timestamptz AND c.agent_id IS NOT NULL AND c.agent_connect_time IS NOT NULL), 0)::float8 AS wait_s
FROM calls c WHERE c.tenant_id = @tenant_id AND c.id >= @from_id AND c.environment = 'live';

-- SupervisorAudit pages through what supervisors, and voice agents who monitor calls, did in [since, until), the newest first. The ids bound
-- it: rows have them of when they were written. It is planned by values: the actions lead to the index of theirs. A row is that supervisor's whose
-- session it tells of, whoever has ended it, and the actor's otherwise.
-- name: SupervisorAudit :many
SELECT * FROM audit WHERE tenant_id = @tenant_id AND id >= @from_id AND id < @to_id
  AND tstzrange(@since::timestamptz, @until::timestamptz) @> at AND action = ANY(@actions::text[])
  AND (sqlc.narg('supervisor_id')::uuid IS NULL
    OR coalesce(details ->> 'supervisor_id', substr(actor, length('user:') + 1)) = sqlc.narg('supervisor_id')::uuid::text)
  AND (sqlc.narg('mode')::text IS NULL OR mode = sqlc.narg('mode'))
ORDER BY id DESC LIMIT @page_limit OFFSET @page_offset;

-- SupervisorAuditCount counts them, up to a number.
-- name: SupervisorAuditCount :one
SELECT count(*) FROM (
  SELECT 1 FROM audit WHERE tenant_id = @tenant_id AND id >= @from_id AND id < @to_id
    AND tstzrange(@since::timestamptz, @until::timestamptz) @> at AND action = ANY(@actions::text[])
    AND (sqlc.narg('supervisor_id')::uuid IS NULL
      OR coalesce(details ->> 'supervisor_id', substr(actor, length('user:') + 1)) = sqlc.narg('supervisor_id')::uuid::text)
    AND (sqlc.narg('mode')::text IS NULL OR mode = sqlc.narg('mode'))
  LIMIT @most
) found;
