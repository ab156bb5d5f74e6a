-- Signing in: the address alone names the user, so the look-up needs the system's scope.

-- name: FindUserByEmail :one
SELECT * FROM users WHERE email = lower(@email::text);

-- name: FindSIPAccount :one
-- An extension names its user in the switch's directory, whichever the tenant: the look-up needs the system's scope.
SELECT tenant_id, id, role, display_name, 0::bigint AS sip_epoch
FROM users WHERE extension = @extension::text AND is_active;
