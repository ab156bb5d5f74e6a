-- name: ListSecretKeys :many
SELECT * FROM secret_keys ORDER BY purpose, no DESC, master_id;

-- name: AddSecretKey :exec
INSERT INTO secret_keys (purpose, no, master_id, wrapped, ends_at) VALUES (@purpose, @no, @master_id, @wrapped, @ends_at)
ON CONFLICT DO NOTHING;

-- LockSecretKeys makes whoever changes the keys wait for its turn.
-- name: LockSecretKeys :exec
SELECT pg_advisory_xact_lock(hashtext('ringmaster secret_keys'));

-- name: ListTenantDataKeys :many
SELECT id, data_key, data_key_no, old_data_key FROM tenants ORDER BY id;

-- name: GetOpenRotation :one
SELECT * FROM secret_rotations WHERE finished_at IS NULL;

-- name: BeginRotation :one
INSERT INTO secret_rotations (master_id) VALUES (@master_id) RETURNING *;

-- name: FinishRotation :exec
UPDATE secret_rotations SET finished_at = now() WHERE id = @id AND finished_at IS NULL;

-- name: LastRotation :one
SELECT * FROM secret_rotations ORDER BY id DESC LIMIT 1;

-- name: WithdrawMasterKeys :execrows
DELETE FROM secret_keys WHERE master_id <> @master_id;

-- EndSecretKeys ends the earlier keys of a purpose at a time, those that end before it excepted.
-- name: EndSecretKeys :exec
UPDATE secret_keys SET ends_at = @ends_at
WHERE purpose = @purpose AND no < @no AND (ends_at IS NULL OR ends_at > @ends_at);

-- name: LockTenantDataKeys :one
SELECT id, data_key, data_key_no, old_data_key FROM tenants WHERE id = @tenant_id FOR NO KEY UPDATE;

-- name: ReplaceTenantDataKeys :exec
UPDATE tenants SET data_key = @data_key, data_key_no = @data_key_no, old_data_key = @old_data_key WHERE id = @tenant_id;

-- The sealed values of a tenant, in pages by id. Each is replaced only if it is still the one that was read.
-- name: SealedTrunks :many
SELECT id, password_sealed AS sealed FROM trunks
WHERE tenant_id = @tenant_id AND id > @after AND password_sealed IS NOT NULL ORDER BY id LIMIT @page;

-- name: ResealTrunks :execrows
UPDATE trunks SET password_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE trunks.tenant_id = @tenant_id AND trunks.id = v.id AND trunks.password_sealed = v.was;

-- name: SealedVoiceAgents :many
SELECT id, auth_token_sealed AS sealed FROM voice_agents
WHERE tenant_id = @tenant_id AND id > @after AND auth_token_sealed IS NOT NULL ORDER BY id LIMIT @page;

-- name: ResealVoiceAgents :execrows
UPDATE voice_agents SET auth_token_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE voice_agents.tenant_id = @tenant_id AND voice_agents.id = v.id AND voice_agents.auth_token_sealed = v.was;

-- name: SealedWebhooks :many
SELECT id, secret_sealed AS sealed FROM webhook_subscriptions
WHERE tenant_id = @tenant_id AND id > @after ORDER BY id LIMIT @page;

-- name: ResealWebhooks :execrows
UPDATE webhook_subscriptions SET secret_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE webhook_subscriptions.tenant_id = @tenant_id AND webhook_subscriptions.id = v.id AND webhook_subscriptions.secret_sealed = v.was;

-- name: SealedIntegrations :many
SELECT id, config_sealed AS sealed FROM integrations
WHERE tenant_id = @tenant_id AND id > @after ORDER BY id LIMIT @page;

-- name: ResealIntegrations :execrows
UPDATE integrations SET config_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE integrations.tenant_id = @tenant_id AND integrations.id = v.id AND integrations.config_sealed = v.was;

-- name: SealedFlows :many
SELECT id, secrets_sealed AS sealed FROM flow_secrets
WHERE tenant_id = @tenant_id AND id > @after ORDER BY id LIMIT @page;

-- name: ResealFlows :execrows
UPDATE flow_secrets SET secrets_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE flow_secrets.tenant_id = @tenant_id AND flow_secrets.id = v.id AND flow_secrets.secrets_sealed = v.was;

-- name: SealedOldWebhooks :many
SELECT id, previous_secret_sealed AS sealed FROM webhook_subscriptions
WHERE tenant_id = @tenant_id AND id > @after AND previous_secret_sealed IS NOT NULL ORDER BY id LIMIT @page;

-- name: ResealOldWebhooks :execrows
UPDATE webhook_subscriptions SET previous_secret_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE webhook_subscriptions.tenant_id = @tenant_id AND webhook_subscriptions.id = v.id AND webhook_subscriptions.previous_secret_sealed = v.was;

-- SealedLeads reads all leads of a page, sealed or not: there is no index of those that are, and a page must end.
-- name: SealedLeads :many
SELECT id, phone_sealed AS sealed FROM leads WHERE tenant_id = @tenant_id AND id > @after ORDER BY id LIMIT @page;

-- name: ResealLeads :execrows
UPDATE leads SET phone_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE leads.tenant_id = @tenant_id AND leads.id = v.id AND leads.phone_sealed = v.was;

-- name: SealedCalls :many
SELECT id, peer_sealed AS sealed FROM calls
WHERE tenant_id = @tenant_id AND id > @after AND peer_sealed IS NOT NULL ORDER BY id LIMIT @page;

-- name: ResealCalls :execrows
UPDATE calls SET peer_sealed = v.sealed
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@was::bytea[]) AS was, unnest(@sealed::bytea[]) AS sealed) v
WHERE calls.tenant_id = @tenant_id AND calls.id = v.id AND calls.peer_sealed = v.was;
