-- Partitions are made one at a time by the controller (store/partitions.go), which gives way to readers between them.
-- +goose Up
DROP FUNCTION ensure_partitions(int);

-- +goose Down
-- +goose StatementBegin
CREATE FUNCTION ensure_partitions(months_ahead int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  created int := 0;
  parent text;
  scope text := COALESCE(current_setting('app.system', true), '');
BEGIN
  PERFORM set_config('app.system', 'on', true);
  FOREACH parent IN ARRAY ARRAY['calls', 'events', 'webhook_deliveries'] LOOP
    FOR offset_months IN -1 .. months_ahead LOOP
      IF ensure_partition(parent::regclass, (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => offset_months))::date) THEN
        created := created + 1;
      END IF;
    END LOOP;
  END LOOP;
  PERFORM set_config('app.system', scope, true);
  RETURN created;
END
$$;
-- +goose StatementEnd
