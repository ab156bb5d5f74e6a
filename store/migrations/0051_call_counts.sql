-- How many calls a tenant has, kept up with them: lists tell their totals by these, and cost the same however many calls there have been.
-- +goose Up

-- Calls that have ended, by what lists choose them by. The nil UUID stands for no campaign, '' for no disposition. A call is counted for its
-- agent, when it had one, and for the nil UUID, which stands for any agent and none. Calls that have not ended are few, and counted.
CREATE TABLE call_counts (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  agent_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  direction text NOT NULL,
  status text NOT NULL,
  disposition text NOT NULL,
  n bigint NOT NULL,
  PRIMARY KEY (tenant_id, agent_id, campaign_id, direction, status, disposition)
);
SELECT protect_tenant_rows('call_counts');

-- Changes that are not folded into call_counts yet, as campaign_deltas are (migration 0010).
CREATE TABLE call_deltas (
  tenant_id uuid NOT NULL,
  agent_id uuid NOT NULL,
  campaign_id uuid NOT NULL,
  direction text NOT NULL,
  status text NOT NULL,
  disposition text NOT NULL,
  n bigint NOT NULL
);
CREATE INDEX call_deltas_by_agent ON call_deltas (tenant_id, agent_id);
ALTER TABLE call_deltas SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
SELECT protect_tenant_rows('call_deltas');

-- +goose StatementBegin
CREATE FUNCTION count_ended_calls() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- A row that is moved between partitions is no change, as with the campaigns' figures. The calls of before are counted by the next migration.
CREATE TRIGGER calls_ended_added AFTER INSERT ON calls
  FOR EACH ROW WHEN (NEW.end_time IS NOT NULL) EXECUTE FUNCTION count_ended_calls();
CREATE TRIGGER calls_ended AFTER UPDATE ON calls
  FOR EACH ROW WHEN ((NEW.end_time IS NOT NULL OR OLD.end_time IS NOT NULL) AND ((OLD.end_time IS NULL) <> (NEW.end_time IS NULL)
    OR ROW(OLD.agent_id, OLD.campaign_id, OLD.direction, OLD.status, OLD.disposition) IS DISTINCT FROM
      ROW(NEW.agent_id, NEW.campaign_id, NEW.direction, NEW.status, NEW.disposition))) EXECUTE FUNCTION count_ended_calls();

-- +goose Down
DROP TRIGGER calls_ended ON calls;
DROP TRIGGER calls_ended_added ON calls;
DROP FUNCTION count_ended_calls();
DROP TABLE call_deltas, call_counts;
