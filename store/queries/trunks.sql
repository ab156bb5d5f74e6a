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
SELECT n.* FROM numbers n JOIN tenants t ON t.id = n.tenant_id WHERE n.e164 = @e164 AND n.is_active AND t.suspended_at IS NULL;

-- NumberTrunks gives the hosts of the trunk that a number belongs to, or of all of its tenant's where it belongs to none, active or not.
-- name: NumberTrunks :many
SELECT host FROM trunks WHERE tenant_id = @tenant_id AND (id = sqlc.narg('trunk_id')::uuid OR sqlc.narg('trunk_id')::uuid IS NULL);

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

-- TrunkHealth locks a trunk's health against others who write it, not against calls that begin.
-- name: TrunkHealth :one
SELECT * FROM trunks WHERE tenant_id = @tenant_id AND id = @id FOR NO KEY UPDATE;

-- TrunkFailed writes that a trunk, which is locked, has failed again.
-- name: TrunkFailed :exec
UPDATE trunks SET failures = @failures, failing_since = @failing_since::timestamptz, failure = @failure::text, rests = @rests,
  rests_until = sqlc.narg('rests_until'), probe = sqlc.narg('probe')
WHERE tenant_id = @tenant_id AND id = @id;

-- TrunkAlive notes a sign of life. It changes nothing, and locks nothing, where all is well; a row tells whether the trunk had rested.
-- name: TrunkAlive :many
UPDATE trunks t SET failures = 0, failing_since = NULL, failure = NULL, rests = 0, rests_until = NULL, probe = NULL,
  heard_at = coalesce(t.heard_at, @at::timestamptz),
  rang_at = CASE WHEN @rang::bool THEN coalesce(t.rang_at, @at::timestamptz) ELSE t.rang_at END
FROM (
  SELECT k.id, k.rests > 0 AS rested FROM trunks k
  WHERE k.tenant_id = @tenant_id AND k.id = @id
    AND (k.failures > 0 AND k.failing_since <= @at::timestamptz
      OR k.failures = 0 AND (k.heard_at IS NULL OR @rang::bool AND k.rang_at IS NULL))
  FOR NO KEY UPDATE
) b
WHERE t.tenant_id = @tenant_id AND t.id = b.id
RETURNING b.rested::bool AS rested;

-- TrunkProbed has one call try a trunk whose rest is over; no other does until its fate is known, or for so long.
-- name: TrunkProbed :exec
UPDATE trunks SET probe = @call_id::uuid, rests_until = @until::timestamptz WHERE tenant_id = @tenant_id AND id = @id AND rests > 0;

-- TrunkHosts lists the addresses of all tenants' trunks, active or not: it needs the system's scope.
-- name: TrunkHosts :many
SELECT host, port, bool_or(is_active)::boolean AS is_active FROM trunks GROUP BY host, port;
