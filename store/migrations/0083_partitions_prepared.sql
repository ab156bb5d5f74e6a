-- A month's partition is made whole before anybody waits for it: table, indexes, policy and the bounds that spare PostgreSQL a look at its rows, in a
-- transaction of its own that locks nothing in use. What is left to do under the lock of the default partition, for which all who write wait, is to move
-- the few rows of that month that lie there, and to attach.
-- +goose Up

-- prepare_partition makes a month's partition apart from its table, where there is none, and tells whether it is to be attached.
-- +goose StatementBegin
CREATE FUNCTION prepare_partition(parent regclass, month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  first_moment timestamptz := month::timestamp AT TIME ZONE 'UTC';
  next_moment timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
  child text := format('%s_%s', parent, to_char(month, 'YYYY_MM'));
BEGIN
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

-- attach_partition attaches what prepare_partition has made, and tells whether it wasn't yet.
-- +goose StatementBegin
CREATE FUNCTION attach_partition(parent regclass, month date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  first_moment timestamptz := month::timestamp AT TIME ZONE 'UTC';
  next_moment timestamptz := (month + interval '1 month') AT TIME ZONE 'UTC';
  child text := format('%s_%s', parent, to_char(month, 'YYYY_MM'));
BEGIN
  IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = child::regclass) THEN
    RETURN false;
  END IF;
  EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_default');
  EXECUTE format('WITH moved AS (DELETE FROM %I WHERE id >= %L AND id < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
    parent || '_default', uuidv7_floor(first_moment), uuidv7_floor(next_moment), child);
  EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
    parent, child, uuidv7_floor(first_moment), uuidv7_floor(next_moment));
  EXECUTE format('ALTER TABLE %I DROP CONSTRAINT IF EXISTS of_its_month', child);
  RETURN true;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION prepare_partition(regclass, date);
DROP FUNCTION attach_partition(regclass, date);
