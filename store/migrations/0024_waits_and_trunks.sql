-- Why a running campaign is not dialed, whatever the reason.
-- +goose Up

-- waits_for is a code of the API, which lists them; waits_until is when it passes, where that is known.
ALTER TABLE campaign_paces DROP CONSTRAINT campaign_paces_waits_for_check;
ALTER TABLE campaign_paces ADD CONSTRAINT campaign_paces_waits_for_check CHECK (waits_for ~ '^[a-z_]{1,40}$');
ALTER TABLE campaign_paces ADD COLUMN waits_until timestamptz;

-- +goose Down
ALTER TABLE campaign_paces DROP COLUMN waits_until;
DELETE FROM campaign_paces WHERE waits_for NOT IN ('announcement_url', 'voicemail_message_url');
ALTER TABLE campaign_paces DROP CONSTRAINT campaign_paces_waits_for_check;
ALTER TABLE campaign_paces ADD CONSTRAINT campaign_paces_waits_for_check
  CHECK (waits_for IN ('announcement_url', 'voicemail_message_url'));
