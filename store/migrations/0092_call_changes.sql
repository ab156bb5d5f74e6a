-- A call's end is told in one row for the figures of its campaign and the counts of calls together: it was told in seven, of a figure or a count each.
-- What came of it is worked out by whoever folds or reads. Few rows stand here, for seconds: they need no index.
-- +goose Up

-- Nothing is counted here, so that no lock is kept for long: what was told before is folded as it is.
DROP TRIGGER calls_changed ON calls;
DROP TRIGGER calls_added ON calls;
DROP FUNCTION count_calls();

-- Calls that have ended, or have changed since, and are not folded yet: n is 1 for what a call is now, -1 for what it was. No foreign key, as with
-- campaign_deltas (migration 0010).
CREATE TABLE call_changes (
  tenant_id uuid NOT NULL,
  campaign_id uuid,
  agent_id uuid,
  queued_at timestamptz,
  answer_time timestamptz,
  agent_connect_time timestamptz,
  end_time timestamptz NOT NULL,
  n smallint NOT NULL,
  abandoned boolean NOT NULL,
  direction text NOT NULL,
  status text NOT NULL,
  hangup_cause text NOT NULL,
  disposition text,
  answered_by_amd text
);
-- All is read, whatever the statistics say: they would only be written anew each minute.
ALTER TABLE call_changes SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000000000);
SELECT protect_tenant_rows('call_changes');

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_ended_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.end_time IS NOT NULL THEN
    INSERT INTO call_changes (tenant_id, campaign_id, agent_id, queued_at, answer_time, agent_connect_time, end_time, n, abandoned, direction, status,
      hangup_cause, disposition, answered_by_amd)
    VALUES (OLD.tenant_id, OLD.campaign_id, OLD.agent_id, OLD.queued_at, OLD.answer_time, OLD.agent_connect_time, OLD.end_time, -1, OLD.abandoned, OLD.direction,
      OLD.status, OLD.hangup_cause, OLD.disposition, OLD.answered_by_amd);
  END IF;
  IF NEW.end_time IS NOT NULL THEN
    INSERT INTO call_changes (tenant_id, campaign_id, agent_id, queued_at, answer_time, agent_connect_time, end_time, n, abandoned, direction, status,
      hangup_cause, disposition, answered_by_amd)
    VALUES (NEW.tenant_id, NEW.campaign_id, NEW.agent_id, NEW.queued_at, NEW.answer_time, NEW.agent_connect_time, NEW.end_time, 1, NEW.abandoned, NEW.direction,
      NEW.status, NEW.hangup_cause, NEW.disposition, NEW.answered_by_amd);
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER calls_ended AFTER UPDATE ON calls
  FOR EACH ROW WHEN ((NEW.end_time IS NOT NULL OR OLD.end_time IS NOT NULL) AND
    ROW(OLD.status, OLD.hangup_cause, OLD.agent_id, OLD.campaign_id, OLD.direction, OLD.disposition, OLD.answered_by_amd, OLD.abandoned, OLD.queued_at,
      OLD.answer_time, OLD.agent_connect_time, OLD.end_time) IS DISTINCT FROM
    ROW(NEW.status, NEW.hangup_cause, NEW.agent_id, NEW.campaign_id, NEW.direction, NEW.disposition, NEW.answered_by_amd, NEW.abandoned, NEW.queued_at,
      NEW.answer_time, NEW.agent_connect_time, NEW.end_time)) EXECUTE FUNCTION count_ended_calls();

-- count_ended adds changes to the counts and totals of calls. Those of a tenant that is gone go nowhere.
-- +goose StatementBegin
CREATE FUNCTION count_ended(taken call_deltas[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
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
END
$$;
-- +goose StatementEnd

-- fold_call_changes moves up to a batch of calls' changes into the figures of their campaigns, and into the counts and totals of calls, and tells how
-- many it took. Figures of minutes before old go to no minute in particular, those of a campaign that is gone nowhere.
-- +goose StatementBegin
CREATE FUNCTION fold_call_changes(batch int, old timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  taken call_changes[];
BEGIN
  WITH gone AS (
    DELETE FROM call_changes d WHERE d.ctid = ANY(ARRAY(SELECT e.ctid FROM call_changes e LIMIT batch)) RETURNING d.*
  )
  SELECT array_agg(ROW(g.*)::call_changes) INTO taken FROM gone g;

  MERGE INTO campaign_counts c USING (
    SELECT t.tenant_id, t.campaign_id, f.figure, CASE WHEN f.minute < old THEN 'epoch' ELSE f.minute END AS minute, sum(f.n * t.n)::bigint AS n
    FROM unnest(taken) t CROSS JOIN LATERAL call_figures(t.status, t.hangup_cause, t.agent_id, t.answered_by_amd, t.abandoned,
      t.queued_at, t.answer_time, t.agent_connect_time, t.end_time) f
    WHERE t.direction = 'outbound' AND EXISTS (SELECT FROM campaigns k WHERE k.tenant_id = t.tenant_id AND k.id = t.campaign_id)
    GROUP BY 1, 2, 3, 4 HAVING sum(f.n * t.n) <> 0
  ) s ON c.tenant_id = s.tenant_id AND c.campaign_id = s.campaign_id AND c.figure = s.figure AND c.minute = s.minute
  WHEN MATCHED THEN UPDATE SET n = c.n + s.n
  WHEN NOT MATCHED THEN INSERT (tenant_id, campaign_id, figure, minute, n) VALUES (s.tenant_id, s.campaign_id, s.figure, s.minute, s.n);

  PERFORM count_ended((
    SELECT array_agg(ROW(t.tenant_id, a.id, coalesce(t.campaign_id, '00000000-0000-0000-0000-000000000000'), t.direction, t.status,
      coalesce(t.disposition, ''), t.n)::call_deltas)
    FROM unnest(taken) t CROSS JOIN LATERAL (VALUES ('00000000-0000-0000-0000-000000000000'::uuid), (t.agent_id)) a (id) WHERE a.id IS NOT NULL));
  RETURN coalesce(cardinality(taken), 0);
END
$$;
-- +goose StatementEnd

-- fold_call_deltas does that, and moves up to a batch of changes that counting anew has found, or a version before has told, into the counts and totals of
-- calls; it tells how many it took of which there were more. Controllers of the version before, which name no moment, are alone until the first of this
-- one starts: what they read, the abandon rate for one, goes on with the calls that end meanwhile.
DROP FUNCTION fold_call_deltas(int);
-- +goose StatementBegin
CREATE FUNCTION fold_call_deltas(batch int, old timestamptz DEFAULT now() - interval '25 hours') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  changes bigint := fold_call_changes(batch, old);
  taken call_deltas[];
BEGIN
  WITH gone AS (
    DELETE FROM call_deltas d WHERE d.ctid = ANY(ARRAY(SELECT e.ctid FROM call_deltas e LIMIT batch)) RETURNING d.*
  )
  SELECT array_agg(ROW(g.*)::call_deltas) INTO taken FROM gone g;
  PERFORM count_ended(taken);
  RETURN greatest(changes, coalesce(cardinality(taken), 0));
END
$$;
-- +goose StatementEnd

-- recount_calls is as in migration 0056.
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
    UNION ALL
    SELECT h.tenant_id, a.id, coalesce(h.campaign_id, '00000000-0000-0000-0000-000000000000'), h.direction, h.status, coalesce(h.disposition, ''), -h.n
    FROM call_changes h CROSS JOIN LATERAL (VALUES ('00000000-0000-0000-0000-000000000000'::uuid), (h.agent_id)) a (id) WHERE a.id IS NOT NULL
  ) f
  GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(f.n) <> 0;
  PERFORM total_calls();
END
$$;
-- +goose StatementEnd

-- +goose Down
-- Nobody folds what is taken back.
SELECT set_config('app.system', 'on', true), pg_advisory_xact_lock(hashtextextended('ringmaster.campaign_counts', 0));
DROP TRIGGER calls_ended ON calls;
DROP TRIGGER calls_ended_added ON calls;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_ended_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    IF OLD.end_time IS NOT NULL THEN
      INSERT INTO call_deltas (tenant_id, agent_id, campaign_id, direction, status, disposition, n)
      SELECT OLD.tenant_id, a.id, coalesce(OLD.campaign_id, '00000000-0000-0000-0000-000000000000'), OLD.direction, OLD.status,
        coalesce(OLD.disposition, ''), -1
      FROM (VALUES ('00000000-0000-0000-0000-000000000000'::uuid), (OLD.agent_id)) a (id) WHERE a.id IS NOT NULL;
    END IF;
  END IF;
  IF NEW.end_time IS NOT NULL THEN
    INSERT INTO call_deltas (tenant_id, agent_id, campaign_id, direction, status, disposition, n)
    SELECT NEW.tenant_id, a.id, coalesce(NEW.campaign_id, '00000000-0000-0000-0000-000000000000'), NEW.direction, NEW.status,
      coalesce(NEW.disposition, ''), 1
    FROM (VALUES ('00000000-0000-0000-0000-000000000000'::uuid), (NEW.agent_id)) a (id) WHERE a.id IS NOT NULL;
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER calls_ended_added AFTER INSERT ON calls
  FOR EACH ROW WHEN (NEW.end_time IS NOT NULL) EXECUTE FUNCTION count_ended_calls();
CREATE OR REPLACE TRIGGER calls_ended AFTER UPDATE ON calls
  FOR EACH ROW WHEN ((NEW.end_time IS NOT NULL OR OLD.end_time IS NOT NULL) AND ((OLD.end_time IS NULL) <> (NEW.end_time IS NULL)
    OR ROW(OLD.agent_id, OLD.campaign_id, OLD.direction, OLD.status, OLD.disposition) IS DISTINCT FROM
      ROW(NEW.agent_id, NEW.campaign_id, NEW.direction, NEW.status, NEW.disposition))) EXECUTE FUNCTION count_ended_calls();
-- +goose StatementBegin
CREATE FUNCTION count_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, minute, n)
  SELECT NEW.tenant_id, NEW.campaign_id, f.figure, f.minute, f.n
  FROM call_figures(NEW.status, NEW.hangup_cause, NEW.agent_id, NEW.answered_by_amd, NEW.abandoned,
    NEW.queued_at, NEW.answer_time, NEW.agent_connect_time, NEW.end_time) f
  WHERE NEW.end_time IS NOT NULL;
  IF TG_OP = 'UPDATE' THEN
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, minute, n)
    SELECT OLD.tenant_id, OLD.campaign_id, f.figure, f.minute, -f.n
    FROM call_figures(OLD.status, OLD.hangup_cause, OLD.agent_id, OLD.answered_by_amd, OLD.abandoned,
      OLD.queued_at, OLD.answer_time, OLD.agent_connect_time, OLD.end_time) f
    WHERE OLD.end_time IS NOT NULL;
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER calls_added AFTER INSERT ON calls
  FOR EACH ROW WHEN (NEW.campaign_id IS NOT NULL AND NEW.direction = 'outbound' AND NEW.end_time IS NOT NULL) EXECUTE FUNCTION count_calls();
CREATE TRIGGER calls_changed AFTER UPDATE ON calls
  FOR EACH ROW WHEN (NEW.campaign_id IS NOT NULL AND NEW.direction = 'outbound' AND (OLD.end_time IS NOT NULL OR NEW.end_time IS NOT NULL)
    AND ROW(OLD.status, OLD.hangup_cause, OLD.agent_id,
    OLD.answered_by_amd, OLD.abandoned, OLD.queued_at, OLD.answer_time, OLD.agent_connect_time, OLD.end_time) IS DISTINCT FROM
    ROW(NEW.status, NEW.hangup_cause, NEW.agent_id, NEW.answered_by_amd, NEW.abandoned, NEW.queued_at, NEW.answer_time,
    NEW.agent_connect_time, NEW.end_time)) EXECUTE FUNCTION count_calls();
INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, minute, n)
SELECT h.tenant_id, h.campaign_id, f.figure, f.minute, sum(f.n * h.n)
FROM call_changes h CROSS JOIN LATERAL call_figures(h.status, h.hangup_cause, h.agent_id, h.answered_by_amd, h.abandoned,
  h.queued_at, h.answer_time, h.agent_connect_time, h.end_time) f
WHERE h.campaign_id IS NOT NULL AND h.direction = 'outbound' GROUP BY 1, 2, 3, 4;
INSERT INTO call_deltas (tenant_id, agent_id, campaign_id, direction, status, disposition, n)
SELECT h.tenant_id, a.id, coalesce(h.campaign_id, '00000000-0000-0000-0000-000000000000'), h.direction, h.status, coalesce(h.disposition, ''), h.n
FROM call_changes h CROSS JOIN LATERAL (VALUES ('00000000-0000-0000-0000-000000000000'::uuid), (h.agent_id)) a (id) WHERE a.id IS NOT NULL;
DROP FUNCTION fold_call_deltas(int, timestamptz);
DROP FUNCTION fold_call_changes(int, timestamptz);
DROP FUNCTION count_ended(call_deltas[]);
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
DROP TABLE call_changes;
SELECT set_config('app.system', '', true);
