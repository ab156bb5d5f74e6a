-- The keys that sign OAuth's tokens, and what of these was revoked. Both are the installation's, no tenant's.

-- name: SealedOAuthKeys :many
SELECT id, private_sealed AS sealed FROM oauth_signing_keys WHERE id > @after ORDER BY id LIMIT @page;

-- name: ResealOAuthKeys :execrows
UPDATE oauth_signing_keys SET private_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE oauth_signing_keys.id = v.id AND oauth_signing_keys.private_sealed = v.was;

-- LockOAuthKeys makes whoever changes the keys wait for its turn.
-- name: LockOAuthKeys :exec
SELECT pg_advisory_xact_lock(hashtext('ringmaster oauth_signing_keys'));

-- ListOAuthKeys gives the keys in the order in which they sign.
-- name: ListOAuthKeys :many
SELECT * FROM oauth_signing_keys ORDER BY signs_at, created_at, id;

-- name: AddOAuthKey :exec
INSERT INTO oauth_signing_keys (id, private_sealed, public_der, created_at, signs_at)
VALUES (@id, @private_sealed, @public_der, @created_at, @signs_at);

-- EndOAuthKeys has the earlier keys verify no longer than until a time.
-- name: EndOAuthKeys :exec
UPDATE oauth_signing_keys SET ends_at = @ends_at WHERE id <> @newest AND (ends_at IS NULL OR ends_at > @ends_at);

-- name: ForgetOAuthKeys :exec
DELETE FROM oauth_signing_keys WHERE ends_at < @before;

-- TellOfOAuthKeys tells every controller to read the keys again.
-- name: TellOfOAuthKeys :exec
SELECT pg_notify('ringmaster_oauth', 'keys 0');

-- OAuthRevocations gives what was revoked of tokens that may still be good.
-- name: OAuthRevocations :many
SELECT what, until FROM oauth_revocations WHERE until > @now;

-- OAuthRevokedHere gives what this transaction has revoked.
-- name: OAuthRevokedHere :many
SELECT what, until FROM oauth_revocations WHERE xmin = pg_current_xact_id()::xid;
