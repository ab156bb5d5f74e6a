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

-- UpdateWebhook edits a subscription; one that is made active is no longer disabled, and its failures are counted anew.
-- name: UpdateWebhook :one
UPDATE webhook_subscriptions SET url = @url, event_types = @event_types, campaign_id = sqlc.narg('campaign_id'),
  is_active = @is_active, updated_at = now(),
  failing_since = CASE WHEN url = @url AND NOT (@is_active::boolean AND NOT is_active) THEN failing_since END,
  disabled_at = CASE WHEN NOT @is_active THEN disabled_at END, disabled_reason = CASE WHEN NOT @is_active THEN disabled_reason END
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- name: DeleteWebhook :execrows
DELETE FROM webhook_subscriptions WHERE tenant_id = @tenant_id AND id = @id;

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
