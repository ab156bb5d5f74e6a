-- Flows, as a call that takes one reads them.

-- name: FlowGet :one
SELECT * FROM flows WHERE tenant_id = @tenant_id AND id = @id;

-- name: FlowExists :one
SELECT EXISTS (SELECT 1 FROM flows WHERE tenant_id = @tenant_id AND id = @id);

-- name: FlowInsert :one
INSERT INTO flows (tenant_id, id, name, nodes) VALUES (@tenant_id, @id, @name, @nodes) RETURNING *;

-- FlowOfNumber finds the flow of the number that an inbound call came in on.
-- name: FlowOfNumber :one
SELECT f.* FROM flows f JOIN numbers n ON n.tenant_id = f.tenant_id AND n.flow_id = f.id
WHERE n.tenant_id = @tenant_id AND n.e164 = @e164;
