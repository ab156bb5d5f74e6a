-- Reports of calls to the systems that tenants have named: their CRM, and what gives them insights.

-- name: IntegrationGet :one
SELECT * FROM integrations WHERE tenant_id = @tenant_id AND purpose = @purpose;

-- name: IntegrationLock :one
SELECT * FROM integrations WHERE tenant_id = @tenant_id AND purpose = @purpose FOR UPDATE;

-- name: IntegrationPut :one
INSERT INTO integrations AS i (tenant_id, purpose, id, kind, host, is_active, config_sealed)
VALUES (@tenant_id, @purpose, @id, @kind, @host, @is_active, @config_sealed)
ON CONFLICT (tenant_id, purpose) DO UPDATE SET id = excluded.id, kind = excluded.kind, host = excluded.host, is_active = excluded.is_active,
  config_sealed = excluded.config_sealed, updated_at = now()
RETURNING *;

-- name: IntegrationDelete :execrows
DELETE FROM integrations WHERE tenant_id = @tenant_id AND purpose = @purpose;

-- CallEndFollows ends what a call's flows have left open, when the call itself has ended: the node that ran did not come to an
-- outcome of its own, unless it was the one that hangs up. And it opens the call's reports to its tenant's integrations: insights are of conversations alone, and nothing is reported of calls that a test key
-- has placed. It gives the reports, and whether the call's recording is still to come.
-- name: CallEndFollows :many
WITH ended AS (
  UPDATE flow_runs SET state = '{}', ended_at = @ended_at::timestamptz,
    outcome = CASE WHEN state->>'type' = 'hangup' THEN 'default' ELSE 'call_ended' END,
    trace = CASE WHEN coalesce(state->>'node', '') = '' THEN trace
      ELSE trace || jsonb_build_array(jsonb_build_object('node', state->'node', 'type', state->'type',
        'outcome', CASE WHEN state->>'type' = 'hangup' THEN 'default' ELSE 'call_ended' END,
        'at', state->'at', 'duration_ms',
        greatest(0, floor(extract(epoch FROM now() - (state->>'at')::timestamptz) * 1000)::bigint))) END
  WHERE tenant_id = @tenant_id AND call_id = @call_id AND ended_at IS NULL
)
INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at)
SELECT i.tenant_id, @call_id, i.purpose, i.id, @give_up_at::timestamptz FROM integrations i
WHERE i.tenant_id = @tenant_id AND i.is_active AND @is_live::boolean AND (i.purpose = 'crm' OR @was_answered::boolean)
ON CONFLICT (tenant_id, call_id, purpose) DO NOTHING
RETURNING purpose, (SELECT count(*) > 0 FROM recordings r WHERE r.tenant_id = @tenant_id AND r.call_id = @call_id
  AND r.status IN ('recording', 'processing'))::boolean AS recording_to_come;

-- CallReportOpen makes a report of a call that has none.
-- name: CallReportOpen :one
INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at)
VALUES (@tenant_id, @call_id, @purpose, @integration_id, @give_up_at::timestamptz)
ON CONFLICT (tenant_id, call_id, purpose) DO NOTHING RETURNING *;

-- name: CallReportGet :one
SELECT * FROM call_reports WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose;

-- CallReportChanged counts one more thing to report, and tells whether the report waited for nothing: it needs a job then. One whose first write
-- has failed for good waits for somebody to ask for it.
-- name: CallReportChanged :many
UPDATE call_reports r SET revision = r.revision + 1,
  status = CASE WHEN was.status = 'failed' AND r.written = 0 THEN 'failed' ELSE 'pending' END,
  next_attempt_at = CASE WHEN was.status = 'pending' THEN r.next_attempt_at ELSE now() END,
  give_up_at = CASE WHEN was.status = 'pending' THEN r.give_up_at ELSE @give_up_at::timestamptz END
FROM (SELECT w.tenant_id, w.call_id, w.purpose, w.status FROM call_reports w
  WHERE w.tenant_id = @tenant_id AND w.call_id = @call_id AND w.purpose = @purpose FOR UPDATE) was
WHERE r.tenant_id = was.tenant_id AND r.call_id = was.call_id AND r.purpose = was.purpose
RETURNING (was.status = 'written' OR was.status = 'failed' AND r.written > 0)::boolean AS needs_job;

-- CallReportLoad locks a report with what one attempt at it needs of its tenant and its integration.
-- name: CallReportLoad :one
SELECT sqlc.embed(r), i.kind, i.config_sealed, i.is_active, i.id AS configured_id, t.privacy_mode, (t.suspended_at IS NOT NULL)::boolean AS suspended
FROM call_reports r JOIN tenants t ON t.id = r.tenant_id
LEFT JOIN integrations i ON i.tenant_id = r.tenant_id AND i.purpose = r.purpose
WHERE r.tenant_id = @tenant_id AND r.call_id = @call_id AND r.purpose = @purpose FOR UPDATE OF r;

-- CallReportFacts is what is reported of a call.
-- name: CallReportFacts :one
SELECT sqlc.embed(c), l.crm_lead_id, l.metadata AS lead_metadata, r.status AS recording_status, r.duration_ms, r.stereo
FROM calls c LEFT JOIN leads l ON l.tenant_id = c.tenant_id AND l.id = c.lead_id
LEFT JOIN recordings r ON r.tenant_id = c.tenant_id AND r.call_id = c.id
WHERE c.tenant_id = @tenant_id AND c.id = @call_id;

-- CallReportBegin counts an attempt, before it is made.
-- name: CallReportBegin :exec
UPDATE call_reports SET attempts = attempts + 1, attempted_at = @at::timestamptz, busy_until = @busy_until::timestamptz,
  integration_id = @integration_id, outcome = sqlc.narg('outcome')
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose;

-- CallReportRecord keeps what came of the attempt of that number. What came to be reported meanwhile is pending.
-- name: CallReportRecord :one
UPDATE call_reports SET busy_until = NULL,
  status = CASE WHEN @status::text = 'written' AND revision > @written::int THEN 'pending' ELSE @status::text END,
  written = greatest(written, @written::int), external_id = coalesce(sqlc.narg('external_id'), external_id), last_error = sqlc.narg('last_error'),
  failures = CASE WHEN @status::text = 'written' THEN 0 ELSE failures + 1 END,
  next_attempt_at = @next_attempt_at::timestamptz,
  give_up_at = CASE WHEN @status::text = 'written' THEN @give_up_at::timestamptz ELSE give_up_at END,
  outcome = CASE WHEN @status::text = 'pending' THEN outcome ELSE sqlc.narg('said')::jsonb END,
  written_at = CASE WHEN @written::int > 0 THEN coalesce(written_at, @at::timestamptz) ELSE written_at END,
  updated_at = CASE WHEN @is_update::boolean THEN @at::timestamptz ELSE updated_at END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose AND attempts = @attempt::int
RETURNING *;

-- CallReportRearm has a report that failed written again, or one that waits for its next attempt written now.
-- name: CallReportRearm :one
UPDATE call_reports SET status = 'pending', failures = CASE WHEN status = 'failed' THEN 0 ELSE failures END,
  next_attempt_at = @next_attempt_at::timestamptz, give_up_at = CASE WHEN status = 'failed' THEN @give_up_at::timestamptz ELSE give_up_at END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose RETURNING *;

-- CallReportClose ends one without an attempt.
-- name: CallReportClose :exec
UPDATE call_reports SET status = @status::text, last_error = coalesce(sqlc.narg('last_error'), last_error), outcome = NULL,
  written = CASE WHEN @status::text = 'written' THEN revision ELSE written END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose AND status = 'pending';

-- CallSetInsightsOf fills in what the conversation's voice agent has not said itself: what is absent, or was given as insights before.
-- name: CallSetInsightsOf :execrows
UPDATE calls SET
  ai_summary = CASE WHEN ai_summary IS NULL OR ai_summary = sqlc.narg('was_summary')::text
    THEN coalesce(sqlc.narg('ai_summary'), ai_summary) ELSE ai_summary END,
  ai_sentiment = CASE WHEN ai_sentiment IS NULL OR ai_sentiment = sqlc.narg('was_sentiment')::text
    THEN coalesce(sqlc.narg('ai_sentiment'), ai_sentiment) ELSE ai_sentiment END,
  ai_next_action = CASE WHEN ai_next_action IS NULL OR ai_next_action = sqlc.narg('was_next_action')::text
    THEN coalesce(sqlc.narg('ai_next_action'), ai_next_action) ELSE ai_next_action END
WHERE tenant_id = @tenant_id AND id = @id;

-- CallReportsPending counts what waits to be reported, up to a bound, and tells since when the oldest does: it needs the system's scope.
-- name: CallReportsPending :one
SELECT count(*)::bigint AS pending, coalesce(extract(epoch FROM now() - min(p.created_at)), 0)::float8 AS oldest_s
FROM (SELECT r.created_at FROM call_reports r WHERE r.purpose = @purpose AND r.status = 'pending' ORDER BY r.created_at LIMIT @bound::int) p;

-- CallReportsForget takes up to a batch of the reports of calls from before a moment.
-- name: CallReportsForget :execrows
DELETE FROM call_reports d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT r.ctid AS row_at FROM call_reports r
    WHERE r.tenant_id = t.id AND r.call_id < @began_before AND r.created_at < @created_before::timestamptz AND r.status <> 'pending'
    ORDER BY r.call_id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- CallReportUntried tells whether a report waits for its first attempt.
-- name: CallReportUntried :one
SELECT EXISTS (SELECT FROM call_reports
  WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose AND status = 'pending' AND attempts = 0)::boolean AS untried;

-- CallReportCall tells whether a call may be reported.
-- name: CallReportCall :one
SELECT (end_time IS NOT NULL)::boolean AS ended, environment FROM calls WHERE tenant_id = @tenant_id AND id = @call_id;
