-- A campaign that is deleted is marked, and nothing shows or dials it any more; its leads go in batches behind the answer, its row last.
-- The index, by which they are found, is built while leads are written; one that was left half built is dropped.
-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE campaigns ADD COLUMN IF NOT EXISTS deleted_at timestamptz;

-- audit_deleted writes the row of a deletion that is a mark. Its arguments are those of audit_change.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
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
-- +goose StatementBegin
DO $$
BEGIN
  DROP TRIGGER IF EXISTS audit_deleted ON campaigns;
  DROP TRIGGER IF EXISTS audit_change ON campaigns;
  PERFORM audit_changes('campaigns', 'campaign', 'started_at,deleted_at');
  CREATE TRIGGER audit_deleted AFTER UPDATE OF deleted_at ON campaigns FOR EACH ROW
    WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL AND coalesce(current_setting('app.actor', true), '') <> '')
    EXECUTE FUNCTION audit_deleted('campaign', 'started_at,deleted_at');
END
$$;
-- +goose StatementEnd

DROP INDEX CONCURRENTLY IF EXISTS leads_by_campaign;
CREATE INDEX CONCURRENTLY leads_by_campaign ON leads (tenant_id, campaign_id, id);
-- Whether a lead that was never dialed can be now, and when the next one can: leads_fresh doesn't know their times.
DROP INDEX CONCURRENTLY IF EXISTS leads_fresh_due;
CREATE INDEX CONCURRENTLY leads_fresh_due ON leads (tenant_id, campaign_id, next_attempt_at) WHERE status IN ('new', 'queued') AND dnd_clean;

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS leads_fresh_due;
DROP INDEX CONCURRENTLY IF EXISTS leads_by_campaign;
-- +goose StatementBegin
DO $$
BEGIN
  PERFORM set_config('app.system', 'on', true);
  DELETE FROM campaigns WHERE deleted_at IS NOT NULL;
  DROP TRIGGER audit_deleted ON campaigns;
  DROP TRIGGER audit_change ON campaigns;
  PERFORM audit_changes('campaigns', 'campaign', 'started_at');
  DROP FUNCTION audit_deleted();
  ALTER TABLE campaigns DROP COLUMN deleted_at;
END
$$;
-- +goose StatementEnd
