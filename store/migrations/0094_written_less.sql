-- The unit of a call has its call's id, so that the key of units is all that a call's one unit needs; a call's unit and its held events lock no
-- row of the tenant. And since open calls are found by their units, those of test keys have one too, of a kind that counts for nothing.
-- +goose Up
ALTER TABLE live_calls ADD CONSTRAINT live_calls_unit_is_call CHECK (kind = 'transfer' OR unit_id = call_id) NOT VALID;
ALTER TABLE live_calls DROP CONSTRAINT live_calls_kind_check;
ALTER TABLE live_calls ADD CONSTRAINT live_calls_kind_check CHECK (kind IN ('call', 'transfer', 'test')) NOT VALID;
ALTER TABLE live_calls DROP CONSTRAINT live_calls_tenant_id_fkey;
ALTER TABLE held_events DROP CONSTRAINT held_events_tenant_id_fkey;
-- What the foreign keys did for a tenant that is deleted.
-- +goose StatementBegin
CREATE FUNCTION forget_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM live_calls WHERE tenant_id = OLD.id;
  DELETE FROM held_events WHERE tenant_id = OLD.id;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tenants_forgotten AFTER DELETE ON tenants FOR EACH ROW EXECUTE FUNCTION forget_tenant();

-- +goose Down
SELECT set_config('app.system', 'on', true);
DROP TRIGGER tenants_forgotten ON tenants;
DROP FUNCTION forget_tenant();
DELETE FROM held_events h WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = h.tenant_id);
DELETE FROM live_calls u WHERE u.kind = 'test' OR NOT EXISTS (SELECT FROM tenants t WHERE t.id = u.tenant_id);
ALTER TABLE held_events ADD CONSTRAINT held_events_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE live_calls ADD CONSTRAINT live_calls_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE live_calls DROP CONSTRAINT live_calls_unit_is_call;
ALTER TABLE live_calls DROP CONSTRAINT live_calls_kind_check;
ALTER TABLE live_calls ADD CONSTRAINT live_calls_kind_check CHECK (kind IN ('call', 'transfer')) NOT VALID;
SELECT set_config('app.system', '', true);
