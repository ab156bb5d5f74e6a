-- Word to all controllers of each callback token that ends before its time, since they keep tokens in memory as they keep keys (migration 0049).
-- +goose Up

-- The token alone is forgotten, and not what is known of its tenant: those of voice agents with `ws_session` end with each session.
-- +goose StatementBegin
CREATE FUNCTION callback_token_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('ringmaster_credentials', 'callback ' || OLD.jti_hash);
  RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER callback_token_changed AFTER UPDATE ON callback_tokens FOR EACH ROW EXECUTE FUNCTION callback_token_changed();
-- What is over by time is refused by time: the nightly sweep tells nothing.
CREATE TRIGGER callback_token_deleted AFTER DELETE ON callback_tokens FOR EACH ROW WHEN (OLD.expires_at > now())
  EXECUTE FUNCTION callback_token_changed();

-- +goose Down
DROP TRIGGER callback_token_deleted ON callback_tokens;
DROP TRIGGER callback_token_changed ON callback_tokens;
DROP FUNCTION callback_token_changed();
