-- Agents: their state, its history, and what a call keeps of them.

-- AgentLogin makes the row of an agent who was never here; its state is set by AgentMove. No row comes back for a user who is
-- no active agent.
-- name: AgentLogin :one
INSERT INTO agents (tenant_id, id, status, node, last_status_at)
SELECT u.tenant_id, u.id, 'offline', @node, @at::timestamptz
FROM users u WHERE u.tenant_id = @tenant_id AND u.id = @id AND u.is_active AND u.role = 'agent'
ON CONFLICT (tenant_id, id) DO UPDATE SET status = agents.status
RETURNING *;

-- name: AgentLock :one
SELECT * FROM agents WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- AgentsLockOnCall gives the agents of a call: one, or those of a conference.
-- name: AgentsLockOnCall :many
SELECT * FROM agents WHERE tenant_id = @tenant_id AND current_call_id = @call_id::uuid ORDER BY id FOR UPDATE;

-- AgentMove writes an agent's next state with its history. The row is locked and its version known.
-- name: AgentMove :one
WITH history AS (
  INSERT INTO agent_status_log (tenant_id, agent_id, version, status, reason, cause, call_id, at)
  VALUES (@tenant_id, @id, @version, @status, sqlc.narg('reason'), @cause, sqlc.narg('call_id'), @at::timestamptz)
)
UPDATE agents a SET status = @status, reason = sqlc.narg('reason'), current_call_id = sqlc.narg('current_call_id'),
  last_call_id = sqlc.narg('last_call_id'), node = @node, version = @version, last_status_at = @at::timestamptz,
  logged_in_at = sqlc.narg('logged_in_at'), idle_since = sqlc.narg('idle_since'), wrap_up_until = sqlc.narg('wrap_up_until')
WHERE a.tenant_id = @tenant_id AND a.id = @id
RETURNING a.*;

-- AgentRenew keeps the state, and tells readers that the row has changed.
-- name: AgentRenew :one
UPDATE agents SET reason = sqlc.narg('reason'), node = @node, version = version + 1
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- AgentSetAccount begins or ends a SIP account: the password of the epoch before is void.
-- name: AgentSetAccount :one
UPDATE agents a SET sip_epoch = a.sip_epoch + 1, sip_expires_at = sqlc.narg('expires_at'), version = a.version + 1,
  sip_session_epoch = u.session_epoch
FROM users u WHERE a.tenant_id = @tenant_id AND a.id = @id AND u.tenant_id = a.tenant_id AND u.id = a.id RETURNING a.*;

-- AgentLockStill locks an agent's row while it is as it was read. One that somebody has locked is being changed: nobody waits for it.
-- name: AgentLockStill :one
SELECT * FROM agents WHERE tenant_id = @tenant_id AND id = @id AND version = @version FOR NO KEY UPDATE SKIP LOCKED;

-- name: AgentUser :one
SELECT * FROM users WHERE tenant_id = @tenant_id AND id = @id;

-- AgentUserOfExtension finds whom an extension of the tenant belongs to.
-- name: AgentUserOfExtension :one
SELECT * FROM users WHERE tenant_id = @tenant_id AND extension = @extension::text AND is_active;

-- name: AgentSetExtension :exec
UPDATE users SET extension = @extension::text, updated_at = now() WHERE tenant_id = @tenant_id AND id = @id;

-- AgentViews shows the tenant's agents, logged in or not; id narrows it to one.
-- name: AgentViews :many
SELECT u.id, u.extension, u.display_name, coalesce(a.status, 'offline')::text AS status, a.reason, a.current_call_id,
  a.last_status_at, a.logged_in_at, a.wrap_up_until
FROM users u LEFT JOIN agents a ON a.tenant_id = u.tenant_id AND a.id = u.id
WHERE u.tenant_id = @tenant_id AND u.role = 'agent' AND (sqlc.narg('id')::uuid IS NULL OR u.id = sqlc.narg('id')::uuid)
ORDER BY u.email;

-- AgentsOfNode lists who is logged in at a controller, with what becomes of the call that each is on: it needs the system's
-- scope. connected: the call was bridged to that agent. ended: what the agent logged in with is no longer good, and why.
-- name: AgentsOfNode :many
SELECT a.*, u.extension, u.phone_mode, u.tags,
  (CASE WHEN NOT (u.is_active AND u.role = 'agent') THEN 'deactivated' WHEN t.suspended_at IS NOT NULL THEN 'suspended'
        WHEN a.sip_session_epoch <> u.session_epoch THEN 'signed_out' ELSE '' END)::text AS ended,
  (c.id IS NOT NULL AND c.end_time IS NULL)::bool AS call_open, coalesce(c.agent_id = a.id, false)::bool AS call_is_theirs,
  (c.id IS NOT NULL AND c.answer_time IS NULL)::bool AS call_unanswered
FROM agents a JOIN users u ON u.tenant_id = a.tenant_id AND u.id = a.id JOIN tenants t ON t.id = a.tenant_id
LEFT JOIN calls c ON c.tenant_id = a.tenant_id AND c.id = a.current_call_id
WHERE a.node = @node AND a.status <> 'offline';

-- AgentsOfDeadNodes lists the agents whose controller is one of those that are gone, or is unknown.
-- name: AgentsOfDeadNodes :many
SELECT a.tenant_id, a.id, a.version FROM agents a LEFT JOIN nodes n ON n.id = a.node
WHERE a.status <> 'offline' AND a.node <> @node AND (n.id IS NULL OR n.id = ANY(@dead::text[]));

-- AgentAccountsEnd ends the SIP accounts that a controller has given whose time is over, or whose users' sessions have ended, and tells whose. It waits
-- for no agent whom somebody is changing.
-- name: AgentAccountsEnd :many
WITH due AS (
  SELECT a.tenant_id, a.id, u.extension, (a.sip_session_epoch <> u.session_epoch OR NOT u.is_active OR t.suspended_at IS NOT NULL)::bool AS signed_out
  FROM agents a JOIN users u ON u.tenant_id = a.tenant_id AND u.id = a.id JOIN tenants t ON t.id = a.tenant_id
  WHERE a.sip_expires_at IS NOT NULL AND a.node = @node
    AND (a.sip_expires_at <= @at::timestamptz OR a.sip_session_epoch <> u.session_epoch OR NOT u.is_active OR t.suspended_at IS NOT NULL)
  FOR NO KEY UPDATE OF a SKIP LOCKED
)
UPDATE agents a SET sip_epoch = a.sip_epoch + 1, sip_expires_at = NULL, version = a.version + 1
FROM due WHERE a.tenant_id = due.tenant_id AND a.id = due.id
RETURNING a.tenant_id, a.id, due.extension, due.signed_out;

-- CallAsksAgent notes that a call waits for an agent, by when at the latest, and, for one of a campaign's, that it has a claim to the next.
-- name: CallAsksAgent :exec
WITH unit AS (
  UPDATE live_calls l SET awaits_agent = l.awaits_agent OR @awaits_agent::bool, waits_since = @at::timestamptz, wait_priority = @priority
  WHERE l.tenant_id = @tenant_id AND l.unit_id = @id AND l.kind = 'call'
)
UPDATE calls c SET queued_at = coalesce(c.queued_at, @at::timestamptz), agent_due = coalesce(c.agent_due, sqlc.narg('due')::timestamptz)
WHERE c.tenant_id = @tenant_id AND c.id = @id AND c.end_time IS NULL;

-- CallOffered notes that an open call has an agent to itself, or has none again, and then since when it waits.
-- name: CallOffered :execrows
WITH unit AS (
  UPDATE live_calls l SET awaits_agent = @awaits_agent::bool, waits_since = sqlc.narg('waits_since')::timestamptz
  WHERE l.tenant_id = @tenant_id AND l.unit_id = @id AND l.kind = 'call'
)
UPDATE calls c SET queued_at = coalesce(c.queued_at, @at::timestamptz), agent_due = coalesce(c.agent_due, sqlc.narg('due')::timestamptz)
WHERE c.tenant_id = @tenant_id AND c.id = @id /* month of c.id */ AND c.end_time IS NULL;

-- CallForgoesAgent notes that a call has no claim to an agent any more.
-- name: CallForgoesAgent :exec
UPDATE live_calls SET awaits_agent = false WHERE tenant_id = @tenant_id AND unit_id = @id AND kind = 'call';

-- CallWaitsNoMore notes the end of a wait that no agent has ended, unless another one has begun.
-- name: CallWaitsNoMore :exec
UPDATE live_calls SET waits_since = NULL WHERE tenant_id = @tenant_id AND unit_id = @id AND kind = 'call' AND waits_since = @since::timestamptz;

-- CallAbandoned notes that no agent took a call; one that an agent had is none of those. Who was not surely a machine (switchctl's
-- MachineSure) counts as a person then.
-- name: CallAbandoned :exec
UPDATE calls SET abandoned = true,
  answered_by_amd = CASE WHEN amd_confidence < 0.95 AND amd_machine IS NULL AND answered_by_amd IS NOT NULL THEN 'human' ELSE answered_by_amd END
WHERE tenant_id = @tenant_id AND id = @id AND agent_id IS NULL;

-- CallUnserved notes that a callee answered and neither agent, nor voice agent, nor flow was there, as CallAbandoned does.
-- name: CallUnserved :exec
UPDATE calls SET abandoned = true,
  answered_by_amd = CASE WHEN amd_confidence < 0.95 AND amd_machine IS NULL AND answered_by_amd IS NOT NULL THEN 'human' ELSE answered_by_amd END
WHERE tenant_id = @tenant_id AND id = @id AND agent_connect_time IS NULL;

-- CallAnnounced notes that a callee begins to hear the campaign's announcement, or what the answer of a connect_url plays.
-- name: CallAnnounced :exec
UPDATE calls SET announced_at = coalesce(announced_at, @at::timestamptz) WHERE tenant_id = @tenant_id AND id = @id;

-- CallServed notes that a callee is bridged with a person who is no agent.
-- name: CallServed :exec
UPDATE calls SET served_at = coalesce(served_at, @at::timestamptz) WHERE tenant_id = @tenant_id AND id = @id;

-- AgentCallStats counts an agent's calls since a moment; the smallest call id of a somewhat earlier moment keeps that to a few
-- partitions. Talk times are whole seconds from answer to end, as a call shows them.
-- name: AgentCallStats :one
SELECT count(*) AS total, count(*) FILTER (WHERE agent_connect_time IS NOT NULL) AS connected,
  count(*) FILTER (WHERE status = 'failed') AS failed,
  coalesce(avg(greatest(0, floor(extract(epoch FROM end_time - answer_time))))
    FILTER (WHERE agent_connect_time IS NOT NULL AND end_time IS NOT NULL), 0)::float8 AS talk_s
FROM calls WHERE tenant_id = @tenant_id AND agent_id = @agent_id::uuid AND id >= @from_id
  AND coalesce(dial_time, created_at) >= @since::timestamptz;
