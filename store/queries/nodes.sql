-- Controllers, one per switch host.

-- NodeStart also says that the node finds open calls by their units (migration 0097), and reads short events (0101).
-- name: NodeStart :exec
INSERT INTO nodes (id, started_at, units_since, short_since, last_seen_at, peer_addr, peer_key)
VALUES (@id, @at::timestamptz, @at::timestamptz, @at::timestamptz, @at::timestamptz, @peer_addr, sqlc.narg('peer_key'))
ON CONFLICT (id) DO UPDATE SET started_at = excluded.started_at, units_since = excluded.units_since, short_since = excluded.short_since,
  last_seen_at = excluded.last_seen_at, lost_at = NULL,
  peer_addr = excluded.peer_addr, peer_key = excluded.peer_key;

-- name: NodeSeen :exec
UPDATE nodes SET last_seen_at = @at::timestamptz, switch_core_uuid = coalesce(sqlc.narg('switch_core_uuid'), switch_core_uuid)
WHERE id = @id;

-- NodeBeat is a node's sign of life, and its switch's if it has that in sight, by the switch's clock. It takes the mark of a lost one off, and tells
-- whether it stood, and whether all nodes read short events: a lost one of the version before may be back for a day.
-- name: NodeBeat :one
WITH before AS (SELECT id, lost_at FROM nodes b WHERE b.id = @id FOR UPDATE)
UPDATE nodes n SET last_seen_at = @at::timestamptz, lost_at = NULL,
  switch_seen_at = coalesce(sqlc.narg('switch_seen_at')::timestamptz, n.switch_seen_at) FROM before WHERE n.id = before.id
RETURNING (before.lost_at IS NOT NULL)::bool AS was_lost, (NOT EXISTS (SELECT FROM nodes o WHERE o.short_since IS DISTINCT FROM o.started_at
  AND (o.lost_at IS NULL OR o.lost_at > now() - interval '1 day')))::bool AS short_events;

-- name: NodeGet :one
SELECT * FROM nodes WHERE id = @id;

-- name: NodesOther :many
SELECT id, last_seen_at, lost_at FROM nodes WHERE id <> @id;

-- NodeMarkLost marks a node that still was not seen since.
-- name: NodeMarkLost :execrows
UPDATE nodes SET lost_at = now() WHERE id = @id AND last_seen_at = @last_seen_at::timestamptz AND lost_at IS NULL;

-- NodeHoldLost keeps a lost node's mark until the transaction ends. No row: it is back.
-- name: NodeHoldLost :one
SELECT id FROM nodes WHERE id = @id AND lost_at IS NOT NULL FOR SHARE;

-- CallsOfLostNodes lists open calls of lost nodes, and when each of them is known to have lived last: when its node had its switch in
-- sight, or what the call itself tells. That is by the switch's clock for a call that was answered by it, since its length counts from there: what
-- was written by the controller's is earlier by as much as that was ahead, which the node's last sign tells unless it was without its switch.
-- name: CallsOfLostNodes :many
SELECT sqlc.embed(c), greatest(coalesce(n.switch_seen_at, n.last_seen_at), c.ring_time, c.answer_time, c.agent_connect_time,
  CASE WHEN c.answer_time IS NULL THEN greatest(c.created_at, c.dial_time) END,
  greatest(c.queued_at, (SELECT max(s.started_at) FROM ai_sessions s WHERE s.tenant_id = c.tenant_id AND s.call_id = c.id))
    - CASE WHEN c.answer_time IS NULL THEN interval '0' ELSE coalesce(n.last_seen_at - n.switch_seen_at, interval '0') END
  )::timestamptz AS lived_until
FROM nodes n JOIN live_calls u ON u.node = n.id AND u.kind <> 'transfer' JOIN calls c ON c.tenant_id = u.tenant_id AND c.id = u.call_id
WHERE n.lost_at IS NOT NULL AND n.id <> @node AND c.end_time IS NULL AND c.created_at < n.lost_at AND c.id > @after
ORDER BY c.id LIMIT @batch;

-- NodesForget drops the rows of other nodes that have been lost since before a moment and have no open call: nobody expects them back.
-- name: NodesForget :execrows
DELETE FROM nodes n WHERE n.id <> @node AND n.lost_at < now() - make_interval(secs => @older_than_s)
  AND NOT EXISTS (SELECT FROM live_calls u WHERE u.node = n.id);

-- NodeIsPeer tells whether a certificate is that of a controller that isn't lost.
-- name: NodeIsPeer :one
SELECT EXISTS (SELECT FROM nodes WHERE peer_key = @peer_key::bytea AND lost_at IS NULL);

-- NodeOfCall is the controller that has an open call.
-- name: NodeOfCall :one
SELECT node FROM calls WHERE tenant_id = @tenant_id AND id = @id AND end_time IS NULL;

-- NodeOfEscalation is the controller that has the call of an escalation, while it is open.
-- name: NodeOfEscalation :one
SELECT c.node FROM escalations e JOIN calls c ON c.tenant_id = e.tenant_id AND c.id = e.call_id
WHERE e.tenant_id = @tenant_id AND e.id = @id AND c.end_time IS NULL;

-- NodeOfSupervision is the controller that has the phone of a supervisor's session.
-- name: NodeOfSupervision :one
SELECT node FROM supervisor_sessions WHERE tenant_id = @tenant_id AND id = @id AND ended_at IS NULL;

-- NodeOfAgent is the controller that has the phone of an agent who is logged in.
-- name: NodeOfAgent :one
SELECT node, current_call_id FROM agents WHERE tenant_id = @tenant_id AND id = @id AND status <> 'offline';
