-- The months in which calls are written have room on each page for a call's updates, for which no index is written then (HOT), and are vacuumed by a
-- hundredth of their rows. To set storage parameters waits for nobody who reads or writes.
-- +goose Up

-- Storage parameters are not inherited. A month that is over keeps its own: nothing is written to it any more.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION partition_storage(child regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF child::text LIKE 'calls%' THEN
    EXECUTE format('ALTER TABLE %s SET (fillfactor = 55, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02)', child);
  END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ensure_partition(parent regclass, month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  first_moment timestamptz := month::timestamp AT TIME ZONE 'UTC';
  next_moment timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
  child text := format('%s_%s', parent, to_char(month, 'YYYY_MM'));
BEGIN
  IF to_regclass(child) IS NOT NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('CREATE TABLE %I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
  PERFORM partition_storage(child::regclass);
  EXECUTE format('WITH moved AS (DELETE FROM %I WHERE id >= %L AND id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
    parent || '_default', uuidv7_floor(first_moment), uuidv7_floor(next_moment), child);
  EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
    parent, child, uuidv7_floor(first_moment), uuidv7_floor(next_moment));
  PERFORM protect_tenant_rows(child::regclass);
  RETURN true;
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
CREATE OR REPLACE FUNCTION ensure_partition(parent regclass, month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  first_moment timestamptz := month::timestamp AT TIME ZONE 'UTC';
  next_moment timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
  child text := format('%s_%s', parent, to_char(month, 'YYYY_MM'));
BEGIN
  IF to_regclass(child) IS NOT NULL THEN
    RETURN false;
  END IF;
  EXECUTE format('CREATE TABLE %I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
  EXECUTE format('WITH moved AS (DELETE FROM %I WHERE id >= %L AND id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
    parent || '_default', uuidv7_floor(first_moment), uuidv7_floor(next_moment), child);
  EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
    parent, child, uuidv7_floor(first_moment), uuidv7_floor(next_moment));
  PERFORM protect_tenant_rows(child::regclass);
  RETURN true;
END
$$;
-- +goose StatementEnd
DROP FUNCTION partition_storage(regclass);
