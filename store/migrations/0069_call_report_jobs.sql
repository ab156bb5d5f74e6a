-- Reports of calls were jobs of River, one for each that was pending. Their rows say all that the jobs did, but for how long a request for insights
-- waits for its recording.
-- +goose Up

-- adopt_report_jobs removes a batch of the jobs of the version before, also those that its controllers still make, and tells how many.
-- +goose StatementBegin
CREATE FUNCTION adopt_report_jobs() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  removed bigint;
BEGIN
  WITH j AS (
    DELETE FROM river_job r WHERE r.id = ANY(ARRAY(
      SELECT o.id FROM river_job o WHERE o.kind = 'call_report' LIMIT 2000 FOR UPDATE SKIP LOCKED))
    RETURNING r.args, r.state, r.scheduled_at
  ), waiting AS (
    UPDATE call_reports r SET next_attempt_at = w.scheduled_at
    FROM (SELECT j.args->>'tenant_id' AS tenant_id, j.args->>'call_id' AS call_id, min(j.scheduled_at) AS scheduled_at
      FROM j WHERE j.state = 'scheduled' AND j.args->>'purpose' = 'insights' GROUP BY 1, 2) w
    WHERE r.tenant_id = w.tenant_id::uuid AND r.call_id = w.call_id::uuid AND r.purpose = 'insights' AND r.status = 'pending' AND r.attempts = 0
      AND r.next_attempt_at < w.scheduled_at
  )
  SELECT count(*) INTO removed FROM j;
  RETURN removed;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('app.system', 'on', true);
  IF to_regclass('river_job') IS NOT NULL THEN
    WHILE adopt_report_jobs() > 0 LOOP END LOOP;
  END IF;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('app.system', 'on', true);
  IF to_regclass('river_job') IS NOT NULL THEN
    INSERT INTO river_job (args, kind, max_attempts, queue, state, scheduled_at)
    SELECT jsonb_build_object('tenant_id', r.tenant_id, 'call_id', r.call_id, 'purpose', r.purpose), 'call_report', 1000, r.purpose,
      CASE WHEN r.next_attempt_at > now() THEN 'scheduled' ELSE 'available' END::river_job_state, r.next_attempt_at
    FROM call_reports r WHERE r.status = 'pending';
  END IF;
END
$$;
-- +goose StatementEnd
DROP FUNCTION adopt_report_jobs();
