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
-- outcome of its own, unless it was the one that hangs up. And it opens the call's reports to its tenant's integrations: insights are of
-- conversations alone, and wait for a recording that is still to come; nothing is reported of calls that a test key has placed. It gives the
-- purposes.
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
INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at, next_attempt_at)
SELECT i.tenant_id, @call_id, i.purpose, i.id, @give_up_at::timestamptz,
  CASE WHEN i.purpose = 'insights' AND EXISTS (SELECT FROM recordings r WHERE r.tenant_id = @tenant_id AND r.call_id = @call_id
    AND r.status IN ('recording', 'processing')) THEN @without_recording_at::timestamptz ELSE now() END
FROM integrations i
WHERE i.tenant_id = @tenant_id AND i.is_active AND @is_live::boolean AND (i.purpose = 'crm' OR @was_answered::boolean)
ON CONFLICT (tenant_id, call_id, purpose) DO NOTHING
RETURNING purpose;

-- CallReportOpen makes a report of a call that has none.
-- name: CallReportOpen :one
INSERT INTO call_reports (tenant_id, call_id, purpose, integration_id, give_up_at)
VALUES (@tenant_id, @call_id, @purpose, @integration_id, @give_up_at::timestamptz)
ON CONFLICT (tenant_id, call_id, purpose) DO NOTHING RETURNING *;

-- name: CallReportGet :one
SELECT * FROM call_reports WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose;

-- CallReportChanged counts one more thing to report, and tells whether the report is due for it. One whose first write has failed for good waits
-- for somebody to ask for it.
-- name: CallReportChanged :many
UPDATE call_reports r SET revision = r.revision + 1,
  status = CASE WHEN was.status = 'failed' AND r.written = 0 THEN 'failed' ELSE 'pending' END,
  next_attempt_at = CASE WHEN was.status = 'pending' THEN r.next_attempt_at ELSE now() END,
  give_up_at = CASE WHEN was.status = 'pending' THEN r.give_up_at ELSE @give_up_at::timestamptz END
FROM (SELECT w.tenant_id, w.call_id, w.purpose, w.status FROM call_reports w
  WHERE w.tenant_id = @tenant_id AND w.call_id = @call_id AND w.purpose = @purpose FOR UPDATE) was
WHERE r.tenant_id = was.tenant_id AND r.call_id = was.call_id AND r.purpose = was.purpose
RETURNING (was.status = 'written' OR was.status = 'failed' AND r.written > 0)::boolean AS is_due;

-- CallReportHasten has a report that waits for a recording made without it, or with it.
-- name: CallReportHasten :execrows
UPDATE call_reports SET next_attempt_at = least(next_attempt_at, now())
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose AND status NOT IN ('written', 'failed') AND attempts = 0 AND busy_until IS NULL;

-- CallReportsDue gives the first report of each tenant, by the next entry of the index: as many steps as there are tenants, however many reports
-- wait. Those of tenants that are suspended, or have paused the integration, wait until that ends.
-- name: CallReportsDue :many
WITH RECURSIVE first AS (
  (SELECT r.tenant_id, r.next_attempt_at FROM call_reports r WHERE r.purpose = @purpose AND r.status = 'pending'
   ORDER BY r.tenant_id, r.next_attempt_at LIMIT 1)
  UNION ALL
  SELECT n.tenant_id, n.next_attempt_at FROM first f CROSS JOIN LATERAL (
    SELECT r.tenant_id, r.next_attempt_at FROM call_reports r WHERE r.purpose = @purpose AND r.status = 'pending' AND r.tenant_id > f.tenant_id
    ORDER BY r.tenant_id, r.next_attempt_at LIMIT 1) n
)
SELECT f.tenant_id::uuid AS tenant_id, f.next_attempt_at::timestamptz AS next_attempt_at FROM first f
WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = f.tenant_id AND t.suspended_at IS NOT NULL)
  AND NOT EXISTS (SELECT FROM integrations i WHERE i.tenant_id = f.tenant_id AND i.purpose = @purpose AND NOT i.is_active);

-- CallReportsClaim leases reports of some tenants that are due, up to room for each. What another controller is looking at is passed over, and so
-- are tenants that are suspended or have paused the integration. Controllers of earlier versions leave next_attempt_at as it is while they work.
-- name: CallReportsClaim :many
WITH w AS MATERIALIZED (
  SELECT o.tenant_id, o.room FROM (SELECT unnest(@tenants::uuid[]) AS tenant_id, unnest(@rooms::int[]) AS room) o
  JOIN tenants t ON t.id = o.tenant_id LEFT JOIN integrations i ON i.tenant_id = o.tenant_id AND i.purpose = @purpose
  WHERE t.suspended_at IS NULL AND coalesce(i.is_active, true)
), due AS MATERIALIZED (
  SELECT d.tenant_id, d.call_id FROM w CROSS JOIN LATERAL (
    SELECT r.tenant_id, r.call_id FROM call_reports r
    WHERE r.purpose = @purpose AND r.tenant_id = w.tenant_id AND r.status = 'pending' AND r.next_attempt_at <= @now::timestamptz
      AND (r.busy_until IS NULL OR r.busy_until <= @now::timestamptz)
    ORDER BY r.next_attempt_at LIMIT w.room FOR UPDATE SKIP LOCKED) d
)
UPDATE call_reports c SET busy_until = @lease::timestamptz, next_attempt_at = @lease::timestamptz FROM due
WHERE c.tenant_id = due.tenant_id AND c.call_id = due.call_id AND c.purpose = @purpose
RETURNING c.tenant_id, c.call_id;

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

-- CallReportBegin counts an attempt, before it is made, and extends its lease.
-- name: CallReportBegin :exec
UPDATE call_reports SET attempts = attempts + 1, attempted_at = @at::timestamptz, busy_until = @busy_until::timestamptz,
  next_attempt_at = @busy_until::timestamptz, integration_id = @integration_id, outcome = sqlc.narg('outcome')
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose;

-- CallReportRecord keeps what came of the attempt of that number, which is the last one. What came to be reported meanwhile is pending; what an
-- earlier attempt has written after all stays written. The record's id is that of its write: what an update answers may be the id of the change.
-- name: CallReportRecord :one
UPDATE call_reports SET busy_until = NULL,
  status = CASE WHEN greatest(written, @written::int) >= revision THEN 'written' WHEN @status::text = 'written' THEN 'pending' ELSE @status::text END,
  written = greatest(written, @written::int),
  external_id = CASE WHEN @is_update::boolean THEN coalesce(external_id, sqlc.narg('external_id')) ELSE coalesce(sqlc.narg('external_id'), external_id) END,
  last_error = sqlc.narg('last_error'),
  failures = CASE WHEN @status::text = 'written' THEN 0 ELSE failures + 1 END,
  next_attempt_at = @next_attempt_at::timestamptz,
  give_up_at = CASE WHEN @status::text = 'written' THEN @give_up_at::timestamptz ELSE give_up_at END,
  outcome = CASE WHEN @status::text = 'pending' THEN outcome ELSE sqlc.narg('said')::jsonb END,
  written_at = CASE WHEN @written::int > 0 THEN coalesce(written_at, @at::timestamptz) ELSE written_at END,
  updated_at = CASE WHEN @is_update::boolean THEN @at::timestamptz ELSE updated_at END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose AND attempts = @attempt::int
RETURNING *;

-- CallReportRecordLate keeps that an attempt has succeeded after another one was begun. While that one is at work the rest is left to it.
-- name: CallReportRecordLate :one
UPDATE call_reports SET written = greatest(written, @written::int), external_id = coalesce(external_id, sqlc.narg('external_id')),
  written_at = coalesce(written_at, @at::timestamptz),
  status = CASE WHEN busy_until > @at::timestamptz THEN status WHEN greatest(written, @written::int) >= revision THEN 'written' ELSE 'pending' END,
  last_error = CASE WHEN busy_until > @at::timestamptz THEN last_error END,
  outcome = CASE WHEN busy_until > @at::timestamptz THEN coalesce(sqlc.narg('said')::jsonb, outcome) ELSE sqlc.narg('said')::jsonb END,
  next_attempt_at = CASE WHEN busy_until > @at::timestamptz THEN next_attempt_at ELSE @at::timestamptz END,
  give_up_at = CASE WHEN status = 'failed' THEN @give_up_at::timestamptz ELSE give_up_at END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose AND attempts > @attempt::int RETURNING *;

-- CallReportRearm has a report that failed written again, or one that waits for its next attempt written at a moment, if that is earlier.
-- name: CallReportRearm :one
UPDATE call_reports SET status = 'pending', failures = CASE WHEN status = 'failed' THEN 0 ELSE failures END,
  next_attempt_at = CASE WHEN status = 'failed' THEN @at::timestamptz WHEN busy_until > @now::timestamptz THEN next_attempt_at
    ELSE least(next_attempt_at, @at::timestamptz) END,
  give_up_at = CASE WHEN status = 'failed' THEN @give_up_at::timestamptz ELSE give_up_at END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose RETURNING *;

-- CallReportClose ends one without an attempt. Like CallReportHasten it names the statuses that it leaves alone: with = 'pending' the row would be looked for
-- among all that the tenant has pending.
-- name: CallReportClose :exec
UPDATE call_reports SET status = @status::text, busy_until = NULL, last_error = coalesce(sqlc.narg('last_error'), last_error), outcome = NULL,
  written = CASE WHEN @status::text = 'written' THEN revision ELSE written END
WHERE tenant_id = @tenant_id AND call_id = @call_id AND purpose = @purpose AND status NOT IN ('written', 'failed');

-- CallSetInsightsOf fills in what the conversation's voice agent has not said itself: what is absent, or was given as insights before. It touches no
-- call that has it all.
-- name: CallSetInsightsOf :execrows
UPDATE calls SET
  ai_summary = CASE WHEN ai_summary IS NULL OR ai_summary = sqlc.narg('was_summary')::text
    THEN coalesce(sqlc.narg('ai_summary'), ai_summary) ELSE ai_summary END,
  ai_sentiment = CASE WHEN ai_sentiment IS NULL OR ai_sentiment = sqlc.narg('was_sentiment')::text
    THEN coalesce(sqlc.narg('ai_sentiment'), ai_sentiment) ELSE ai_sentiment END,
  ai_next_action = CASE WHEN ai_next_action IS NULL OR ai_next_action = sqlc.narg('was_next_action')::text
    THEN coalesce(sqlc.narg('ai_next_action'), ai_next_action) ELSE ai_next_action END
WHERE tenant_id = @tenant_id AND id = @id AND (
  (ai_summary IS NULL OR ai_summary = sqlc.narg('was_summary')::text) AND ai_summary IS DISTINCT FROM coalesce(sqlc.narg('ai_summary'), ai_summary)
  OR (ai_sentiment IS NULL OR ai_sentiment = sqlc.narg('was_sentiment')::text)
    AND ai_sentiment IS DISTINCT FROM coalesce(sqlc.narg('ai_sentiment'), ai_sentiment)
  OR (ai_next_action IS NULL OR ai_next_action = sqlc.narg('was_next_action')::text)
    AND ai_next_action IS DISTINCT FROM coalesce(sqlc.narg('ai_next_action'), ai_next_action));

-- CallReportsPending counts what waits to be reported, up to a bound of each tenant, and tells since when the oldest does; of tenants that are
-- suspended or have paused the integration nothing counts. It needs the system's scope.
-- name: CallReportsPending :one
SELECT coalesce(sum(p.waiting), 0)::bigint AS pending, coalesce(extract(epoch FROM now() - min(p.since)), 0)::float8 AS oldest_s
FROM integrations i JOIN tenants t ON t.id = i.tenant_id AND t.suspended_at IS NULL
CROSS JOIN LATERAL (SELECT count(*) AS waiting, min(b.created_at) AS since FROM (
  SELECT r.created_at FROM call_reports r WHERE r.purpose = @purpose AND r.tenant_id = i.tenant_id AND r.status = 'pending'
  ORDER BY r.next_attempt_at LIMIT @bound::int) b) p
WHERE i.purpose = @purpose AND i.is_active;

-- AdoptReportJobs removes jobs of controllers of an earlier version, and tells how many.
-- name: AdoptReportJobs :one
SELECT adopt_report_jobs()::bigint;

-- CallReportsForget takes up to a batch of the reports of calls from before a moment; what is still to be reported goes when its time, too, was over
-- before then.
-- name: CallReportsForget :execrows
DELETE FROM call_reports d WHERE d.ctid = ANY(ARRAY(
  SELECT o.row_at FROM tenants t CROSS JOIN LATERAL (
    SELECT r.ctid AS row_at FROM call_reports r
    WHERE r.tenant_id = t.id AND r.call_id < @began_before AND r.created_at < @created_before::timestamptz
      AND (r.status <> 'pending' OR r.give_up_at < @created_before::timestamptz)
    ORDER BY r.call_id LIMIT @batch::int
  ) o LIMIT @batch::int));

-- CallReportCall tells whether a call may be reported.
-- name: CallReportCall :one
SELECT (end_time IS NOT NULL)::boolean AS ended, environment FROM calls WHERE tenant_id = @tenant_id AND id = @call_id;
