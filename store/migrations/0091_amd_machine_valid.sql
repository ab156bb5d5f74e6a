-- What 0087 has checked of no call that was there, which nobody waits for.
-- +goose Up
ALTER TABLE calls VALIDATE CONSTRAINT calls_amd_machine_check;
-- +goose Down
