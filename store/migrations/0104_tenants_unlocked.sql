-- A voice agent's session, its callback token and a recording lock no row of their tenant as they are written, as units don't since migration 0094.
-- +goose Up
ALTER TABLE ai_sessions DROP CONSTRAINT ai_sessions_tenant_id_fkey;
ALTER TABLE callback_tokens DROP CONSTRAINT callback_tokens_tenant_id_fkey;
ALTER TABLE recordings DROP CONSTRAINT recordings_tenant_id_fkey;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM live_calls WHERE tenant_id = OLD.id;
  DELETE FROM held_events WHERE tenant_id = OLD.id;
  DELETE FROM recordings_due WHERE tenant_id = OLD.id;
  DELETE FROM callback_tokens WHERE tenant_id = OLD.id;
  DELETE FROM ai_sessions WHERE tenant_id = OLD.id;
  DELETE FROM recordings WHERE tenant_id = OLD.id;
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down
SELECT set_config('app.system', 'on', true);
DELETE FROM callback_tokens c WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = c.tenant_id);
DELETE FROM ai_sessions s WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = s.tenant_id);
DELETE FROM recordings r WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = r.tenant_id);
ALTER TABLE ai_sessions ADD CONSTRAINT ai_sessions_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE callback_tokens ADD CONSTRAINT callback_tokens_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE recordings ADD CONSTRAINT recordings_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION forget_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM live_calls WHERE tenant_id = OLD.id;
  DELETE FROM held_events WHERE tenant_id = OLD.id;
  DELETE FROM recordings_due WHERE tenant_id = OLD.id;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
SELECT set_config('app.system', '', true);
