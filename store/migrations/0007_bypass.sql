-- What was learned of a trunk's bypass, apart from media_mode, which is what was configured. Calls are taken into bypass while
-- media_mode is 'bypass' and no failure stands: a failure of any call sets bypass_failed_at, a probe that succeeds clears it.
-- +goose Up
ALTER TABLE trunks
  ADD COLUMN bypass_proven_at timestamptz,
  ADD COLUMN bypass_failed_at timestamptz,
  ADD COLUMN bypass_failure text,
  ADD CONSTRAINT trunks_bypass_failure_told CHECK ((bypass_failed_at IS NULL) = (bypass_failure IS NULL));

-- +goose Down
ALTER TABLE trunks
  DROP CONSTRAINT trunks_bypass_failure_told,
  DROP COLUMN bypass_proven_at,
  DROP COLUMN bypass_failed_at,
  DROP COLUMN bypass_failure;
