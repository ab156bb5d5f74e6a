-- What ends with a user, and endings that cost what is good, not what was.
-- +goose Up
ALTER TABLE oauth_families DROP CONSTRAINT oauth_families_ended_for_check;
ALTER TABLE oauth_families ADD CONSTRAINT oauth_families_ended_for_check
  CHECK (ended_for IN ('revoked', 'code_reused', 'refresh_reused', 'withdrawn', 'client', 'suspended', 'user'));
DROP INDEX oauth_families_of;
CREATE INDEX oauth_families_of ON oauth_families (client_id, user_id, good_until) WHERE ended_at IS NULL;
DROP INDEX oauth_families_by_user;
CREATE INDEX oauth_families_by_user ON oauth_families (tenant_id, user_id, good_until);

-- No access token is good for longer than an hour from now, nor than its family.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION oauth_family_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO oauth_revocations (what, until) VALUES (OLD.id::text, least(OLD.good_until + interval '1 minute', now() + interval '2 hours'))
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION oauth_client_off() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  was text := current_setting('app.system', true);
BEGIN
  PERFORM set_config('app.system', 'on', true);
  UPDATE oauth_families SET ended_at = now(), ended_for = TG_ARGV[0]
  WHERE ended_at IS NULL AND good_until > now()
    AND client_id IN (SELECT c.id FROM oauth_clients c WHERE CASE TG_ARGV[0] WHEN 'client' THEN c.id = NEW.id ELSE c.tenant_id = NEW.id END);
  PERFORM set_config('app.system', coalesce(was, ''), true);
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- With another password, and when a user is switched off, all ends that was given in their name: whoever had the password keeps nothing.
-- +goose StatementBegin
CREATE FUNCTION oauth_user_off() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE oauth_families SET ended_at = now(), ended_for = 'user'
  WHERE tenant_id = NEW.tenant_id AND user_id = NEW.id AND good_until > now() AND ended_at IS NULL;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER oauth_user_off AFTER UPDATE OF password_hash, is_active ON users FOR EACH ROW
  WHEN (OLD.password_hash IS DISTINCT FROM NEW.password_hash OR (OLD.is_active AND NOT NEW.is_active)) EXECUTE FUNCTION oauth_user_off();

-- +goose Down
DROP TRIGGER oauth_user_off ON users;
DROP FUNCTION oauth_user_off();
DROP INDEX oauth_families_of;
CREATE INDEX oauth_families_of ON oauth_families (client_id, user_id) WHERE ended_at IS NULL;
DROP INDEX oauth_families_by_user;
CREATE INDEX oauth_families_by_user ON oauth_families (tenant_id, user_id);
SELECT set_config('app.system', 'on', true);
UPDATE oauth_families SET ended_for = 'suspended' WHERE ended_for = 'user';
ALTER TABLE oauth_families DROP CONSTRAINT oauth_families_ended_for_check;
ALTER TABLE oauth_families ADD CONSTRAINT oauth_families_ended_for_check
  CHECK (ended_for IN ('revoked', 'code_reused', 'refresh_reused', 'withdrawn', 'client', 'suspended'));
