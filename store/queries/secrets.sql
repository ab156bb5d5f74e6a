-- name: ListSecretKeys :many
SELECT * FROM secret_keys ORDER BY purpose, no DESC, master_id;

-- name: AddSecretKey :exec
INSERT INTO secret_keys (purpose, no, master_id, wrapped, ends_at) VALUES (@purpose, @no, @master_id, @wrapped, @ends_at)
ON CONFLICT DO NOTHING;

-- LockSecretKeys makes whoever changes the keys wait for its turn.
-- name: LockSecretKeys :exec
SELECT pg_advisory_xact_lock(hashtext('ringmaster secret_keys'));

-- name: ListTenantDataKeys :many
SELECT id, data_key, data_key_no, old_data_keys FROM tenants ORDER BY id;
