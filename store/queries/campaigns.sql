-- Campaigns and their state machine.

-- name: CampaignInsert :one
INSERT INTO campaigns (tenant_id, id, name, dial_mode, voice_agent_id, post_answer_action, predictive_target_abandon,
  predictive_max_wait_s, max_concurrent, caller_id, flow_id, description, script, notes, ring_timeout_s, amd, voicemail_action,
  voicemail_message_url, max_attempts, retry, calling_window, announcement_url, agent_whisper_url, wrap_up_s, overflow_action,
  call_category, overflow_greeting_url)
VALUES (@tenant_id, @id, @name, @dial_mode, sqlc.narg('voice_agent_id'), @post_answer_action, @predictive_target_abandon,
  @predictive_max_wait_s, sqlc.narg('max_concurrent'), sqlc.narg('caller_id'), sqlc.narg('flow_id'), sqlc.narg('description'),
  sqlc.narg('script'), sqlc.narg('notes'), @ring_timeout_s, @amd, @voicemail_action, sqlc.narg('voicemail_message_url'),
  @max_attempts, @retry, sqlc.narg('calling_window'), sqlc.narg('announcement_url'), sqlc.narg('agent_whisper_url'),
  sqlc.narg('wrap_up_s'), @overflow_action, sqlc.narg('call_category'), sqlc.narg('overflow_greeting_url'))
RETURNING *;

-- name: CampaignGet :one
SELECT * FROM campaigns WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- name: CampaignLock :one
SELECT * FROM campaigns WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL FOR UPDATE;

-- name: CampaignList :many
SELECT * FROM campaigns WHERE tenant_id = @tenant_id AND deleted_at IS NULL AND id > @after ORDER BY id LIMIT @most;

-- name: CampaignUpdate :one
UPDATE campaigns SET name = @name, dial_mode = @dial_mode, voice_agent_id = sqlc.narg('voice_agent_id'),
  post_answer_action = @post_answer_action, predictive_target_abandon = @predictive_target_abandon,
  predictive_max_wait_s = @predictive_max_wait_s, max_concurrent = sqlc.narg('max_concurrent'),
  caller_id = sqlc.narg('caller_id'), flow_id = sqlc.narg('flow_id'), description = sqlc.narg('description'),
  script = sqlc.narg('script'), notes = sqlc.narg('notes'), ring_timeout_s = @ring_timeout_s, amd = @amd,
  voicemail_action = @voicemail_action, voicemail_message_url = sqlc.narg('voicemail_message_url'),
  max_attempts = @max_attempts, retry = @retry, calling_window = sqlc.narg('calling_window'),
  announcement_url = sqlc.narg('announcement_url'), agent_whisper_url = sqlc.narg('agent_whisper_url'),
  wrap_up_s = sqlc.narg('wrap_up_s'), overflow_action = @overflow_action, call_category = sqlc.narg('call_category'),
  overflow_greeting_url = sqlc.narg('overflow_greeting_url'), updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id
RETURNING *;

-- name: CampaignSetRunning :one
UPDATE campaigns SET status = 'running', environment = @environment, started_at = coalesce(started_at, now()), updated_at = now()
WHERE tenant_id = @tenant_id AND id = @id AND status IN ('draft', 'paused')
RETURNING *;

-- name: CampaignSetStatus :one
UPDATE campaigns SET status = @status, updated_at = now() WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- CampaignSetPredictivePaused sets whether a campaign over-dials; its state stays.
-- name: CampaignSetPredictivePaused :one
UPDATE campaigns SET predictive_paused = @paused, updated_at = now() WHERE tenant_id = @tenant_id AND id = @id RETURNING *;

-- CampaignMarkDeleted takes a campaign out of sight. Its leads are deleted later.
-- name: CampaignMarkDeleted :execrows
UPDATE campaigns SET deleted_at = now(), updated_at = now() WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NULL;

-- CampaignLeadsDelete deletes a batch of a deleted campaign's leads, after one, and tells which was the last: the one given when there
-- are no more. An array of ids leads to the leads; a join with the batch would read all of them.
-- name: CampaignLeadsDelete :one
WITH batch AS MATERIALIZED (
  SELECT l.id FROM leads l
  WHERE l.tenant_id = @tenant_id AND l.campaign_id = @campaign_id AND l.id > @after AND EXISTS (
    SELECT FROM campaigns k WHERE k.tenant_id = @tenant_id AND k.id = @campaign_id AND k.deleted_at IS NOT NULL)
  ORDER BY l.id LIMIT @batch::int
), gone AS (
  DELETE FROM leads d WHERE d.tenant_id = @tenant_id AND d.id = ANY(ARRAY(SELECT b.id FROM batch b))
)
SELECT coalesce((SELECT b.id FROM batch b ORDER BY b.id DESC LIMIT 1), @after)::uuid AS last;

-- CampaignDelete deletes the row of a deleted campaign, whose leads are gone.
-- name: CampaignDelete :execrows
DELETE FROM campaigns WHERE tenant_id = @tenant_id AND id = @id AND deleted_at IS NOT NULL;

-- name: CampaignHasLiveCalls :one
SELECT EXISTS (SELECT 1 FROM live_calls WHERE tenant_id = @tenant_id AND campaign_id = @campaign_id::uuid);

-- CampaignsToPace lists what is to be dialed over all tenants: it needs the system's scope.
-- name: CampaignsToPace :many
SELECT c.tenant_id, c.id, c.updated_at FROM campaigns c JOIN tenants t ON t.id = c.tenant_id
WHERE c.status = 'running' AND c.environment = 'live' AND t.suspended_at IS NULL ORDER BY c.tenant_id, c.id;
