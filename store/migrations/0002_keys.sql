-- The database's own keys, each wrapped under the master key: what is sealed names the key that opens it, so that keys can be replaced
-- while everything serves. A master key that none of them is wrapped under is another database's, and is refused before anything is written.
-- +goose Up

CREATE TABLE secret_keys (
  -- What the key is for; store/keys.go lists the purposes.
  purpose text NOT NULL CHECK (purpose <> ''),
  -- Counts per purpose. It is one byte of each sealed value.
  no smallint NOT NULL CHECK (no BETWEEN 1 AND 255),
  -- The fingerprint of the master key that wraps it: while the master key is replaced each key is wrapped under both.
  master_id bytea NOT NULL CHECK (octet_length(master_id) = 8),
  wrapped bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- From then on signatures of this key are refused; null: they are good. Keys that seal have none.
  ends_at timestamptz,
  PRIMARY KEY (purpose, no, master_id)
);

-- A replacement of the sealing keys, which may be interrupted and resumed. One is under way at a time.
CREATE TABLE secret_rotations (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  master_id bytea NOT NULL CHECK (octet_length(master_id) = 8),
  begun_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz
);
CREATE UNIQUE INDEX secret_rotations_open ON secret_rotations ((true)) WHERE finished_at IS NULL;

-- +goose Down
DROP TABLE secret_rotations, secret_keys;
