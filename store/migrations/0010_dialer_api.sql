-- Over-dialing that is paused while its campaign runs on.
-- +goose Up
ALTER TABLE campaigns ADD COLUMN predictive_paused boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE campaigns DROP COLUMN predictive_paused;
