-- Users, trunks and numbers as administrators edit them: a row is locked, changed as a whole and written back.

-- name: LockUser :one
SELECT * FROM users WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- UpdateUser ends the user's sessions when another password, address or role, or another is_active, is written.
-- name: UpdateUser :one
UPDATE users SET email = lower(@email::text), password_hash = @password_hash, display_name = @display_name, role = @role,
  extension = @extension, phone_mode = @phone_mode, is_active = @is_active, tags = @tags, permissions = @permissions, updated_at = now(),
  session_epoch = session_epoch + CASE
    WHEN (password_hash, email, role, is_active) IS DISTINCT FROM (@password_hash, lower(@email::text), @role, @is_active) THEN 1 ELSE 0 END
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- name: DeleteUser :execrows
DELETE FROM users WHERE tenant_id = @tenant_id AND id = @id;

-- UserOnCall locks the agent that a user is, and tells whether a call is theirs.
-- name: UserOnCall :one
SELECT status = 'on_call' AS on_call FROM agents WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- LockActiveAdmins keeps the tenant's active administrators as they are until the transaction ends.
-- name: LockActiveAdmins :many
SELECT id FROM users WHERE tenant_id = @tenant_id AND role = 'admin' AND is_active ORDER BY id FOR UPDATE;

-- name: LockTrunk :one
SELECT * FROM trunks WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- UpdateTrunk gives a trunk whose bypass has failed another chance when bypass is asked for again, and has one that rests be dialed
-- through at once.
-- name: UpdateTrunk :one
UPDATE trunks SET name = @name, host = @host, port = @port, transport = @transport, username = @username,
  password_sealed = @password_sealed, register = @register, number_format = @number_format, max_channels = @max_channels,
  cps = @cps, priority = @priority, media_mode = @media_mode, is_active = @is_active,
  bypass_failed_at = CASE WHEN @retry_bypass::bool THEN NULL ELSE bypass_failed_at END,
  bypass_failure = CASE WHEN @retry_bypass::bool THEN NULL ELSE bypass_failure END,
  failures = 0, failing_since = NULL, failure = NULL, rests = 0, rests_until = NULL, probe = NULL,
  heard_at = CASE WHEN host = @host AND port = @port THEN heard_at END, rang_at = CASE WHEN host = @host AND port = @port THEN rang_at END,
  updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- name: TrunkHasLiveCalls :one
SELECT EXISTS (SELECT 1 FROM live_calls WHERE tenant_id = @tenant_id AND trunk_id = @trunk_id::uuid);

-- name: DeleteTrunk :execrows
DELETE FROM trunks WHERE tenant_id = @tenant_id AND id = @id;

-- name: GetNumber :one
SELECT * FROM numbers WHERE tenant_id = @tenant_id AND id = @id;

-- name: LockNumber :one
SELECT * FROM numbers WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: UpdateNumber :one
UPDATE numbers SET e164 = @e164, label = @label, flow_id = @flow_id, trunk_id = @trunk_id, is_active = @is_active,
  updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- name: DeleteNumber :execrows
DELETE FROM numbers WHERE tenant_id = @tenant_id AND id = @id;
