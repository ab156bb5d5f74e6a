-- Recordings that the controllers on whose disks their files are have yet to process. A job of River's for each was written six times; it is for those that
-- fail, or whose host is lost, now. Few rows stand here, for a moment: they need no index, and no statistics.
-- +goose Up
CREATE TABLE recordings_due (tenant_id uuid NOT NULL, call_id uuid NOT NULL, node text NOT NULL);
ALTER TABLE recordings_due SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000000000);
SELECT protect_tenant_rows('recordings_due');

-- A tenant that is deleted has none.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM live_calls WHERE tenant_id = OLD.id;
  DELETE FROM held_events WHERE tenant_id = OLD.id;
  DELETE FROM recordings_due WHERE tenant_id = OLD.id;
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- recordings_due_as_jobs makes jobs of them, which a controller of the version before works. It tells how many. River's tables come after ours.
-- +goose StatementBegin
CREATE FUNCTION recordings_due_as_jobs() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  n bigint := 0;
BEGIN
  IF to_regclass('river_job') IS NOT NULL THEN
    WITH gone AS (DELETE FROM recordings_due RETURNING *)
    INSERT INTO river_job (args, kind, max_attempts, queue)
    SELECT jsonb_build_object('tenant_id', g.tenant_id, 'call_id', g.call_id), 'recording_process', 80,
      'recordings_' || encode(substring(sha256(convert_to(g.node, 'UTF8')) FOR 8), 'hex') FROM gone g;
    GET DIAGNOSTICS n = ROW_COUNT;
  END IF;
  RETURN n;
END
$$;
-- +goose StatementEnd

-- +goose Down
SELECT set_config('app.system', 'on', true);
SELECT recordings_due_as_jobs();
SELECT set_config('app.system', '', true);
DROP FUNCTION recordings_due_as_jobs();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM live_calls WHERE tenant_id = OLD.id;
  DELETE FROM held_events WHERE tenant_id = OLD.id;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
DROP TABLE recordings_due;
