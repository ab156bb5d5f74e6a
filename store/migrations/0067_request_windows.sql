-- How many requests an API key has left in its minute, over all controllers.
-- +goose Up

-- A controller leases some of a key's requests at a time, and counts them by itself. Unlogged: after a crash of the server minutes begin anew.
CREATE UNLOGGED TABLE request_windows (
  tenant_id uuid NOT NULL,
  key_id uuid NOT NULL,
  opened_at timestamptz NOT NULL,
  -- What controllers have leased since then, and the last lease of it.
  leased int NOT NULL CHECK (leased >= 0),
  last_lease int NOT NULL CHECK (last_lease >= 0),
  PRIMARY KEY (tenant_id, key_id),
  FOREIGN KEY (tenant_id, key_id) REFERENCES api_keys (tenant_id, id) ON DELETE CASCADE
) WITH (fillfactor = 50);
SELECT protect_tenant_rows('request_windows');

-- request_lease is how many requests a controller gets that has let @used through already on credit: a fiftieth of the limit besides, less when little
-- is left, so that little lies idle at one controller while another one refuses.
CREATE FUNCTION request_lease(per_minute int, leased int, used int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(0, least(per_minute - leased, used + greatest(1, least((per_minute - leased) / 20, per_minute / 50))))
$$;

-- same_minute tells whether the minute that was opened at a time goes on at another one. A clock that was set back begins another.
CREATE FUNCTION same_minute(opened_at timestamptz, at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT abs(extract(epoch FROM at - opened_at)) < 60
$$;

-- +goose Down
DROP FUNCTION same_minute(timestamptz, timestamptz);
DROP FUNCTION request_lease(int, int, int);
DROP TABLE request_windows;
