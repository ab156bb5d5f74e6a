-- Ends of AI sessions commit beside each other, and opt-outs of before are listed in the order of their making.
-- +goose Up

-- A transaction that notifies commits alone in the whole server: the end of a session tells of its token after the commit instead.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION callback_token_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('app.told_later', true) IS DISTINCT FROM 'on' THEN
    PERFORM pg_notify('ringmaster_credentials', 'callback ' || OLD.jti_hash);
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Migration 0063 saw no row, since it had no scope.
SELECT set_config('app.system', 'on', true);
UPDATE suppressions SET id = audit_id(created_at) WHERE substring(id::text FROM 15 FOR 1) <> '7';
SELECT set_config('app.system', '', true);

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION callback_token_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('ringmaster_credentials', 'callback ' || OLD.jti_hash);
  RETURN NULL;
END
$$;
-- +goose StatementEnd
