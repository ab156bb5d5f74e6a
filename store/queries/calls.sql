-- Calls as the call actor writes them. A row moves forward only: each update names the statuses that it may follow,
-- so that duplicated and late events change nothing.

-- name: CallMarkRinging :execrows
UPDATE calls SET status = 'ringing', ring_time = @ring_time::timestamptz
WHERE tenant_id = @tenant_id AND id = @id /* month of id */ AND status = 'dialing';

-- CallMarkAnswered leaves answered_by_amd open when machine detection listens.
-- name: CallMarkAnswered :one
UPDATE calls SET status = 'answered', answer_time = @answer_time::timestamptz,
  answered_by_amd = CASE WHEN amd THEN NULL ELSE 'human' END
WHERE tenant_id = @tenant_id AND id = @id /* month of id */ AND status IN ('dialing', 'ringing')
RETURNING *;

-- CallDecideAnswer ends the wait for a verdict, once. Who was abandoned counts as a person, unless it surely is a machine (switchctl's
-- MachineSure).
-- name: CallDecideAnswer :one
UPDATE calls SET answered_by_amd = CASE WHEN abandoned AND amd_confidence < 0.95 AND amd_machine IS NULL THEN 'human' ELSE @answered_by_amd::text END
WHERE tenant_id = @tenant_id AND id = @id /* month of id */ AND amd AND answer_time IS NOT NULL AND answered_by_amd IS NULL
RETURNING *;

-- CallSetVerdict keeps the first verdict, also one that came after the answer was decided, and the first kind of machine that is told.
-- Who was abandoned before that, and only so became a person, is one no longer: the verdict had come in time (switchctl/call's verdictTimeout). Of whom
-- call.answered has said that it is a person that stays.
-- name: CallSetVerdict :execrows
UPDATE calls c SET amd_class = coalesce(amd_class, @amd_class::text), amd_confidence = coalesce(amd_confidence, @amd_confidence::float8),
  amd_after_ms = coalesce(amd_after_ms, @amd_after_ms::int), amd_machine = coalesce(amd_machine, sqlc.narg('amd_machine')),
  answered_by_amd = CASE WHEN abandoned AND answered_by_amd = 'human' AND amd_class = 'machine' AND amd_after_ms < 4000
    AND sqlc.narg('amd_machine')::text IS NOT NULL AND NOT EXISTS (SELECT FROM events_of_call(@tenant_id, @id) e
      WHERE e.type = 'call.answered' AND event_data(e.type, e.call_id, e.campaign_id, e.created_at, e.data)->>'answered_by_amd' = 'human') THEN 'machine' ELSE answered_by_amd END
WHERE c.tenant_id = @tenant_id AND c.id = @id /* month of c.id */ AND (c.amd_class IS NULL OR c.amd_machine IS NULL AND sqlc.narg('amd_machine')::text IS NOT NULL);

-- CallSetInsights keeps what a voice agent says of its conversation; the last word counts.
-- name: CallSetInsights :exec
UPDATE calls SET ai_summary = coalesce(sqlc.narg('ai_summary'), ai_summary), ai_sentiment = coalesce(sqlc.narg('ai_sentiment'), ai_sentiment),
  ai_next_action = coalesce(sqlc.narg('ai_next_action'), ai_next_action)
WHERE tenant_id = @tenant_id AND id = @id;

-- name: CallSetQuality :execrows
UPDATE calls SET quality = @quality WHERE tenant_id = @tenant_id AND id = @id AND status NOT IN ('completed', 'failed');

-- name: CallMarkAgentConnected :execrows
UPDATE calls SET status = 'agent_connected', agent_connect_time = @agent_connect_time::timestamptz
WHERE tenant_id = @tenant_id AND id = @id /* month of id */ AND status = 'answered';

-- CallMarkPersonConnected keeps the moment of the first agent where another one follows. One who comes too late finds the call abandoned.
-- name: CallMarkPersonConnected :execrows
UPDATE calls SET status = 'agent_connected', agent_id = @agent_id::uuid,
  abandoned = abandoned OR agent_id IS NULL AND coalesce(@agent_connect_time::timestamptz > agent_due, false),
  answered_by_amd = CASE WHEN agent_id IS NULL AND coalesce(@agent_connect_time::timestamptz > agent_due, false) AND amd_confidence < 0.95
    AND amd_machine IS NULL AND answered_by_amd IS NOT NULL THEN 'human' ELSE answered_by_amd END,
  agent_connect_time = CASE WHEN agent_id IS NULL THEN @agent_connect_time::timestamptz
    ELSE coalesce(agent_connect_time, @agent_connect_time::timestamptz) END
WHERE tenant_id = @tenant_id AND id = @id /* month of id */ AND status IN ('answered', 'agent_connected');

-- name: CallSetTrunk :execrows
UPDATE calls SET trunk_id = sqlc.narg('trunk_id')
WHERE tenant_id = @tenant_id AND id = @id AND status IN ('dialing', 'ringing');

-- LiveUnitReroute moves a leg's unit to the trunk that it goes on with.
-- name: LiveUnitReroute :execrows
UPDATE live_calls SET trunk_id = sqlc.narg('trunk_id'), rerouted_at = clock_timestamp()
WHERE tenant_id = @tenant_id AND unit_id = @unit_id;

-- name: CallLockOpen :one
SELECT * FROM calls
WHERE tenant_id = @tenant_id AND id = @id /* month of id */ AND status NOT IN ('completed', 'failed')
FOR UPDATE;

-- CallClose leaves alone who answered where that is known: a verdict that is written with it may have said.
-- name: CallClose :one
UPDATE calls SET status = @status, ring_time = coalesce(sqlc.narg('ring_time'), ring_time),
  answer_time = sqlc.narg('answer_time'), answered_by_amd = coalesce(answered_by_amd, sqlc.narg('answered_by_amd')),
  quality = coalesce(sqlc.narg('quality'), quality), end_time = @end_time::timestamptz, hangup_cause = @hangup_cause::text,
  hangup_disposition = sqlc.narg('hangup_disposition'), sip_status = sqlc.narg('sip_status')
WHERE tenant_id = @tenant_id AND id = @id /* month of id */ AND status NOT IN ('completed', 'failed')
RETURNING *;

-- LiveUnitsDeleteOfCall deletes a call's own unit, which has its id, and those of its transfers. Each is found by an index, where an OR would have all be read.
-- name: LiveUnitsDeleteOfCall :execrows
DELETE FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.unit_id = ANY(array_append(ARRAY(
  SELECT x.unit_id FROM live_calls x WHERE x.tenant_id = @tenant_id AND x.call_id = @call_id AND x.kind = 'transfer'), @call_id));

-- name: LiveUnitDelete :execrows
DELETE FROM live_calls WHERE tenant_id = @tenant_id AND unit_id = @unit_id;

-- LiveUnitsDeleteLate deletes the units of transfers that were admitted as their call ended, at a node that went down before it gave them back: of this
-- node, and of those that are lost.
-- name: LiveUnitsDeleteLate :execrows
DELETE FROM live_calls u USING calls c
WHERE u.kind = 'transfer' AND c.tenant_id = u.tenant_id AND c.id = u.call_id AND c.end_time IS NOT NULL
  AND (u.node = @node OR EXISTS (SELECT FROM nodes n WHERE n.id = u.node AND n.lost_at IS NOT NULL));

-- name: LiveUnitsOfCall :many
SELECT * FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.unit_id = ANY(array_append(ARRAY(
  SELECT x.unit_id FROM live_calls x WHERE x.tenant_id = @tenant_id AND x.call_id = @call_id AND x.kind = 'transfer'), @call_id)) ORDER BY u.opened_at;

-- CallsOpenOfNode finds open calls by their units: an index of them would have each call's end written to all indexes of calls.
-- name: CallsOpenOfNode :many
SELECT c.* FROM live_calls u JOIN calls c ON c.tenant_id = u.tenant_id AND c.id = u.call_id
WHERE u.node = @node::text AND u.kind <> 'transfer' AND c.end_time IS NULL
ORDER BY c.id;

-- name: CallIDsOpenOfNode :many
SELECT call_id FROM live_calls WHERE node = @node::text AND kind <> 'transfer';

-- name: CallStatusByID :one
SELECT c.status, c.disposition FROM calls c WHERE c.tenant_id = @tenant_id AND c.id = @id /* month of c.id */;

-- name: CallLeadContext :one
SELECT id, name, crm_lead_id, metadata, custom_fields FROM leads WHERE tenant_id = @tenant_id AND id = @id;
