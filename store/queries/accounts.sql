-- name: CreateUser :one
INSERT INTO users (tenant_id, id, email, password_hash, display_name, role, extension, phone_mode, is_active, tags, permissions)
VALUES (@tenant_id, @id, lower(@email::text), @password_hash, @display_name, @role, @extension, @phone_mode, @is_active,
  @tags, @permissions)
RETURNING *;

-- name: ListUsers :many
SELECT * FROM users WHERE tenant_id = @tenant_id ORDER BY email;

-- name: GetUser :one
SELECT * FROM users WHERE tenant_id = @tenant_id AND id = @id;

-- name: CreateAPIKey :one
INSERT INTO api_keys (tenant_id, id, label, environment, key_hash, key_prefix, last_four, scopes, rate_limit_per_min, allowed_origins)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING *;

-- ListAPIKeys gives a tenant's keys that are good, and those that were revoked last as well, up to so many.
-- name: ListAPIKeys :many
SELECT * FROM api_keys k WHERE k.tenant_id = @tenant_id AND (k.revoked_at IS NULL OR @include_revoked::boolean AND k.id = ANY(ARRAY(
  SELECT r.id FROM api_keys r WHERE r.tenant_id = @tenant_id AND r.revoked_at IS NOT NULL ORDER BY r.revoked_at DESC, r.id DESC
  LIMIT @max_revoked::int))) ORDER BY k.id;

-- name: CountAPIKeys :one
SELECT count(*) FROM api_keys WHERE tenant_id = @tenant_id AND revoked_at IS NULL;

-- name: LockAPIKey :one
SELECT * FROM api_keys WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: RevokeAPIKey :execrows
UPDATE api_keys SET is_active = false, revoked_at = now(), revoke_reason = @revoke_reason
WHERE tenant_id = @tenant_id AND id = @id AND revoked_at IS NULL;
