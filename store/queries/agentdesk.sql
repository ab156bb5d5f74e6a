-- What agents do with leads and calls: take the next one, dial, dispose.

-- LeadReservedFor finds the lead of a campaign that a claimant holds. reserved_by has the index; controllers of the version before write claimed_by alone.
-- name: LeadReservedFor :one
SELECT * FROM leads
WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND reserved_by = @claimant::text AND claimed_by = @claimant::text
  AND claimed_until > @now::timestamptz
  AND status IN ('new', 'queued', 'retry', 'callback')
ORDER BY id LIMIT 1 FOR UPDATE;

-- LeadHold makes a claim last.
-- name: LeadHold :exec
UPDATE leads SET claimed_until = @until::timestamptz WHERE tenant_id = @tenant_id AND id = @id AND claimed_by = @claimant::text;

-- LeadsReleaseOthers gives back what a claimant holds in other campaigns: an agent has one lead at a time.
-- name: LeadsReleaseOthers :exec
UPDATE leads SET claimed_by = NULL, reserved_by = NULL, claimed_until = NULL
WHERE tenant_id = @tenant_id AND reserved_by = @claimant::text AND claimed_by = @claimant::text AND campaign_id <> @campaign_id;

-- name: LeadOfPhone :one
SELECT * FROM leads WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id AND phone_hash = @phone_hash;

-- name: CallLock :one
SELECT * FROM calls WHERE tenant_id = @tenant_id AND id = @id /* month of id */ FOR UPDATE;

-- name: CallSetDisposition :one
UPDATE calls SET disposition = @disposition::text, disposition_source = @source::text, notes = coalesce(sqlc.narg('notes'), notes)
WHERE tenant_id = @tenant_id AND id = @id /* month of id */ RETURNING *;

-- LeadSetCallback promises the lead a call at a time, with an attempt left for it. The lead is locked and known not to be one
-- that may never be called again.
-- name: LeadSetCallback :exec
UPDATE leads l SET status = 'callback', status_set_by = @set_by::text, next_attempt_at = @at::timestamptz, completed_at = NULL,
  callback_at = NULL, callback_voice_agent_id = NULL,
  claimed_by = NULL, reserved_by = NULL, claimed_until = NULL, updated_at = now(), attempts = least(l.attempts, greatest(0, c.max_attempts - 1))
FROM campaigns c
WHERE l.tenant_id = @tenant_id AND l.id = @id AND c.tenant_id = l.tenant_id AND c.id = l.campaign_id;

-- LeadPromiseCallback is LeadSetCallback while the lead's call goes on, which is to end first.
-- name: LeadPromiseCallback :exec
UPDATE leads l SET status = 'callback', status_set_by = @set_by::text, next_attempt_at = NULL, completed_at = NULL,
  callback_at = @at::timestamptz, callback_voice_agent_id = sqlc.narg('voice_agent_id'),
  claimed_by = NULL, reserved_by = NULL, claimed_until = NULL, updated_at = now(), attempts = least(l.attempts, greatest(0, c.max_attempts - 1))
FROM campaigns c
WHERE l.tenant_id = @tenant_id AND l.id = @id AND c.tenant_id = l.tenant_id AND c.id = l.campaign_id;

-- LeadsOfHashes locks the tenant's leads with these numbers, in whatever campaign.
-- name: LeadsOfHashes :many
SELECT * FROM leads WHERE tenant_id = @tenant_id AND phone_hash = ANY(@hashes::bytea[]) ORDER BY id FOR UPDATE;

-- CallsPurgePeers forgets numbers in calls: those that are sealed, and those that a strict tenant has from before it was strict.
-- name: CallsPurgePeers :exec
UPDATE calls c SET peer_sealed = NULL,
  from_number = CASE WHEN t.privacy_mode = 'strict' AND c.direction = 'inbound' THEN mask_number(c.from_number) ELSE c.from_number END,
  to_number = CASE WHEN t.privacy_mode = 'strict' AND c.direction = 'outbound' THEN mask_number(c.to_number) ELSE c.to_number END
FROM tenants t
WHERE t.id = @tenant_id AND c.tenant_id = @tenant_id AND c.peer_hash = ANY(@hashes::bytea[])
  AND (c.peer_sealed IS NOT NULL OR t.privacy_mode = 'strict');
