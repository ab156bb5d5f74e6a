-- Signing in: the address alone names the user, so the look-up needs the system's scope.

-- name: FindUserByEmail :one
SELECT * FROM users WHERE email = lower(@email::text);

-- name: FindSIPAccount :one
-- An extension names its user in the switch's directory, whichever the tenant: the look-up needs the system's scope.
SELECT u.tenant_id, u.id, u.role, u.display_name, coalesce(a.sip_epoch, 0)::bigint AS sip_epoch
FROM users u LEFT JOIN agents a ON a.tenant_id = u.tenant_id AND a.id = u.id
WHERE u.extension = @extension::text AND u.is_active;
