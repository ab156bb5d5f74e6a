-- Less is written for each call: a unit of the kind 'call' has its call's id, so that the key of units is all that a call's one unit needs; a call's unit
-- and its held events lock no row of the tenant; recordings have room on their pages for what is noted of each, which is in no index. And tables of
-- which calls change a row are analyzed after more changes: their statistics stay what they are, and after each analysis every connection plans
-- every statement on the table anew.
-- +goose Up
ALTER TABLE live_calls ADD CONSTRAINT live_calls_unit_is_call CHECK (kind <> 'call' OR unit_id = call_id) NOT VALID;
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

ALTER TABLE live_calls SET (autovacuum_analyze_threshold = 20000);
ALTER TABLE held_events SET (autovacuum_analyze_threshold = 20000);
ALTER TABLE webhook_queue SET (autovacuum_analyze_threshold = 20000);
ALTER TABLE agents SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE numbers SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE agent_status_log SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE campaign_counts SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE call_counts SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE call_totals SET (autovacuum_analyze_threshold = 5000);
ALTER TABLE callback_tokens SET (autovacuum_analyze_threshold = 2000);
ALTER TABLE ai_sessions SET (autovacuum_analyze_threshold = 2000);
ALTER TABLE leads SET (autovacuum_analyze_threshold = 2000);
ALTER TABLE recordings SET (fillfactor = 60, autovacuum_analyze_threshold = 2000);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION partition_storage(child regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF child::text LIKE 'calls%' THEN
    EXECUTE format('ALTER TABLE %s SET (fillfactor = 55, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.02,
      autovacuum_analyze_threshold = 2000, autovacuum_analyze_scale_factor = 0.1)', child);
  ELSE
    EXECUTE format('ALTER TABLE %s SET (autovacuum_analyze_threshold = 5000)', child);
  END IF;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
DECLARE
  child regclass;
BEGIN
  FOR child IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'events'::regclass
    AND inhrelid::regclass::text >= 'events_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')
  LOOP
    PERFORM partition_storage(child);
  END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- Storage parameters stay.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION partition_storage(child regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF child::text LIKE 'calls%' THEN
    EXECUTE format('ALTER TABLE %s SET (fillfactor = 55, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.02,
      autovacuum_analyze_threshold = 2000, autovacuum_analyze_scale_factor = 0.1)', child);
  END IF;
END
$$;
-- +goose StatementEnd
SELECT set_config('app.system', 'on', true);
DROP TRIGGER tenants_forgotten ON tenants;
DROP FUNCTION forget_tenant();
DELETE FROM held_events h WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = h.tenant_id);
DELETE FROM live_calls u WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.id = u.tenant_id);
ALTER TABLE held_events ADD CONSTRAINT held_events_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE live_calls ADD CONSTRAINT live_calls_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants (id) ON DELETE CASCADE NOT VALID;
ALTER TABLE live_calls DROP CONSTRAINT live_calls_unit_is_call;
SELECT set_config('app.system', '', true);
