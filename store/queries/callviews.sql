-- Calls and recordings as the API shows them, and what the control endpoint keeps.

-- GetCallView has the runs of its flows with a call, in no order. What it asks besides the call it asks by the parameters: joined, the call's columns
-- went through each join, which took twice the time.
-- name: GetCallView :one
SELECT sqlc.embed(c),
  coalesce((SELECT r.status FROM recordings r WHERE r.tenant_id = @tenant_id AND r.call_id = @id), '')::text AS recording_status,
  coalesce((SELECT t.privacy_mode FROM tenants t WHERE t.id = @tenant_id), 'strict')::text AS privacy_mode,
  coalesce((SELECT jsonb_agg(jsonb_build_object('flow_id', f.flow_id, 'version', f.version, 'started_at', f.started_at, 'ended_at', f.ended_at,
      'outcome', f.outcome, 'error', f.error, 'trace', f.trace))
    FROM flow_runs f WHERE f.tenant_id = @tenant_id AND f.call_id = @id), 'null')::jsonb AS flow_runs
FROM calls c WHERE c.tenant_id = @tenant_id AND c.id = @id /* month of c.id */;

-- CallViews is GetCallView of several calls.
-- name: CallViews :many
SELECT sqlc.embed(c),
  coalesce((SELECT r.status FROM recordings r WHERE r.tenant_id = @tenant_id AND r.call_id = c.id), '')::text AS recording_status,
  coalesce((SELECT t.privacy_mode FROM tenants t WHERE t.id = @tenant_id), 'strict')::text AS privacy_mode,
  coalesce((SELECT jsonb_agg(jsonb_build_object('flow_id', f.flow_id, 'version', f.version, 'started_at', f.started_at, 'ended_at', f.ended_at,
      'outcome', f.outcome, 'error', f.error, 'trace', f.trace))
    FROM flow_runs f WHERE f.tenant_id = @tenant_id AND f.call_id = c.id), 'null')::jsonb AS flow_runs
FROM calls c WHERE c.tenant_id = @tenant_id AND c.id = ANY(@ids::uuid[]) /* month of c.id */;

-- ListCallViews is planned by values: a campaign, an agent, a disposition, a direction and the status of a call that goes on each lead to an index,
-- and by a status that isn't a last one calls are among those that have a unit. A last status has none: when few calls of the newest have it, all are
-- read, up to the time that a read may take.
-- Calls are those of some time, which from_id and until_id bound by their ids, and before is the last call of the page before.
-- name: ListCallViews :many
SELECT sqlc.embed(c), coalesce(r.status, '')::text AS recording_status, t.privacy_mode
FROM calls c JOIN tenants t ON t.id = c.tenant_id LEFT JOIN recordings r ON r.tenant_id = c.tenant_id AND r.call_id = c.id
WHERE c.tenant_id = @tenant_id
  AND (sqlc.narg('campaign_id')::uuid IS NULL OR c.campaign_id = sqlc.narg('campaign_id'))
  AND (sqlc.narg('agent_id')::uuid IS NULL OR c.agent_id = sqlc.narg('agent_id'))
  AND (sqlc.narg('status')::text IS NULL OR c.status = sqlc.narg('status'))
  AND (coalesce(sqlc.narg('status')::text, 'failed') IN ('completed', 'failed') OR
    c.id = ANY(ARRAY(SELECT u.call_id FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.kind <> 'transfer'))
    AND c.id >= (SELECT u.call_id FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.kind <> 'transfer' ORDER BY u.call_id LIMIT 1))
  AND (sqlc.narg('disposition')::text IS NULL OR c.disposition = sqlc.narg('disposition'))
  AND (sqlc.narg('direction')::text IS NULL OR c.direction = sqlc.narg('direction'))
  AND c.id < @before
  AND c.id >= @from_id AND c.id <= @until_id
  AND (sqlc.narg('since')::timestamptz IS NULL OR c.created_at >= sqlc.narg('since'))
  AND (sqlc.narg('until')::timestamptz IS NULL OR c.created_at < sqlc.narg('until'))
ORDER BY c.id DESC LIMIT @page_limit OFFSET @page_offset;

-- CountCalls counts calls by what is kept of those that have ended (migrations 0051, 0056 and 0092: by disposition, or in total), and those that have
-- not.
-- name: CountCalls :one
SELECT (coalesce((
    SELECT sum(f.n) FROM (
      SELECT a.direction, a.status, a.n FROM call_totals a
      WHERE sqlc.narg('disposition')::text IS NULL
        AND a.tenant_id = @tenant_id AND a.agent_id = coalesce(sqlc.narg('agent_id')::uuid, '00000000-0000-0000-0000-000000000000')
        AND a.campaign_id = coalesce(sqlc.narg('campaign_id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      UNION ALL
      SELECT k.direction, k.status, k.n FROM call_counts k
      WHERE k.tenant_id = @tenant_id AND k.agent_id = coalesce(sqlc.narg('agent_id')::uuid, '00000000-0000-0000-0000-000000000000')
        AND k.disposition = sqlc.narg('disposition')::text
        AND (sqlc.narg('campaign_id')::uuid IS NULL OR k.campaign_id = sqlc.narg('campaign_id'))
      UNION ALL
      SELECT d.direction, d.status, d.n FROM call_deltas d
      WHERE d.tenant_id = @tenant_id AND d.agent_id = coalesce(sqlc.narg('agent_id')::uuid, '00000000-0000-0000-0000-000000000000')
        AND (sqlc.narg('campaign_id')::uuid IS NULL OR d.campaign_id = sqlc.narg('campaign_id'))
        AND (sqlc.narg('disposition')::text IS NULL OR d.disposition = sqlc.narg('disposition'))
      UNION ALL
      SELECT h.direction, h.status, h.n FROM call_changes h
      WHERE h.tenant_id = @tenant_id AND (sqlc.narg('agent_id')::uuid IS NULL OR h.agent_id = sqlc.narg('agent_id'))
        AND (sqlc.narg('campaign_id')::uuid IS NULL OR h.campaign_id = sqlc.narg('campaign_id'))
        AND (sqlc.narg('disposition')::text IS NULL OR h.disposition = sqlc.narg('disposition'))
    ) f
    WHERE (sqlc.narg('status')::text IS NULL OR f.status = sqlc.narg('status'))
      AND (sqlc.narg('direction')::text IS NULL OR f.direction = sqlc.narg('direction'))), 0)
  + (SELECT count(*) FROM live_calls u JOIN calls c ON c.tenant_id = u.tenant_id AND c.id = u.call_id
  WHERE u.tenant_id = @tenant_id AND u.kind <> 'transfer' AND c.end_time IS NULL
  AND (sqlc.narg('campaign_id')::uuid IS NULL OR c.campaign_id = sqlc.narg('campaign_id'))
  AND (sqlc.narg('agent_id')::uuid IS NULL OR c.agent_id = sqlc.narg('agent_id'))
  AND (sqlc.narg('status')::text IS NULL OR c.status = sqlc.narg('status'))
  AND (sqlc.narg('disposition')::text IS NULL OR c.disposition = sqlc.narg('disposition'))
  AND (sqlc.narg('direction')::text IS NULL OR c.direction = sqlc.narg('direction'))))::bigint AS calls;

-- CountCallsBetween counts calls of some time, one by one, up to a number.
-- name: CountCallsBetween :one
SELECT count(*) FROM (SELECT FROM calls c
WHERE c.tenant_id = @tenant_id
  AND (sqlc.narg('campaign_id')::uuid IS NULL OR c.campaign_id = sqlc.narg('campaign_id'))
  AND (sqlc.narg('agent_id')::uuid IS NULL OR c.agent_id = sqlc.narg('agent_id'))
  AND (sqlc.narg('status')::text IS NULL OR c.status = sqlc.narg('status'))
  AND (coalesce(sqlc.narg('status')::text, 'failed') IN ('completed', 'failed') OR
    c.id = ANY(ARRAY(SELECT u.call_id FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.kind <> 'transfer'))
    AND c.id >= (SELECT u.call_id FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.kind <> 'transfer' ORDER BY u.call_id LIMIT 1))
  AND (sqlc.narg('disposition')::text IS NULL OR c.disposition = sqlc.narg('disposition'))
  AND (sqlc.narg('direction')::text IS NULL OR c.direction = sqlc.narg('direction'))
  AND c.id >= @from_id AND c.id <= @until_id
  AND (sqlc.narg('since')::timestamptz IS NULL OR c.created_at >= sqlc.narg('since'))
  AND (sqlc.narg('until')::timestamptz IS NULL OR c.created_at < sqlc.narg('until'))
LIMIT @most) found;

-- FindCallTenant tells whose call it is, over all tenants: it needs the system's scope. The asker is looked at first; ids lead to a call
-- within a tenant, so the others are then looked at one by one.
-- name: FindCallTenant :one
SELECT f.tenant_id FROM (
  (SELECT o.tenant_id FROM calls o WHERE o.tenant_id = @asker AND o.id = @id)
  UNION ALL
  (SELECT t.id AS tenant_id FROM tenants t CROSS JOIN LATERAL (SELECT c.id FROM calls c WHERE c.tenant_id = t.id AND c.id = @id LIMIT 1) c)
) f LIMIT 1;

-- name: InsertRecordingAccess :exec
INSERT INTO recording_access (tenant_id, id, call_id, recording_id, accessor, method, at, remote_addr)
VALUES (@tenant_id, @id, @call_id, @recording_id, @accessor, @method, @at, sqlc.narg('remote_addr'));

-- LogRecordingTold writes the audit row of a signed URL that an event hands out, if a subscription takes the event.
-- name: LogRecordingTold :exec
INSERT INTO recording_access (tenant_id, id, call_id, recording_id, accessor, method, at)
SELECT @tenant_id, @id, @call_id, @recording_id, @accessor, @method, @at
WHERE EXISTS (SELECT FROM webhook_deliveries d WHERE d.tenant_id = @tenant_id AND d.event_id = @event_id);

-- name: ListRecordingAccess :many
SELECT * FROM recording_access WHERE tenant_id = @tenant_id AND call_id = @call_id ORDER BY id;

-- ClaimIdempotencyKey takes a key that is new, or whose replay window is over. An attempt that has it takes it again, until it has begun.
-- name: ClaimIdempotencyKey :execrows
INSERT INTO idempotent_requests AS k (tenant_id, environment, scope, key, request_hash, created_at, expires_at, attempt)
VALUES (@tenant_id, @environment, @scope, @key, @request_hash, @created_at, @expires_at::timestamptz, @attempt::uuid)
ON CONFLICT (tenant_id, environment, scope, key) DO UPDATE
  SET request_hash = excluded.request_hash, status_code = NULL, response = NULL, created_at = excluded.created_at, expires_at = excluded.expires_at,
    attempt = excluded.attempt
  WHERE k.attempt = excluded.attempt OR coalesce(k.expires_at, k.created_at + interval '24 hours') < excluded.created_at;

-- name: GetIdempotencyKey :one
SELECT * FROM idempotent_requests WHERE tenant_id = @tenant_id AND environment = @environment AND scope = @scope AND key = @key;

-- name: FinishIdempotencyKey :exec
UPDATE idempotent_requests SET status_code = @status_code::int, response = @response,
  request_hash = coalesce(sqlc.narg('request_hash')::bytea, request_hash)
WHERE tenant_id = @tenant_id AND environment = @environment AND scope = @scope AND key = @key AND status_code IS NULL;

-- GiveBackIdempotencyKey releases a key that an attempt may have claimed and doesn't use.
-- name: GiveBackIdempotencyKey :exec
DELETE FROM idempotent_requests
WHERE tenant_id = @tenant_id AND environment = @environment AND scope = @scope AND key = @key AND attempt = @attempt::uuid AND status_code IS NULL;

-- name: ReleaseIdempotencyKey :exec
DELETE FROM idempotent_requests
WHERE tenant_id = @tenant_id AND environment = @environment AND scope = @scope AND key = @key AND status_code IS NULL;
