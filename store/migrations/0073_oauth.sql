-- OAuth 2.0 and OpenID Connect: partners' clients, what users granted them, and what came of each grant.
-- +goose Up

-- A client belongs to the tenant whose administrator registered it, and acts for users of any tenant who let it. Its id is its client_id.
CREATE TABLE oauth_clients (
  tenant_id uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
  id uuid NOT NULL UNIQUE,
  name text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 200),
  -- SHA-256 of a secret of 256 random bits. After a rotation the one before is good until previous_secret_until.
  secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
  previous_secret_hash bytea CHECK (octet_length(previous_secret_hash) = 32),
  previous_secret_until timestamptz,
  redirect_uris text[] NOT NULL CHECK (cardinality(redirect_uris) <= 20),
  allowed_scopes text[] NOT NULL CHECK (cardinality(allowed_scopes) >= 1),
  -- What assertions (RFC 7523) are verified with, and who they must be from; both or none.
  public_key_pem text,
  jwt_issuer text,
  is_active boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, id),
  CHECK ((previous_secret_hash IS NULL) = (previous_secret_until IS NULL)),
  CHECK ((public_key_pem IS NULL) = (jwt_issuer IS NULL))
);
CREATE INDEX oauth_clients_by_issuer ON oauth_clients (jwt_issuer) WHERE jwt_issuer IS NOT NULL;
SELECT protect_tenant_rows('oauth_clients');
SELECT audit_changes('oauth_clients', 'oauth_client');

-- What a user let a client do: one row per user and client, of the user's tenant.
CREATE TABLE oauth_grants (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  user_id uuid NOT NULL,
  client_id uuid NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
  scopes text[] NOT NULL,
  granted_at timestamptz NOT NULL,
  -- When the client last got a token by it; not exact to the minute.
  last_used_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, user_id, client_id),
  FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX oauth_grants_by_client ON oauth_grants (client_id);
SELECT protect_tenant_rows('oauth_grants');

-- A family is one authorization: the code, and every token that came of it. A JWT bearer assertion begins one as well. It ends as a whole.
CREATE TABLE oauth_families (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL UNIQUE,
  user_id uuid NOT NULL,
  client_id uuid NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
  scopes text[] NOT NULL,
  -- What the authorization was asked with, for the exchange of its code.
  request jsonb NOT NULL DEFAULT '{}',
  began_at timestamptz NOT NULL,
  -- Its last access token is not good beyond good_until, nor any refresh token.
  good_until timestamptz NOT NULL,
  ended_at timestamptz,
  ended_for text CHECK (ended_for IN ('revoked', 'code_reused', 'refresh_reused', 'withdrawn', 'client', 'suspended')),
  PRIMARY KEY (tenant_id, id),
  CHECK ((ended_at IS NULL) = (ended_for IS NULL)),
  FOREIGN KEY (tenant_id, user_id) REFERENCES users (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX oauth_families_of ON oauth_families (client_id, user_id) WHERE ended_at IS NULL;
CREATE INDEX oauth_families_by_user ON oauth_families (tenant_id, user_id);
CREATE INDEX oauth_families_over ON oauth_families (good_until);
SELECT protect_tenant_rows('oauth_families');

-- Codes and refresh tokens, by their SHA-256. used_at is set once; a second use ends the family.
CREATE TABLE oauth_codes (
  tenant_id uuid NOT NULL,
  hash bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
  family_id uuid NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at timestamptz,
  FOREIGN KEY (tenant_id, family_id) REFERENCES oauth_families (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX oauth_codes_of ON oauth_codes (tenant_id, family_id);
SELECT protect_tenant_rows('oauth_codes');

CREATE TABLE oauth_refresh_tokens (
  tenant_id uuid NOT NULL,
  hash bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
  family_id uuid NOT NULL,
  issued_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at timestamptz,
  FOREIGN KEY (tenant_id, family_id) REFERENCES oauth_families (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX oauth_refresh_tokens_of ON oauth_refresh_tokens (tenant_id, family_id);
SELECT protect_tenant_rows('oauth_refresh_tokens');

-- The assertions that were taken, until they would have expired: each is good once.
CREATE TABLE oauth_assertions (
  client_id uuid NOT NULL REFERENCES oauth_clients (id) ON DELETE CASCADE,
  jti_hash bytea NOT NULL CHECK (octet_length(jti_hash) = 32),
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (client_id, jti_hash)
);
CREATE INDEX oauth_assertions_over ON oauth_assertions (expires_at);

-- Access tokens that were revoked, by their jti, and families that have ended, by their id: no access token of either is good. Controllers have them
-- in memory (httpapi/oauth/access); each new one is told.
CREATE TABLE oauth_revocations (
  what text PRIMARY KEY CHECK (what <> ''),
  -- Nothing of it is good by itself from then on.
  until timestamptz NOT NULL
);
CREATE INDEX oauth_revocations_over ON oauth_revocations (until);

-- +goose StatementBegin
CREATE FUNCTION oauth_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('ringmaster_oauth', NEW.what || ' ' || ceil(extract(epoch FROM NEW.until))::bigint);
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER oauth_revoked AFTER INSERT ON oauth_revocations FOR EACH ROW EXECUTE FUNCTION oauth_revoked();

-- Whoever ends a family, and for whatever reason, its access tokens end with it.
-- +goose StatementBegin
CREATE FUNCTION oauth_family_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO oauth_revocations (what, until) VALUES (OLD.id::text, greatest(OLD.good_until, now() + interval '2 hours')) ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER oauth_family_ended AFTER UPDATE OF ended_at ON oauth_families FOR EACH ROW
  WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION oauth_family_ended();
CREATE TRIGGER oauth_family_deleted AFTER DELETE ON oauth_families FOR EACH ROW
  WHEN (OLD.ended_at IS NULL AND OLD.good_until > now()) EXECUTE FUNCTION oauth_family_ended();

-- With a client's deactivation, or its tenant's suspension, what it was given ends.
-- +goose StatementBegin
-- Its families are of users of any tenant, so that it works in the system's scope.
CREATE FUNCTION oauth_client_off() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  was text := current_setting('app.system', true);
BEGIN
  PERFORM set_config('app.system', 'on', true);
  UPDATE oauth_families SET ended_at = now(), ended_for = TG_ARGV[0]
  WHERE ended_at IS NULL AND client_id IN (SELECT c.id FROM oauth_clients c WHERE CASE TG_ARGV[0] WHEN 'client' THEN c.id = NEW.id ELSE c.tenant_id = NEW.id END);
  PERFORM set_config('app.system', coalesce(was, ''), true);
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER oauth_client_off AFTER UPDATE OF is_active ON oauth_clients FOR EACH ROW
  WHEN (OLD.is_active AND NOT NEW.is_active) EXECUTE FUNCTION oauth_client_off('client');
CREATE TRIGGER oauth_client_off AFTER UPDATE OF suspended_at ON tenants FOR EACH ROW
  WHEN (OLD.suspended_at IS NULL AND NEW.suspended_at IS NOT NULL) EXECUTE FUNCTION oauth_client_off('suspended');

-- The keys that sign access and ID tokens (RSA, 2048 bits). A key is published from created_at, signs from signs_at until the next one does, and
-- verifies until ends_at.
CREATE TABLE oauth_signing_keys (
  id uuid PRIMARY KEY, -- the key id (kid)
  private_sealed bytea NOT NULL, -- PKCS #8
  public_der bytea NOT NULL,     -- SubjectPublicKeyInfo
  created_at timestamptz NOT NULL,
  signs_at timestamptz NOT NULL,
  ends_at timestamptz -- null: of the newest
);

-- +goose Down
DROP TRIGGER oauth_client_off ON tenants;
DROP TABLE oauth_signing_keys, oauth_revocations, oauth_assertions, oauth_refresh_tokens, oauth_codes, oauth_families, oauth_grants, oauth_clients;
DROP FUNCTION oauth_client_off();
DROP FUNCTION oauth_family_ended();
DROP FUNCTION oauth_revoked();
