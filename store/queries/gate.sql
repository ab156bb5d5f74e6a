-- The gate before every call. Its transaction holds the tenant's gate lock, so that counting live_calls is exact.

-- name: GateLock :exec
SELECT pg_advisory_xact_lock(hashtextextended('ringmaster.gate:' || (@tenant_id::uuid)::text, 0));

-- GateLockNumber takes the gate's lock, then the number's (see NumbersLock), for an admission of one of them.
-- name: GateLockNumber :exec
SELECT pg_advisory_xact_lock(hashtextextended('ringmaster.gate:' || (@tenant_id::uuid)::text, 0)),
  pg_advisory_xact_lock(hashtextextended('ringmaster.number:' || (@tenant_id::uuid)::text || ':' || encode(@phone_hash::bytea, 'hex'), 0));

-- NumbersLock is held by whoever suppresses numbers, from before the first row that it reads or writes until its commit, and by every
-- admission of one of them. So the two are in order: the later one sees what the earlier one has committed. A condition in the
-- statement that admits wouldn't do: a suppression that commits after the statement's snapshot is not in it.
-- name: NumbersLock :exec
SELECT pg_advisory_xact_lock(n.key) FROM (
  SELECT DISTINCT hashtextextended('ringmaster.number:' || (@tenant_id::uuid)::text || ':' || encode(h.hash, 'hex'), 0) AS key
  FROM unnest(@hashes::bytea[]) AS h(hash) ORDER BY 1
) n;

-- CallsRingingAt lists the calls to these numbers that nobody has answered yet; from_id is the smallest id of a moment before them.
-- name: CallsRingingAt :many
SELECT id, node FROM calls
WHERE tenant_id = @tenant_id AND peer_hash = ANY(@hashes::bytea[]) AND id >= @from_id AND direction = 'outbound'
  AND environment = 'live' AND status IN ('dialing', 'ringing');

-- GateFacts reads all that the rules look at, but for the trunks. Calls of no campaign are counted together as one's.
-- name: GateFacts :one
SELECT t.privacy_mode, t.calling_window AS tenant_window, t.daily_cap, t.holidays, t.default_voice_agent_id,
  coalesce(c.status, '')::text AS campaign_status, coalesce(c.environment, 'live')::text AS campaign_environment,
  c.caller_id, c.call_category, c.max_concurrent AS campaign_max, coalesce(c.max_attempts, 0)::int AS max_attempts,
  c.calling_window AS campaign_window, coalesce(c.ring_timeout_s, 0)::int AS ring_timeout_s,
  coalesce(c.amd, false)::bool AS amd, c.announcement_url,
  l.claimed_by AS lead_claimed_by, l.claimed_until AS lead_claimed_until,
  coalesce(lead_status(l.status, l.claimed_by), '')::text AS lead_status, l.phone_hash AS lead_hash, coalesce(l.attempts, 0)::int AS attempts,
  coalesce(l.dnd_checked, false)::bool AS dnd_checked, coalesce(l.dnd_clean, false)::bool AS dnd_clean, l.dnd_checked_at,
  coalesce(l.status IN ('retry', 'callback') AND l.next_attempt_at IS NULL AND l.last_call_id IS NOT NULL, false)::bool AS lead_in_call,
  l.metadata AS lead_metadata, coalesce(v.status, '')::text AS agent_status, coalesce(v.max_concurrent, 0)::int AS agent_max,
  EXISTS (SELECT 1 FROM suppressions s WHERE s.tenant_id = @tenant_id AND s.phone_hash = @phone_hash) AS suppressed,
  u.channels AS channels_used, u.campaign AS campaign_used, u.campaign_here AS campaign_used_here, u.agent AS agent_used,
  u.loose_here AS loose_used_here, u.awaiting_here, u.campaign_awaiting_here
FROM tenants t
LEFT JOIN campaigns c ON c.tenant_id = @tenant_id AND c.id = sqlc.narg('campaign_id')::uuid AND c.deleted_at IS NULL
LEFT JOIN leads l ON l.tenant_id = @tenant_id AND l.id = sqlc.narg('lead_id')::uuid AND l.campaign_id = c.id
LEFT JOIN voice_agents v ON v.tenant_id = @tenant_id AND v.id = sqlc.narg('voice_agent_id')::uuid
CROSS JOIN LATERAL (
  SELECT count(*) AS channels,
    count(*) FILTER (WHERE w.campaign_id = sqlc.narg('campaign_id')::uuid) AS campaign,
    count(*) FILTER (WHERE w.campaign_id = sqlc.narg('campaign_id')::uuid AND w.node = @node::text) AS campaign_here,
    count(*) FILTER (WHERE w.voice_agent_id = sqlc.narg('voice_agent_id')::uuid) AS agent,
    count(*) FILTER (WHERE w.campaign_id IS NULL AND w.node = @node::text) AS loose_here,
    count(*) FILTER (WHERE w.awaits_agent AND w.node = @node::text) AS awaiting_here,
    count(*) FILTER (WHERE w.awaits_agent AND w.node = @node::text
      AND w.campaign_id IS NOT DISTINCT FROM sqlc.narg('campaign_id')::uuid) AS campaign_awaiting_here
  FROM live_calls w WHERE w.tenant_id = @tenant_id AND w.kind <> 'test'
) u
WHERE t.id = @tenant_id;

-- GateDialedToday counts the calls that a number got since a moment, from whichever of the tenant's campaigns: what the switch never
-- had a channel for is none; of the calls of a lost host nobody knows, so they count. from_id is the smallest call id of a somewhat earlier moment.
-- It counts no further than one beyond the lower of the caps, the deployment's (0 for none) and the tenant's, and nothing where there is none.
-- name: GateDialedToday :one
SELECT count(*) FROM (
  SELECT FROM calls c
  WHERE c.tenant_id = @tenant_id AND c.peer_hash = @phone_hash AND c.id >= @from_id /* months from c.id */ AND c.direction = 'outbound'
    AND c.environment = 'live' AND c.dial_time >= @since::timestamptz
    AND NOT (c.status = 'failed' AND c.ring_time IS NULL AND c.sip_status IS NULL AND c.hangup_disposition IS NULL
      AND c.hangup_cause <> 'HOST_LOST')
  LIMIT (SELECT coalesce(least(t.daily_cap, nullif(@cap::int, 0)) + 1, 0) FROM tenants t WHERE t.id = @tenant_id)
) today;

-- GateNumbers gives the active numbers that a call may show. Where one is asked for, in any of its spellings, or is the campaign's own, it is that
-- one alone. Else they are, of each trunk's and of those of none, by the series that they begin with, the one whose turn is longest ago.
-- name: GateNumbers :many
WITH named AS (
  SELECT a.e164 FROM unnest(@asked::text[]) AS a(e164)
  UNION ALL
  SELECT k.caller_id FROM campaigns k
  WHERE k.tenant_id = @tenant_id AND k.id = sqlc.narg('campaign_id')::uuid AND k.caller_id <> '' AND cardinality(@asked::text[]) = 0
), turns AS (
  SELECT DISTINCT ON (c.trunk_id, c.series) c.id, c.e164, c.trunk_id, c.shown_at FROM (
    SELECT n.id, n.e164, n.trunk_id, n.shown_at, coalesce((SELECT max(s.begins) FROM unnest(@series::text[]) AS s(begins) WHERE starts_with(n.e164, s.begins)), '') AS series
    FROM numbers n WHERE n.tenant_id = @tenant_id AND n.is_active AND NOT EXISTS (SELECT 1 FROM named)
  ) c
  ORDER BY c.trunk_id, c.series, c.shown_at NULLS FIRST, c.id
)
SELECT n.id, n.e164, n.trunk_id, n.shown_at, true AS asked FROM numbers n
WHERE n.tenant_id = @tenant_id AND n.is_active AND n.e164 = ANY(ARRAY(SELECT d.e164 FROM named d))
UNION ALL
SELECT t.id, t.e164, t.trunk_id, t.shown_at, false FROM turns t;

-- GateNumberShown ends a number's turn. A tenant's only number has none.
-- name: GateNumberShown :exec
UPDATE numbers n SET shown_at = clock_timestamp() WHERE n.tenant_id = @tenant_id AND n.id = @id
  AND EXISTS (SELECT FROM numbers o WHERE o.tenant_id = @tenant_id AND o.id <> @id AND o.is_active);

-- NumberOwned finds an active number of the tenant's by the ways in which it may be written.
-- name: NumberOwned :one
SELECT e164 FROM numbers WHERE tenant_id = @tenant_id AND is_active AND e164 = ANY(@spellings::text[]) LIMIT 1;

-- NumbersOfSeries tells whether the tenant has an active number that begins with series.
-- name: NumbersOfSeries :one
SELECT EXISTS (SELECT 1 FROM numbers WHERE tenant_id = @tenant_id AND is_active AND e164 LIKE @series::text || '%');

-- GateTrunks lists the active trunks with their use: units held, and calls begun within the last window_s seconds, by the database's clock, which all
-- controllers share, and in how many seconds the first of these is no longer among them. Call ids are made by the controllers' clocks: from_id is
-- the smallest of a somewhat earlier moment. A plan for any moment takes those that began after it for a third of all; for few, where there is an upper
-- bound: so they are found by calls_by_direction_and_time.
-- name: GateTrunks :many
WITH held AS (
  SELECT u.trunk_id, count(*) AS units, count(*) FILTER (
    WHERE u.rerouted_at > statement_timestamp() - make_interval(secs => @window_s::float8)
      OR u.kind = 'transfer' AND u.opened_at > statement_timestamp() - make_interval(secs => @window_s::float8)) AS others,
    min(greatest(u.rerouted_at, u.opened_at)) FILTER (
    WHERE u.rerouted_at > statement_timestamp() - make_interval(secs => @window_s::float8)
      OR u.kind = 'transfer' AND u.opened_at > statement_timestamp() - make_interval(secs => @window_s::float8)) AS first
  FROM live_calls u WHERE u.tenant_id = @tenant_id GROUP BY u.trunk_id
), begun AS (
  SELECT b.trunk_id, count(*) AS calls, min(b.created_at) AS first FROM calls b
  WHERE b.tenant_id = @tenant_id AND b.id >= @from_id /* months from b.id */
    AND b.direction = 'outbound' AND b.created_at > statement_timestamp() - make_interval(secs => @window_s::float8)
    AND b.created_at <= 'infinity'
  GROUP BY b.trunk_id
)
SELECT k.id, k.name, k.host, k.port, k.transport, k.username, k.register, k.number_format, k.max_channels, k.cps, k.rests_until,
  coalesce(h.units, 0)::bigint AS channels_used, (coalesce(b.calls, 0) + coalesce(h.others, 0))::bigint AS recent,
  coalesce(extract(epoch FROM least(b.first, h.first) - statement_timestamp()) + @window_s::float8, 0)::float8 AS frees_in_s
FROM trunks k LEFT JOIN held h ON h.trunk_id = k.id LEFT JOIN begun b ON b.trunk_id = k.id
WHERE k.tenant_id = @tenant_id AND k.is_active ORDER BY k.priority, k.name;

-- GateAdmit writes the call, its unit and the lead's new state together. No row comes back when the lead is no longer one
-- that may be dialed, or is not the claimant's any more. The unit of a test key's call holds nothing: by it the call is found while it is open.
-- name: GateAdmit :one
WITH lead AS (
  UPDATE leads l SET claimed_by = 'dialing', claimed_until = '9999-12-31', attempts = l.attempts + 1, last_call_id = @id, next_attempt_at = NULL,
    reserved_by = NULL, dnd_checked = true, dnd_clean = true,
    dnd_checked_at = coalesce(sqlc.narg('scrubbed_at')::timestamptz, l.dnd_checked_at), updated_at = now()
  WHERE l.tenant_id = @tenant_id AND l.id = sqlc.narg('lead_id')::uuid AND lead_status(l.status, l.claimed_by) IN ('new', 'queued', 'retry', 'callback')
    AND (l.dnd_clean OR NOT l.dnd_checked)
    AND (sqlc.narg('claimant')::text IS NULL OR l.claimed_by = sqlc.narg('claimant')::text)
  RETURNING l.id
), unit AS (
  INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, campaign_id, voice_agent_id, trunk_id, node, opened_at,
    awaits_agent, lead_id)
  SELECT @tenant_id, @id, @id, CASE WHEN @environment::text = 'test' THEN 'test' ELSE 'call' END,
    CASE WHEN @environment::text <> 'test' THEN sqlc.narg('campaign_id')::uuid END,
    CASE WHEN @environment::text <> 'test' THEN sqlc.narg('voice_agent_id')::uuid END,
    sqlc.narg('trunk_id')::uuid, @node, clock_timestamp(), @awaits_agent::bool,
    sqlc.narg('lead_id')::uuid
  WHERE sqlc.narg('lead_id')::uuid IS NULL OR EXISTS (SELECT 1 FROM lead)
)
INSERT INTO calls (tenant_id, id, campaign_id, lead_id, agent_id, voice_agent_id, trunk_id, node, fs_uuid, direction, environment, status,
  from_number, to_number, peer_hash, peer_sealed, dial_time, metadata, amd, flow_id, created_at)
SELECT @tenant_id, @id, sqlc.narg('campaign_id')::uuid, sqlc.narg('lead_id')::uuid, sqlc.narg('agent_id')::uuid,
  sqlc.narg('voice_agent_id')::uuid, sqlc.narg('trunk_id')::uuid, @node, @fs_uuid, @direction, @environment, 'dialing', @from_number, @to_number, @peer_hash,
  sqlc.narg('peer_sealed'), @dial_time::timestamptz, sqlc.narg('metadata'), @amd::bool, sqlc.narg('flow_id')::uuid,
  clock_timestamp()
WHERE sqlc.narg('lead_id')::uuid IS NULL OR EXISTS (SELECT 1 FROM lead)
RETURNING *;

-- name: GateOpenTransfer :exec
INSERT INTO live_calls (tenant_id, unit_id, call_id, kind, campaign_id, trunk_id, node, opened_at)
VALUES (@tenant_id, @unit_id, @call_id, 'transfer', sqlc.narg('campaign_id'), sqlc.narg('trunk_id'), @node, clock_timestamp());

-- name: GateParent :one
SELECT * FROM calls WHERE tenant_id = @tenant_id AND id = @id;

-- ChannelsInUse counts all calls of the account, but those of test keys.
-- name: ChannelsInUse :one
SELECT count(*) FROM live_calls WHERE tenant_id = @tenant_id AND kind <> 'test';

-- name: ChannelsAllocated :one
SELECT coalesce(sum(max_channels), 0)::int AS channels, count(*)::int AS trunks FROM trunks
WHERE tenant_id = @tenant_id AND is_active;
