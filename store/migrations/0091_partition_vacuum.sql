-- The months in which calls are written are vacuumed and analyzed less often: after either, each connection plans each statement on calls anew, which
-- with two years of months takes tens of milliseconds a statement. A month of 100,000 calls was, at twenty calls a second, every minute.
-- +goose Up

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

-- +goose StatementBegin
DO $$
DECLARE
  child regclass;
BEGIN
  FOR child IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'calls'::regclass
    AND inhrelid::regclass::text >= 'calls_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')
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
    EXECUTE format('ALTER TABLE %s SET (fillfactor = 55, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02)', child);
  END IF;
END
$$;
-- +goose StatementEnd
