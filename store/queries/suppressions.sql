-- The tenant's own list of numbers that are never called. A number is known by its keyed hash and its last four digits alone.

-- SuppressionsAdd adds numbers, each once, and gives the entries that they have now: with the ids given here, or those of before.
-- name: SuppressionsAdd :many
INSERT INTO suppressions AS s (tenant_id, id, phone_hash, phone_last4, reason, opted_out)
SELECT @tenant_id, r.id, r.hash, r.last4, r.reason, false
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@hashes::bytea[]) AS hash, unnest(@last4s::text[]) AS last4,
  unnest(@reasons::text[]) AS reason) r
ORDER BY r.hash
ON CONFLICT (tenant_id, phone_hash) DO UPDATE SET phone_last4 = excluded.phone_last4
RETURNING *;

-- SuppressionList pages through the list, newest first, from before an entry on; a hash picks one number's entry.
-- name: SuppressionList :many
SELECT * FROM suppressions
WHERE tenant_id = @tenant_id AND (sqlc.narg('phone_hash')::bytea IS NULL OR phone_hash = sqlc.narg('phone_hash')::bytea) AND id < @before
ORDER BY id DESC LIMIT @size OFFSET @skip;

-- name: SuppressionCount :one
SELECT count(*) FROM suppressions
WHERE tenant_id = @tenant_id AND (sqlc.narg('phone_hash')::bytea IS NULL OR phone_hash = sqlc.narg('phone_hash')::bytea);

-- SuppressionOptOut keeps the number of somebody who has opted out, whatever the tenant's own list had said of it.
-- name: SuppressionOptOut :exec
INSERT INTO suppressions AS s (tenant_id, phone_hash, reason, phone_last4)
VALUES (@tenant_id, @phone_hash, @reason, coalesce((SELECT l.phone_last4 FROM leads l
  WHERE l.tenant_id = @tenant_id AND l.phone_hash = @phone_hash AND l.phone_last4 ~ '^[0-9]{4}$' LIMIT 1), ''))
ON CONFLICT (tenant_id, phone_hash) DO UPDATE SET opted_out = true;

-- name: SuppressionLock :one
SELECT * FROM suppressions WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: SuppressionDelete :exec
DELETE FROM suppressions WHERE tenant_id = @tenant_id AND id = @id;
