-- Signing in: the address alone names the user, so the look-up needs the system's scope.

-- name: FindUserByEmail :one
SELECT sqlc.embed(u), (t.suspended_at IS NOT NULL)::boolean AS suspended
FROM users u JOIN tenants t ON t.id = u.tenant_id WHERE u.email = lower(@email::text);

-- SIPAccountOfManager begins a SIP account of a user who takes no calls; the password of the one before is void. No row comes
-- back for an agent, whose account comes with the login, or for a user who is not active or has no extension.
-- name: SIPAccountOfManager :one
INSERT INTO agents AS a (tenant_id, id, status, node, last_status_at, sip_epoch, sip_expires_at, sip_session_epoch)
SELECT u.tenant_id, u.id, 'offline', @node, @at::timestamptz, 1, @expires_at::timestamptz, u.session_epoch
FROM users u WHERE u.tenant_id = @tenant_id AND u.id = @id AND u.is_active AND u.role <> 'agent' AND u.extension IS NOT NULL
ON CONFLICT (tenant_id, id) DO UPDATE SET sip_epoch = a.sip_epoch + 1, sip_expires_at = excluded.sip_expires_at,
  sip_session_epoch = excluded.sip_session_epoch,
  node = CASE a.status WHEN 'offline' THEN excluded.node ELSE a.node END, version = a.version + 1
RETURNING *;

-- name: FindSIPAccount :one
-- An extension names its user in the switch's directory, whichever the tenant: the look-up needs the system's scope. Once the sessions have
-- ended that the account was given in, its epoch is one that nobody got a password of.
SELECT u.tenant_id, u.id, u.role, u.display_name,
  (CASE WHEN a.sip_session_epoch <> u.session_epoch THEN -1 - a.sip_epoch ELSE coalesce(a.sip_epoch, 0) END)::bigint AS sip_epoch
FROM users u LEFT JOIN agents a ON a.tenant_id = u.tenant_id AND a.id = u.id
WHERE u.extension = @extension::text AND u.is_active
  AND NOT EXISTS (SELECT FROM tenants t WHERE t.id = u.tenant_id AND t.suspended_at IS NOT NULL);
