-- InsertEvent writes an event and, in the same round trip, finds the subscriptions that want it: patterns holds the event's
-- type and the wildcards that cover it.
-- name: InsertEvent :many
WITH inserted AS (
  INSERT INTO events (tenant_id, id, type, call_id, campaign_id, data, created_at)
  VALUES (@tenant_id, @id, @type, sqlc.narg(call_id), sqlc.narg(campaign_id), @data, @created_at)
)
SELECT s.id FROM webhook_subscriptions s
WHERE s.tenant_id = @tenant_id AND s.is_active AND s.event_types && @patterns::text[]
  AND (s.campaign_id IS NULL OR s.campaign_id = sqlc.narg(campaign_id))
ORDER BY s.id;

-- name: InsertDeliveries :exec
INSERT INTO webhook_deliveries (tenant_id, id, subscription_id, event_id, event_type, next_attempt_at)
SELECT @tenant_id, unnest(@ids::uuid[]), unnest(@subscription_ids::uuid[]), @event_id, @event_type, now();

-- name: GetEvent :one
SELECT * FROM events WHERE tenant_id = @tenant_id AND id = @id;

-- name: ListEvents :many
SELECT * FROM events WHERE tenant_id = @tenant_id ORDER BY seq;

-- name: ListEventsOfCall :many
SELECT * FROM events WHERE tenant_id = @tenant_id AND call_id = @call_id::uuid ORDER BY seq;
