-- Deliveries of the version before are taken over in batches, those that were at work when their controller ended among them.
-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION adopt_webhook_jobs() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  moved bigint;
BEGIN
  WITH j AS (
    DELETE FROM river_job r WHERE r.id = ANY(ARRAY(
      SELECT o.id FROM river_job o
      WHERE o.kind = 'webhook_delivery' AND (o.state IN ('available', 'retryable', 'scheduled', 'discarded')
        OR o.state = 'running' AND o.attempted_at < now() - interval '2 minutes')
      LIMIT 2000 FOR UPDATE SKIP LOCKED))
    RETURNING r.args, coalesce((r.metadata->>'attempts_before')::int, 0) AS before
  )
  INSERT INTO webhook_queue (tenant_id, subscription_id, delivery_id, event_id, call_id, made, replayed, due_at)
  SELECT d.tenant_id, d.subscription_id, d.id, d.event_id, e.call_id, greatest(0, jsonb_array_length(d.attempts) - j.before), j.before > 0,
    CASE WHEN jsonb_array_length(d.attempts) > j.before THEN d.next_attempt_at END
  FROM j
  JOIN webhook_deliveries d ON d.tenant_id = (j.args->>'tenant_id')::uuid AND d.id = (j.args->>'delivery_id')::uuid AND d.status = 'pending'
  JOIN events e ON e.tenant_id = d.tenant_id AND e.id = d.event_id
  WHERE NOT EXISTS (SELECT FROM webhook_queue q WHERE q.subscription_id = d.subscription_id AND q.delivery_id = d.id)
  ORDER BY e.seq;
  GET DIAGNOSTICS moved = ROW_COUNT;
  RETURN moved;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION adopt_webhook_jobs() RETURNS bigint LANGUAGE plpgsql AS $$
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
