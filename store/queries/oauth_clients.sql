-- The administration of OAuth clients and of what users granted them; what the protocol itself reads and writes is in oauth.sql.

-- name: OAuthClientAdd :one
INSERT INTO oauth_clients (tenant_id, id, name, secret_hash, redirect_uris, allowed_scopes, public_key_pem, jwt_issuer, is_active, created_at, updated_at)
VALUES (@tenant_id, @id, @name, @secret_hash, @redirect_uris, @allowed_scopes, sqlc.narg('public_key_pem'), sqlc.narg('jwt_issuer'), @is_active, @now, @now)
RETURNING *;

-- name: OAuthClientsCount :one
SELECT count(*) FROM oauth_clients WHERE tenant_id = @tenant_id;

-- name: OAuthClientsOf :many
SELECT * FROM oauth_clients WHERE tenant_id = @tenant_id ORDER BY id;

-- name: OAuthClientOf :one
SELECT * FROM oauth_clients WHERE tenant_id = @tenant_id AND id = @id;

-- name: OAuthClientLock :one
SELECT * FROM oauth_clients WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: OAuthClientEdit :one
UPDATE oauth_clients SET name = @name, redirect_uris = @redirect_uris, allowed_scopes = @allowed_scopes,
  public_key_pem = sqlc.narg('public_key_pem'), jwt_issuer = sqlc.narg('jwt_issuer'), is_active = @is_active, updated_at = @now
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- OAuthClientRotate gives a client another secret. The one before is good until @until, if that is given; one before that ends.
-- name: OAuthClientRotate :one
UPDATE oauth_clients SET previous_secret_hash = CASE WHEN sqlc.narg('until')::timestamptz IS NULL THEN NULL ELSE secret_hash END,
  previous_secret_until = sqlc.narg('until')::timestamptz, secret_hash = @secret_hash, updated_at = @now
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- name: OAuthClientDelete :execrows
DELETE FROM oauth_clients WHERE tenant_id = @tenant_id AND id = @id;

-- OAuthGrantsOf lists what a user granted. Clients are of any tenant, so that it needs the system's scope.
-- name: OAuthGrantsOf :many
SELECT sqlc.embed(g), c.name AS client_name, t.name AS client_tenant
FROM oauth_grants g JOIN oauth_clients c ON c.id = g.client_id JOIN tenants t ON t.id = c.tenant_id
WHERE g.tenant_id = @tenant_id AND g.user_id = @user_id ORDER BY g.granted_at DESC, g.id;

-- name: OAuthGrantDelete :one
DELETE FROM oauth_grants WHERE tenant_id = @tenant_id AND user_id = @user_id AND id = @id RETURNING *;

-- OAuthFamiliesWithdraw ends all that a client has of a user.
-- name: OAuthFamiliesWithdraw :execrows
UPDATE oauth_families SET ended_at = @now, ended_for = 'withdrawn'
WHERE tenant_id = @tenant_id AND user_id = @user_id AND client_id = @client_id AND ended_at IS NULL AND good_until > @now;

-- OAuthForgetRefreshTokens takes up to a page of the refresh tokens that expired before a moment, used or not.
-- name: OAuthForgetRefreshTokens :execrows
DELETE FROM oauth_refresh_tokens WHERE hash IN (SELECT r.hash FROM oauth_refresh_tokens r WHERE r.expires_at < @before LIMIT @page);
