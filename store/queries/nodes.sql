-- Controllers, one per switch host.

-- name: NodeStart :exec
INSERT INTO nodes (id, started_at, last_seen_at) VALUES (@id, @at::timestamptz, @at::timestamptz)
ON CONFLICT (id) DO UPDATE SET started_at = excluded.started_at, last_seen_at = excluded.last_seen_at;

-- name: NodeSeen :exec
UPDATE nodes SET last_seen_at = @at::timestamptz, switch_core_uuid = coalesce(sqlc.narg('switch_core_uuid'), switch_core_uuid)
WHERE id = @id;

-- name: NodeGet :one
SELECT * FROM nodes WHERE id = @id;
