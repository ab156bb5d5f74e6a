-- Credentials as a request shows them. A request names no tenant but its credential, so these look-ups need the system's scope.

-- name: FindAPIKeyByHash :one
SELECT sqlc.embed(k), (t.suspended_at IS NOT NULL)::boolean AS suspended
FROM api_keys k JOIN tenants t ON t.id = k.tenant_id WHERE k.key_hash = @key_hash;

-- name: FindCallbackToken :one
SELECT sqlc.embed(c), (t.suspended_at IS NOT NULL)::boolean AS suspended
FROM callback_tokens c JOIN tenants t ON t.id = c.tenant_id WHERE c.jti_hash = @jti_hash;

-- name: FindSessionUser :one
SELECT sqlc.embed(u), (t.suspended_at IS NOT NULL)::boolean AS suspended
FROM users u JOIN tenants t ON t.id = u.tenant_id WHERE u.tenant_id = @tenant_id AND u.id = @id;

-- name: SignInFailures :one
SELECT failures, since FROM sign_in_failures WHERE email_hash = @email_hash AND since > @begins_after::timestamptz;

-- SignInFailed counts a failure; one after the window of those before begins the next.
-- name: SignInFailed :one
INSERT INTO sign_in_failures AS f (email_hash, since, failures) VALUES (@email_hash, @at::timestamptz, 1)
ON CONFLICT (email_hash) DO UPDATE SET
  since = CASE WHEN f.since > @begins_after::timestamptz THEN f.since ELSE excluded.since END,
  failures = CASE WHEN f.since > @begins_after::timestamptz THEN f.failures + 1 ELSE 1 END
RETURNING failures;

-- SignedInFrom tells whether a user has signed in from a network since the time of an id.
-- name: SignedInFrom :one
SELECT EXISTS (SELECT FROM audit WHERE tenant_id = @tenant_id AND actor = @actor AND id > @since AND action = 'user.signed_in'
  AND details ->> 'network' = @network::text);

-- name: SignInFailuresForget :execrows
DELETE FROM sign_in_failures WHERE since < @begun_before::timestamptz;

-- EndSessions ends a user's sessions, on every host.
-- name: EndSessions :execrows
UPDATE users SET session_epoch = session_epoch + 1, updated_at = now() WHERE tenant_id = @tenant_id AND id = @id;

-- TouchAPIKeys notes when keys were last used, many at a time.
-- name: TouchAPIKeys :exec
UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, u.at)
FROM (SELECT unnest(@tenant_ids::uuid[]) AS tenant_id, unnest(@ids::uuid[]) AS id, unnest(@ats::timestamptz[]) AS at) u
WHERE k.tenant_id = u.tenant_id AND k.id = u.id;

-- LeaseRequests gives a controller some of a key's requests of this minute, which begins with the first lease after the one before. used are those
-- that it has let through already without a lease.
-- name: LeaseRequests :one
INSERT INTO request_windows AS w (tenant_id, key_id, opened_at, leased, last_lease)
VALUES (@tenant_id, @key_id, clock_timestamp(), request_lease(@per_minute, 0, @used), request_lease(@per_minute, 0, @used))
ON CONFLICT (tenant_id, key_id) DO UPDATE SET
  opened_at = CASE WHEN same_minute(w.opened_at, excluded.opened_at) THEN w.opened_at ELSE excluded.opened_at END,
  leased = CASE WHEN same_minute(w.opened_at, excluded.opened_at) THEN w.leased + request_lease(@per_minute, w.leased, @used)
    ELSE excluded.leased END,
  last_lease = CASE WHEN same_minute(w.opened_at, excluded.opened_at) THEN request_lease(@per_minute, w.leased, @used)
    ELSE excluded.leased END
RETURNING opened_at, leased, last_lease, (extract(epoch FROM opened_at - clock_timestamp()) * 1000 + 60000)::bigint AS left_ms;
