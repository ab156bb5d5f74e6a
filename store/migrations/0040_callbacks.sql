-- What a voice agent promises the callee while it talks: when it is called back, and by whom.
-- +goose Up

-- callback_at is kept while the call goes on, whose end makes it the lead's next attempt: a callback that falls due before must not be dialed
-- beside it. The voice agent takes the lead's next calls in place of its campaign's, retries of the callback included.
ALTER TABLE leads
  ADD COLUMN callback_at timestamptz,
  ADD COLUMN callback_voice_agent_id uuid;

-- +goose Down
ALTER TABLE leads DROP COLUMN callback_at, DROP COLUMN callback_voice_agent_id;
