-- Why a running campaign is not dialed, whatever the reason, and which trunks are not dialed through for a while.
-- +goose Up

-- Tables are locked in the order in which calls that begin lock them.

-- The calls of a lead that failed for a trunk's sake and cost it no attempt.
ALTER TABLE leads ADD COLUMN trunk_failures int NOT NULL DEFAULT 0;

-- failures weighs the calls in a row, since failing_since, that failed for the trunk's sake, the last of them with failure: 2 for one
-- that it refused, 1 for one of which nothing was heard.
-- A trunk that rests_until a moment carries no call before; from then on one call tries it, the probe, while it rests on. rests counts
-- the rests in a row, each longer than the one before, until there is a sign of life. heard_at is when there was the first one, rang_at
-- when a callee was first heard ringing through it: of a trunk that is heard but never tells of ringing silence proves nothing.
ALTER TABLE trunks
  ADD COLUMN failures int NOT NULL DEFAULT 0 CHECK (failures >= 0),
  ADD COLUMN failing_since timestamptz,
  ADD COLUMN rests int NOT NULL DEFAULT 0 CHECK (rests >= 0),
  ADD COLUMN rests_until timestamptz,
  ADD COLUMN probe uuid,
  ADD COLUMN failure text,
  ADD COLUMN heard_at timestamptz,
  ADD COLUMN rang_at timestamptz,
  ADD CONSTRAINT trunks_failing CHECK ((failures = 0) = (failing_since IS NULL)),
  ADD CONSTRAINT trunks_rest_while_failing CHECK ((rests = 0) = (rests_until IS NULL) AND (rests = 0 OR failures > 0));

-- waits_for is a code of the API, which lists them; waits_until is when it passes, where that is known.
ALTER TABLE campaign_paces DROP CONSTRAINT campaign_paces_waits_for_check;
ALTER TABLE campaign_paces ADD CONSTRAINT campaign_paces_waits_for_check CHECK (waits_for ~ '^[a-z_]{1,40}$');
ALTER TABLE campaign_paces ADD COLUMN waits_until timestamptz;

-- +goose Down
ALTER TABLE leads DROP COLUMN trunk_failures;
ALTER TABLE trunks
  DROP CONSTRAINT trunks_rest_while_failing,
  DROP CONSTRAINT trunks_failing,
  DROP COLUMN rang_at,
  DROP COLUMN heard_at,
  DROP COLUMN failure,
  DROP COLUMN probe,
  DROP COLUMN rests_until,
  DROP COLUMN rests,
  DROP COLUMN failing_since,
  DROP COLUMN failures;
ALTER TABLE campaign_paces DROP COLUMN waits_until;
SELECT set_config('app.system', 'on', true);
UPDATE campaign_paces SET waits_for = NULL WHERE waits_for NOT IN ('announcement_url', 'voicemail_message_url');
SELECT set_config('app.system', '', true);
ALTER TABLE campaign_paces DROP CONSTRAINT campaign_paces_waits_for_check;
ALTER TABLE campaign_paces ADD CONSTRAINT campaign_paces_waits_for_check
  CHECK (waits_for IN ('announcement_url', 'voicemail_message_url'));
