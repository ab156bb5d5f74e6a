-- Refresh tokens are forgotten once they have expired: a family that is refreshed for years has one of each time.
-- +goose Up

CREATE INDEX oauth_refresh_tokens_over ON oauth_refresh_tokens (expires_at);

-- +goose Down
DROP INDEX oauth_refresh_tokens_over;
