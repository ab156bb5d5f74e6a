-- InsertEvent writes an event and its deliveries, which wait for their turn, and names the subscriptions that get it: patterns holds the event's
-- type and the wildcards that cover it. An event that is one with its call (of_call) is for one that is there alone, which its unit tells. A
-- delivery's id begins as the event's, with its time and its order within the millisecond: lists and replays go by it.
-- name: InsertEvent :many
WITH inserted AS (
  INSERT INTO events (tenant_id, id, type, call_id, campaign_id, data, created_at)
  SELECT @tenant_id, @id::uuid, @type::text, sqlc.narg(call_id)::uuid, sqlc.narg(campaign_id)::uuid, @data::jsonb, @created_at::timestamptz
  WHERE NOT @of_call::bool OR EXISTS (SELECT 1 FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.unit_id = sqlc.narg(call_id)::uuid)
  RETURNING id
), delivery AS (
  INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, next_attempt_at)
  SELECT @tenant_id, encode(substring(uuid_send(@id::uuid) FOR 8) || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid, s.id, i.id, @type::text, now()
  FROM inserted i JOIN webhook_subscriptions s ON s.tenant_id = @tenant_id AND s.is_active AND s.event_types && @patterns::text[]
    AND (s.campaign_id IS NULL OR s.campaign_id = sqlc.narg(campaign_id)::uuid)
  RETURNING id, subscription_id
)
INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id)
SELECT @tenant_id, d.subscription_id, d.id, @id::uuid, sqlc.narg(call_id)::uuid FROM delivery d
RETURNING subscription_id;

-- HoldOrInsertEvent is InsertEvent for a call whose answer may wait for a verdict: the event is held then, and nobody gets it yet; the row's lock
-- waits for a decision that is being committed.
-- name: HoldOrInsertEvent :many
WITH waits AS (
  SELECT c.id FROM calls c
  WHERE c.tenant_id = @tenant_id AND c.id = sqlc.narg(call_id)::uuid /* month of c.id */ AND c.amd AND c.answer_time IS NOT NULL AND c.answered_by_amd IS NULL
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
  RETURNING id
), delivery AS (
  INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, next_attempt_at)
  SELECT @tenant_id, encode(substring(uuid_send(@id::uuid) FOR 8) || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid, s.id, i.id, @type::text, now()
  FROM inserted i JOIN webhook_subscriptions s ON s.tenant_id = @tenant_id AND s.is_active AND s.event_types && @patterns::text[]
    AND (s.campaign_id IS NULL OR s.campaign_id = sqlc.narg(campaign_id)::uuid)
  RETURNING id, subscription_id
)
INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id)
SELECT @tenant_id, d.subscription_id, d.id, @id::uuid, sqlc.narg(call_id)::uuid FROM delivery d
RETURNING subscription_id;

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
SELECT e.id, e.type, e.call_id, e.campaign_id, e.created_at, event_data(e.type, e.call_id, e.campaign_id, e.created_at, e.data)::jsonb AS data FROM events e
WHERE e.tenant_id = @tenant_id AND e.id = @id;

-- name: ListEventsOfCall :many
SELECT e.id, e.seq, e.type, e.call_id, e.campaign_id, e.created_at, event_data(e.type, e.call_id, e.campaign_id, e.created_at, e.data)::jsonb AS data
FROM events_of_call(@tenant_id, @call_id) e ORDER BY e.seq;

-- WakeQueue tells the workers of a queue that a job in it is due, on the channel and in the words that River's own insertions use.
-- name: WakeQueue :exec
SELECT pg_notify(concat(current_schema(), '.river_insert'), json_build_object('queue', @queue::text)::text);
