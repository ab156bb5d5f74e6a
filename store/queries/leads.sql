-- Leads: how they come in, how they are claimed, and what becomes of them.

-- LeadsInsert adds those rows that are no duplicates, neither of the campaign's leads nor of one another, and names them. Empty text stands for
-- none. Who adds several adds them in the order of their numbers' hashes, as LeadsPush does: two who waited for each other's would be a deadlock.
-- name: LeadsInsert :many
INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_sealed, phone_hash, phone_last4, name, email, metadata, crm_lead_id,
  dnd_checked, dnd_clean, dnd_checked_at, priority, status, completed_at)
SELECT @tenant_id, r.id, @campaign_id, nullif(r.phone, ''), nullif(r.sealed, ''::bytea), r.hash, r.last4, nullif(r.name, ''),
  nullif(r.email, ''), nullif(r.metadata, '')::jsonb, nullif(r.crm_lead_id, ''), r.checked, r.checked AND NOT r.listed,
  CASE WHEN r.checked THEN @now::timestamptz END, r.priority, r.status,
  CASE WHEN r.status <> 'new' THEN @now::timestamptz END
FROM (
  SELECT unnest(@ids::uuid[]) AS id, unnest(@phones::text[]) AS phone, unnest(@sealed::bytea[]) AS sealed,
    unnest(@hashes::bytea[]) AS hash, unnest(@last4s::text[]) AS last4, unnest(@names::text[]) AS name,
    unnest(@emails::text[]) AS email, unnest(@metadatas::text[]) AS metadata, unnest(@crm_lead_ids::text[]) AS crm_lead_id,
    unnest(@checked::bool[]) AS checked, unnest(@listed::bool[]) AS listed, unnest(@priorities::int[]) AS priority,
    unnest(@statuses::text[]) AS status
) r
ORDER BY r.hash, r.id
ON CONFLICT DO NOTHING
RETURNING id;

-- LeadsPush adds leads that are new, by one statement: none where the campaign isn't there or the tenant is strict, and not those whose number is on
-- the tenant's suppression list, or which the campaign has. Empty text stands for none.
-- name: LeadsPush :many
INSERT INTO leads (tenant_id, id, campaign_id, phone, phone_hash, phone_last4, name, email, metadata, crm_lead_id, dnd_checked, dnd_clean,
  dnd_checked_at, priority)
SELECT @tenant_id, r.id, @campaign_id, r.phone, r.hash, r.last4, nullif(r.name, ''), nullif(r.email, ''), nullif(r.metadata, '')::jsonb,
  nullif(r.crm_lead_id, ''), r.checked, r.checked, CASE WHEN r.checked THEN @now::timestamptz END, r.priority
FROM (
  SELECT unnest(@ids::uuid[]) AS id, unnest(@phones::text[]) AS phone, unnest(@hashes::bytea[]) AS hash, unnest(@last4s::text[]) AS last4,
    unnest(@names::text[]) AS name, unnest(@emails::text[]) AS email, unnest(@metadatas::text[]) AS metadata,
    unnest(@crm_lead_ids::text[]) AS crm_lead_id, unnest(@checked::bool[]) AS checked, unnest(@priorities::int[]) AS priority
) r
WHERE EXISTS (SELECT FROM campaigns k WHERE k.tenant_id = @tenant_id AND k.id = @campaign_id AND k.deleted_at IS NULL)
  AND (SELECT t.privacy_mode FROM tenants t WHERE t.id = @tenant_id) = 'standard'
  AND r.hash <> ALL(ARRAY(SELECT s.phone_hash FROM suppressions s WHERE s.tenant_id = @tenant_id AND s.phone_hash = ANY(@hashes::bytea[])))
ORDER BY r.hash, r.id
ON CONFLICT DO NOTHING
RETURNING id, metadata, dnd_checked_at, custom_fields, created_at;

-- name: LeadFindDuplicate :one
SELECT id, crm_lead_id FROM leads
WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id
  AND (phone_hash = @phone_hash OR crm_lead_id = sqlc.narg('crm_lead_id')::text)
ORDER BY (phone_hash = @phone_hash) DESC LIMIT 1;

-- LeadGet finds no lead of a campaign that is deleted, nor do LeadView and LeadLock.
-- name: LeadGet :one
SELECT * FROM leads l WHERE l.tenant_id = @tenant_id AND l.id = @id AND EXISTS (
  SELECT FROM campaigns k WHERE k.tenant_id = l.tenant_id AND k.id = l.campaign_id AND k.deleted_at IS NULL);

-- LeadView is LeadGet with what the lead's number is shown by.
-- name: LeadView :one
SELECT sqlc.embed(l), t.privacy_mode
FROM leads l JOIN campaigns k ON k.tenant_id = l.tenant_id AND k.id = l.campaign_id JOIN tenants t ON t.id = l.tenant_id
WHERE l.tenant_id = @tenant_id AND l.id = @id AND k.deleted_at IS NULL;

-- LeadOwner tells how a tenant's numbers are shown, and whether a campaign of it is there.
-- name: LeadOwner :one
SELECT t.privacy_mode, EXISTS (SELECT FROM campaigns k WHERE k.tenant_id = t.id AND k.id = @campaign_id AND k.deleted_at IS NULL) AS found
FROM tenants t WHERE t.id = @tenant_id;

-- name: LeadLock :one
SELECT * FROM leads l WHERE l.tenant_id = @tenant_id AND l.id = @id AND EXISTS (
  SELECT FROM campaigns k WHERE k.tenant_id = l.tenant_id AND k.id = l.campaign_id AND k.deleted_at IS NULL)
FOR UPDATE OF l;

-- LeadSuppressed tells whether a lead's number is on the tenant's suppression list.
-- name: LeadSuppressed :one
SELECT EXISTS (SELECT FROM leads l JOIN suppressions s ON s.tenant_id = l.tenant_id AND s.phone_hash = l.phone_hash
  WHERE l.tenant_id = @tenant_id AND l.id = @id);

-- name: SuppressedHashes :many
SELECT phone_hash FROM suppressions WHERE tenant_id = @tenant_id AND phone_hash = ANY(@hashes::bytea[]);

-- ScrubCounts reads the campaign's figures, and of its leads only those that aren't clean, from their index.
-- name: ScrubCounts :one
SELECT (SELECT coalesce(sum(f.n), 0) FROM (
    SELECT c.figure, c.n FROM campaign_counts c WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id
    UNION ALL
    SELECT d.figure, d.n FROM campaign_deltas d WHERE d.tenant_id = @tenant_id AND d.campaign_id = @campaign_id
    UNION ALL
    SELECT i.figure, i.n FROM leads_in_call(@tenant_id, @campaign_id) i
  ) f WHERE f.figure LIKE 'lead:%')::bigint AS total,
  count(*) FILTER (WHERE NOT l.dnd_checked) AS pending, count(*) FILTER (WHERE l.dnd_checked) AS flagged
FROM leads l WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id AND NOT l.dnd_clean;

-- LeadsCheckedBefore walks the numbers of a campaign's leads whose check is not younger than a moment, or missing, in batches. None is
-- locked: the registry is asked meanwhile.
-- name: LeadsCheckedBefore :many
SELECT id, phone, phone_sealed FROM leads WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND id > @after
  AND (dnd_checked_at IS NULL OR dnd_checked_at <= @before::timestamptz)
ORDER BY id LIMIT @batch;

-- name: LeadsUnscrubbed :many
SELECT id, phone, phone_sealed FROM leads WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id
  AND NOT dnd_checked AND status IN ('new', 'queued', 'retry', 'callback') AND id > @after
ORDER BY id LIMIT @batch;

-- LeadsUnscrubbedCount counts the leads that could be dialed and are not scrubbed, from an index that holds no others.
-- name: LeadsUnscrubbedCount :one
SELECT count(*) FROM leads WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id
  AND NOT dnd_checked AND status IN ('new', 'queued', 'retry', 'callback');

-- LeadsMarkScrubbed locks the leads in the order of their ids, as two scrubs of one campaign must.
-- name: LeadsMarkScrubbed :exec
UPDATE leads l SET dnd_checked = true, dnd_clean = NOT r.listed, dnd_checked_at = @now::timestamptz, updated_at = now()
FROM (
  SELECT k.id, u.listed FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@listed::bool[]) AS listed) u
  JOIN leads k ON k.tenant_id = @tenant_id AND k.id = u.id ORDER BY k.id FOR UPDATE OF k
) r
WHERE l.tenant_id = @tenant_id AND l.id = r.id;

-- name: LeadsLockWaiting :many
SELECT * FROM leads WHERE tenant_id = @tenant_id AND id = ANY(@ids::uuid[]) AND lead_status(status, claimed_by) IN ('new', 'queued', 'retry', 'callback')
ORDER BY id FOR UPDATE;

-- name: LeadFinish :exec
UPDATE leads SET status = @status, completed_at = @completed_at::timestamptz, next_attempt_at = NULL, claimed_by = NULL, reserved_by = NULL,
  claimed_until = NULL, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id;

-- LeadSetStatus puts a status on a lead whose call goes on: the call's end gives it its time. A callback that was promised stays one.
-- name: LeadSetStatus :exec
UPDATE leads SET status = @status, status_set_by = @set_by::text, next_attempt_at = NULL, completed_at = NULL,
  callback_at = CASE WHEN @status = 'callback' THEN callback_at END,
  callback_voice_agent_id = CASE WHEN @status = 'callback' THEN callback_voice_agent_id END,
  claimed_by = NULL, reserved_by = NULL, claimed_until = NULL, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id;

-- LeadSetField puts one entry into a lead's custom fields, or takes it away when its value is null.
-- name: LeadSetField :execrows
UPDATE leads SET custom_fields = CASE WHEN @value::jsonb = 'null'::jsonb THEN custom_fields - @field::text
  ELSE custom_fields || jsonb_build_object(@field::text, @value::jsonb) END, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id AND (@value::jsonb = 'null'::jsonb
  OR octet_length((custom_fields || jsonb_build_object(@field::text, @value::jsonb))::text) <= @max_bytes::int);

-- LeadPurgePhone forgets a number that is sealed, or that a strict tenant has from before it was strict; the hash and the last four digits stay.
-- name: LeadPurgePhone :exec
UPDATE leads l SET phone = NULL, phone_sealed = NULL, updated_at = now() FROM tenants t
WHERE l.tenant_id = @tenant_id AND l.id = @id AND t.id = l.tenant_id
  AND (l.phone_sealed IS NOT NULL OR l.phone IS NOT NULL AND t.privacy_mode = 'strict');

-- name: LeadReschedule :exec
UPDATE leads SET status = @status, attempts = @attempts, trunk_failures = trunk_failures + @trunk_failures::int,
  next_attempt_at = @next_attempt_at::timestamptz, callback_at = NULL, claimed_by = NULL, reserved_by = NULL, claimed_until = NULL, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id;

-- name: LeadSetDisposition :exec
UPDATE leads SET disposition = @disposition, updated_at = now() WHERE tenant_id = @tenant_id AND id = @id;

-- LeadMarkConnected writes no index, but for a lead that a controller of the version before has dialed.
-- name: LeadMarkConnected :execrows
UPDATE leads SET status = CASE WHEN status = 'dialing' THEN 'connected' ELSE status END,
  claimed_by = CASE WHEN status <> 'dialing' THEN 'connected' END, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id AND last_call_id = @call_id::uuid AND lead_status(status, claimed_by) = 'dialing';

-- PlanByValues has the rest of the transaction planned for the values at hand. A claim's plan for any batch reckons with a tenth of
-- the leads, and reads them all; one for whatever filters of a list uses the index of none. The test of all plans knows what is so planned.
-- name: PlanByValues :exec
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);

-- LeadsClaimCallbacks claims callbacks whose time has come, the longest overdue first. They are chosen once, in a query of their
-- own: a plan that joins the choice again for each row would claim more than the batch. A claim holds until its lease ends; since a
-- campaign has one pacer, a claim of another pacer (claimed_by begins with 'pacer:') is that of one which is gone. reserved_by has an index for
-- agents, who ask what they hold, and is no pacer's: its claims write no index.
-- name: LeadsClaimCallbacks :many
WITH due AS MATERIALIZED (
  SELECT c.id FROM leads c
  WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id AND c.status = 'callback' AND c.dnd_clean
    AND c.next_attempt_at <= @now::timestamptz
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz
      OR (c.claimed_by LIKE 'pacer:%' AND c.claimed_by <> @claimant::text))
  ORDER BY c.next_attempt_at LIMIT @batch FOR UPDATE SKIP LOCKED
)
UPDATE leads l SET claimed_by = @claimant::text, reserved_by = CASE WHEN @claimant::text LIKE 'agent:%' THEN @claimant::text END, claimed_until = @until::timestamptz
FROM due
WHERE l.tenant_id = @tenant_id AND l.id = due.id
RETURNING l.id, l.phone, l.phone_sealed, l.next_attempt_at, l.callback_voice_agent_id;

-- LeadPriorities gives the priorities of the leads that were never dialed and of the retries that have fallen due, highest first. It
-- leaps from one to the next, however many leads each has.
-- name: LeadPriorities :many
WITH RECURSIVE fresh AS (
  (SELECT l.priority FROM leads l
  WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id AND l.status IN ('new', 'queued') AND l.dnd_clean
  ORDER BY l.priority DESC LIMIT 1)
  UNION ALL
  SELECT n.priority FROM fresh f CROSS JOIN LATERAL (SELECT l.priority FROM leads l
    WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id AND l.status IN ('new', 'queued') AND l.dnd_clean
      AND l.priority < f.priority
    ORDER BY l.priority DESC LIMIT 1) n
), retries AS (
  (SELECT l.priority FROM leads l
  WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id AND l.status = 'retry' AND l.dnd_clean
  ORDER BY l.priority DESC LIMIT 1)
  UNION ALL
  SELECT n.priority FROM retries f CROSS JOIN LATERAL (SELECT l.priority FROM leads l
    WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id AND l.status = 'retry' AND l.dnd_clean AND l.priority < f.priority
    ORDER BY l.priority DESC LIMIT 1) n
)
SELECT priority FROM fresh
UNION
SELECT r.priority FROM retries r WHERE EXISTS (SELECT FROM leads l
  WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id AND l.status = 'retry' AND l.dnd_clean AND l.priority = r.priority
    AND l.next_attempt_at <= @now::timestamptz)
ORDER BY priority DESC;

-- LeadsClaimRetries claims retries of one priority that have fallen due since a moment, the longest overdue first.
-- name: LeadsClaimRetries :many
WITH due AS MATERIALIZED (
  SELECT c.id FROM leads c
  WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id AND c.status = 'retry' AND c.dnd_clean AND c.priority = @priority
    AND c.next_attempt_at <= @now::timestamptz AND c.next_attempt_at >= @since::timestamptz
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz
      OR (c.claimed_by LIKE 'pacer:%' AND c.claimed_by <> @claimant::text))
  ORDER BY c.next_attempt_at LIMIT @batch FOR UPDATE SKIP LOCKED
)
UPDATE leads l SET claimed_by = @claimant::text, reserved_by = CASE WHEN @claimant::text LIKE 'agent:%' THEN @claimant::text END, claimed_until = @until::timestamptz
FROM due
WHERE l.tenant_id = @tenant_id AND l.id = due.id
RETURNING l.id, l.phone, l.phone_sealed, l.next_attempt_at, l.callback_voice_agent_id;

-- LeadsClaimFresh claims leads of one priority that were never dialed, in the order in which they came, from one on: it doesn't look
-- at those before.
-- name: LeadsClaimFresh :many
WITH fresh AS MATERIALIZED (
  SELECT c.id FROM leads c
  WHERE c.tenant_id = @tenant_id AND c.campaign_id = @campaign_id AND c.status IN ('new', 'queued') AND c.dnd_clean
    AND c.priority = @priority AND c.id >= @from_id
    AND (c.next_attempt_at IS NULL OR c.next_attempt_at <= @now::timestamptz)
    AND (c.claimed_by IS NULL OR c.claimed_until <= @now::timestamptz
      OR (c.claimed_by LIKE 'pacer:%' AND c.claimed_by <> @claimant::text))
  ORDER BY c.priority DESC, c.id LIMIT @batch FOR UPDATE SKIP LOCKED
)
UPDATE leads l SET claimed_by = @claimant::text, reserved_by = CASE WHEN @claimant::text LIKE 'agent:%' THEN @claimant::text END, claimed_until = @until::timestamptz
FROM fresh
WHERE l.tenant_id = @tenant_id AND l.id = fresh.id
RETURNING l.id, l.phone, l.phone_sealed, l.next_attempt_at, l.callback_voice_agent_id;

-- name: LeadsRelease :exec
UPDATE leads SET claimed_by = NULL, reserved_by = NULL, claimed_until = NULL
WHERE tenant_id = @tenant_id AND id = ANY(@ids::uuid[]) AND claimed_by = @claimant::text;

-- LeadPostpone puts a claimed lead back to wait; one that was never dialed waits as queued.
-- name: LeadPostpone :exec
UPDATE leads SET status = CASE WHEN status = 'new' THEN 'queued' ELSE status END, next_attempt_at = @next_attempt_at::timestamptz,
  claimed_by = NULL, reserved_by = NULL, claimed_until = NULL, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id AND claimed_by = @claimant::text
  AND status IN ('new', 'queued', 'retry', 'callback');

-- name: DNCLoadInsert :exec
INSERT INTO dnc_loads (id, source, numbers, loaded_at, version) VALUES (@id, @source, @numbers, @loaded_at, @version);

-- name: LeadEdit :one
UPDATE leads SET name = @name, email = @email, metadata = @metadata, crm_lead_id = @crm_lead_id, custom_fields = @custom_fields,
  priority = @priority, updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id
RETURNING *;

-- name: LeadDelete :execrows
DELETE FROM leads WHERE tenant_id = @tenant_id AND id = @id;
