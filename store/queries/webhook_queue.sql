-- The queue of deliveries, which the dispatcher of package webhook works. Whoever works a subscription holds its lock, so that rows are
-- claimed in memory alone.

-- WebhookWork lists the subscriptions that have deliveries, by the next entry of each index: as many steps as there are subscriptions,
-- however many deliveries wait. due_at is null where one waits for its first attempt.
-- name: WebhookWork :many
WITH RECURSIVE first AS (
  (SELECT q.subscription_id FROM webhook_queue q WHERE q.due_at IS NULL ORDER BY q.subscription_id LIMIT 1)
  UNION ALL
  SELECT n.subscription_id FROM first f CROSS JOIN LATERAL (
    SELECT q.subscription_id FROM webhook_queue q WHERE q.due_at IS NULL AND q.subscription_id > f.subscription_id
    ORDER BY q.subscription_id LIMIT 1) n
), again AS (
  (SELECT q.subscription_id, q.due_at FROM webhook_queue q WHERE q.due_at IS NOT NULL ORDER BY q.subscription_id, q.due_at LIMIT 1)
  UNION ALL
  SELECT n.subscription_id, n.due_at FROM again f CROSS JOIN LATERAL (
    SELECT q.subscription_id, q.due_at FROM webhook_queue q WHERE q.due_at IS NOT NULL AND q.subscription_id > f.subscription_id
    ORDER BY q.subscription_id, q.due_at LIMIT 1) n
)
SELECT f.subscription_id::uuid AS subscription_id, NULL::timestamptz AS due_at FROM first f
UNION ALL SELECT a.subscription_id, a.due_at FROM again a;

-- TakeWebhookWork gives deliveries of some subscriptions with their events, up to room of each kind for each: those whose next attempt is
-- due, and those that have had none. held are those that the caller has already. event_type is empty where the event is no longer kept. Large data is left out, and
-- read when the event is sent.
-- name: TakeWebhookWork :many
SELECT q.seq, q.tenant_id, q.subscription_id, q.delivery_id, q.event_id, q.call_id, q.made, q.replayed, q.due_at, q.queued_at,
  coalesce(e.type, '')::text AS event_type, coalesce(e.data, '{}')::jsonb AS data, coalesce(e.large, false)::boolean AS large,
  coalesce(e.created_at, q.queued_at)::timestamptz AS event_at
FROM (SELECT unnest(@subscriptions::uuid[]) AS id, unnest(@rooms::int[]) AS room) w
CROSS JOIN LATERAL (
  (SELECT a.* FROM webhook_queue a WHERE a.subscription_id = w.id AND a.due_at <= @due::timestamptz AND a.seq <> ALL(@held::bigint[])
   ORDER BY a.due_at LIMIT w.room)
  UNION ALL
  (SELECT f.* FROM webhook_queue f WHERE f.subscription_id = w.id AND f.due_at IS NULL AND f.seq <> ALL(@held::bigint[])
   ORDER BY f.seq LIMIT w.room)
) q
LEFT JOIN LATERAL (
  SELECT o.type, o.created_at, pg_column_size(o.data) > 2000 AS large, CASE WHEN pg_column_size(o.data) <= 2000 THEN o.data END AS data FROM events o WHERE o.tenant_id = q.tenant_id AND o.id = q.event_id OFFSET 0
) e ON true
ORDER BY q.seq;

-- EventData gives an event's data.
-- name: EventData :one
SELECT data FROM events WHERE tenant_id = @tenant_id AND id = @id;

-- WebhookTargets gives what deliveries to some subscriptions need; those that were removed are not in it.
-- name: WebhookTargets :many
SELECT id, tenant_id, url, secret_sealed, previous_secret_sealed, previous_secret_until, is_active, failing_since
FROM webhook_subscriptions WHERE id = ANY(@ids::uuid[]);

-- RecordWebhookAttempts writes what came of attempts, each if its delivery is still in the queue. next_at counts for pending ones alone.
-- name: RecordWebhookAttempts :exec
WITH r AS (
  SELECT unnest(@subscriptions::uuid[]) AS subscription_id, unnest(@seqs::bigint[]) AS seq, unnest(@tenants::uuid[]) AS tenant_id, unnest(@ids::uuid[]) AS id,
    unnest(@attempts::text[])::jsonb AS attempt, unnest(@statuses::text[]) AS status, unnest(@next_at::timestamptz[]) AS next_at
), ended AS (
  DELETE FROM webhook_queue q USING r
  WHERE q.subscription_id = r.subscription_id AND q.seq = r.seq AND r.status <> 'pending' RETURNING q.seq
), again AS (
  UPDATE webhook_queue q SET due_at = r.next_at, made = q.made + 1 FROM r
  WHERE q.subscription_id = r.subscription_id AND q.seq = r.seq AND r.status = 'pending' RETURNING q.seq
)
UPDATE webhook_deliveries d SET attempts = d.attempts || r.attempt, status = r.status,
  next_attempt_at = CASE WHEN r.status = 'pending' THEN r.next_at END, updated_at = now()
FROM r WHERE d.tenant_id = r.tenant_id AND d.id = r.id AND r.seq IN (SELECT n.seq FROM ended n UNION ALL SELECT n.seq FROM again n);

-- DropWebhookWork takes rows out of the queue whose event is gone.
-- name: DropWebhookWork :exec
DELETE FROM webhook_queue q USING (SELECT unnest(@subscriptions::uuid[]) AS subscription_id, unnest(@seqs::bigint[]) AS seq) r
WHERE q.subscription_id = r.subscription_id AND q.seq = r.seq;

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

-- OldestWebhookWork tells since when the oldest of the queue waits: since now where it is empty.
-- name: OldestWebhookWork :one
SELECT coalesce(min(queued_at), now())::timestamptz AS since FROM webhook_queue;

-- AdoptWebhookJobs moves deliveries that a controller of an earlier version has queued as jobs, and tells how many.
-- name: AdoptWebhookJobs :one
SELECT adopt_webhook_jobs()::bigint;

-- WakeWebhooks tells the dispatchers of other controllers that there is something to deliver.
-- name: WakeWebhooks :exec
SELECT pg_notify('ringmaster_webhooks', @sender::text);
