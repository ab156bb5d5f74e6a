-- Replays by time, and the list of events.

-- ListEvents is planned by values. Events are those of some time, which from_id and until_id bound by their ids, and before is the last event of
-- the page before. Those of a call's first minute are found by their ids, the others by an index. What both conditions have in common is written in two
-- ways: taken out of them it would leave the second without its column.
-- name: ListEvents :many
SELECT e.id, e.type, e.created_at, e.tenant_id, event_data(e.type, e.call_id, e.campaign_id, e.created_at, e.data)::jsonb AS data FROM events e
WHERE e.tenant_id = @tenant_id
  AND (sqlc.narg('call_id')::uuid IS NULL OR e.call_id = sqlc.narg('call_id') AND event_apart(e.call_id, e.id)
    OR e.id >= uuid_after(sqlc.narg('call_id'), 0) AND e.id < uuid_after(sqlc.narg('call_id'), 60000) AND e.call_id = ANY(ARRAY[sqlc.narg('call_id')::uuid]))
  AND (sqlc.narg('types')::text[] IS NULL OR e.type = ANY(sqlc.narg('types')::text[]))
  AND e.id < @before AND e.id >= @from_id AND e.id <= @until_id
  AND (sqlc.narg('since')::timestamptz IS NULL OR e.created_at >= sqlc.narg('since'))
  AND (sqlc.narg('until')::timestamptz IS NULL OR e.created_at < sqlc.narg('until'))
ORDER BY e.id DESC LIMIT @page_limit OFFSET @page_offset;

-- CountEvents counts up to a number of them.
-- name: CountEvents :one
SELECT count(*) FROM (
  SELECT FROM events e
  WHERE e.tenant_id = @tenant_id
    AND (sqlc.narg('call_id')::uuid IS NULL OR e.call_id = sqlc.narg('call_id') AND event_apart(e.call_id, e.id)
      OR e.id >= uuid_after(sqlc.narg('call_id'), 0) AND e.id < uuid_after(sqlc.narg('call_id'), 60000) AND e.call_id = ANY(ARRAY[sqlc.narg('call_id')::uuid]))
    AND (sqlc.narg('types')::text[] IS NULL OR e.type = ANY(sqlc.narg('types')::text[]))
    AND e.id >= @from_id AND e.id <= @until_id
    AND (sqlc.narg('since')::timestamptz IS NULL OR e.created_at >= sqlc.narg('since'))
    AND (sqlc.narg('until')::timestamptz IS NULL OR e.created_at < sqlc.narg('until'))
  LIMIT @most::int
) f;

-- CountReplayEvents counts the events, up to a number, that a replay would queue: those that aren't waiting for delivery already.
-- name: CountReplayEvents :one
SELECT count(*) FROM (
  SELECT FROM events e CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(d.subscription_id = @subscription_id AND d.status = 'pending'), false) AS waits
    FROM webhook_deliveries d WHERE d.tenant_id = e.tenant_id AND d.event_id = e.id
  ) w
  WHERE e.tenant_id = @tenant_id AND e.id >= @from_id AND e.id <= @until_id AND e.type = ANY(@types::text[])
    AND e.created_at >= @since AND e.created_at < @until
    AND (sqlc.narg('campaign_id')::uuid IS NULL OR e.campaign_id = sqlc.narg('campaign_id'))
    AND NOT w.waits
  LIMIT @most::int
) r;

-- CountReplayFailed counts the deliveries that failed, up to a number, of events of some time.
-- name: CountReplayFailed :one
SELECT count(*) FROM (
  SELECT FROM webhook_deliveries d JOIN events e ON e.tenant_id = d.tenant_id AND e.id = d.event_id
  WHERE d.tenant_id = @tenant_id AND d.status = 'dead_lettered' AND d.id >= @from_id AND d.id <= @until_id
    AND d.subscription_id = @subscription_id AND d.event_type = ANY(@types::text[]) AND e.created_at >= @since AND e.created_at < @until
  LIMIT @most::int
) r;

-- name: InsertReplay :exec
INSERT INTO webhook_replays (tenant_id, id, subscription_id, event_types, campaign_id, since, until, only_failed)
VALUES (@tenant_id, @id, @subscription_id, @event_types, sqlc.narg('campaign_id'), @since, @until, @only_failed);

-- CountReplays counts a subscription's replays that are under way.
-- name: CountReplays :one
SELECT count(*) FROM webhook_replays WHERE tenant_id = @tenant_id AND subscription_id = @subscription_id;

-- NextReplay takes a replay whose subscription has few deliveries in the queue, so that new events don't wait behind old ones for long.
-- name: NextReplay :one
SELECT * FROM webhook_replays r
WHERE NOT EXISTS (
  SELECT FROM webhook_queue q WHERE q.subscription_id = r.subscription_id ORDER BY q.seq LIMIT 1 OFFSET @enough::int)
ORDER BY r.id LIMIT 1 FOR UPDATE SKIP LOCKED;

-- ReplayEvents gives the next events of a replay with the newest delivery of each, if there is one.
-- name: ReplayEvents :many
SELECT e.id, e.type, e.call_id, coalesce(d.id, '00000000-0000-0000-0000-000000000000')::uuid AS delivery_id
FROM events e LEFT JOIN LATERAL (
  SELECT n.id FROM webhook_deliveries n WHERE n.tenant_id = e.tenant_id AND n.event_id = e.id AND n.subscription_id = @subscription_id
  ORDER BY n.id DESC LIMIT 1
) d ON true
WHERE e.tenant_id = @tenant_id AND e.id > @after AND e.id >= @from_id AND e.id <= @until_id AND e.type = ANY(@types::text[])
  AND e.created_at >= @since AND e.created_at < @until
  AND (sqlc.narg('campaign_id')::uuid IS NULL OR e.campaign_id = sqlc.narg('campaign_id'))
ORDER BY e.id LIMIT @batch::int;

-- ReplayFailed gives the next deliveries of a replay that failed.
-- name: ReplayFailed :many
SELECT e.id, e.type, e.call_id, d.id AS delivery_id
FROM webhook_deliveries d JOIN events e ON e.tenant_id = d.tenant_id AND e.id = d.event_id
WHERE d.tenant_id = @tenant_id AND d.status = 'dead_lettered' AND d.id > @after AND d.id >= @from_id AND d.id <= @until_id
  AND d.subscription_id = @subscription_id AND d.event_type = ANY(@types::text[]) AND e.created_at >= @since AND e.created_at < @until
ORDER BY d.id LIMIT @batch::int;

-- RearmWebhookDeliveries has finished deliveries be pending again, and tells which were.
-- name: RearmWebhookDeliveries :many
UPDATE webhook_deliveries SET status = 'pending', next_attempt_at = @at::timestamptz, updated_at = now()
WHERE tenant_id = @tenant_id AND id = ANY(@ids::uuid[]) AND status <> 'pending' RETURNING id;

-- InsertDeliveries makes deliveries of events that the subscription had none of.
-- name: InsertDeliveries :exec
INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, next_attempt_at)
SELECT @tenant_id, unnest(@ids::uuid[]), @subscription_id, unnest(@event_ids::uuid[]), unnest(@event_types::text[]), @at::timestamptz;

-- QueueReplays has deliveries wait for their turn once more, in their order.
-- name: QueueReplays :exec
INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id, replayed)
SELECT @tenant_id, @subscription_id, u.delivery_id, u.event_id, e.call_id, true
FROM (SELECT unnest(@ids::uuid[]) AS delivery_id, unnest(@event_ids::uuid[]) AS event_id, generate_series(1, cardinality(@ids::uuid[])) AS n) u
LEFT JOIN LATERAL (SELECT o.call_id FROM events o WHERE o.tenant_id = @tenant_id AND o.id = u.event_id OFFSET 0) e ON true
ORDER BY u.n;

-- name: ForwardReplay :exec
UPDATE webhook_replays SET after = @after WHERE tenant_id = @tenant_id AND id = @id;

-- name: EndReplay :exec
DELETE FROM webhook_replays WHERE tenant_id = @tenant_id AND id = @id;

-- RotateWebhookSecret has a new secret sign, and the one before until a moment.
-- name: RotateWebhookSecret :one
UPDATE webhook_subscriptions SET secret_sealed = @secret_sealed,
  previous_secret_sealed = CASE WHEN sqlc.narg('until')::timestamptz IS NOT NULL THEN secret_sealed END,
  previous_secret_until = sqlc.narg('until')::timestamptz, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- InsertDelivery makes a delivery that the caller attempts itself, and queues it for later, should the caller be lost.
-- name: InsertDelivery :one
WITH d AS (
  INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, next_attempt_at)
  VALUES (@tenant_id, @id, @subscription_id, @event_id, @event_type, @due_at::timestamptz)
)
INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, due_at)
VALUES (@tenant_id, @subscription_id, @id, @event_id, @due_at::timestamptz) RETURNING seq;
