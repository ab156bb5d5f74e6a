-- InsertEvent writes an event and, in the same round trip, finds the subscriptions that want it: patterns holds the event's
-- type and the wildcards that cover it. While the call's answer waits for a verdict the event is held, and nobody gets it yet;
-- the row's lock waits for a decision that is being committed.
-- name: InsertEvent :many
WITH waits AS (
  SELECT c.id FROM calls c
  WHERE c.tenant_id = @tenant_id AND c.id = sqlc.narg(call_id)::uuid AND c.amd AND c.answer_time IS NOT NULL AND c.answered_by_amd IS NULL
    AND c.end_time IS NULL
  FOR SHARE
), held AS (
  INSERT INTO held_events (tenant_id, id, type, call_id, campaign_id, data, created_at)
  SELECT @tenant_id, @id::uuid, @type::text, w.id, sqlc.narg(campaign_id)::uuid, @data::jsonb, @created_at::timestamptz FROM waits w
), inserted AS (
  INSERT INTO events (tenant_id, id, type, call_id, campaign_id, data, created_at)
  SELECT @tenant_id, @id::uuid, @type::text, sqlc.narg(call_id)::uuid, sqlc.narg(campaign_id)::uuid, @data::jsonb,
    @created_at::timestamptz
  WHERE NOT EXISTS (SELECT 1 FROM waits)
)
SELECT s.id FROM webhook_subscriptions s
WHERE s.tenant_id = @tenant_id AND s.is_active AND s.event_types && @patterns::text[]
  AND (s.campaign_id IS NULL OR s.campaign_id = sqlc.narg(campaign_id)) AND NOT EXISTS (SELECT 1 FROM waits)
ORDER BY s.id;

-- InsertEventAlone writes an event for which nobody is looked up.
-- name: InsertEventAlone :exec
INSERT INTO events (tenant_id, id, type, call_id, campaign_id, data, created_at)
VALUES (@tenant_id, @id, @type, sqlc.narg('call_id'), sqlc.narg('campaign_id'), @data, @created_at);

-- name: TakeHeldEvents :many
WITH taken AS (
  DELETE FROM held_events h WHERE h.tenant_id = @tenant_id AND h.call_id = @call_id RETURNING h.*
)
SELECT t.id, t.type, t.call_id, t.campaign_id, t.data, t.created_at FROM taken t ORDER BY t.seq;

-- name: GetEvent :one
SELECT * FROM events WHERE tenant_id = @tenant_id AND id = @id;

-- name: ListEventsOfCall :many
SELECT * FROM events WHERE tenant_id = @tenant_id AND call_id = @call_id::uuid ORDER BY seq;

-- WakeQueue tells the workers of a queue that a job in it is due, on the channel and in the words that River's own insertions use.
-- name: WakeQueue :exec
SELECT pg_notify(concat(current_schema(), '.river_insert'), json_build_object('queue', @queue::text)::text);
