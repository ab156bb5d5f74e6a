-- Campaigns' figures: kept by triggers (migrations 0010, 0080 and 0092), summed here over what is folded and what is not.

-- CampaignFigures gives each of a campaign's figures, and, of those that stand by the minute, the sum since a moment. What is in a call isn't kept:
-- the tenant's live calls and the leads in one are read themselves.
-- name: CampaignFigures :many
SELECT f.figure, sum(f.n)::bigint AS n, coalesce(sum(f.n) FILTER (WHERE f.minute >= @since::timestamptz), 0)::bigint AS lately
FROM (
  SELECT c.figure, c.minute, c.n FROM campaign_counts c WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id
  UNION ALL
  SELECT d.figure, d.minute, d.n FROM campaign_deltas d WHERE d.tenant_id = @tenant_id AND d.campaign_id = @campaign_id
  UNION ALL
  SELECT e.figure, e.minute, e.n * h.n FROM call_changes h CROSS JOIN LATERAL call_figures(h.status, h.hangup_cause, h.agent_id, h.answered_by_amd,
    h.abandoned, h.queued_at, h.answer_time, h.agent_connect_time, h.end_time) e
  WHERE h.tenant_id = @tenant_id AND h.campaign_id = @campaign_id AND h.direction = 'outbound'
  UNION ALL
  SELECT l.figure, timestamptz 'epoch', l.n FROM leads_in_call(@tenant_id, @campaign_id) l
  UNION ALL
  SELECT g.figure, g.minute, g.n FROM live_calls u JOIN calls o ON o.tenant_id = u.tenant_id AND o.id = u.call_id
  CROSS JOIN LATERAL call_figures(o.status, o.hangup_cause, o.agent_id, o.answered_by_amd, o.abandoned, o.queued_at, o.answer_time,
    o.agent_connect_time, o.end_time) g
  WHERE u.tenant_id = @tenant_id AND u.kind = 'call' AND u.campaign_id = @campaign_id
    AND o.id >= @from_id /* months from o.id */ AND o.campaign_id = @campaign_id AND o.direction = 'outbound' AND o.end_time IS NULL
) f
GROUP BY f.figure;

-- CampaignCountsLock is held by the one who folds; the others go without. Folding is over all tenants: it needs the system's
-- scope.
-- name: CampaignCountsLock :one
SELECT pg_try_advisory_xact_lock(hashtextextended('ringmaster.campaign_counts', 0))::bool AS locked;

-- CampaignDeltasFold moves up to a batch of changes into the counts and tells how many it took. Those of minutes before old go
-- to no minute in particular, those of a campaign that is gone nowhere. Who folds holds the lock, so that no other inserts a count meanwhile:
-- ON CONFLICT would write the lock of each row that it finds.
-- name: CampaignDeltasFold :one
WITH taken AS (
  DELETE FROM campaign_deltas d WHERE d.ctid = ANY(ARRAY(SELECT e.ctid FROM campaign_deltas e LIMIT @batch::int))
  RETURNING d.tenant_id, d.campaign_id, d.figure, d.minute, d.n
), sums AS (
  SELECT t.tenant_id, t.campaign_id, t.figure, CASE WHEN t.minute < @old::timestamptz THEN 'epoch' ELSE t.minute END AS minute, sum(t.n)::bigint AS n
  FROM taken t
  WHERE EXISTS (SELECT 1 FROM campaigns k WHERE k.tenant_id = t.tenant_id AND k.id = t.campaign_id)
  GROUP BY 1, 2, 3, 4 HAVING sum(t.n) <> 0
), known AS (
  UPDATE campaign_counts c SET n = c.n + s.n FROM sums s
  WHERE c.tenant_id = s.tenant_id AND c.campaign_id = s.campaign_id AND c.figure = s.figure AND c.minute = s.minute
  RETURNING c.tenant_id, c.campaign_id, c.figure, c.minute
), fresh AS (
  INSERT INTO campaign_counts (tenant_id, campaign_id, figure, minute, n)
  SELECT s.tenant_id, s.campaign_id, s.figure, s.minute, s.n FROM sums s
  WHERE NOT EXISTS (SELECT 1 FROM known w WHERE w.tenant_id = s.tenant_id AND w.campaign_id = s.campaign_id AND w.figure = s.figure AND w.minute = s.minute)
)
SELECT count(*) FROM taken;

-- CampaignCountsRollUp gives up the minutes before old.
-- name: CampaignCountsRollUp :exec
WITH past AS (
  DELETE FROM campaign_counts p WHERE p.minute > 'epoch' AND p.minute < @old::timestamptz
  RETURNING p.tenant_id, p.campaign_id, p.figure, p.n
)
INSERT INTO campaign_counts AS c (tenant_id, campaign_id, figure, n)
SELECT p.tenant_id, p.campaign_id, p.figure, sum(p.n) FROM past p GROUP BY 1, 2, 3
ON CONFLICT (tenant_id, campaign_id, figure, minute) DO UPDATE SET n = c.n + excluded.n;

-- CallChangesFold moves up to a batch of ended calls' changes into the figures of campaigns and the counts of calls (migration 0092), with what counting
-- anew has found or a version before has told, and tells how many it took.
-- name: CallChangesFold :one
SELECT fold_call_deltas(@batch::int, @old::timestamptz)::bigint AS taken;
