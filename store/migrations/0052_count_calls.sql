-- The calls of before the counts are counted.
-- +goose Up

-- recount_calls adds what the counts lack, or takes off what they have too many of: one statement sees calls and counts as of one moment, so
-- that calls may go on meanwhile. Who drops a partition of calls, or deletes calls by hand, calls it in the system's scope.
-- +goose StatementBegin
CREATE FUNCTION recount_calls() RETURNS void LANGUAGE sql AS $$
  INSERT INTO call_deltas (tenant_id, agent_id, campaign_id, direction, status, disposition, n)
  SELECT f.tenant_id, f.agent_id, f.campaign_id, f.direction, f.status, f.disposition, sum(f.n) FROM (
    SELECT c.tenant_id, a.id AS agent_id, coalesce(c.campaign_id, '00000000-0000-0000-0000-000000000000') AS campaign_id, c.direction, c.status,
      coalesce(c.disposition, '') AS disposition, count(*) AS n
    FROM calls c CROSS JOIN LATERAL (VALUES ('00000000-0000-0000-0000-000000000000'::uuid), (c.agent_id)) a (id)
    WHERE c.end_time IS NOT NULL AND a.id IS NOT NULL
    GROUP BY 1, 2, 3, 4, 5, 6
    UNION ALL
    SELECT tenant_id, agent_id, campaign_id, direction, status, disposition, -n FROM call_counts
    UNION ALL
    SELECT tenant_id, agent_id, campaign_id, direction, status, disposition, -n FROM call_deltas
  ) f
  GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(f.n) <> 0
$$;
-- +goose StatementEnd

-- One statement reads all calls: some minutes for each ten million. Calls go on meanwhile; the counts lack those of before until it is done.
SELECT set_config('app.system', 'on', true);
SELECT recount_calls();

-- +goose Down
DROP FUNCTION recount_calls();
