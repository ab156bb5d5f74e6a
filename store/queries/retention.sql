-- What is kept for a time, and what the nightly sweep forgets.

-- What calls leave besides their record. Ids are UUIDv7s, so the oldest rows of each tenant are the first of its primary key: began_before
-- is the smallest id of a moment somewhat after ended_before.

-- SessionsForget takes up to a batch of AI sessions that ended before a moment, with their logs.
-- name: SessionsForget :execrows
DELETE FROM ai_sessions d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT s.ctid AS row_at FROM ai_sessions s
    WHERE s.tenant_id = t.id AND s.id < @began_before AND s.ended_at < @ended_before::timestamptz ORDER BY s.id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- FlowRunsForget takes up to a batch of runs of flows that ended before a moment.
-- name: FlowRunsForget :execrows
DELETE FROM flow_runs d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT r.ctid AS row_at FROM flow_runs r
    WHERE r.tenant_id = t.id AND r.call_id < @began_before AND r.ended_at < @ended_before::timestamptz ORDER BY r.call_id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- SupervisionsForget takes up to a batch of supervisors' sessions that ended before a moment.
-- name: SupervisionsForget :execrows
DELETE FROM supervisor_sessions d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT s.ctid AS row_at FROM supervisor_sessions s
    WHERE s.tenant_id = t.id AND s.id < @began_before AND s.ended_at < @ended_before::timestamptz ORDER BY s.id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- EscalationsForget takes up to a batch of voice agents' requests for a supervisor of before a moment.
-- name: EscalationsForget :execrows
DELETE FROM escalations d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT e.ctid AS row_at FROM escalations e
    WHERE e.tenant_id = t.id AND e.id < @began_before AND e.escalated_at < @escalated_before::timestamptz ORDER BY e.id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- AgentLogForget takes up to a batch of agents' changes of before a moment.
-- name: AgentLogForget :execrows
DELETE FROM agent_status_log d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM agents a CROSS JOIN LATERAL (
    SELECT g.ctid AS row_at FROM agent_status_log g
    WHERE g.tenant_id = a.tenant_id AND g.agent_id = a.id AND g.at < @changed_before::timestamptz ORDER BY g.at LIMIT @batch::int
  ) o LIMIT @batch::int));

-- RecordingAccessForget takes up to a batch of the rows that say who got a recording before a moment.
-- name: RecordingAccessForget :execrows
DELETE FROM recording_access d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT r.ctid AS row_at FROM recording_access r
    WHERE r.tenant_id = t.id AND r.id < @began_before AND r.at < @accessed_before::timestamptz ORDER BY r.id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- CallbackTokensForget takes up to a batch of tokens that ended before a moment.
-- name: CallbackTokensForget :execrows
DELETE FROM callback_tokens c WHERE c.ctid = ANY(ARRAY(
  SELECT o.ctid FROM callback_tokens o WHERE o.expires_at < @ended_before::timestamptz ORDER BY o.expires_at LIMIT @batch::int));

-- RevokedKeysForget takes up to a batch of the API keys that were revoked before a moment. The audit has them still.
-- name: RevokedKeysForget :execrows
DELETE FROM api_keys d WHERE d.ctid = ANY(ARRAY(
  SELECT k.ctid FROM api_keys k WHERE k.revoked_at < @revoked_before::timestamptz LIMIT @batch::int));

-- IdempotencyKeysForget takes up to a batch of keys that answer nobody any more.
-- name: IdempotencyKeysForget :execrows
DELETE FROM idempotent_requests k WHERE k.ctid = ANY(ARRAY(
  SELECT o.ctid FROM idempotent_requests o WHERE o.created_at < @used_before::timestamptz ORDER BY o.created_at LIMIT @batch::int));

-- WebhookRetentions lists for how many days tenants keep events.
-- name: WebhookRetentions :many
SELECT id, webhook_retention_days FROM tenants ORDER BY id;

-- EventsForget takes up to a batch of a tenant's events of before a moment, which the smallest id of it bounds.
-- name: EventsForget :execrows
DELETE FROM events d WHERE d.tenant_id = @tenant_id AND d.id = ANY(ARRAY(
  SELECT e.id FROM events e WHERE e.tenant_id = @tenant_id AND e.id < @before
  ORDER BY e.id LIMIT @batch::int));

-- DeliveriesForget takes up to a batch of a tenant's deliveries of before a moment.
-- name: DeliveriesForget :execrows
DELETE FROM webhook_deliveries d WHERE d.tenant_id = @tenant_id AND d.id = ANY(ARRAY(
  SELECT w.id FROM webhook_deliveries w WHERE w.tenant_id = @tenant_id AND w.id < @before
  ORDER BY w.id LIMIT @batch::int));
