-- A campaign's figures, kept up with its leads and calls instead of counted from them.
-- +goose Up

-- figure is 'lead:<status>', 'call:<status>', 'cause:<hangup cause>', or a sum: 'talk_us' (answer to end), 'waited' and 'wait_us'
-- (callers whom an agent took, and how long they waited), 'persons' (callees who answered) and 'abandoned'. Sums of time are in
-- microseconds. The last two stand by the minute of the answer; minutes that no window reaches any more are rolled up into 'epoch'.
CREATE TABLE campaign_counts (
  tenant_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  figure text NOT NULL,
  minute timestamptz NOT NULL DEFAULT 'epoch',
  n bigint NOT NULL,
  PRIMARY KEY (tenant_id, campaign_id, figure, minute),
  FOREIGN KEY (tenant_id, campaign_id) REFERENCES campaigns (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX campaign_counts_minutes ON campaign_counts (minute) WHERE minute > 'epoch';
SELECT protect_tenant_rows('campaign_counts');

-- Changes that are not folded into campaign_counts yet. Whoever changes a lead or a call adds rows here in the same transaction
-- and updates none: calls of one campaign don't wait for each other at a row of counters, and no two lock such rows in two
-- orders. A figure is the sum over both tables. No foreign key: it would lock the campaign's row with each change, and the
-- changes of a campaign that is gone are dropped by whoever folds.
CREATE TABLE campaign_deltas (
  tenant_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  figure text NOT NULL,
  minute timestamptz NOT NULL DEFAULT 'epoch',
  n bigint NOT NULL
);
CREATE INDEX campaign_deltas_by_campaign ON campaign_deltas (tenant_id, campaign_id);
ALTER TABLE campaign_deltas SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
SELECT protect_tenant_rows('campaign_deltas');

-- +goose StatementBegin
CREATE FUNCTION count_leads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
    SELECT a.tenant_id, a.campaign_id, 'lead:' || a.status, count(*) FROM added a GROUP BY 1, 2, 3;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
    SELECT r.tenant_id, r.campaign_id, 'lead:' || r.status, -count(*) FROM removed r GROUP BY 1, 2, 3;
  ELSE
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
    VALUES (OLD.tenant_id, OLD.campaign_id, 'lead:' || OLD.status, -1), (NEW.tenant_id, NEW.campaign_id, 'lead:' || NEW.status, 1);
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Leads come and go many at a time, and change their state one at a time; a claim changes none, and costs nothing here.
CREATE TRIGGER leads_added AFTER INSERT ON leads REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_leads();
CREATE TRIGGER leads_removed AFTER DELETE ON leads REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_leads();
CREATE TRIGGER leads_changed AFTER UPDATE OF status ON leads
  FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION count_leads();

-- What one call adds to its campaign's figures. A callee of whom machine detection said nothing is a person.
-- +goose StatementBegin
CREATE FUNCTION call_figures(
  status text, cause text, agent uuid, amd text, abandoned boolean,
  queued timestamptz, answered timestamptz, connected timestamptz, ended timestamptz
) RETURNS TABLE (figure text, minute timestamptz, n bigint) LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT f.figure, f.minute, f.n FROM (VALUES
    ('call:' || status, timestamptz 'epoch', 1::bigint),
    ('cause:' || cause, timestamptz 'epoch', 1::bigint),
    ('talk_us', timestamptz 'epoch', (extract(epoch FROM ended - answered) * 1000000)::bigint),
    ('waited', timestamptz 'epoch', (agent IS NOT NULL AND connected IS NOT NULL)::int::bigint),
    ('wait_us', timestamptz 'epoch',
      CASE WHEN agent IS NOT NULL THEN (extract(epoch FROM connected - coalesce(queued, answered)) * 1000000)::bigint END),
    ('persons', date_bin('1 minute', answered, timestamptz 'epoch'), (amd IS DISTINCT FROM 'machine')::int::bigint),
    ('abandoned', date_bin('1 minute', answered, timestamptz 'epoch'), (abandoned AND amd IS DISTINCT FROM 'machine')::int::bigint)
  ) f (figure, minute, n)
  WHERE f.figure IS NOT NULL AND f.minute IS NOT NULL AND f.n <> 0
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION count_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, minute, n)
    SELECT NEW.tenant_id, NEW.campaign_id, f.figure, f.minute, f.n
    FROM call_figures(NEW.status, NEW.hangup_cause, NEW.agent_id, NEW.answered_by_amd, NEW.abandoned,
      NEW.queued_at, NEW.answer_time, NEW.agent_connect_time, NEW.end_time) f;
  ELSE
    INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, minute, n)
    SELECT NEW.tenant_id, NEW.campaign_id, f.figure, f.minute, sum(f.n) FROM (
      SELECT o.figure, o.minute, -o.n AS n FROM call_figures(OLD.status, OLD.hangup_cause, OLD.agent_id, OLD.answered_by_amd,
        OLD.abandoned, OLD.queued_at, OLD.answer_time, OLD.agent_connect_time, OLD.end_time) o
      UNION ALL
      SELECT p.figure, p.minute, p.n FROM call_figures(NEW.status, NEW.hangup_cause, NEW.agent_id, NEW.answered_by_amd,
        NEW.abandoned, NEW.queued_at, NEW.answer_time, NEW.agent_connect_time, NEW.end_time) p
    ) f GROUP BY f.figure, f.minute HAVING sum(f.n) <> 0;
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Rows are moved between partitions and dropped with them, which is no change of a campaign's figures: there is no trigger for
-- that. Partitions that come later get these two as well.
CREATE TRIGGER calls_added AFTER INSERT ON calls
  FOR EACH ROW WHEN (NEW.campaign_id IS NOT NULL AND NEW.direction = 'outbound') EXECUTE FUNCTION count_calls();
CREATE TRIGGER calls_changed AFTER UPDATE ON calls
  FOR EACH ROW WHEN (NEW.campaign_id IS NOT NULL AND NEW.direction = 'outbound' AND ROW(OLD.status, OLD.hangup_cause, OLD.agent_id,
    OLD.answered_by_amd, OLD.abandoned, OLD.queued_at, OLD.answer_time, OLD.agent_connect_time, OLD.end_time) IS DISTINCT FROM
    ROW(NEW.status, NEW.hangup_cause, NEW.agent_id, NEW.answered_by_amd, NEW.abandoned, NEW.queued_at, NEW.answer_time,
    NEW.agent_connect_time, NEW.end_time)) EXECUTE FUNCTION count_calls();

-- +goose Down
DROP TRIGGER calls_changed ON calls;
DROP TRIGGER calls_added ON calls;
DROP TRIGGER leads_changed ON leads;
DROP TRIGGER leads_removed ON leads;
DROP TRIGGER leads_added ON leads;
DROP FUNCTION count_calls();
DROP FUNCTION count_leads();
DROP FUNCTION call_figures(text, text, uuid, text, boolean, timestamptz, timestamptz, timestamptz, timestamptz);
DROP TABLE campaign_deltas, campaign_counts;
