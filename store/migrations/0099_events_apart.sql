-- Most events of a call are of its first minute, and their ids, which begin with their times, lie behind the call's: they are found by the key. Only the
-- others need an index by their call. Of a call of seconds none does.
-- +goose Up

-- The bodies of the two that the index has are read here, once and for all: as a text they would be read by whoever analyzes the table, builds the index or
-- restores a dump, without a search path, and not find each other.

-- uuid_after gives the smallest UUIDv7 of so many milliseconds after another one's time.
CREATE FUNCTION uuid_after(id uuid, ms bigint) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (lpad(to_hex(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint + ms), 12, '0') || repeat('0', 20))::uuid;

-- event_apart tells an event that is not of its call's first minute.
CREATE FUNCTION event_apart(call_id uuid, id uuid) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN id < uuid_after(call_id, 0) OR id >= uuid_after(call_id, 60000);

-- events_of_call finds the events of a call.
-- +goose StatementBegin
CREATE FUNCTION events_of_call(tenant uuid, call uuid) RETURNS SETOF events LANGUAGE sql STABLE AS $$
  SELECT * FROM events e WHERE e.tenant_id = tenant AND e.call_id = call AND event_apart(e.call_id, e.id)
  UNION ALL
  SELECT * FROM events e WHERE e.tenant_id = tenant AND e.id >= uuid_after(call, 0) AND e.id < uuid_after(call, 60000) AND e.call_id = call
$$;
-- +goose StatementEnd

-- Migrate builds those of the partitions, beside the writers. Controllers drop events_by_call, once those of the version before are gone (store/indexes.go).
CREATE INDEX events_apart ON ONLY events (tenant_id, call_id) WHERE event_apart(call_id, id);

-- +goose Down
CREATE INDEX IF NOT EXISTS events_by_call ON ONLY events (tenant_id, call_id, seq) WHERE call_id IS NOT NULL;
DROP INDEX events_apart;
DROP FUNCTION events_of_call(uuid, uuid);
DROP FUNCTION event_apart(uuid, uuid);
DROP FUNCTION uuid_after(uuid, bigint);
