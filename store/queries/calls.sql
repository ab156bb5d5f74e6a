-- Calls as the call actor writes them. A row moves forward only: each update names the statuses that it may follow,
-- so that duplicated and late events change nothing.

-- name: CallMarkRinging :execrows
UPDATE calls SET status = 'ringing', ring_time = @ring_time::timestamptz
WHERE tenant_id = @tenant_id AND id = @id AND status = 'dialing';

-- name: CallMarkAnswered :one
UPDATE calls SET status = 'answered', answer_time = @answer_time::timestamptz
WHERE tenant_id = @tenant_id AND id = @id AND status IN ('dialing', 'ringing')
RETURNING *;

-- name: CallMarkAgentConnected :execrows
UPDATE calls SET status = 'agent_connected', agent_connect_time = @agent_connect_time::timestamptz
WHERE tenant_id = @tenant_id AND id = @id AND status = 'answered';

-- name: CallSetTrunk :execrows
UPDATE calls SET trunk_id = sqlc.narg('trunk_id')
WHERE tenant_id = @tenant_id AND id = @id AND status IN ('dialing', 'ringing');

-- name: LiveUnitOfCallSetTrunk :execrows
UPDATE live_calls SET trunk_id = sqlc.narg('trunk_id')
WHERE tenant_id = @tenant_id AND call_id = @call_id AND kind = 'call';

-- name: CallLockOpen :one
SELECT * FROM calls
WHERE tenant_id = @tenant_id AND id = @id AND status NOT IN ('completed', 'failed')
FOR UPDATE;

-- name: CallClose :one
UPDATE calls SET status = @status, ring_time = coalesce(sqlc.narg('ring_time'), ring_time),
  answer_time = sqlc.narg('answer_time'), end_time = @end_time::timestamptz, hangup_cause = @hangup_cause::text,
  hangup_disposition = sqlc.narg('hangup_disposition'), sip_status = sqlc.narg('sip_status')
WHERE tenant_id = @tenant_id AND id = @id AND status NOT IN ('completed', 'failed')
RETURNING *;

-- name: LiveUnitsDeleteOfCall :execrows
DELETE FROM live_calls WHERE tenant_id = @tenant_id AND call_id = @call_id;

-- name: LiveUnitDelete :execrows
DELETE FROM live_calls WHERE tenant_id = @tenant_id AND unit_id = @unit_id;

-- name: LiveUnitsOfCall :many
SELECT * FROM live_calls WHERE tenant_id = @tenant_id AND call_id = @call_id ORDER BY opened_at;

-- name: CallsOpenOfNode :many
SELECT * FROM calls
WHERE node = @node::text AND status NOT IN ('completed', 'failed')
ORDER BY id;

-- name: CallStatusByID :one
SELECT status, disposition FROM calls WHERE tenant_id = @tenant_id AND id = @id;

-- name: CallLeadContext :one
SELECT id, name, crm_lead_id, metadata, custom_fields FROM leads WHERE tenant_id = @tenant_id AND id = @id;
