-- The queue of deliveries, which the dispatcher of package webhook works. Whoever works a subscription holds its lock, so that rows are
-- claimed in memory alone.

-- WebhookWork lists the subscriptions that have deliveries, by the next entry of each index: as many steps as there are subscriptions,
-- however many deliveries wait. due_at is null where one waits for its first attempt. Those of suspended tenants wait until that ends.
-- name: WebhookWork :many
WITH RECURSIVE first AS (
  (SELECT q.subscription_id, q.seq, q.queued_at, q.tenant_id FROM webhook_queue q WHERE q.due_at IS NULL ORDER BY q.subscription_id, q.seq LIMIT 1)
  UNION ALL
  SELECT n.subscription_id, n.seq, n.queued_at, n.tenant_id FROM first f CROSS JOIN LATERAL (
    SELECT q.subscription_id, q.seq, q.queued_at, q.tenant_id FROM webhook_queue q WHERE q.due_at IS NULL AND q.subscription_id > f.subscription_id
    ORDER BY q.subscription_id, q.seq LIMIT 1) n
), again AS (
  (SELECT q.subscription_id, q.due_at, q.seq, q.queued_at, q.tenant_id FROM webhook_queue q WHERE q.due_at IS NOT NULL ORDER BY q.subscription_id, q.due_at LIMIT 1)
  UNION ALL
  SELECT n.subscription_id, n.due_at, n.seq, n.queued_at, n.tenant_id FROM again f CROSS JOIN LATERAL (
    SELECT q.subscription_id, q.due_at, q.seq, q.queued_at, q.tenant_id FROM webhook_queue q WHERE q.due_at IS NOT NULL AND q.subscription_id > f.subscription_id
    ORDER BY q.subscription_id, q.due_at LIMIT 1) n
)
SELECT w.subscription_id::uuid AS subscription_id, w.due_at, w.seq::bigint AS seq, w.queued_at::timestamptz AS queued_at FROM (
  SELECT f.subscription_id, NULL::timestamptz AS due_at, f.seq, f.queued_at, f.tenant_id FROM first f
  UNION ALL SELECT a.subscription_id, a.due_at, a.seq, a.queued_at, a.tenant_id FROM again a) w
WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = w.tenant_id AND t.suspended_at IS NOT NULL);

-- TakeWebhookWork gives deliveries of some subscriptions with their events, up to room of each kind for each: those whose next attempt is
-- due, and those that have had none; and the next of those that will be due. held are those that the caller has already. Of those before after,
-- and due before since, the caller knows all: it needn't step over what was delivered while an old snapshot keeps it. event_type is empty where the
-- event is no longer kept. Large data, which is compressed or apart, is left out, and read when the event is sent; a strict tenant's numbers are
-- masked, though the event may be from before it was strict.
-- name: TakeWebhookWork :many
SELECT q.seq, q.tenant_id, q.subscription_id, q.delivery_id, q.event_id, q.call_id, q.made, q.replayed, q.due_at, q.queued_at,
  coalesce(e.type, '')::text AS event_type, coalesce(e.data, '{}')::jsonb AS data, coalesce(e.large, false)::boolean AS large,
  coalesce(e.created_at, q.queued_at)::timestamptz AS event_at
FROM (SELECT unnest(@subscriptions::uuid[]) AS id, unnest(@rooms::int[]) AS room, unnest(@afters::bigint[]) AS after,
  unnest(@since::timestamptz[]) AS since) w
CROSS JOIN LATERAL (
  (SELECT a.* FROM webhook_queue a WHERE a.subscription_id = w.id AND a.due_at >= w.since AND a.due_at <= @due::timestamptz
     AND a.seq NOT IN (SELECT unnest(@held::bigint[])) ORDER BY a.due_at LIMIT w.room)
  UNION ALL
  (SELECT f.* FROM webhook_queue f WHERE f.subscription_id = w.id AND f.due_at IS NULL AND f.seq > w.after
     AND f.seq NOT IN (SELECT unnest(@held::bigint[])) ORDER BY f.seq LIMIT w.room)
  UNION ALL
  (SELECT n.* FROM webhook_queue n WHERE n.subscription_id = w.id AND n.due_at > @due::timestamptz
     AND n.seq NOT IN (SELECT unnest(@held::bigint[])) ORDER BY n.due_at LIMIT 1)
) q
LEFT JOIN LATERAL (
  SELECT o.type, o.created_at, l.large, CASE WHEN l.large THEN NULL WHEN t.strict THEN mask_event(o.type, event_data(o.type, o.call_id, o.campaign_id, o.created_at, o.data))
    ELSE event_data(o.type, o.call_id, o.campaign_id, o.created_at, o.data) END AS data
  FROM events o CROSS JOIN LATERAL (SELECT pg_column_size(o.data) > 2000 OR pg_column_compression(o.data) IS NOT NULL AS large) l
  CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM tenants s WHERE s.id = q.tenant_id AND s.privacy_mode = 'strict') AS strict) t
  WHERE o.tenant_id = q.tenant_id AND o.id = q.event_id AND (q.due_at IS NULL OR q.due_at <= @due::timestamptz) OFFSET 0
) e ON true
ORDER BY q.seq;

-- EventData gives an event's data as it is told now.
-- name: EventData :one
SELECT (CASE WHEN EXISTS (SELECT FROM tenants t WHERE t.id = e.tenant_id AND t.privacy_mode = 'strict') THEN mask_event(e.type, d.data) ELSE d.data END)::jsonb AS data
FROM events e CROSS JOIN LATERAL (SELECT event_data(e.type, e.call_id, e.campaign_id, e.created_at, e.data) AS data) d WHERE e.tenant_id = @tenant_id AND e.id = @id;

-- WebhookTargets gives what deliveries to some subscriptions need; those that were removed are not in it.
-- name: WebhookTargets :many
SELECT s.id, s.tenant_id, s.url, s.secret_sealed, s.previous_secret_sealed, s.previous_secret_until, s.is_active, s.failing_since,
  (t.privacy_mode = 'strict')::boolean AS strict, (t.suspended_at IS NOT NULL)::boolean AS suspended
FROM webhook_subscriptions s JOIN tenants t ON t.id = s.tenant_id WHERE s.id = ANY(@ids::uuid[]);

-- QueueByIndex has the rest of the transaction step over the queue by its indexes, however small it was when the plans were made: it is empty
-- again and again, VACUUM gives its pages back, and a plan that reads all of it is kept while it fills.
-- name: QueueByIndex :exec
SELECT set_config('enable_seqscan', 'off', true);

-- RecordWebhookAttempts writes what came of attempts, each if its delivery is still in the queue. next_at counts for pending ones alone. Rows
-- of the queue are looked up one by one, after QueueByIndex: a join would be planned as one of all of the queue while that is small.
-- name: RecordWebhookAttempts :exec
WITH r AS (
  SELECT unnest(@subscriptions::uuid[]) AS subscription_id, unnest(@seqs::bigint[]) AS seq, unnest(@tenants::uuid[]) AS tenant_id, unnest(@ids::uuid[]) AS id,
    unnest(@attempts::text[])::jsonb AS attempt, unnest(@statuses::text[]) AS status, unnest(@next_at::timestamptz[]) AS next_at
), ended AS (
  DELETE FROM webhook_queue q WHERE q.ctid = ANY(ARRAY(
    SELECT (SELECT i.ctid FROM webhook_queue i WHERE i.subscription_id = r.subscription_id AND i.seq = r.seq) FROM r WHERE r.status <> 'pending'))
  RETURNING q.seq
), again AS (
  UPDATE webhook_queue q SET due_at = r.next_at, made = q.made + 1 FROM r
  WHERE q.ctid = ANY(ARRAY(
    SELECT (SELECT i.ctid FROM webhook_queue i WHERE i.subscription_id = p.subscription_id AND i.seq = p.seq) FROM r p WHERE p.status = 'pending'))
    AND q.subscription_id = r.subscription_id AND q.seq = r.seq AND r.status = 'pending'
  RETURNING q.seq
)
UPDATE webhook_deliveries d SET attempts = d.attempts || r.attempt, status = r.status,
  next_attempt_at = CASE WHEN r.status = 'pending' THEN r.next_at END, updated_at = now()
FROM r WHERE d.tenant_id = r.tenant_id AND d.id = r.id AND r.seq IN (SELECT n.seq FROM ended n UNION ALL SELECT n.seq FROM again n);

-- DropWebhookWork takes rows out of the queue whose event is gone.
-- name: DropWebhookWork :exec
DELETE FROM webhook_queue q USING (SELECT unnest(@subscriptions::uuid[]) AS subscription_id, unnest(@seqs::bigint[]) AS seq) r
WHERE q.subscription_id = r.subscription_id AND q.seq = r.seq;

-- DatabaseTime is what due times are compared with.
-- name: DatabaseTime :one
SELECT now()::timestamptz;

-- WebhookFailing notes since when all deliveries to some subscriptions have failed, and WebhookRecovered that one has not.
-- name: WebhookFailing :exec
UPDATE webhook_subscriptions SET failing_since = @since::timestamptz WHERE id = ANY(@ids::uuid[]) AND failing_since IS NULL;

-- name: WebhookRecovered :exec
UPDATE webhook_subscriptions SET failing_since = NULL WHERE id = ANY(@ids::uuid[]) AND failing_since IS NOT NULL;

-- DisableWebhook ends a subscription that has failed since before a moment.
-- name: DisableWebhook :one
UPDATE webhook_subscriptions SET is_active = false, disabled_at = @at::timestamptz, disabled_reason = @reason::text, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id AND is_active AND failing_since <= @before::timestamptz RETURNING *;

-- ActiveWebhooksBut lists the tenant's other active subscriptions.
-- name: ActiveWebhooksBut :many
SELECT id FROM webhook_subscriptions WHERE tenant_id = @tenant_id AND id <> @id AND is_active ORDER BY id;

-- QueueDeliveries makes an event's deliveries, and has them wait for their turn.
-- name: QueueDeliveries :exec
WITH d AS (
  INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, next_attempt_at)
  SELECT @tenant_id, unnest(@ids::uuid[]), unnest(@subscription_ids::uuid[]), @event_id, @event_type, now()
  RETURNING tenant_id, id, subscription_id, event_id
)
INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id)
SELECT d.tenant_id, d.subscription_id, d.id, d.event_id, sqlc.narg('call_id')::uuid FROM d;

-- QueueReplay has a delivery wait for its turn once more.
-- name: QueueReplay :exec
INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id, replayed)
SELECT @tenant_id, @subscription_id, @delivery_id, @event_id, e.call_id, true
FROM (SELECT 1) one LEFT JOIN events e ON e.tenant_id = @tenant_id AND e.id = @event_id;

-- AdoptWebhookJobs moves deliveries that a controller of an earlier version has queued as jobs, and tells how many.
-- name: AdoptWebhookJobs :one
SELECT adopt_webhook_jobs()::bigint;

-- WakeWebhooks tells the dispatchers of other controllers that there is something to deliver: who says so, and of which subscriptions.
-- name: WakeWebhooks :exec
SELECT pg_notify('ringmaster_webhooks', @payload::text);
