-- Credentials as a request shows them. A request names no tenant but its credential, so these look-ups need the system's scope.

-- name: FindAPIKeyByHash :one
SELECT * FROM api_keys WHERE key_hash = @key_hash;

-- name: FindCallbackToken :one
SELECT * FROM callback_tokens WHERE jti = @jti;

-- TouchAPIKeys notes when keys were last used, many at a time.
-- name: TouchAPIKeys :exec
UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, u.at)
FROM (SELECT unnest(@tenant_ids::uuid[]) AS tenant_id, unnest(@ids::uuid[]) AS id, unnest(@ats::timestamptz[]) AS at) u
WHERE k.tenant_id = u.tenant_id AND k.id = u.id;
