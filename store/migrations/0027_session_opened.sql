-- When an AI session's socket was first open: ai_session.started was told then, and the session's recording began.
-- +goose Up
ALTER TABLE ai_sessions ADD COLUMN opened_at timestamptz;
SELECT set_config('app.system', 'on', true);
UPDATE ai_sessions SET opened_at = started_at;
SELECT set_config('app.system', '', true);

-- +goose Down
ALTER TABLE ai_sessions DROP COLUMN opened_at;
