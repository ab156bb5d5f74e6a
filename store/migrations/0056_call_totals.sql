-- The totals of lists cost the same however many campaigns and dispositions there have been; rows of no call go; counting anew waits its turn.
-- +goose Up

-- Calls that have ended, whatever their disposition: as call_counts, with a row for the highest UUID beside that of the campaign, which stands
-- for any campaign and none. Dispositions may be as many as calls, when a voice agent makes them up.
CREATE TABLE call_totals (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  agent_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  direction text NOT NULL,
  status text NOT NULL,
  n bigint NOT NULL,
  PRIMARY KEY (tenant_id, agent_id, campaign_id, direction, status)
);
SELECT protect_tenant_rows('call_totals');

-- Whoever calls one of the functions below has, or takes, the lock of who folds, until the transaction ends.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION total_calls() RETURNS void LANGUAGE sql AS $$
  DELETE FROM call_totals;
  INSERT INTO call_totals (tenant_id, agent_id, campaign_id, direction, status, n)
  SELECT c.tenant_id, c.agent_id, g.id, c.direction, c.status, sum(c.n)::bigint
  FROM call_counts c CROSS JOIN LATERAL (VALUES (c.campaign_id), ('ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)) g (id)
  GROUP BY 1, 2, 3, 4, 5 HAVING sum(c.n) <> 0;
$$;
-- +goose StatementEnd

-- fold_call_deltas moves up to a batch of changes into the counts and totals, and tells how many it took. Those of a tenant that is gone go
-- nowhere.
-- +goose StatementBegin
CREATE FUNCTION fold_call_deltas(batch int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  taken call_deltas[];
BEGIN
  WITH gone AS (
    DELETE FROM call_deltas d WHERE d.ctid = ANY(ARRAY(SELECT e.ctid FROM call_deltas e LIMIT batch)) RETURNING d.*
  )
  SELECT array_agg(ROW(g.*)::call_deltas) INTO taken FROM gone g;

  MERGE INTO call_counts c USING (
    SELECT t.tenant_id, t.agent_id, t.campaign_id, t.direction, t.status, t.disposition, sum(t.n)::bigint AS n
    FROM unnest(taken) t WHERE EXISTS (SELECT FROM tenants o WHERE o.id = t.tenant_id)
    GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(t.n) <> 0
  ) s ON c.tenant_id = s.tenant_id AND c.agent_id = s.agent_id AND c.disposition = s.disposition AND c.campaign_id = s.campaign_id
    AND c.direction = s.direction AND c.status = s.status
  WHEN MATCHED AND c.n + s.n = 0 THEN DELETE
  WHEN MATCHED THEN UPDATE SET n = c.n + s.n
  WHEN NOT MATCHED THEN INSERT (tenant_id, agent_id, campaign_id, direction, status, disposition, n)
    VALUES (s.tenant_id, s.agent_id, s.campaign_id, s.direction, s.status, s.disposition, s.n);

  MERGE INTO call_totals c USING (
    SELECT t.tenant_id, t.agent_id, g.id AS campaign_id, t.direction, t.status, sum(t.n)::bigint AS n
    FROM unnest(taken) t CROSS JOIN LATERAL (VALUES (t.campaign_id), ('ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)) g (id)
    WHERE EXISTS (SELECT FROM tenants o WHERE o.id = t.tenant_id)
    GROUP BY 1, 2, 3, 4, 5 HAVING sum(t.n) <> 0
  ) s ON c.tenant_id = s.tenant_id AND c.agent_id = s.agent_id AND c.campaign_id = s.campaign_id AND c.direction = s.direction
    AND c.status = s.status
  WHEN MATCHED AND c.n + s.n = 0 THEN DELETE
  WHEN MATCHED THEN UPDATE SET n = c.n + s.n
  WHEN NOT MATCHED THEN INSERT (tenant_id, agent_id, campaign_id, direction, status, n)
    VALUES (s.tenant_id, s.agent_id, s.campaign_id, s.direction, s.status, s.n);

  RETURN coalesce(cardinality(taken), 0);
END
$$;
-- +goose StatementEnd

-- recount_calls is as in migration 0052, and waits for who counts or folds: two at a time would each add what the counts lack. Its second
-- statement sees what was committed before it had the lock.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION recount_calls() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('ringmaster.campaign_counts', 0));
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
  GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(f.n) <> 0;
  PERFORM total_calls();
END
$$;
-- +goose StatementEnd

SELECT set_config('app.system', 'on', true);
SELECT pg_advisory_xact_lock(hashtextextended('ringmaster.campaign_counts', 0));
DELETE FROM call_counts WHERE n = 0;
SELECT total_calls();

-- Who counts by call_counts asks for a disposition.
ALTER TABLE call_counts DROP CONSTRAINT call_counts_pkey;
ALTER TABLE call_counts ADD PRIMARY KEY (tenant_id, agent_id, disposition, campaign_id, direction, status);

-- +goose Down
-- recount_calls stays, without totals.
DROP FUNCTION fold_call_deltas(int);
DROP TABLE call_totals;
CREATE OR REPLACE FUNCTION total_calls() RETURNS void LANGUAGE plpgsql AS 'BEGIN END';
