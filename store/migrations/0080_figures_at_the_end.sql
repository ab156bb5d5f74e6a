-- A call and its lead are counted once, at their end: what goes on is few, and read from its rows. A call had written eleven rows of counts, and
-- writes five.
-- +goose Up

-- The triggers are made anew under a lock that Migrate waits a second for, and tries again; it lasts for what follows, which reads the open calls and
-- the leads in a call by their indexes, campaign by campaign, for two seconds at most. No trigger is dropped: that would take a stronger lock in the
-- midst, for which it and the calls that go on would wait for each other. Until they are of this version controllers show figures without the calls that go on.
SELECT set_config('app.system', 'on', true), set_config('enable_seqscan', 'off', true), set_config('statement_timeout', '2s', true);
LOCK TABLE calls, leads IN SHARE ROW EXCLUSIVE MODE;

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

INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
SELECT k.tenant_id, k.id, 'lead:' || l.status, -l.n
FROM campaigns k CROSS JOIN LATERAL (
  SELECT i.status, count(*) AS n FROM leads i
  WHERE i.tenant_id = k.tenant_id AND i.campaign_id = k.id AND i.status IN ('dialing', 'connected') GROUP BY i.status OFFSET 0) l;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_calls() RETURNS trigger LANGUAGE plpgsql AS $$
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

INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, minute, n)
SELECT c.tenant_id, c.campaign_id, f.figure, f.minute, -sum(f.n)
FROM calls c CROSS JOIN LATERAL call_figures(c.status, c.hangup_cause, c.agent_id, c.answered_by_amd, c.abandoned,
  c.queued_at, c.answer_time, c.agent_connect_time, c.end_time) f
WHERE c.end_time IS NULL AND c.campaign_id IS NOT NULL AND c.direction = 'outbound'
GROUP BY 1, 2, 3, 4;

-- A lead that is dialed and answers is counted nowhere meanwhile.
CREATE OR REPLACE TRIGGER leads_changed AFTER UPDATE OF status ON leads
  FOR EACH ROW WHEN (OLD.status <> NEW.status AND (OLD.status NOT IN ('dialing', 'connected') OR NEW.status NOT IN ('dialing', 'connected')))
  EXECUTE FUNCTION count_leads();

CREATE OR REPLACE TRIGGER calls_added AFTER INSERT ON calls
  FOR EACH ROW WHEN (NEW.campaign_id IS NOT NULL AND NEW.direction = 'outbound' AND NEW.end_time IS NOT NULL) EXECUTE FUNCTION count_calls();
CREATE OR REPLACE TRIGGER calls_changed AFTER UPDATE ON calls
  FOR EACH ROW WHEN (NEW.campaign_id IS NOT NULL AND NEW.direction = 'outbound' AND (OLD.end_time IS NOT NULL OR NEW.end_time IS NOT NULL)
    AND ROW(OLD.status, OLD.hangup_cause, OLD.agent_id,
    OLD.answered_by_amd, OLD.abandoned, OLD.queued_at, OLD.answer_time, OLD.agent_connect_time, OLD.end_time) IS DISTINCT FROM
    ROW(NEW.status, NEW.hangup_cause, NEW.agent_id, NEW.answered_by_amd, NEW.abandoned, NEW.queued_at, NEW.answer_time,
    NEW.agent_connect_time, NEW.end_time)) EXECUTE FUNCTION count_calls();

SELECT set_config('app.system', '', true), set_config('enable_seqscan', 'on', true);

-- +goose Down
SELECT set_config('app.system', 'on', true), set_config('enable_seqscan', 'off', true), set_config('statement_timeout', '2s', true);
LOCK TABLE calls, leads IN SHARE ROW EXCLUSIVE MODE;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_leads() RETURNS trigger LANGUAGE plpgsql AS $$
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
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION count_calls() RETURNS trigger LANGUAGE plpgsql AS $$
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
INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, n)
SELECT k.tenant_id, k.id, 'lead:' || l.status, l.n
FROM campaigns k CROSS JOIN LATERAL (
  SELECT i.status, count(*) AS n FROM leads i
  WHERE i.tenant_id = k.tenant_id AND i.campaign_id = k.id AND i.status IN ('dialing', 'connected') GROUP BY i.status OFFSET 0) l;
INSERT INTO campaign_deltas (tenant_id, campaign_id, figure, minute, n)
SELECT c.tenant_id, c.campaign_id, f.figure, f.minute, sum(f.n)
FROM calls c CROSS JOIN LATERAL call_figures(c.status, c.hangup_cause, c.agent_id, c.answered_by_amd, c.abandoned,
  c.queued_at, c.answer_time, c.agent_connect_time, c.end_time) f
WHERE c.end_time IS NULL AND c.campaign_id IS NOT NULL AND c.direction = 'outbound'
GROUP BY 1, 2, 3, 4;
CREATE OR REPLACE TRIGGER leads_changed AFTER UPDATE OF status ON leads
  FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION count_leads();
CREATE OR REPLACE TRIGGER calls_added AFTER INSERT ON calls
  FOR EACH ROW WHEN (NEW.campaign_id IS NOT NULL AND NEW.direction = 'outbound') EXECUTE FUNCTION count_calls();
CREATE OR REPLACE TRIGGER calls_changed AFTER UPDATE ON calls
  FOR EACH ROW WHEN (NEW.campaign_id IS NOT NULL AND NEW.direction = 'outbound' AND ROW(OLD.status, OLD.hangup_cause, OLD.agent_id,
    OLD.answered_by_amd, OLD.abandoned, OLD.queued_at, OLD.answer_time, OLD.agent_connect_time, OLD.end_time) IS DISTINCT FROM
    ROW(NEW.status, NEW.hangup_cause, NEW.agent_id, NEW.answered_by_amd, NEW.abandoned, NEW.queued_at, NEW.answer_time,
    NEW.agent_connect_time, NEW.end_time)) EXECUTE FUNCTION count_calls();
SELECT set_config('app.system', '', true), set_config('enable_seqscan', 'on', true);
