-- Flows, as a call that takes one reads them.

-- name: FlowGet :one
SELECT * FROM flows WHERE tenant_id = @tenant_id AND id = @id;

-- FlowVersion is what a flow that was read before is asked for.
-- name: FlowVersion :one
SELECT version FROM flows WHERE tenant_id = @tenant_id AND id = @id;

-- name: FlowExists :one
SELECT EXISTS (SELECT 1 FROM flows WHERE tenant_id = @tenant_id AND id = @id);

-- name: FlowInsert :one
INSERT INTO flows (tenant_id, id, name, nodes) VALUES (@tenant_id, @id, @name, @nodes) RETURNING *;

-- FlowOfNumber finds the flow of the number that an inbound call came in on.
-- name: FlowOfNumber :one
SELECT f.* FROM flows f JOIN numbers n ON n.tenant_id = f.tenant_id AND n.flow_id = f.id
WHERE n.tenant_id = @tenant_id AND n.e164 = @e164;

-- FlowIDs gives the flows by their names, which FlowsByID reads some at a time: their nodes are large.
-- name: FlowIDs :many
SELECT id FROM flows WHERE tenant_id = @tenant_id ORDER BY lower(name), id;

-- name: FlowsByID :many
SELECT * FROM flows WHERE tenant_id = @tenant_id AND id = ANY(@ids::uuid[]) ORDER BY lower(name), id;

-- name: FlowCount :one
SELECT count(*) FROM flows WHERE tenant_id = @tenant_id;

-- name: FlowLock :one
SELECT * FROM flows WHERE tenant_id = @tenant_id AND id = @id FOR UPDATE;

-- name: FlowUpdate :one
UPDATE flows SET name = @name, nodes = @nodes, version = version + 1, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- name: FlowDelete :execrows
DELETE FROM flows WHERE tenant_id = @tenant_id AND id = @id;

-- FlowHold keeps a flow from being changed or deleted until the transaction ends.
-- name: FlowHold :execrows
SELECT FROM flows WHERE tenant_id = @tenant_id AND id = @id FOR SHARE;

-- FlowUse tells what names a flow: a number, a campaign that may still run it, or a single call that rings or runs it.
-- name: FlowUse :one
SELECT (SELECT count(*) FROM numbers n WHERE n.tenant_id = @tenant_id AND n.flow_id = @id::uuid) AS numbers,
       (SELECT count(*) FROM campaigns c
        WHERE c.tenant_id = @tenant_id AND c.flow_id = @id::uuid AND c.status <> 'completed'
          AND c.deleted_at IS NULL) AS campaigns,
       (SELECT count(*) FROM live_calls u JOIN calls c ON c.tenant_id = u.tenant_id AND c.id = u.call_id
        WHERE u.tenant_id = @tenant_id AND c.flow_id = @id::uuid) AS calls;

-- name: FlowVersionAdd :exec
INSERT INTO flow_versions (tenant_id, flow_id, version, nodes) VALUES (@tenant_id, @flow_id, @version, @nodes);

-- name: FlowVersionDrop :execrows
DELETE FROM flow_versions v WHERE v.tenant_id = @tenant_id AND v.flow_id = @flow_id AND v.version < @below
  AND NOT EXISTS (SELECT 1 FROM flow_runs r
                  WHERE r.tenant_id = v.tenant_id AND r.flow_id = v.flow_id AND r.version = v.version AND r.ended_at IS NULL);

-- name: FlowVersionGet :one
SELECT * FROM flow_versions WHERE tenant_id = @tenant_id AND flow_id = @flow_id AND version = @version;

-- FlowRunBegin gives the run of a call that had begun it before a restart, or a new one.
-- name: FlowRunBegin :one
INSERT INTO flow_runs AS r (tenant_id, call_id, flow_id, version) VALUES (@tenant_id, @call_id, @flow_id, @version)
ON CONFLICT (tenant_id, call_id, flow_id) DO UPDATE SET call_id = r.call_id
RETURNING *;

-- FlowRunOpen is the run of a call that a restart has cut off.
-- name: FlowRunOpen :one
SELECT * FROM flow_runs WHERE tenant_id = @tenant_id AND call_id = @call_id AND ended_at IS NULL ORDER BY started_at DESC LIMIT 1;

-- FlowRunKeep appends the steps that follow the first @kept; those that the trace has already are left out, since a commit may be repeated.
-- name: FlowRunKeep :exec
UPDATE flow_runs SET state = @state, trace = trace || coalesce((SELECT jsonb_agg(s.step ORDER BY s.n)
  FROM jsonb_array_elements(@steps::jsonb) WITH ORDINALITY s(step, n) WHERE s.n + @kept::int > jsonb_array_length(trace)), '[]')
WHERE tenant_id = @tenant_id AND call_id = @call_id AND flow_id = @flow_id AND ended_at IS NULL;

-- name: FlowRunEnd :exec
UPDATE flow_runs SET state = '{}', outcome = @outcome::text, error = sqlc.narg('error'), ended_at = @ended_at::timestamptz,
  trace = trace || coalesce((SELECT jsonb_agg(s.step ORDER BY s.n)
    FROM jsonb_array_elements(@steps::jsonb) WITH ORDINALITY s(step, n) WHERE s.n + @kept::int > jsonb_array_length(trace)), '[]')
WHERE tenant_id = @tenant_id AND call_id = @call_id AND flow_id = @flow_id AND ended_at IS NULL;

-- CallHadFlow tells whether a flow has run on a call.
-- name: CallHadFlow :one
SELECT EXISTS (SELECT FROM flow_runs WHERE tenant_id = @tenant_id AND call_id = @call_id);

-- FlowSecretsAdd keeps what a version's nodes show masked.
-- name: FlowSecretsAdd :exec
INSERT INTO flow_secrets (tenant_id, id, flow_id, version, secrets_sealed) VALUES (@tenant_id, @id, @flow_id, @version, @secrets_sealed);

-- name: FlowSecrets :one
SELECT * FROM flow_secrets WHERE tenant_id = @tenant_id AND flow_id = @flow_id AND version = @version;

-- FlowVersionsUnsealed are those of all tenants whose requests may have credentials in clear, from before these were sealed.
-- name: FlowVersionsUnsealed :many
SELECT * FROM flow_versions v
WHERE (v.tenant_id, v.flow_id, v.version) > (@tenant_id::uuid, @flow_id::uuid, @version::int) AND v.nodes @> '[{"type": "http_request"}]'
  AND NOT EXISTS (SELECT FROM flow_secrets s WHERE s.tenant_id = v.tenant_id AND s.flow_id = v.flow_id AND s.version = v.version)
ORDER BY v.tenant_id, v.flow_id, v.version LIMIT @batch FOR UPDATE SKIP LOCKED;

-- FlowVersionMask puts masks into a version's nodes, and into the flow's own when it is the newest.
-- name: FlowVersionMask :exec
WITH version AS (
  UPDATE flow_versions v SET nodes = @nodes WHERE v.tenant_id = @tenant_id AND v.flow_id = @flow_id AND v.version = @version
)
UPDATE flows f SET nodes = @nodes WHERE f.tenant_id = @tenant_id AND f.id = @flow_id AND f.version = @version;
