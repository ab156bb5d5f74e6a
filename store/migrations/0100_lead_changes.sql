-- A lead's change of status is told in one row, in place of one for the status that it had and one for what it has. It is folded with what calls' ends tell.
-- +goose Up

-- Changes that are not folded yet. No foreign key, as with campaign_deltas (migration 0010).
CREATE TABLE lead_changes (tenant_id uuid NOT NULL, campaign_id uuid NOT NULL, was text NOT NULL, became text NOT NULL);
-- All is read, whatever the statistics say.
ALTER TABLE lead_changes SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000000000);
SELECT protect_tenant_rows('lead_changes');

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_leads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
    SELECT a.tenant_id, a.campaign_id, 'lead:' || a.status, count(*) FROM added a WHERE a.status NOT IN ('dialing', 'connected') GROUP BY 1, 2, 3;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
    SELECT r.tenant_id, r.campaign_id, 'lead:' || r.status, -count(*) FROM removed r WHERE r.status NOT IN ('dialing', 'connected') GROUP BY 1, 2, 3;
  ELSE
    INSERT INTO lead_changes (tenant_id, campaign_id, was, became) VALUES (NEW.tenant_id, NEW.campaign_id, OLD.status, NEW.status);
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- leads_in_call gives, besides, what is told in lead_changes. A lead in a call of the version before is counted by no status. OFFSET 0: migration 0098.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION leads_in_call(tenant uuid, campaign uuid) RETURNS TABLE (figure text, n int) LANGUAGE sql STABLE AS $$
  SELECT 'lead:' || i.status, 1 FROM leads i WHERE i.tenant_id = tenant AND i.campaign_id = campaign AND i.status IN ('dialing', 'connected')
  UNION ALL
  SELECT 'lead:' || f.status, f.n FROM live_calls u
  CROSS JOIN LATERAL (
    SELECT d.campaign_id, d.status, d.claimed_by, d.last_call_id FROM leads d WHERE d.tenant_id = u.tenant_id AND d.id = u.lead_id OFFSET 0
  ) l
  CROSS JOIN LATERAL (VALUES (l.claimed_by, 1), (l.status, -1)) f (status, n)
  WHERE u.tenant_id = tenant AND (u.campaign_id = campaign OR u.campaign_id IS NULL) AND l.campaign_id = campaign AND l.last_call_id = u.call_id
    AND l.claimed_by IN ('dialing', 'connected') AND l.status IN ('new', 'queued', 'retry', 'callback')
  UNION ALL
  SELECT 'lead:' || f.status, f.n FROM lead_changes h CROSS JOIN LATERAL (VALUES (h.was, -1), (h.became, 1)) f (status, n)
  WHERE h.tenant_id = tenant AND h.campaign_id = campaign AND f.status NOT IN ('dialing', 'connected')
$$;
-- +goose StatementEnd

-- fold_lead_changes moves up to a batch of leads' changes into the figures of their campaigns, and tells how many it took. Those of a campaign that is
-- gone go nowhere.
-- +goose StatementBegin
CREATE FUNCTION fold_lead_changes(batch int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  taken lead_changes[];
BEGIN
  WITH gone AS (
    DELETE FROM lead_changes d WHERE d.ctid = ANY(ARRAY(SELECT e.ctid FROM lead_changes e LIMIT batch)) RETURNING d.*
  )
  SELECT array_agg(ROW(g.*)::lead_changes) INTO taken FROM gone g;

  MERGE INTO campaign_counts c USING (
    SELECT t.tenant_id, t.campaign_id, 'lead:' || f.status AS figure, sum(f.n)::bigint AS n
    FROM unnest(taken) t CROSS JOIN LATERAL (VALUES (t.was, -1), (t.became, 1)) f (status, n)
    WHERE f.status NOT IN ('dialing', 'connected') AND EXISTS (SELECT FROM campaigns k WHERE k.tenant_id = t.tenant_id AND k.id = t.campaign_id)
    GROUP BY 1, 2, 3 HAVING sum(f.n) <> 0
  ) s ON c.tenant_id = s.tenant_id AND c.campaign_id = s.campaign_id AND c.figure = s.figure AND c.minute = 'epoch'
  WHEN MATCHED THEN UPDATE SET n = c.n + s.n
  WHEN NOT MATCHED THEN INSERT (tenant_id, campaign_id, figure, n) VALUES (s.tenant_id, s.campaign_id, s.figure, s.n);
  RETURN coalesce(cardinality(taken), 0);
END
$$;
-- +goose StatementEnd

-- fold_call_deltas is as in migration 0092, and folds leads' changes as well: controllers of the version before call it, too.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fold_call_deltas(batch int, old timestamptz DEFAULT now() - interval '25 hours') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  changes bigint := greatest(fold_call_changes(batch, old), fold_lead_changes(batch));
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

-- +goose Down
SELECT set_config('app.system', 'on', true);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_leads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
    SELECT a.tenant_id, a.campaign_id, 'lead:' || a.status, count(*) FROM added a WHERE a.status NOT IN ('dialing', 'connected') GROUP BY 1, 2, 3;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
    SELECT r.tenant_id, r.campaign_id, 'lead:' || r.status, -count(*) FROM removed r WHERE r.status NOT IN ('dialing', 'connected') GROUP BY 1, 2, 3;
  ELSE
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
    SELECT f.tenant_id, f.campaign_id, 'lead:' || f.status, f.n
    FROM (VALUES (OLD.tenant_id, OLD.campaign_id, OLD.status, -1), (NEW.tenant_id, NEW.campaign_id, NEW.status, 1)) f (tenant_id, campaign_id, status, n)
    WHERE f.status NOT IN ('dialing', 'connected');
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION fold_call_deltas(batch int, old timestamptz DEFAULT now() - interval '25 hours') RETURNS bigint LANGUAGE plpgsql AS $$
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
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION leads_in_call(tenant uuid, campaign uuid) RETURNS TABLE (figure text, n int) LANGUAGE sql STABLE AS $$
  SELECT 'lead:' || i.status, 1 FROM leads i WHERE i.tenant_id = tenant AND i.campaign_id = campaign AND i.status IN ('dialing', 'connected')
  UNION ALL
  SELECT 'lead:' || f.status, f.n FROM live_calls u
  CROSS JOIN LATERAL (
    SELECT d.campaign_id, d.status, d.claimed_by, d.last_call_id FROM leads d WHERE d.tenant_id = u.tenant_id AND d.id = u.lead_id OFFSET 0
  ) l
  CROSS JOIN LATERAL (VALUES (l.claimed_by, 1), (l.status, -1)) f (status, n)
  WHERE u.tenant_id = tenant AND (u.campaign_id = campaign OR u.campaign_id IS NULL) AND l.campaign_id = campaign AND l.last_call_id = u.call_id
    AND l.claimed_by IN ('dialing', 'connected') AND l.status IN ('new', 'queued', 'retry', 'callback')
$$;
-- +goose StatementEnd
LOCK TABLE lead_changes;
INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
SELECT h.tenant_id, h.campaign_id, 'lead:' || f.status, sum(f.n) FROM lead_changes h CROSS JOIN LATERAL (VALUES (h.was, -1), (h.became, 1)) f (status, n)
WHERE f.status NOT IN ('dialing', 'connected') GROUP BY 1, 2, 3;
DROP FUNCTION fold_lead_changes(int);
DROP TABLE lead_changes;
SELECT set_config('app.system', '', true);
