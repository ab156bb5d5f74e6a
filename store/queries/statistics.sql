-- What campaigns, accounts and lists are asked for; nothing here changes a row.

-- name: AgentStatusCounts :many
SELECT coalesce(a.status, 'offline')::text AS status, count(*) AS agents
FROM users u LEFT JOIN agents a ON a.tenant_id = u.tenant_id AND a.id = u.id
WHERE u.tenant_id = @tenant_id AND u.role = 'agent' AND u.is_active
GROUP BY 1;

-- LeadPage is planned by values. It gives leads behind one: the nil UUID is before all. Those in a call are found by their units.
-- name: LeadPage :many
SELECT * FROM leads l
WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id AND l.id > @after
  AND (sqlc.narg('status')::text IS NULL OR lead_status(l.status, l.claimed_by) = sqlc.narg('status')
    AND (l.status = sqlc.narg('status') OR sqlc.narg('status')::text IN ('dialing', 'connected')
      AND l.id = ANY(ARRAY(SELECT u.lead_id FROM live_calls u WHERE u.tenant_id = @tenant_id AND u.lead_id IS NOT NULL))))
ORDER BY l.id LIMIT @page_limit OFFSET @page_offset;

-- LeadCount reads the campaign's figures, not its leads.
-- name: LeadCount :one
SELECT coalesce(sum(f.n), 0)::bigint AS leads FROM (
  SELECT c.figure, c.n FROM campaign_counts c WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id
  UNION ALL
  SELECT d.figure, d.n FROM campaign_deltas d WHERE d.tenant_id = @tenant_id AND d.campaign_id = @campaign_id
  UNION ALL
  SELECT i.figure, i.n FROM leads_in_call(@tenant_id, @campaign_id) i
) f
WHERE CASE WHEN sqlc.narg('status')::text IS NULL THEN f.figure LIKE 'lead:%' ELSE f.figure = 'lead:' || sqlc.narg('status')::text END;

-- Usage counts the account's calls that began in [since, until), by the group asked for. from_id is the smallest call id of a
-- somewhat earlier moment. Those of test keys have cost nothing.
-- name: Usage :many
SELECT (CASE @group_by::text WHEN 'campaign' THEN coalesce(c.campaign_id::text, '') WHEN 'direction' THEN c.direction
    ELSE to_char(c.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') END)::text AS grp,
  count(*) AS calls, count(c.answer_time) AS answered,
  coalesce(sum(extract(epoch FROM c.end_time - c.answer_time)), 0)::float8 AS talk_s
FROM calls c
WHERE c.tenant_id = @tenant_id AND c.id >= @from_id AND c.created_at >= @since::timestamptz AND c.created_at < @until::timestamptz
  AND c.environment = 'live'
GROUP BY 1 ORDER BY 1;
