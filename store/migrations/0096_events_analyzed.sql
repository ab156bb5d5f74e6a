-- The months of events are analyzed after more changes, as the tables of migration 0095 are.
-- +goose Up
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
