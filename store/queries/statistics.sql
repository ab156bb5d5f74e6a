-- What campaigns, accounts and lists are asked for; nothing here changes a row.

-- CampaignCallFigures counts a campaign's calls, one row per status and cause. A callee of whom machine detection said nothing
-- is a person.
-- name: CampaignCallFigures :many
SELECT c.status, coalesce(c.hangup_cause, '')::text AS cause, count(*) AS calls, count(*) FILTER (WHERE c.end_time IS NULL) AS live,
  count(*) FILTER (WHERE c.end_time IS NOT NULL) AS ended,
  count(*) FILTER (WHERE c.end_time IS NOT NULL AND c.answer_time IS NOT NULL) AS ended_answered,
  coalesce(sum(extract(epoch FROM c.end_time - c.answer_time)), 0)::float8 AS talk_s,
  count(*) FILTER (WHERE c.agent_id IS NOT NULL AND c.agent_connect_time IS NOT NULL) AS waited,
  coalesce(sum(extract(epoch FROM c.agent_connect_time - coalesce(c.queued_at, c.answer_time)))
    FILTER (WHERE c.agent_id IS NOT NULL), 0)::float8 AS wait_s,
  count(*) FILTER (WHERE p.person) AS persons, count(*) FILTER (WHERE p.person AND c.abandoned) AS abandoned,
  count(*) FILTER (WHERE p.person AND c.answer_time > @since::timestamptz) AS persons_lately,
  count(*) FILTER (WHERE p.person AND c.abandoned AND c.answer_time > @since::timestamptz) AS abandoned_lately
FROM calls c
CROSS JOIN LATERAL (
  SELECT c.answer_time IS NOT NULL AND c.answered_by_amd IS DISTINCT FROM 'machine' AS person
) p
WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id::uuid AND c.direction = 'outbound'
GROUP BY c.status, c.hangup_cause;

-- name: LeadStatusCounts :many
SELECT status, count(*) AS leads FROM leads WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id GROUP BY status;

-- name: AgentStatusCounts :many
SELECT coalesce(a.status, 'offline')::text AS status, count(*) AS agents
FROM users u LEFT JOIN agents a ON a.tenant_id = u.tenant_id AND a.id = u.id
WHERE u.tenant_id = @tenant_id AND u.role = 'agent' AND u.is_active
GROUP BY 1;

-- name: LeadPage :many
SELECT * FROM leads
WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id
  AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
ORDER BY id LIMIT @page_limit OFFSET @page_offset;

-- name: LeadCount :one
SELECT count(*) FROM leads
WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id
  AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'));

-- Usage counts the account's calls that began in [since, until), by the group asked for. from_id is the smallest call id of a
-- somewhat earlier moment.
-- name: Usage :many
SELECT (CASE @group_by::text WHEN 'campaign' THEN coalesce(c.campaign_id::text, '') WHEN 'direction' THEN c.direction
    ELSE to_char(c.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END)::text AS grp,
  count(*) AS calls, count(c.answer_time) AS answered,
  coalesce(sum(extract(epoch FROM c.end_time - c.answer_time)), 0)::float8 AS talk_s
FROM calls c
WHERE c.tenant_id = @tenant_id AND c.id >= @from_id AND c.created_at >= @since::timestamptz AND c.created_at < @until::timestamptz
GROUP BY 1 ORDER BY 1;
