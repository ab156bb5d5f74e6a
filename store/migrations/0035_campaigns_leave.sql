-- A campaign that is deleted is marked, and nothing shows or dials it any more; its leads go in batches behind the answer, its row last.
-- +goose Up
ALTER TABLE campaigns ADD COLUMN deleted_at timestamptz;

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
DROP TRIGGER audit_change ON campaigns;
SELECT audit_changes('campaigns', 'campaign', 'started_at,deleted_at');
CREATE TRIGGER audit_deleted AFTER UPDATE OF deleted_at ON campaigns FOR EACH ROW
  WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL AND coalesce(current_setting('app.actor', true), '') <> '')
  EXECUTE FUNCTION audit_deleted('campaign', 'started_at,deleted_at');

-- +goose Down
SELECT set_config('app.system', 'on', true);
DELETE FROM campaigns WHERE deleted_at IS NOT NULL;
SELECT set_config('app.system', '', true);
DROP TRIGGER audit_deleted ON campaigns;
DROP TRIGGER audit_change ON campaigns;
SELECT audit_changes('campaigns', 'campaign', 'started_at');
DROP FUNCTION audit_deleted();
ALTER TABLE campaigns DROP COLUMN deleted_at;
