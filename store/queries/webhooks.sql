-- Webhook subscriptions and the deliveries to them.

-- name: CreateWebhook :one
INSERT INTO webhook_subscriptions (tenant_id, id, url, event_types, campaign_id, secret_sealed, is_active)
VALUES (@tenant_id, @id, @url, @event_types, sqlc.narg('campaign_id'), @secret_sealed, @is_active) RETURNING *;

-- name: CountWebhooks :one
SELECT count(*) FROM webhook_subscriptions WHERE tenant_id = @tenant_id;

-- name: ListWebhooks :many
SELECT * FROM webhook_subscriptions WHERE tenant_id = @tenant_id ORDER BY id;

-- name: GetWebhook :one
SELECT * FROM webhook_subscriptions WHERE tenant_id = @tenant_id AND id = @id;

-- name: LockWebhook :one
SELECT * FROM webhook_subscriptions WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: UpdateWebhook :one
UPDATE webhook_subscriptions SET url = @url, event_types = @event_types, campaign_id = sqlc.narg('campaign_id'),
  is_active = @is_active, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- name: DeleteWebhook :execrows
DELETE FROM webhook_subscriptions WHERE tenant_id = @tenant_id AND id = @id;

-- InsertWebhookEvent writes an event that is meant for one subscription alone.
-- name: InsertWebhookEvent :exec
INSERT INTO events (tenant_id, id, type, campaign_id, data, created_at)
VALUES (@tenant_id, @id, @type, sqlc.narg('campaign_id'), @data, @created_at);

-- name: InsertWebhookDelivery :one
INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, next_attempt_at)
VALUES (@tenant_id, @id, @subscription_id, @event_id, @event_type, @next_attempt_at::timestamptz) RETURNING *;

-- name: ListWebhookDeliveries :many
SELECT * FROM webhook_deliveries
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
  AND (sqlc.narg('subscription_id')::uuid IS NULL OR subscription_id = sqlc.narg('subscription_id'))
  AND (sqlc.narg('event_type')::text IS NULL OR event_type = sqlc.narg('event_type'))
ORDER BY id DESC LIMIT @page_limit OFFSET @page_offset;

-- name: CountWebhookDeliveries :one
SELECT count(*) FROM webhook_deliveries
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
  AND (sqlc.narg('subscription_id')::uuid IS NULL OR subscription_id = sqlc.narg('subscription_id'))
  AND (sqlc.narg('event_type')::text IS NULL OR event_type = sqlc.narg('event_type'));

-- name: LockWebhookDelivery :one
SELECT * FROM webhook_deliveries WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: RearmWebhookDelivery :one
UPDATE webhook_deliveries SET status = 'pending', next_attempt_at = @next_attempt_at::timestamptz, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- LoadWebhookDelivery gives all that one attempt needs. An event of a call waits for the call's earlier events to have had
-- their first attempt at the same subscription, if they were emitted in the last minute. Only the partitions of this month
-- and the last are asked. Events are found by their call and deliveries by their event: a narrower bound would have the planner read
-- all that was emitted since, and OFFSET 0 keeps it from reading all that are pending.
-- name: LoadWebhookDelivery :one
SELECT d.subscription_id, d.status, d.attempts, d.next_attempt_at,
  e.id AS event_id, e.type AS event_type, e.data, e.created_at AS event_at,
  s.url, s.secret_sealed, coalesce(s.is_active, false)::boolean AS is_active,
  EXISTS (
    SELECT 1 FROM events earlier CROSS JOIN LATERAL (
      SELECT p.subscription_id, p.status, p.attempts, p.created_at FROM webhook_deliveries p
      WHERE p.tenant_id = earlier.tenant_id AND p.event_id = earlier.id
        AND p.id BETWEEN uuidv7_floor(date_trunc('month', now(), 'UTC') - interval '1 month') AND uuidv7_floor(now() + interval '1 day') OFFSET 0
    ) pending
    WHERE earlier.tenant_id = d.tenant_id AND earlier.call_id = e.call_id AND earlier.seq < e.seq
      AND earlier.id BETWEEN uuidv7_floor(date_trunc('month', now(), 'UTC') - interval '1 month') AND uuidv7_floor(now() + interval '1 day')
      AND pending.subscription_id = d.subscription_id AND pending.status = 'pending' AND pending.attempts = '[]'
      AND pending.created_at > now() - interval '1 minute'
  ) AS waits
FROM webhook_deliveries d
JOIN events e ON e.tenant_id = d.tenant_id AND e.id = d.event_id
LEFT JOIN webhook_subscriptions s ON s.tenant_id = d.tenant_id AND s.id = d.subscription_id
WHERE d.tenant_id = @tenant_id AND d.id = @id;

-- name: RecordWebhookAttempt :execrows
UPDATE webhook_deliveries SET attempts = attempts || @attempt::jsonb, status = @status,
  next_attempt_at = sqlc.narg('next_attempt_at'), updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id AND status = 'pending';
