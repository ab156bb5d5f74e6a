-- What is kept for a time, and what the nightly sweep forgets.

-- StrictTenants lists the tenants whose numbers are forgotten, and after how many days.
-- name: StrictTenants :many
SELECT id, pii_retention_days FROM tenants WHERE privacy_mode = 'strict' ORDER BY id;

-- LeadsForget takes the numbers of a strict tenant's leads that have ended before a moment, sealed or from before it was strict, out of
-- a batch of leads after one. Waiting leads of a campaign that was stopped before that moment count as ended: nothing can dial them any
-- more. It tells how many it took and which lead was the batch's last: the one given when there are no more.
-- Leads lie in the order of their ids, so a walk over all of them needs no index that every other tenant's leads would pay for. Hash
-- and last four digits stay.
-- name: LeadsForget :one
WITH batch AS (
  SELECT l.id FROM leads l WHERE l.tenant_id = @tenant_id AND l.id > @after ORDER BY l.id LIMIT @batch::int
), forgotten AS (
  UPDATE leads f SET phone = NULL, phone_sealed = NULL, updated_at = now() FROM batch b
  WHERE f.tenant_id = @tenant_id AND f.id = b.id AND (f.phone IS NOT NULL OR f.phone_sealed IS NOT NULL)
    AND (f.status IN ('completed', 'exhausted', 'dnc', 'opted_out', 'invalid') AND f.completed_at < @ended_before::timestamptz
      OR f.status IN ('new', 'queued', 'retry', 'callback') AND f.updated_at < @ended_before::timestamptz AND EXISTS (
        SELECT FROM campaigns c WHERE c.tenant_id = f.tenant_id AND c.id = f.campaign_id AND c.status = 'completed'
          AND c.updated_at < @ended_before::timestamptz))
  RETURNING f.id
)
SELECT (SELECT count(*) FROM forgotten) AS forgotten,
  coalesce((SELECT b.id FROM batch b ORDER BY b.id DESC LIMIT 1), @after)::uuid AS last;

-- CallsForget takes the callee's sealed number out of up to a batch of a tenant's calls that have ended before a moment.
-- name: CallsForget :execrows
UPDATE calls c SET peer_sealed = NULL
WHERE c.tenant_id = @tenant_id AND c.peer_sealed IS NOT NULL AND c.id = ANY(ARRAY(
  SELECT e.id FROM calls e
  WHERE e.tenant_id = @tenant_id AND e.peer_sealed IS NOT NULL AND e.id < @began_before AND e.end_time < @ended_before::timestamptz
  LIMIT @batch::int));

-- CallsMaskedUpTo tells which call of a tenant was the last that CallsMask need not look at again.
-- name: CallsMaskedUpTo :one
SELECT up_to FROM call_masks WHERE tenant_id = @tenant_id;

-- name: CallsSetMaskedUpTo :exec
INSERT INTO call_masks AS m (tenant_id, up_to) VALUES (@tenant_id, @up_to)
ON CONFLICT (tenant_id) DO UPDATE SET up_to = greatest(m.up_to, excluded.up_to);

-- CallsMaskBatch tells which is the last of a batch of a tenant's calls after one, and up to which one all have ended before a moment:
-- both are the one given when there are none.
-- name: CallsMaskBatch :one
WITH batch AS (
  SELECT e.id, coalesce(e.end_time < @ended_before::timestamptz, false) AS ended FROM calls e
  WHERE e.tenant_id = @tenant_id AND e.id > @after AND e.id < @began_before ORDER BY e.id LIMIT @batch::int
), open AS (
  SELECT o.id FROM batch o WHERE NOT o.ended ORDER BY o.id LIMIT 1
)
SELECT coalesce((SELECT b.id FROM batch b ORDER BY b.id DESC LIMIT 1), @after)::uuid AS last,
  coalesce((SELECT b.id FROM batch b WHERE b.id < (SELECT o.id FROM open o) OR NOT EXISTS (SELECT FROM open) ORDER BY b.id DESC LIMIT 1),
    @after)::uuid AS done;

-- CallsMask masks the callee's number in a strict tenant's calls from before it was strict, of those after one and up to another that
-- have ended before a moment.
-- name: CallsMask :execrows
UPDATE calls c SET
  from_number = CASE c.direction WHEN 'inbound' THEN mask_number(c.from_number) ELSE c.from_number END,
  to_number = CASE c.direction WHEN 'outbound' THEN mask_number(c.to_number) ELSE c.to_number END
WHERE c.tenant_id = @tenant_id AND c.id > @after AND c.id <= @last AND c.end_time < @ended_before::timestamptz
  AND CASE c.direction WHEN 'inbound' THEN c.from_number ELSE c.to_number END
    <> mask_number(CASE c.direction WHEN 'inbound' THEN c.from_number ELSE c.to_number END);

-- What calls leave besides their record. Ids are UUIDv7s, so the oldest rows of each tenant are the first of its primary key: began_before
-- is the smallest id of a moment somewhat after ended_before.

-- SessionsForget takes up to a batch of AI sessions that ended before a moment, with their logs.
-- name: SessionsForget :execrows
DELETE FROM ai_sessions d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT s.ctid AS row_at FROM ai_sessions s
    WHERE s.tenant_id = t.id AND s.id < @began_before AND s.ended_at < @ended_before::timestamptz ORDER BY s.id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- FlowRunsForget takes up to a batch of runs of flows that ended before a moment.
-- name: FlowRunsForget :execrows
DELETE FROM flow_runs d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT r.ctid AS row_at FROM flow_runs r
    WHERE r.tenant_id = t.id AND r.call_id < @began_before AND r.ended_at < @ended_before::timestamptz ORDER BY r.call_id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- AgentLogForget takes up to a batch of agents' changes of before a moment.
-- name: AgentLogForget :execrows
DELETE FROM agent_status_log d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM agents a CROSS JOIN LATERAL (
    SELECT g.ctid AS row_at FROM agent_status_log g
    WHERE g.tenant_id = a.tenant_id AND g.agent_id = a.id AND g.at < @changed_before::timestamptz ORDER BY g.at LIMIT @batch::int
  ) o LIMIT @batch::int));

-- RecordingAccessForget takes up to a batch of the rows that say who got a recording before a moment.
-- name: RecordingAccessForget :execrows
DELETE FROM recording_access d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT r.ctid AS row_at FROM recording_access r
    WHERE r.tenant_id = t.id AND r.id < @began_before AND r.at < @accessed_before::timestamptz ORDER BY r.id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- CallbackTokensForget takes up to a batch of tokens that ended before a moment.
-- name: CallbackTokensForget :execrows
DELETE FROM callback_tokens c WHERE c.ctid = ANY(ARRAY(
  SELECT o.ctid FROM callback_tokens o WHERE o.expires_at < @ended_before::timestamptz ORDER BY o.expires_at LIMIT @batch::int));

-- IdempotencyKeysForget takes up to a batch of keys that answer nobody any more.
-- name: IdempotencyKeysForget :execrows
DELETE FROM idempotent_requests k WHERE k.ctid = ANY(ARRAY(
  SELECT o.ctid FROM idempotent_requests o WHERE o.created_at < @used_before::timestamptz ORDER BY o.created_at LIMIT @batch::int));
