-- Deliveries wait in a queue of their own. A River job for each was written four times, and each run looked for the call's earlier events.
-- +goose Up

-- A row for each delivery that is pending. It is written with the event and deleted with the delivery's end: rows live for milliseconds, those
-- of failing receivers for seconds. seq is the order of emission, which holds within a call. due_at is null until the first attempt was made;
-- then it is the time of the next.
CREATE SEQUENCE webhook_queue_seq;
CREATE TABLE webhook_queue (
  tenant_id uuid NOT NULL,
  seq bigint NOT NULL DEFAULT nextval('webhook_queue_seq'),
  subscription_id uuid NOT NULL,
  delivery_id uuid NOT NULL,
  event_id uuid NOT NULL,
  call_id uuid,
  made smallint NOT NULL DEFAULT 0 CHECK (made >= 0),
  replayed boolean NOT NULL DEFAULT false,
  due_at timestamptz,
  queued_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (subscription_id, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_threshold = -1);
ALTER SEQUENCE webhook_queue_seq OWNED BY webhook_queue.seq;
CREATE INDEX webhook_queue_first ON webhook_queue (subscription_id, seq) WHERE due_at IS NULL;
CREATE INDEX webhook_queue_again ON webhook_queue (subscription_id, due_at) WHERE due_at IS NOT NULL;
SELECT protect_tenant_rows('webhook_queue');

-- adopt_webhook_jobs moves deliveries that were queued as jobs of River: by the version before, and by its controllers that still run. A job
-- that is at work stays with its worker.
-- +goose StatementBegin
CREATE FUNCTION adopt_webhook_jobs() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  moved bigint;
BEGIN
  WITH j AS (
    DELETE FROM river_job WHERE queue = 'webhooks' AND kind = 'webhook_delivery' AND state IN ('available', 'retryable', 'scheduled')
    RETURNING args, coalesce((metadata->>'attempts_before')::int, 0) AS before
  )
  INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id, made, replayed, due_at)
  SELECT d.tenant_id, d.subscription_id, d.id, d.event_id, e.call_id, greatest(0, jsonb_array_length(d.attempts) - j.before), j.before > 0,
    CASE WHEN jsonb_array_length(d.attempts) > j.before THEN d.next_attempt_at END
  FROM j
  JOIN webhook_deliveries d ON d.tenant_id = (j.args->>'tenant_id')::uuid AND d.id = (j.args->>'delivery_id')::uuid AND d.status = 'pending'
  JOIN events e ON e.tenant_id = d.tenant_id AND e.id = d.event_id
  ORDER BY e.seq;
  GET DIAGNOSTICS moved = ROW_COUNT;
  RETURN moved;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- What waits is jobs again, which the version before works.
SELECT set_config('app.system', 'on', true);
-- +goose StatementBegin
DO $$
BEGIN
  IF to_regclass('river_job') IS NOT NULL THEN
    INSERT INTO river_job (args, kind, queue, max_attempts, state, scheduled_at, metadata)
    SELECT jsonb_build_object('tenant_id', q.tenant_id, 'delivery_id', q.delivery_id), 'webhook_delivery', 'webhooks', 4,
      (CASE WHEN q.due_at > now() THEN 'scheduled' ELSE 'available' END)::river_job_state, coalesce(q.due_at, now()),
      CASE WHEN q.replayed THEN jsonb_build_object('attempts_before', jsonb_array_length(d.attempts) - q.made) ELSE '{}' END
    FROM webhook_queue q
    JOIN webhook_deliveries d ON d.tenant_id = q.tenant_id AND d.id = q.delivery_id AND d.status = 'pending'
    ORDER BY q.seq;
  END IF;
END
$$;
-- +goose StatementEnd
DROP FUNCTION adopt_webhook_jobs();
DROP TABLE webhook_queue;
