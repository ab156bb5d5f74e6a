-- A partition that somebody has attached by hand has of_its_month still, and has its table's rows: it stays.
-- +goose Up
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION prepare_partition(parent regclass, month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  first_moment timestamptz := month::timestamp AT TIME ZONE 'UTC';
  next_moment timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
  child text := format('%s_%s', parent, to_char(month, 'YYYY_MM'));
BEGIN
  IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass(child) AND conname = 'of_its_month')
    AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass(child)) THEN
    EXECUTE format('DROP TABLE %I', child);
  END IF;
  IF to_regclass(child) IS NULL THEN
    EXECUTE format('CREATE TABLE %I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES, CONSTRAINT of_its_month CHECK (id >= %L AND id < %L))',
      child, parent, uuidv7_floor(first_moment), uuidv7_floor(next_moment));
    PERFORM partition_storage(child::regclass);
    PERFORM protect_tenant_rows(child::regclass);
    RETURN true;
  END IF;
  RETURN NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = child::regclass);
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION prepare_partition(parent regclass, month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  first_moment timestamptz := month::timestamp AT TIME ZONE 'UTC';
  next_moment timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
  child text := format('%s_%s', parent, to_char(month, 'YYYY_MM'));
BEGIN
  IF EXISTS (SELECT FROM pg_constraint WHERE conrelid = to_regclass(child) AND conname = 'of_its_month') THEN
    EXECUTE format('DROP TABLE %I', child);
  END IF;
  IF to_regclass(child) IS NULL THEN
    EXECUTE format('CREATE TABLE %I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES, CONSTRAINT of_its_month CHECK (id >= %L AND id < %L))',
      child, parent, uuidv7_floor(first_moment), uuidv7_floor(next_moment));
    PERFORM partition_storage(child::regclass);
    PERFORM protect_tenant_rows(child::regclass);
    RETURN true;
  END IF;
  RETURN NOT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = child::regclass);
END
$$;
-- +goose StatementEnd
