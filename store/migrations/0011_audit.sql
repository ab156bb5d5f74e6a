-- One audit of what administrators, supervisors, operators and their keys change, and of who listens.
-- +goose Up

-- Rows are written in the transaction of the change, for the most part by the triggers below, and never changed: there is no policy for
-- UPDATE, and only the service's own sweep deletes. tenant_id is the nil UUID for what concerns the whole installation. No foreign keys: the
-- audit outlives what it is about. actor is "user:<id>", "api_key:<id>", "ai_session:<id>" or "operator:<account>@<host>"; before and after
-- have the members that differ, with secrets as "••••".
CREATE TABLE audit (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  at timestamptz NOT NULL,
  actor text NOT NULL CHECK (actor <> ''),
  role text,
  action text NOT NULL CHECK (action ~ '^[a-z_]+\.[a-z_]+$'),
  object_id text,
  call_id uuid,
  agent_id uuid,
  mode text,
  remote_addr text,
  request_id text,
  before jsonb,
  after jsonb,
  details jsonb,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX audit_by_call ON audit (tenant_id, call_id, id) WHERE call_id IS NOT NULL;
CREATE INDEX audit_by_actor ON audit (tenant_id, actor, id);
-- The sweep takes the oldest.
CREATE INDEX audit_by_age ON audit (at);
ALTER TABLE audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE audit FORCE ROW LEVEL SECURITY;
CREATE POLICY audit_read ON audit FOR SELECT USING (tenant_id = (SELECT current_tenant()) OR (SELECT in_system_scope()));
CREATE POLICY audit_write ON audit FOR INSERT WITH CHECK (tenant_id = (SELECT current_tenant()) OR (SELECT in_system_scope()));
CREATE POLICY audit_forget ON audit FOR DELETE USING ((SELECT in_system_scope()));

-- audit_id makes a UUIDv7 (RFC 9562, 5.7), as ids are elsewhere.
-- +goose StatementBegin
CREATE FUNCTION audit_id(at timestamptz) RETURNS uuid LANGUAGE sql VOLATILE AS $$
  SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    PLACING substring(int8send(floor(extract(epoch FROM at) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;
-- +goose StatementEnd

-- audit_members is what may be shown of a row's members: secrets are masked, and what URLs carry behind "?" or before "@", and the headers
-- and bodies of a flow's requests, since customers put credentials there.
-- +goose StatementBegin
CREATE FUNCTION audit_members(r jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  shown jsonb;
BEGIN
  IF r IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT coalesce(jsonb_object_agg(m.key, CASE
    WHEN m.value <> 'null' AND m.key ~ '(_sealed|_hash|_key|password|secret|token)$' THEN '"••••"'
    WHEN m.key = 'nodes' AND jsonb_typeof(m.value) = 'array' THEN (
      SELECT coalesce(jsonb_agg(CASE jsonb_typeof(n -> 'data') WHEN 'object'
        THEN jsonb_set(n, '{data}', (n -> 'data') - '{headers,body}'::text[]) ELSE n END), '[]')
      FROM jsonb_array_elements(m.value) n)
    ELSE m.value END), '{}') INTO shown
  FROM jsonb_each(r) m;
  RETURN regexp_replace(regexp_replace(shown::text,
    '(://)(?:[^"\\/@?\s]|\\.)*@', '\1••••@', 'g'),
    '(://(?:[^"\\?\s]|\\.)*\?)(?:[^"\\\s]|\\.)+', '\1••••', 'g')::jsonb;
END
$$;
-- +goose StatementEnd

-- audit_change writes the row of a change that somebody made, and none of what the service does by itself: app.actor is set by transactions
-- that work for somebody. Its arguments: the object's name, and the columns (a,b,…) that the service keeps in such a row for itself.
-- +goose StatementBegin
CREATE FUNCTION audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  who jsonb := current_setting('app.actor')::jsonb;
  now_at timestamptz := clock_timestamp();
  hidden text[] := string_to_array(TG_ARGV[1], ',') || '{tenant_id,created_at,updated_at}'::text[];
  was jsonb := to_jsonb(OLD);
  is_now jsonb := to_jsonb(NEW);
  any_row jsonb := coalesce(is_now, was);
  same text[];
BEGIN
  was := was - hidden;
  is_now := is_now - hidden;
  IF TG_OP = 'UPDATE' THEN
    SELECT coalesce(array_agg(m.key), '{}') INTO same FROM jsonb_each(was) m WHERE is_now -> m.key = m.value;
    was := was - same;
    is_now := is_now - same;
    IF is_now = '{}' THEN
      RETURN NULL;
    END IF;
  END IF;
  INSERT INTO audit (tenant_id, id, at, actor, role, action, object_id, remote_addr, request_id, before, after)
  VALUES (coalesce(any_row ->> 'tenant_id', any_row ->> 'id')::uuid, audit_id(now_at), now_at, who ->> 'actor', who ->> 'role',
    TG_ARGV[0] || '.' || CASE TG_OP WHEN 'INSERT' THEN 'created' WHEN 'UPDATE' THEN 'updated' ELSE 'deleted' END,
    any_row ->> 'id', who ->> 'remote_addr', who ->> 'request_id', audit_members(was), audit_members(is_now));
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- audit_changes has a table's changes audited.
-- +goose StatementBegin
CREATE FUNCTION audit_changes(target regclass, object text, hidden text DEFAULT '') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW'
    ' WHEN (coalesce(current_setting(''app.actor'', true), '''') <> '''') EXECUTE FUNCTION audit_change(%L, %L)', target, object, hidden);
END
$$;
-- +goose StatementEnd

-- audit_deleted writes the row of a deletion that is a mark. Its arguments are those of audit_change.
-- +goose StatementBegin
CREATE FUNCTION audit_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  who jsonb := current_setting('app.actor')::jsonb;
  now_at timestamptz := clock_timestamp();
BEGIN
  INSERT INTO audit (tenant_id, id, at, actor, role, action, object_id, remote_addr, request_id, before)
  VALUES (OLD.tenant_id, audit_id(now_at), now_at, who ->> 'actor', who ->> 'role', TG_ARGV[0] || '.deleted', OLD.id::text,
    who ->> 'remote_addr', who ->> 'request_id',
    audit_members(to_jsonb(OLD) - (string_to_array(TG_ARGV[1], ',') || '{tenant_id,created_at,updated_at}'::text[])));
  RETURN NULL;
END
$$;
-- +goose StatementEnd

SELECT audit_changes('tenants', 'tenant');
SELECT audit_changes('users', 'user', 'session_epoch');
SELECT audit_changes('api_keys', 'api_key', 'last_used_at');
SELECT audit_changes('trunks', 'trunk', 'bypass_proven_at,bypass_failed_at,bypass_failure,failures,failing_since,failure,rests,rests_until,'
  'probe,heard_at,rang_at');
SELECT audit_changes('numbers', 'number', 'shown_at');
SELECT audit_changes('flows', 'flow');
SELECT audit_changes('voice_agents', 'voice_agent');
SELECT audit_changes('webhook_subscriptions', 'webhook');
SELECT audit_changes('campaigns', 'campaign', 'started_at,deleted_at');
CREATE TRIGGER audit_deleted AFTER UPDATE OF deleted_at ON campaigns FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL AND coalesce(current_setting('app.actor', true), '') <> '')
  EXECUTE FUNCTION audit_deleted('campaign', 'started_at,deleted_at');

-- +goose Down
DROP TRIGGER audit_deleted ON campaigns;
DROP TRIGGER audit_change ON tenants;
DROP TRIGGER audit_change ON users;
DROP TRIGGER audit_change ON api_keys;
DROP TRIGGER audit_change ON trunks;
DROP TRIGGER audit_change ON numbers;
DROP TRIGGER audit_change ON flows;
DROP TRIGGER audit_change ON voice_agents;
DROP TRIGGER audit_change ON webhook_subscriptions;
DROP TRIGGER audit_change ON campaigns;
DROP FUNCTION audit_changes(regclass, text, text);
DROP FUNCTION audit_change();
DROP FUNCTION audit_members(jsonb);
DROP FUNCTION audit_id(timestamptz);
DROP FUNCTION audit_deleted();
DROP TABLE audit;
