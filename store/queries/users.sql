-- Signing in: the address alone names the user, so the look-up needs the system's scope.

-- name: FindUserByEmail :one
SELECT * FROM users WHERE email = lower(@email::text);
