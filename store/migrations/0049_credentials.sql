-- What an administrator lets a user do beyond the role, and word to all controllers of each change to what a credential is good for.
-- +goose Up

ALTER TABLE users ADD COLUMN permissions text[] NOT NULL DEFAULT '{}';

-- Controllers keep in memory what they looked up of keys, users and tenants (httpapi/auth) and forget what they have of a tenant whose id is
-- told here. Whoever makes the change, a controller, the command line or psql, it is told with the commit.
-- +goose StatementBegin
CREATE FUNCTION credentials_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('ringmaster_credentials', to_jsonb(OLD) ->> TG_ARGV[0]);
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- A key's last use, which is written all the time, is not among the columns.
CREATE TRIGGER credentials_changed
  AFTER DELETE OR UPDATE OF key_hash, environment, scopes, rate_limit_per_min, allowed_origins, is_active, revoked_at ON api_keys
  FOR EACH ROW EXECUTE FUNCTION credentials_changed('tenant_id');
CREATE TRIGGER credentials_changed AFTER DELETE OR UPDATE OF role, permissions, is_active, session_epoch ON users
  FOR EACH ROW EXECUTE FUNCTION credentials_changed('tenant_id');
CREATE TRIGGER credentials_changed AFTER DELETE OR UPDATE OF suspended_at ON tenants
  FOR EACH ROW EXECUTE FUNCTION credentials_changed('id');

-- +goose Down
DROP TRIGGER credentials_changed ON tenants;
DROP TRIGGER credentials_changed ON users;
DROP TRIGGER credentials_changed ON api_keys;
DROP FUNCTION credentials_changed();
ALTER TABLE users DROP COLUMN permissions;
