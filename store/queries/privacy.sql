-- What the nightly sweep does with the numbers of strict tenants: it forgets those that have served, and leaves none in clear from before the
-- tenant was strict.

-- StrictTenants lists the tenants whose numbers are forgotten, and after how many days.
-- name: StrictTenants :many
SELECT id, pii_retention_days FROM tenants WHERE privacy_mode = 'strict' ORDER BY id;

-- LeadsForget takes the numbers of a strict tenant's leads that have opted out or have ended before a moment, sealed or from before it was
-- strict, out of a batch of leads after one. Waiting leads of a campaign that was stopped before that moment count as ended: nothing can
-- dial them any more. It tells how many it took, which lead was the batch's last (the one given when there are no more), and whether the
-- batch had numbers in clear.
-- Leads lie in the order of their ids, so a walk over all of them needs no index that every other tenant's leads would pay for. Hash
-- and last four digits stay.
-- name: LeadsForget :one
WITH batch AS (
  SELECT l.id, l.phone IS NOT NULL AS clear FROM leads l
  WHERE l.tenant_id = @tenant_id AND l.id > @after ORDER BY l.id LIMIT @batch::int
), forgotten AS (
  UPDATE leads f SET phone = NULL, phone_sealed = NULL, updated_at = now() FROM batch b
  WHERE f.tenant_id = @tenant_id AND f.id = b.id AND (f.phone IS NOT NULL OR f.phone_sealed IS NOT NULL)
    AND (f.status = 'opted_out' OR f.status IN ('completed', 'exhausted', 'dnc', 'invalid') AND f.completed_at < @ended_before::timestamptz
      OR f.status IN ('new', 'queued', 'retry', 'callback') AND f.updated_at < @ended_before::timestamptz AND EXISTS (
        SELECT FROM campaigns c WHERE c.tenant_id = f.tenant_id AND c.id = f.campaign_id AND c.status = 'completed'
          AND c.updated_at < @ended_before::timestamptz))
  RETURNING f.id
)
SELECT (SELECT count(*) FROM forgotten) AS forgotten,
  coalesce((SELECT b.id FROM batch b ORDER BY b.id DESC LIMIT 1), @after)::uuid AS last,
  coalesce((SELECT bool_or(b.clear) FROM batch b), false)::bool AS clear;

-- LeadsClear gives up to a batch of a tenant's leads after one and up to another whose numbers are in clear, locked.
-- name: LeadsClear :many
SELECT id, phone FROM leads
WHERE tenant_id = @tenant_id AND id > @after AND id <= @last AND phone IS NOT NULL
ORDER BY id LIMIT @batch::int FOR NO KEY UPDATE;

-- LeadsSeal puts sealed numbers in the place of those in clear.
-- name: LeadsSeal :execrows
UPDATE leads l SET phone = NULL, phone_sealed = s.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@sealed::bytea[]) AS sealed) s
WHERE l.tenant_id = @tenant_id AND l.id = s.id AND l.phone IS NOT NULL;

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

-- CallsClear gives the callees' numbers in clear of a strict tenant's calls from before it was strict, of those after one and up to another
-- that ended between two moments, locked.
-- name: CallsClear :many
SELECT c.id, (CASE c.direction WHEN 'inbound' THEN c.from_number ELSE c.to_number END)::text AS number FROM calls c
WHERE c.tenant_id = @tenant_id AND c.id > @after AND c.id <= @last AND c.peer_sealed IS NULL
  AND c.end_time >= @ended_after::timestamptz AND c.end_time < @ended_before::timestamptz
  AND CASE c.direction WHEN 'inbound' THEN c.from_number ELSE c.to_number END
    <> mask_number(CASE c.direction WHEN 'inbound' THEN c.from_number ELSE c.to_number END)
ORDER BY c.id FOR NO KEY UPDATE;

-- CallsSeal gives calls the sealed numbers of their callees.
-- name: CallsSeal :exec
UPDATE calls c SET peer_sealed = s.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@sealed::bytea[]) AS sealed) s
WHERE c.tenant_id = @tenant_id AND c.id = s.id AND c.id > @after AND c.id <= @last;

-- CallsMask masks the callee's number in a strict tenant's calls from before it was strict, of those after one and up to another that
-- have ended before a moment.
-- name: CallsMask :execrows
UPDATE calls c SET
  from_number = CASE c.direction WHEN 'inbound' THEN mask_number(c.from_number) ELSE c.from_number END,
  to_number = CASE c.direction WHEN 'outbound' THEN mask_number(c.to_number) ELSE c.to_number END
WHERE c.tenant_id = @tenant_id AND c.id > @after AND c.id <= @last AND c.end_time < @ended_before::timestamptz
  AND CASE c.direction WHEN 'inbound' THEN c.from_number ELSE c.to_number END
    <> mask_number(CASE c.direction WHEN 'inbound' THEN c.from_number ELSE c.to_number END);

-- SessionsMask masks the number that a caller was transferred to in the AI sessions of a strict tenant's calls from before it was strict, of
-- those after one and up to another.
-- name: SessionsMask :exec
UPDATE ai_sessions s SET metadata = jsonb_set(s.metadata, '{final,destination}', to_jsonb(mask_destination(s.metadata #>> '{final,destination}')))
WHERE s.tenant_id = @tenant_id AND s.call_id > @after AND s.call_id <= @last AND s.status = 'ended'
  AND s.metadata #>> '{final,destination}' <> mask_destination(s.metadata #>> '{final,destination}');

-- AnswersMask masks the numbers in the answers that are kept for replays, from before a tenant was strict, of a batch of keys after one. It gives the
-- batch's last: none when there are no more. Their places lead to the rows; a join with the batch would read all of the tenant's.
-- name: AnswersMask :many
WITH batch AS (
  SELECT r.environment, r.scope, r.key FROM idempotent_requests r
  WHERE r.tenant_id = @tenant_id AND (r.environment, r.scope, r.key) > (@environment::text, @scope::text, @key::text)
  ORDER BY r.environment, r.scope, r.key LIMIT @batch::int
), masked AS (
  UPDATE idempotent_requests m SET response = mask_answer(m.response)
  WHERE m.ctid = ANY(ARRAY(SELECT k.ctid FROM idempotent_requests k
      WHERE k.tenant_id = @tenant_id AND (k.environment, k.scope, k.key) > (@environment::text, @scope::text, @key::text)
      ORDER BY k.environment, k.scope, k.key LIMIT @batch::int)) AND m.tenant_id = @tenant_id AND m.response <> mask_answer(m.response)
)
SELECT b.environment, b.scope, b.key FROM batch b ORDER BY b.environment DESC, b.scope DESC, b.key DESC LIMIT 1;

-- EventsMaskedUpTo tells which event of a tenant was the last that EventsMask need not look at again.
-- name: EventsMaskedUpTo :one
SELECT events_up_to FROM call_masks WHERE tenant_id = @tenant_id;

-- name: EventsSetMaskedUpTo :exec
INSERT INTO call_masks AS m (tenant_id, up_to, events_up_to) VALUES (@tenant_id, '00000000-0000-0000-0000-000000000000', @up_to)
ON CONFLICT (tenant_id) DO UPDATE SET events_up_to = greatest(m.events_up_to, excluded.events_up_to);

-- EventsMask masks the numbers in a strict tenant's events from before it was strict, of a batch after one. It tells how many it
-- masked and which event was the batch's last: the one given when there are no more. An array of ids leads to the events; a join with the
-- batch would read all that are left.
-- name: EventsMask :one
WITH batch AS (
  SELECT e.id, e.type IN ('call.started', 'ai_session.transferred', 'ai_session.ended', 'ai_session.conference_changed') AS numbered FROM events e
  WHERE e.tenant_id = @tenant_id AND e.id > @after ORDER BY e.id LIMIT @batch::int
), masked AS (
  UPDATE events f SET data = mask_event(f.type, event_data(f.type, f.call_id, f.campaign_id, f.created_at, f.data))
  WHERE f.tenant_id = @tenant_id AND f.id = ANY(ARRAY(SELECT b.id FROM batch b WHERE b.numbered)) AND f.id > @after
    AND event_data(f.type, f.call_id, f.campaign_id, f.created_at, f.data) <> mask_event(f.type, event_data(f.type, f.call_id, f.campaign_id, f.created_at, f.data))
  RETURNING f.id
)
SELECT (SELECT count(*) FROM masked) AS masked,
  coalesce((SELECT b.id FROM batch b ORDER BY b.id DESC LIMIT 1), @after)::uuid AS last;
