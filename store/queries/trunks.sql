-- name: CreateTrunk :one
INSERT INTO trunks (tenant_id, id, name, host, port, transport, username, password_sealed, register, number_format, max_channels,
  cps, priority, media_mode, is_active)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) RETURNING *;

-- name: ListTrunks :many
SELECT * FROM trunks WHERE tenant_id = @tenant_id ORDER BY priority, name;

-- name: ListActiveTrunks :many
SELECT * FROM trunks WHERE tenant_id = @tenant_id AND is_active ORDER BY priority, name;

-- name: GetTrunk :one
SELECT * FROM trunks WHERE tenant_id = @tenant_id AND id = @id;

-- name: CreateNumber :one
INSERT INTO numbers (tenant_id, id, e164, label, flow_id, trunk_id, is_active) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *;

-- name: ListNumbers :many
SELECT * FROM numbers WHERE tenant_id = @tenant_id ORDER BY e164;

-- name: ListActiveNumbers :many
SELECT * FROM numbers WHERE tenant_id = @tenant_id AND is_active ORDER BY e164;

-- FindNumber looks an inbound number up over all tenants: it needs the system's scope.
-- name: FindNumber :one
SELECT * FROM numbers WHERE e164 = @e164 AND is_active;

-- TrunkBypass tells whether calls of a trunk are taken into bypass.
-- name: TrunkBypass :one
SELECT (media_mode = 'bypass' AND bypass_failed_at IS NULL)::boolean AS bypass FROM trunks WHERE tenant_id = @tenant_id AND id = @id;

-- TrunkBypassProven sets the flag that a probe has earned.
-- name: TrunkBypassProven :execrows
UPDATE trunks SET media_mode = 'bypass', bypass_proven_at = @at::timestamptz, bypass_failed_at = NULL, bypass_failure = NULL,
  updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id;

-- TrunkBypassFailed takes a trunk out of bypass; the first failure is kept.
-- name: TrunkBypassFailed :execrows
UPDATE trunks SET bypass_failed_at = @at::timestamptz, bypass_failure = @failure::text, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id AND bypass_failed_at IS NULL;
