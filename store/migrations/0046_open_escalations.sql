-- A call has one open request for a supervisor.
-- +goose Up

-- How urgent a voice agent's word is: the smallest first. Words of its own are as urgent as "normal".
CREATE FUNCTION urgency_rank(urgency text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN urgency IN ('critical', 'urgent', 'emergency') THEN 0 WHEN urgency = 'high' THEN 1 WHEN urgency = 'low' THEN 3 ELSE 2 END
$$;

-- Of the requests of before that nobody has claimed the newest stands, but for one that a supervisor is about to take.
SELECT set_config('app.system', 'on', true);
DELETE FROM escalations e USING (
  SELECT tenant_id, id, row_number() OVER (PARTITION BY tenant_id, call_id ORDER BY claim_id IS NULL, id DESC) AS n
  FROM escalations WHERE claimed_at IS NULL
) d WHERE d.n > 1 AND e.tenant_id = d.tenant_id AND e.id = d.id;
CREATE UNIQUE INDEX escalations_one_open ON escalations (tenant_id, call_id) WHERE claimed_at IS NULL;

-- +goose Down
DROP INDEX escalations_one_open;
DROP FUNCTION urgency_rank;
