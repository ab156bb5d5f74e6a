-- The audit: what somebody changed, and who listened. Changes of audited tables write their rows by themselves (migration 0011).

-- name: AuditInsert :exec
INSERT INTO audit (tenant_id, id, at, actor, role, action, object_id, call_id, agent_id, mode, remote_addr, request_id, details)
VALUES (@tenant_id, @id, @at, @actor, sqlc.narg('role'), @action, sqlc.narg('object_id'), sqlc.narg('call_id'), sqlc.narg('agent_id'),
  sqlc.narg('mode'), sqlc.narg('remote_addr'), sqlc.narg('request_id'), sqlc.narg('details'));

-- AuditList pages through a tenant's audit, newest first, from one id (exclusive) back to a time's first id.
-- name: AuditList :many
SELECT * FROM audit WHERE tenant_id = @tenant_id AND id < @before AND id >= @since ORDER BY id DESC LIMIT @page_limit;

-- AuditForget takes up to a batch of the oldest rows.
-- name: AuditForget :execrows
DELETE FROM audit a WHERE a.ctid = ANY(ARRAY(
  SELECT o.ctid FROM audit o WHERE o.at < @written_before::timestamptz ORDER BY o.at LIMIT @batch::int));
