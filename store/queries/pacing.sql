-- What a campaign's pacer looks at, and what it tells.

-- PacedCalls shows the calls that the pacer knows, however they stand, and the campaign's open ones that it doesn't, wherever
-- they are, of which something more can become known: those that nobody has answered, and, if asked for, those on the way to an
-- agent or to a verdict.
-- name: PacedCalls :many
SELECT c.id, c.node, c.dial_time, c.ring_time, c.answer_time, c.queued_at, c.agent_connect_time, c.end_time, c.agent_id,
  c.answered_by_amd, c.abandoned, coalesce(c.hangup_cause, '')::text AS hangup_cause
FROM calls c WHERE c.tenant_id = @tenant_id AND c.id = ANY(@known::uuid[]) AND c.id >= @from_id /* months from c.id */
UNION ALL
SELECT c.id, c.node, c.dial_time, c.ring_time, c.answer_time, c.queued_at, c.agent_connect_time, c.end_time, c.agent_id,
  c.answered_by_amd, c.abandoned, coalesce(c.hangup_cause, '')::text AS hangup_cause
FROM live_calls l JOIN calls c ON c.tenant_id = l.tenant_id AND c.id = l.call_id
WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id::uuid AND l.kind = 'call' AND l.call_id <> ALL(@known::uuid[])
  AND c.id >= @from_id /* months from c.id */ AND c.direction = 'outbound' AND (c.answer_time IS NULL OR @answered_too::bool AND NOT c.abandoned
    AND (c.agent_connect_time IS NULL OR c.answered_by_amd IS NULL));

-- PaceHistory shows how the campaign's latest calls went that have ended, the newest first, with the seconds of the wrap-up
-- that followed (below 0 where none is known). from_id is the smallest call id that is looked at.
-- name: PaceHistory :many
SELECT c.dial_time, c.answer_time, c.agent_connect_time, c.end_time, c.agent_id, c.answered_by_amd,
  coalesce(w.wrap_up_s, -1)::float8 AS wrap_up_s
FROM calls c LEFT JOIN LATERAL (
  SELECT extract(epoch FROM n.at - b.at)::float8 AS wrap_up_s FROM agent_status_log b
  JOIN agent_status_log n ON n.tenant_id = b.tenant_id AND n.agent_id = b.agent_id AND n.version = b.version + 1
  WHERE b.tenant_id = c.tenant_id AND b.agent_id = c.agent_id AND b.status = 'wrap_up' AND b.call_id = c.id
    AND b.at BETWEEN c.end_time - interval '10 seconds' AND c.end_time + interval '10 seconds'
  LIMIT 1
) w ON true
WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id::uuid AND c.direction = 'outbound' AND c.end_time IS NOT NULL
  AND c.id >= @from_id
ORDER BY c.id DESC LIMIT @batch;

-- LeadsWait tells whether a lead is there to be dialed now, held by nobody else, and whether one could be if the registry had cleared it.
-- Each part asks for the first row of one index's order: a plan for an EXISTS expects to find one soon in any order, and reads the whole
-- table where there is none. What is postponed is not read.
-- name: LeadsWait :one
SELECT ((
  SELECT c.id FROM leads c
  WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id AND c.status IN ('retry', 'callback') AND c.dnd_clean
    AND c.next_attempt_at <= @now::timestamptz
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz OR c.claimed_by LIKE 'pacer:%')
  ORDER BY c.next_attempt_at LIMIT 1
) IS NOT NULL OR (
  SELECT c.id FROM leads c
  WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id AND c.status IN ('new', 'queued') AND c.dnd_clean
    AND c.next_attempt_at IS NULL
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz OR c.claimed_by LIKE 'pacer:%')
  ORDER BY c.next_attempt_at LIMIT 1
) IS NOT NULL OR (
  SELECT c.id FROM leads c
  WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id AND c.status IN ('new', 'queued') AND c.dnd_clean
    AND c.next_attempt_at <= @now::timestamptz
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz OR c.claimed_by LIKE 'pacer:%')
  ORDER BY c.next_attempt_at LIMIT 1
) IS NOT NULL)::bool AS waiting, ((
  SELECT u.id FROM leads u
  WHERE u.tenant_id = @tenant_id AND u.campaign_id = @campaign_id AND NOT u.dnd_checked
    AND u.status IN ('new', 'queued', 'retry', 'callback')
  ORDER BY u.id LIMIT 1
) IS NOT NULL)::bool AS unscrubbed;

-- CampaignsWithLeads names those of the campaigns, each with its tenant, of which LeadsWait would say that a lead is there to be dialed, or to be
-- cleared: it needs the system's scope.
-- name: CampaignsWithLeads :many
SELECT k.id::uuid AS id FROM (SELECT unnest(@tenants::uuid[]) AS tenant_id, unnest(@campaigns::uuid[]) AS id) k
WHERE ((
  SELECT c.id FROM leads c
  WHERE c.tenant_id = k.tenant_id AND c.campaign_id = k.id AND c.status IN ('retry', 'callback') AND c.dnd_clean
    AND c.next_attempt_at <= @now::timestamptz
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz OR c.claimed_by LIKE 'pacer:%')
  ORDER BY c.next_attempt_at LIMIT 1
) IS NOT NULL OR (
  SELECT c.id FROM leads c
  WHERE c.tenant_id = k.tenant_id AND c.campaign_id = k.id AND c.status IN ('new', 'queued') AND c.dnd_clean
    AND c.next_attempt_at IS NULL
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz OR c.claimed_by LIKE 'pacer:%')
  ORDER BY c.next_attempt_at LIMIT 1
) IS NOT NULL OR (
  SELECT c.id FROM leads c
  WHERE c.tenant_id = k.tenant_id AND c.campaign_id = k.id AND c.status IN ('new', 'queued') AND c.dnd_clean
    AND c.next_attempt_at <= @now::timestamptz
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz OR c.claimed_by LIKE 'pacer:%')
  ORDER BY c.next_attempt_at LIMIT 1
) IS NOT NULL OR (
  SELECT u.id FROM leads u
  WHERE u.tenant_id = k.tenant_id AND u.campaign_id = k.id AND NOT u.dnd_checked
    AND u.status IN ('new', 'queued', 'retry', 'callback')
  ORDER BY u.id LIMIT 1
) IS NOT NULL);

-- LeadsNextDue tells when the next lead falls due of a campaign that has none to dial now; the epoch where none does.
-- name: LeadsNextDue :one
SELECT coalesce(least(
  (SELECT c.next_attempt_at FROM leads c
  WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id AND c.status IN ('retry', 'callback') AND c.dnd_clean
  ORDER BY c.next_attempt_at LIMIT 1),
  (SELECT q.next_attempt_at FROM leads q
  WHERE q.tenant_id = @tenant_id AND q.campaign_id = @campaign_id AND q.status IN ('new', 'queued') AND q.dnd_clean
    AND q.next_attempt_at IS NOT NULL
  ORDER BY q.next_attempt_at LIMIT 1)
), to_timestamp(0))::timestamptz AS due;

-- name: PaceSet :exec
INSERT INTO campaign_paces (tenant_id, campaign_id, node, mode, lines_per_agent, updated_at)
SELECT k.tenant_id, k.id, @node, @mode, @lines_per_agent, @at::timestamptz FROM campaigns k
WHERE k.tenant_id = @tenant_id AND k.id = @campaign_id
ON CONFLICT (tenant_id, campaign_id) DO UPDATE SET node = excluded.node, mode = excluded.mode,
  lines_per_agent = excluded.lines_per_agent, updated_at = excluded.updated_at;

-- PaceWaits notes what keeps a running campaign from being dialed, or that nothing does.
-- name: PaceWaits :exec
INSERT INTO campaign_paces (tenant_id, campaign_id, node, mode, lines_per_agent, waits_for, waits_until, updated_at)
SELECT k.tenant_id, k.id, @node, k.dial_mode, 1, sqlc.narg('waits_for'), sqlc.narg('waits_until'), @at::timestamptz FROM campaigns k
WHERE k.tenant_id = @tenant_id AND k.id = @campaign_id
ON CONFLICT (tenant_id, campaign_id) DO UPDATE SET waits_for = excluded.waits_for, waits_until = excluded.waits_until,
  updated_at = excluded.updated_at;

-- name: PaceGet :one
SELECT * FROM campaign_paces WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id;

-- AgentsAtWork lists the tenant's agents who are at work, with the controllers that have them.
-- name: AgentsAtWork :many
SELECT a.id, a.node, u.extension, u.tags FROM agents a JOIN users u ON u.tenant_id = a.tenant_id AND u.id = a.id
WHERE a.tenant_id = @tenant_id AND a.status IN ('available', 'on_call', 'wrap_up');
