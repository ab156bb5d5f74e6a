-- name: CreateTenant :one
INSERT INTO tenants (id, name, privacy_mode, data_key) VALUES ($1, $2, $3, $4) RETURNING *;

-- name: GetTenant :one
SELECT * FROM tenants WHERE id = @tenant_id;

-- name: GetTenantByName :one
SELECT * FROM tenants WHERE name = @name;

-- name: ListTenants :many
SELECT * FROM tenants ORDER BY name;

-- QuotaLock has whoever adds to what a tenant may have so many of count and add by itself, until the transaction ends.
-- name: QuotaLock :exec
SELECT pg_advisory_xact_lock(hashtextextended('ringmaster.quota:' || (@tenant_id::uuid)::text, 0));

-- name: TenantSuspended :one
SELECT (suspended_at IS NOT NULL)::boolean AS suspended FROM tenants WHERE id = @tenant_id;

-- SuspendTenant keeps the time and reason of a tenant that is suspended already.
-- name: SuspendTenant :one
UPDATE tenants SET suspended_at = coalesce(suspended_at, @at::timestamptz), suspend_reason = coalesce(suspend_reason, sqlc.narg('reason')),
  updated_at = now() WHERE id = @tenant_id RETURNING *;

-- name: ResumeTenant :one
UPDATE tenants SET suspended_at = NULL, suspend_reason = NULL, updated_at = now() WHERE id = @tenant_id RETURNING *;

-- name: LockTenant :one
SELECT * FROM tenants WHERE id = @tenant_id FOR UPDATE;

-- name: SetTenantSettings :one
UPDATE tenants SET privacy_mode = @privacy_mode, pii_retention_days = @pii_retention_days,
  recording_retention_days = @recording_retention_days, webhook_retention_days = @webhook_retention_days, voice_agent_default_ws_url = @voice_agent_default_ws_url,
  default_max_concurrent = @default_max_concurrent, calling_window = @calling_window, dispositions = @dispositions,
  daily_cap = @daily_cap, holidays = @holidays, updated_at = now()
WHERE id = @tenant_id RETURNING *;

-- name: SetTenantCallingWindow :exec
UPDATE tenants SET calling_window = @calling_window, updated_at = now() WHERE id = @tenant_id;

-- name: SetTenantDefaultVoiceAgent :exec
UPDATE tenants SET default_voice_agent_id = sqlc.narg(voice_agent_id), updated_at = now() WHERE id = @tenant_id;

-- name: GetTenantDataKey :one
SELECT data_key, data_key_no, old_data_key FROM tenants WHERE id = @tenant_id;

-- TenantSIPHosts reads the hosts that a tenant's SIP URIs may lead to.
-- name: TenantSIPHosts :one
SELECT sip_hosts FROM tenants WHERE id = @tenant_id;

-- name: SetTenantSIPHosts :one
UPDATE tenants SET sip_hosts = @sip_hosts, updated_at = now() WHERE id = @tenant_id RETURNING *;
