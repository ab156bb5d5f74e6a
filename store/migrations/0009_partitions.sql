-- Monthly partitions, bounded by the time in UUIDv7 ids. The controller makes them one at a time (store/partitions.go), and gives way to
-- readers between them.
-- +goose Up

-- The smallest UUIDv7 of a moment: 48 bits of Unix milliseconds, then zeros.
-- +goose StatementBegin
CREATE FUNCTION uuidv7_floor(moment timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd

-- A partition is built beside its parent and then attached, which blocks neither readers nor writers of the other months; rows
-- of its month that the default partition took meanwhile move with it. A partition carries the policy as well, so that it is
-- no way around the parent's.
-- +goose StatementBegin
CREATE FUNCTION ensure_partition(parent regclass, month date) RETURNS boolean LANGUAGE plpgsql AS $$
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

-- What falls outside every month (a wrong clock, an id that is no UUIDv7) is kept, not refused.
-- +goose StatementBegin
DO $$
DECLARE
  parent text;
BEGIN
  FOREACH parent IN ARRAY ARRAY['calls', 'events', 'webhook_deliveries'] LOOP
    EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', parent || '_default', parent);
    PERFORM protect_tenant_rows((parent || '_default')::regclass);
  END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
  child regclass;
BEGIN
  FOR child IN SELECT inhrelid::regclass FROM pg_inherits
    WHERE inhparent IN ('calls'::regclass, 'events'::regclass, 'webhook_deliveries'::regclass)
      AND inhrelid IN (SELECT oid FROM pg_class WHERE relkind = 'r')
  LOOP
    EXECUTE format('DROP TABLE %s', child);
  END LOOP;
END
$$;
-- +goose StatementEnd
DROP FUNCTION ensure_partition(regclass, date);
DROP FUNCTION uuidv7_floor(timestamptz);
