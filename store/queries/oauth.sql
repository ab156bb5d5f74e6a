-- OAuthClient gives a client by its id, whichever the tenant, with whether that is suspended.
-- name: OAuthClient :one
SELECT sqlc.embed(c), t.name AS tenant_name, (t.suspended_at IS NOT NULL)::boolean AS suspended
FROM oauth_clients c JOIN tenants t ON t.id = c.tenant_id WHERE c.id = @id;

-- OAuthClientsOfIssuer gives the clients that are registered for an issuer, whichever the tenants: anybody may name one. The oldest come first.
-- name: OAuthClientsOfIssuer :many
SELECT id FROM oauth_clients WHERE jwt_issuer = @jwt_issuer AND is_active ORDER BY id LIMIT 20;

-- OAuthHold tells whether a client may act for a user still, and keeps both as they are until the transaction ends: a family that begins in it is seen by
-- whoever switches one of them off.
-- name: OAuthHold :one
SELECT (c.is_active AND u.is_active)::boolean FROM oauth_clients c, users u
WHERE c.id = @client_id AND u.tenant_id = @tenant_id AND u.id = @user_id FOR SHARE OF c, u;

-- OAuthHoldGrant does the same with what the user granted: a family that begins in the transaction is seen by whoever withdraws it.
-- name: OAuthHoldGrant :one
SELECT scopes FROM oauth_grants WHERE tenant_id = @tenant_id AND user_id = @user_id AND client_id = @client_id FOR SHARE;

-- OAuthUser gives whoever a client may act for, with whether the tenant is suspended.
-- name: OAuthUser :one
SELECT sqlc.embed(u), (t.suspended_at IS NOT NULL)::boolean AS suspended
FROM users u JOIN tenants t ON t.id = u.tenant_id WHERE u.id = @id;

-- name: OAuthGrantOf :one
SELECT * FROM oauth_grants WHERE tenant_id = @tenant_id AND user_id = @user_id AND client_id = @client_id;

-- OAuthGive widens what a user lets a client do.
-- name: OAuthGive :one
INSERT INTO oauth_grants (tenant_id, id, user_id, client_id, scopes, granted_at)
VALUES (@tenant_id, @id, @user_id, @client_id, @scopes, @now)
ON CONFLICT (tenant_id, user_id, client_id) DO UPDATE
SET scopes = (SELECT array_agg(DISTINCT s ORDER BY s) FROM unnest(oauth_grants.scopes || excluded.scopes) s), granted_at = excluded.granted_at
RETURNING *;

-- name: OAuthGrantUsed :exec
UPDATE oauth_grants SET last_used_at = @now
WHERE tenant_id = @tenant_id AND user_id = @user_id AND client_id = @client_id AND (last_used_at IS NULL OR last_used_at < @before);

-- name: OAuthFamilyBegin :exec
INSERT INTO oauth_families (tenant_id, id, user_id, client_id, scopes, request, began_at, good_until)
VALUES (@tenant_id, @id, @user_id, @client_id, @scopes, @request, @began_at, @good_until);

-- name: OAuthFamily :one
SELECT * FROM oauth_families WHERE id = @id;

-- OAuthFamilyGoodUntil says until when something that came of a family may be good.
-- name: OAuthFamilyGoodUntil :execrows
UPDATE oauth_families SET good_until = greatest(good_until, @good_until) WHERE id = @id AND ended_at IS NULL;

-- OAuthFamilyEnd ends a family, once. With it end its access tokens.
-- name: OAuthFamilyEnd :execrows
UPDATE oauth_families SET ended_at = @now, ended_for = @ended_for WHERE id = @id AND ended_at IS NULL;

-- name: OAuthCodeAdd :exec
INSERT INTO oauth_codes (tenant_id, hash, family_id, expires_at) VALUES (@tenant_id, @hash, @family_id, @expires_at);

-- name: OAuthCode :one
SELECT sqlc.embed(c), sqlc.embed(f) FROM oauth_codes c JOIN oauth_families f ON f.id = c.family_id WHERE c.hash = @hash;

-- OAuthCodeUse uses a code, if nobody has.
-- name: OAuthCodeUse :execrows
UPDATE oauth_codes SET used_at = @now WHERE hash = @hash AND used_at IS NULL;

-- name: OAuthRefreshAdd :exec
INSERT INTO oauth_refresh_tokens (tenant_id, hash, family_id, issued_at, expires_at)
VALUES (@tenant_id, @hash, @family_id, @issued_at, @expires_at);

-- name: OAuthRefresh :one
SELECT sqlc.embed(r), sqlc.embed(f) FROM oauth_refresh_tokens r JOIN oauth_families f ON f.id = r.family_id WHERE r.hash = @hash;

-- OAuthRefreshUse uses a refresh token, if nobody has.
-- name: OAuthRefreshUse :execrows
UPDATE oauth_refresh_tokens SET used_at = @now WHERE hash = @hash AND used_at IS NULL;

-- OAuthAssertionTake takes an assertion, if it wasn't before.
-- name: OAuthAssertionTake :execrows
INSERT INTO oauth_assertions (client_id, jti_hash, expires_at) VALUES (@client_id, @jti_hash, @expires_at) ON CONFLICT DO NOTHING;

-- OAuthRevokeToken ends one access token by its jti.
-- name: OAuthRevokeToken :exec
INSERT INTO oauth_revocations (what, until) VALUES (@what, @until) ON CONFLICT DO NOTHING;

-- What has been over for a day is forgotten.
-- name: OAuthForgetFamilies :execrows
DELETE FROM oauth_families WHERE (tenant_id, id) IN (
  SELECT f.tenant_id, f.id FROM oauth_families f WHERE f.good_until < @before LIMIT @page);

-- name: OAuthForgetAssertions :execrows
DELETE FROM oauth_assertions WHERE (client_id, jti_hash) IN (
  SELECT a.client_id, a.jti_hash FROM oauth_assertions a WHERE a.expires_at < @before LIMIT @page);

-- name: OAuthForgetRevocations :execrows
DELETE FROM oauth_revocations WHERE what IN (SELECT r.what FROM oauth_revocations r WHERE r.until < @before LIMIT @page);
